"""Runs a program under strace, and says which files, names and sockets it touched. Asserts nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

OPENS: Final = ("open", "openat", "openat2", "creat")
NAMES: Final = (
    *("unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "mknod", "mknodat"),
    *("chown", "lchown", "fchown", "fchownat", "chmod", "fchmod", "fchmodat", "symlink", "symlinkat", "link", "linkat"),
    *("truncate", "setxattr", "lsetxattr", "fsetxattr", "mount", "umount2", "chroot", "pivot_root", "connect", "bind"),
    *("execve", "execveat"),
)
WRITES: Final = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
_LINE: Final = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(?:<(.*)>)?[^<]*$")
_UNFINISHED: Final = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
_RESUMED: Final = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)$")
_PATH: Final = re.compile(r'(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Touched:
    """One system call at a name or a descriptor."""

    call: str
    what: str
    """What it led to, where it succeeded: links resolved. Else the name that was given."""
    write: bool
    done: bool
    text: str

    @property
    def kind(self) -> str:
        """``read``, ``write`` for what is opened, ``path`` for what is not (O_PATH); else the call's name."""
        if self.call not in OPENS:
            return self.call
        return "write" if self.write else "path" if "O_PATH" in self.text else "read"


def strace() -> str:
    """The program; skips the test without it."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("no strace: apt install strace")
    return found


def traced(output: Path) -> list[str]:
    """What to put before a command, so that it and all that it starts are followed."""
    calls = ",".join((*OPENS, *NAMES))
    return [strace(), "-f", "-y", "-qq", "-s", "4096", "-e", f"trace={calls}", "-e", "signal=none", "-o", str(output)]


def touched(output: Path) -> Iterator[Touched]:
    """What the program did, in order. Raises ValueError for a line that is not understood."""
    begun: dict[str, str] = {}
    for line in output.read_text(errors="surrogateescape").splitlines():
        if match := _UNFINISHED.match(line):
            begun[match[1]] = f"{match[1]} {match[2]}({match[3]}"
            continue
        whole = line
        if match := _RESUMED.match(line):
            whole = begun.pop(match[1]) + match[3]
        parts = _LINE.match(whole)
        if parts is None:
            if " exited with " in line or " killed by " in line or "<detached ...>" in line:
                continue
            raise ValueError(f"what strace wrote is not understood: {line}")
        _, call, arguments, result, led_to = parts.groups()
        done = not result.startswith("-")
        given = None if call in ("bind", "connect") else _PATH.search(arguments)
        name = arguments
        if given is not None:
            folder, path = given[1] or "", given[2]
            name = path if path.startswith("/") or not folder else f"{folder}/{path}"
        yield Touched(
            call, led_to if call in OPENS and done and led_to else name, bool(WRITES.search(arguments)), done, whole
        )
    for rest in begun.values():  # it was killed in there
        yield Touched(rest.split("(")[0].split()[-1], rest, False, False, rest)
