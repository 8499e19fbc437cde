"""Why the native core was not used in an interpreter, from one attach to the doctor's next look.

The self-check runs in the target, at the attach; ``heaptop doctor`` only looks from outside. So what an attach was
told is kept in a file of this user's, by the interpreter's executable and the core's build, until an attach to it
goes better. It is a courtesy: where the file cannot be read or written, nothing is refusals_cache, and nothing fails.
This module never touches a target.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Final

import platformdirs

from heaptop import files
from heaptop.injector.inspect import proc

MOST: Final = 100  # Interpreters that are remembered; the oldest are forgotten first
_LARGEST: Final = 1 << 20  # Bytes of the file
OF_ONE_PROCESS: Final = "copies of the native core are mapped"
"""In a reason of the agent's that is about its process, and not about the executable."""


def record() -> Path:
    return platformdirs.user_state_path("heaptop") / "core-refusals.json"


def refusal(pid: int, build: str) -> str:
    """Why the core of that build was not used when such an interpreter was last attached to; empty when it was, or
    when nothing is known."""
    found = _read().get(_key(pid, build), "")
    return found if isinstance(found, str) else ""


def store(pid: int, build: str, why: str) -> None:
    """Keep the reason; an empty one forgets what was kept."""
    if OF_ONE_PROCESS in why:
        return
    known = _read()
    if not known and not why:
        return
    key = _key(pid, build)
    before = known.pop(key, "")
    if not key or not (why or before):
        return
    if why:
        known[key] = f"{why} (seen {time.strftime('%Y-%m-%d %H:%M')})"
    with contextlib.suppress(OSError):
        path = record()
        files.private_folder(path.parent)
        files.write(str(path), json.dumps(dict(list(known.items())[-MOST:]), indent=1).encode(), force=True)


def _key(pid: int, build: str) -> str:
    """The executable's identity; empty when the process is gone, or its file system does not answer."""
    try:
        status = proc.within(proc.PATIENCE, lambda: os.stat(f"/proc/{pid}/exe"), ("executable", pid))
    except OSError:
        return ""
    return f"{build} {status.st_dev:x}:{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def _read() -> dict[str, object]:
    try:
        path = record()
        files.private_folder(path.parent, make=False)
        known = json.loads(files.read_small(path, _LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}
