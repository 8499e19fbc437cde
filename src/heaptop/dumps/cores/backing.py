"""The programs and libraries that were mapped in a core, on this machine: a core leaves out what is in them.

A file is taken where its build ID is that in the core or, without one, where its ELF header is the same byte for byte,
which has the places of its tables.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from typing import BinaryIO, Final

from heaptop.errors import HeaptopError, limit_met
from heaptop.injector.inspect import proc, target_files
from heaptop.injector.inspect.elf import SEGMENT_SIZE
from heaptop.injector.inspect.process import read_facts

PATIENCE: Final = 2.0  # Seconds for a file of the target to be opened and read
PT_NOTE: Final = 4
NT_GNU_BUILD_ID: Final = 3
HEADER: Final = 64
HEAD: Final = 4096  # Bytes of a file that are compared with the core's: what the kernel and gdb write of each ELF file
DELETED: Final = " (deleted)"

Head = Callable[[], bytes]  # Reads the first bytes that the core has of a mapped file, empty where it has none


class Backing:
    """Files found, each open once. Close it at the end."""

    def __init__(self, exe: str | None = None, root: str | None = None, pid: int = 0) -> None:
        """``exe`` stands for the main program, wherever it was; below ``root`` the paths of the core are looked up. Of
        a live process, with that ``pid``, its own files are taken where these are not given."""
        self._exe, self._root, self._pid = exe, root, pid
        self._open: dict[str, int] = {}
        self.refused: dict[str, str] = {}  # By path in the core, why its file was not taken

    def close(self) -> None:
        for fd in self._open.values():
            if fd >= 0:
                os.close(fd)
        self._open.clear()

    def find(self, path: str, head: Head, *, is_main: bool, is_program: bool) -> int:
        """A descriptor of the file that was mapped as ``path``, whose first bytes in the core are those of ``head``;
        -1 where there is none that is surely the same. ``is_program``: some of it was mapped to be executed."""
        if path not in self._open:
            self._open[path] = self._find(path, head(), is_main, is_program)
        return self._open[path]

    def _find(self, path: str, head: bytes, is_main: bool, is_program: bool) -> int:
        name = path.removesuffix(DELETED)
        if not head and is_program:
            self.refused[name] = f"the core does not say which build of {name} it is of (coredump_filter)"
        if head[:4] != b"\x7fELF":
            return -1  # data: no object is in it
        place = name if self._root is None else os.path.join(self._root, name.lstrip("/"))
        if is_main and self._exe:
            place = self._exe
        is_own = self._pid and place == name
        fd = _open_own(self._pid, name, is_main) if is_own else open_regular(place, HEADER)
        if fd < 0:
            self.refused[name] = f"{place} cannot be read"
            return -1
        if not is_same(head, _first(fd)):
            os.close(fd)
            self.refused[name] = f"{place} is another build"
            return -1
        return fd


def _open_own(pid: int, path: str, is_main: bool) -> int:
    """A file that a live process has mapped, below its root and with its user's rights; -1 where there is none. The
    program itself even where its file was deleted since."""
    try:
        task = f"/proc/{pid}/task/{read_facts(pid).live_tid}"
        root = os.readlink(f"{task}/root").rstrip("/")  # empty, but for a chroot
        known = path.removeprefix(root) if path.startswith(f"{root}/") else path

        def opened() -> BinaryIO:
            return target_files.opened(f"{task}/exe") if is_main else target_files.opened_as_known(pid, known)

        def is_readable() -> bool:
            with opened() as file:
                return bool(_first(file.fileno()))

        if not proc.within(PATIENCE, is_readable, ("file", pid)):  # its file system need not answer
            return -1
        with opened() as file:
            return os.dup(file.fileno())
    except (OSError, ValueError, HeaptopError) as error:
        if (limit := limit_met(error)) is not None:
            raise limit from error
        return -1


def open_regular(path: str, least: int = 0) -> int:
    """A descriptor of a regular file of at least so many bytes; -1 where there is none.

    Looked at first: opening a device may do something, and so may reading a file of the kernel's. Those of ``/proc``
    have a size of 0.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size < least:
            return -1
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        if (limit := limit_met(error)) is not None:
            raise limit from error
        return -1


def _first(fd: int) -> bytes:
    """The first bytes of a file; none where it cannot be read."""
    try:
        return os.pread(fd, HEAD, 0)
    except OSError:
        return b""


def is_same(one: bytes, other: bytes) -> bool:
    """Whether two files that begin so are one build."""
    first, second = build_id(one), build_id(other)
    if first or second:
        return first == second
    return len(one) >= HEADER and one[:HEADER] == other[:HEADER]


def build_id(head: bytes) -> bytes:
    """The build ID in the first bytes of an ELF file; empty where none is in them."""
    if len(head) < HEADER or head[:4] != b"\x7fELF":
        return b""
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    if size != SEGMENT_SIZE:
        return b""
    for number in range(count):
        at = table + number * size
        if at + size > len(head):
            break
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", head, at)
        if kind == PT_NOTE and (found := _build_id_in(head[offset : offset + length])):
            return found
    return b""


def _build_id_in(notes: bytes) -> bytes:
    at = 0
    while at + 12 <= len(notes):
        name_size, length, kind = struct.unpack_from("<III", notes, at)
        content = at + 12 + (name_size + 3 & ~3)
        if kind == NT_GNU_BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[content : content + length]
        at = content + (length + 3 & ~3)
    return b""
