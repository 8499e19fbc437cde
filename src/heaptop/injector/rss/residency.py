"""Which pages of a process are resident (``/proc/PID/pagemap``), and memory read only where they are.

Reading a page that is not there would have the kernel bring it in, from a file or from swap, and the process would
seem to have grown because it was examined. This module never reads such a page.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import compress
from types import TracebackType
from typing import Final

from heaptop.injector.inspect.memory import RemoteFault, RemoteMemory

PAGE: Final = 4096
WORD: Final = 8
PRESENT: Final = 1 << 7  # Bit 63 of an entry (proc_pid_pagemap(5)): only the highest byte is kept
EXCLUSIVE: Final = 1
"""Bit 56: mapped once, and by this process; never set for the page of zeros, which is in no RSS. Linux 4.2."""
_HAS_BIT: Final = {bit: bytes(byte & bit != 0 for byte in range(256)) for bit in (PRESENT, EXCLUSIVE)}

BLOCK: Final = 1 << 21  # What is looked up at once and remembered: 512 pages


class PageTable:
    """The page table of a process, read when first asked for a block, then remembered: a look is one moment."""

    def __init__(self, pid: int, tid: int | None = None) -> None:
        self._fd = os.open(f"/proc/{pid}/task/{tid or pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        self._blocks: dict[int, bytes] = {}

    def close(self) -> None:
        os.close(self._fd)

    def resident(self, start: int, end: int, bit: int = PRESENT) -> bytes:
        """1 for each page whose entry has the bit, 0 for others: from the page of ``start`` to that of ``end - 1``."""
        blocks = range(start // BLOCK * BLOCK, end, BLOCK)
        found = b"".join(map(self._block, blocks)) if len(blocks) != 1 else self._block(blocks[0])
        first = start % BLOCK // PAGE
        return found[first : first - (-end // PAGE) - start // PAGE].translate(_HAS_BIT[bit])

    def _block(self, block: int) -> bytes:
        """The highest byte of each entry."""
        if block not in self._blocks:
            data = os.pread(self._fd, BLOCK // PAGE * WORD, block // PAGE * WORD)
            self._blocks[block] = data[WORD - 1 :: WORD].ljust(BLOCK // PAGE, b"\0")
        return self._blocks[block]

    def is_present(self, start: int, end: int) -> bool:
        return 0 not in self.resident(start, end)

    def present(self, start: int, end: int) -> list[int]:
        """Addresses of the resident pages."""
        first = start // PAGE * PAGE
        return [*compress(range(first, end, PAGE), self.resident(start, end))]

    def bit_of_memory(self, ranges: Sequence[tuple[int, int]], rss: int) -> int:
        """The bit that tells a resident page of anonymous memory, of which these ranges have so many bytes.

        The page of zeros is present and in no RSS, and is not mapped exclusively; but neither are pages shared with a
        forked child. Take the bit that comes nearer.
        """

        def missed(bit: int) -> int:
            return abs(rss - sum(self.rss(start, end, bit) for start, end in ranges))

        return min((PRESENT, EXCLUSIVE), key=missed)

    def rss(self, start: int, end: int, bit: int = PRESENT) -> int:
        """How many bytes these pages have."""
        return PAGE * self.resident(start, end, bit).count(1)


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
