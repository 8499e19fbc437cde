"""Tries an attach, or anything else, with less than root has: in a forked child that gave something up first.

Nothing here asserts, and the child shares nothing with the tests but what it inherits.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heaptop import errors
from heaptop.errors import HeaptopError
from tests.support.attaching import attached

NOBODY: Final = 65534
PR_CAPBSET_DROP: Final = 24
CAPABILITY_VERSION_3: Final = 0x20080522


@dataclass(frozen=True, slots=True)
class Answer:
    """How an attach ended, with the parts of the text a person reads; ``kind`` is None when it went well."""

    kind: type[HeaptopError] | None
    message: str = ""
    why: str = ""
    fix: str = ""

    @property
    def text(self) -> str:
        return "\n".join((self.message, self.why, self.fix))

    @classmethod
    def of(cls, error: HeaptopError | None) -> Answer:
        return cls(None) if error is None else cls(type(error), error.message, error.why, error.fix)


def answer(pid: int, **options: Any) -> Answer:
    """Attach and detach; what came of it."""
    options.setdefault("wait", 20.0)
    try:
        with attached(pid, **options) as attachment:
            return Answer.of(attachment.close())
    except HeaptopError as error:
        return Answer.of(error)


def answer_of_child(pid: int, prepare: Callable[[], None], **options: Any) -> Answer:
    """As :func:`answer`, in a child that did ``prepare`` first."""

    def work() -> str:
        got = answer(pid, **options)
        return json.dumps([got.kind.__name__ if got.kind else None, got.message, got.why, got.fix])

    name, *texts = json.loads(in_child(work, prepare))
    return Answer(getattr(errors, name) if name else None, *texts)


def in_child(work: Callable[[], str], prepare: Callable[[], None]) -> str:
    """What ``work`` returns in a forked child that did ``prepare`` first. Raises RuntimeError where it fails."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            prepare()
            text = "=" + work()
        except BaseException:
            text = traceback.format_exc()
        try:
            os.write(writer, text.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if not text.startswith("="):
        raise RuntimeError(text)
    return text[1:]


def become_nobody() -> None:
    """Give up root for good; and from then on start helpers with an interpreter that nobody may run too."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    known = (sys.executable, *map(str, Path("/usr/bin").glob("python3.1?")))
    sys.executable = next(path for path in known if os.access(path, os.X_OK))


def without_capabilities() -> None:
    """Stay root and lose every capability, for good: root in a container that was given none."""
    keep_capabilities()


def keep_capabilities(*kept: int) -> None:
    """Stay root and lose, for good, every capability that is not among these numbers."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in set(range(64)).difference(kept):
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # EINVAL behind the last one
    low = sum(1 << number for number in kept)  # all below 32
    header, data = struct.pack("Ii", CAPABILITY_VERSION_3, 0), struct.pack("6I", low, low, 0, 0, 0, 0)
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")
