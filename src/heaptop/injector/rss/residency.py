"""Which pages of a process are resident (``/proc/PID/pagemap``), and memory read only where they are.

Reading a page that is not there would have the kernel bring it in, from a file or from swap, and the process would
seem to have grown because it was examined. This module never reads such a page.
"""

from __future__ import annotations

import os
from array import array
from types import TracebackType
from typing import Final

from heaptop.injector.inspect.memory import RemoteFault, RemoteMemory

PAGE: Final = 4096
WORD: Final = 8
PRESENT: Final = 1 << 63
EXCLUSIVE: Final = 1 << 56
"""Mapped once, and by this process; never set for the page of zeros, which is present and in no RSS. Linux 4.2."""

BLOCK: Final = 1 << 21
"""What is looked up at once and remembered: 512 pages."""


class PageTable:
    """The page table of a process, read when first asked for a block, then remembered: a look is one moment."""

    def __init__(self, pid: int, tid: int | None = None) -> None:
        self._fd = os.open(f"/proc/{pid}/task/{tid or pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        self._blocks: dict[int, array[int]] = {}

    def close(self) -> None:
        os.close(self._fd)

    def entries(self, start: int, end: int) -> array[int]:
        """An entry a page, from the page of ``start`` to that of ``end - 1``; see proc_pid_pagemap(5)."""
        found = array("Q")
        at = start // PAGE * PAGE
        while at < end:
            block = at // BLOCK * BLOCK
            stop = min(end, block + BLOCK)
            found += self._block(block)[(at - block) // PAGE : -(-(stop - block) // PAGE)]
            at = stop
        return found

    def _block(self, block: int) -> array[int]:
        if block not in self._blocks:
            data = os.pread(self._fd, BLOCK // PAGE * WORD, block // PAGE * WORD)
            self._blocks[block] = array("Q", data.ljust(BLOCK // PAGE * WORD, b"\0"))
        return self._blocks[block]

    def is_present(self, start: int, end: int) -> bool:
        return all(entry & PRESENT for entry in self.entries(start, end))

    def present(self, start: int, end: int, mask: int = PRESENT) -> list[int]:
        """Addresses of the pages whose entry has a bit of ``mask``."""
        first = start // PAGE
        return [(first + i) * PAGE for i, entry in enumerate(self.entries(start, end)) if entry & mask]


class ResidentMemory:
    """Bytes of a process's resident pages. A context manager; raises :class:`RemoteFault` for all others."""

    def __init__(self, pid: int, tid: int | None = None) -> None:
        self._memory = RemoteMemory(pid, tid)
        try:
            self.pages = PageTable(pid, tid)
        except OSError:
            self._memory.close()
            raise

    def __enter__(self) -> ResidentMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pages.close()
        self._memory.close()

    def read(self, address: int, size: int) -> bytes:
        if not self.pages.is_present(address, address + size):
            raise RemoteFault(f"{size} bytes at {address:#x}: not resident")
        return self._memory.read(address, size)

    def read_known(self, address: int, size: int) -> bytes:
        """As :meth:`read`, of pages that the caller has found present."""
        return self._memory.read(address, size)
