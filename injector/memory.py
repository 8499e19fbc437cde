"""The target's address space from outside: ``/proc/PID/maps`` and ``/proc/PID/mem``.

Reading never disturbs the target. Writing happens only through :meth:`RemoteMemory.write`, which nothing but the
helper process and the PEP 768 backend call.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Final

LARGEST_READ: Final = 1 << 26
"""Sizes come from the target's own memory, and that may say anything."""


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
    """Empty for anonymous memory; ``[stack]``, ``[vdso]`` and their like stand as they are."""


def read_mappings(pid: int, tid: int | None = None) -> list[Mapping]:
    """The mappings of ``pid``, read through thread ``tid`` (a live one where the leader has exited).

    Raises OSError as open(2) does.
    """
    # The kernel escapes a newline in a path, and nothing else that some take for the end of a line.
    path = f"/proc/{pid}/task/{tid or pid}/maps"
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        return [_mapping(line) for line in lines]


def _mapping(line: str) -> Mapping:
    fields = line.rstrip("\n").split(" ", 5)
    start, end = (int(part, 16) for part in fields[0].split("-"))
    path = fields[5].lstrip(" ") if len(fields) > 5 else ""
    return Mapping(start, end, fields[1], int(fields[2], 16), fields[3], int(fields[4]), path)


class RemoteMemory:
    """Bytes of another process. A context manager; raises :class:`RemoteFault` for what cannot be read."""

    def __init__(self, pid: int, tid: int | None = None, *, writable: bool = False) -> None:
        path = f"/proc/{pid}/task/{tid or pid}/mem"
        self._fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)

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
            raise RemoteFault(f"{size} bytes at {address:#x}: more than anything known has")
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
            step = min(limit - len(data), 0x1000 - (address + len(data)) % 0x1000)
            data += self.read(address + len(data), step)
        return data.split(b"\0")[0].decode("utf-8", "surrogateescape")
