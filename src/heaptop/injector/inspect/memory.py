"""The target's address space from outside: ``/proc/PID/maps`` and ``/proc/PID/mem``.

Reading never disturbs the target. Writing happens only through :meth:`RemoteMemory.write`, which nothing but the
helper process and the PEP 768 backend call.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Final, Protocol

from heaptop.credentials import acting_as
from heaptop.injector.inspect import proc

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
"""Bytes of a page: the kernel is the target's, too."""
LARGEST_READ: Final = 1 << 26
"""Sizes come from the target's own memory, and that may say anything."""

MOST_MAPPINGS: Final = 1 << 17
"""Twice the kernel's default limit (vm.max_map_count), which an administrator can raise."""
LARGEST_MAPS: Final = 32 << 20
_ANONYMOUS_CODE: Final = re.compile(rb"^\S+ r-xp 00000000 00:00 0 *$", re.MULTILINE)


_libc = ctypes.CDLL(None)
_pieces, _count = ctypes.c_void_p, ctypes.c_ulong
_libc.process_vm_readv.argtypes = [ctypes.c_int, _pieces, _count, _pieces, _count, _count]


class RemoteFault(Exception):
    """An address that is not mapped, or a process that is gone."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line of ``/proc/PID/maps``."""

    start: int
    end: int
    permissions: str
    offset: int
    device: str
    inode: int
    path: str
    """Empty for anonymous memory; ``[stack]``, ``[vdso]`` and their like as they are. The bytes, as ``os.fsdecode`` has
    them: not for a terminal."""


def read_mappings(pid: int, tid: int | None = None) -> list[Mapping]:
    """The mappings of ``pid``, read through thread ``tid`` (a live one where the leader has exited).

    Raises OSError as open(2) does, and :class:`~heaptop.injector.inspect.proc.TooLarge`.
    """
    return list(each_mapping(pid, tid))


def each_mapping(pid: int, tid: int | None = None) -> Iterator[Mapping]:
    """The same, one at a time."""
    path = f"/proc/{pid}/task/{tid or pid}/maps"
    for number, line in enumerate(proc.lines(path, LARGEST_MAPS)):
        if number >= MOST_MAPPINGS:
            raise proc.TooLarge(f"{path} has more than {MOST_MAPPINGS} lines")
        yield _mapping(line)


def anonymous_code(pid: int, tid: int | None = None) -> list[Mapping]:
    """Those of them that are executable and of no file, read as fast as can be: a thread may be stopped meanwhile."""
    text = proc.read(f"/proc/{pid}/task/{tid or pid}/maps", LARGEST_MAPS)
    return [_mapping(line.decode()) for line in _ANONYMOUS_CODE.findall(text)]


def mapping_at(address: int, pid: int, tid: int | None = None) -> Mapping | None:
    """The one of them that has an address, read as fast."""
    lines = proc.read(f"/proc/{pid}/task/{tid or pid}/maps", LARGEST_MAPS).split(b"\n")[:-1]
    behind = bisect_right(lines, address, key=lambda line: int(line.partition(b"-")[0], 16))
    found = _mapping(os.fsdecode(lines[behind - 1])) if behind else None
    return found if found is not None and address < found.end else None


def count_mappings(path: str | os.PathLike[str]) -> int:
    """How many lines a file of mappings has. Raises as :func:`read_mappings`."""
    return proc.read(path, LARGEST_MAPS).count(b"\n")


def _mapping(line: str) -> Mapping:
    fields = line.split(" ", 5)
    start, end = (int(part, 16) for part in fields[0].split("-"))
    path = fields[5].lstrip(" ") if len(fields) > 5 else ""
    return Mapping(start, end, fields[1], int(fields[2], 16), fields[3], int(fields[4]), path)


def _open_as_owner(path: str, flags: int) -> int:
    """Open a file of the kernel's, with its owner's rights where one's own do not do: a root that has given up
    CAP_DAC_OVERRIDE opens ``mem`` of another user's process for writing so. Raises OSError."""
    try:
        return os.open(path, flags)
    except PermissionError:
        owner = os.stat(path)
        try:
            with acting_as(owner.st_uid, owner.st_gid):
                return os.open(path, flags)
        except PermissionError:
            pass
        raise


class _Piece(ctypes.Structure):
    """``struct iovec``."""

    _fields_: ClassVar = [("base", ctypes.c_uint64), ("length", ctypes.c_size_t)]


def bring_in(tid: int, address: int, size: int) -> None:
    """Have pages brought in without the lock of the target's memory map held meanwhile.

    A read of ``/proc/PID/mem`` holds that lock while it waits for the file of an absent page. If the file system does
    not answer, every thread of the target stops that maps memory or starts a thread, until it does. Such a wait in
    process_vm_readv(2) lets go of the lock. What that cannot read is left to the read that follows, which raises the
    reason.
    """
    if not 0 <= address < 1 << 64:
        return
    data = ctypes.create_string_buffer(size)
    ours, theirs = _Piece(ctypes.addressof(data), size), _Piece(address, size)
    _libc.process_vm_readv(tid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)


class ReadableMemory(Protocol):
    """What has bytes at addresses: a process, or what is left of one. Raises :class:`RemoteFault`."""

    def read(self, address: int, size: int) -> bytes: ...

    def u32(self, address: int) -> int: ...

    def u64(self, address: int) -> int: ...


class RemoteMemory:
    """Bytes of another process. A context manager; raises :class:`RemoteFault` for what cannot be read."""

    def __init__(self, pid: int, tid: int | None = None, *, writable: bool = False, bring_in: bool = False) -> None:
        """``bring_in``: pages may be absent, and of files that do not answer. Only in a child process (proc.Reader)."""
        self._bring_in_from = (tid or pid) if bring_in else 0
        self._brought_in: set[int] = set()
        path = f"/proc/{pid}/task/{tid or pid}/mem"
        self._fd = _open_as_owner(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)

    def __enter__(self) -> RemoteMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, address: int, size: int) -> bytes:
        if size > LARGEST_READ:
            raise RemoteFault(f"{size} bytes at {address:#x}: implausibly many")
        if self._bring_in_from:
            pages = range(address // PAGE, (address + size - 1) // PAGE + 1)
            if not self._brought_in.issuperset(pages):
                bring_in(self._bring_in_from, address, size)
                self._brought_in.update(pages)
        try:
            data = os.pread(self._fd, size, address)
        except (OSError, OverflowError) as error:
            raise RemoteFault(f"{size} bytes at {address:#x}: {error}") from error
        if len(data) != size:
            raise RemoteFault(f"{size} bytes at {address:#x}: only {len(data)} are mapped")
        return data

    def write(self, address: int, data: bytes) -> None:
        try:
            written = os.pwrite(self._fd, data, address)
        except (OSError, OverflowError) as error:
            raise RemoteFault(f"write of {len(data)} bytes at {address:#x}: {error}") from error
        if written != len(data):
            raise RemoteFault(f"write of {len(data)} bytes at {address:#x}: only {written} are mapped")

    def u32(self, address: int) -> int:
        return int(struct.unpack("<I", self.read(address, 4))[0])

    def u64(self, address: int) -> int:
        return int(struct.unpack("<Q", self.read(address, 8))[0])

    def text(self, address: int, limit: int = 256) -> str:
        """The NUL-terminated string at ``address``, at most ``limit`` bytes of it, page by page."""
        data = b""
        while len(data) < limit and b"\0" not in data:
            step = min(limit - len(data), PAGE - (address + len(data)) % PAGE)
            data += self.read(address + len(data), step)
        return data.split(b"\0")[0].decode("utf-8", "surrogateescape")
