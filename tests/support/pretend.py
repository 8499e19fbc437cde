"""A process's memory that is only pretended: pages of bytes, resident or not, for what reads memory from outside."""

from __future__ import annotations

import struct

from heaptop.injector.inspect.memory import RemoteFault
from heaptop.injector.rss.residency import BLOCK, EXCLUSIVE, PAGE, PRESENT, PageTable, ResidentMemory


class PretendPages(PageTable):
    """A page table of the pages that were made."""

    def __init__(self) -> None:
        self._blocks = {}
        self.table: dict[int, int] = {}

    def close(self) -> None:
        pass

    def _block(self, block: int) -> bytes:
        return bytes(self.table.get(block + i * PAGE, 0) for i in range(BLOCK // PAGE))


class PretendMemory(ResidentMemory):
    """Write to it, and the pages are there; reading what is not there is a fault, as it is in a process."""

    pages: PretendPages

    def __init__(self) -> None:
        self.pages = PretendPages()
        self._bytes: dict[int, bytearray] = {}
        self._gone: set[int] = set()

    def close(self) -> None:
        pass

    def make(self, start: int, end: int, entry: int = PRESENT | EXCLUSIVE) -> None:
        """Pages of zeros, or what they held before, with that entry in the page table; 0 takes them out."""
        for page in range(start // PAGE * PAGE, end, PAGE):
            self._bytes.setdefault(page, bytearray(PAGE))
            self.pages.table[page] = entry

    def unmap(self, start: int, end: int) -> None:
        """The process gives pages back, and the page table, which was read before, does not know."""
        self._gone.update(range(start // PAGE * PAGE, end, PAGE))

    def write(self, address: int, data: bytes) -> None:
        self.make(address, address + len(data))
        for i, byte in enumerate(data, address):
            self._bytes[i // PAGE * PAGE][i % PAGE] = byte

    def words(self, address: int, *words: int) -> None:
        self.write(address, struct.pack(f"<{len(words)}Q", *words))

    def read(self, address: int, size: int) -> bytes:
        if not self.pages.is_present(address, address + size):
            raise RemoteFault("not there")
        return self.read_known(address, size)

    def read_known(self, address: int, size: int) -> bytes:
        if not self.pages.is_present(address, address + size):
            raise AssertionError(f"{address:#x} is read, and is not resident")
        if not self._gone.isdisjoint(range(address // PAGE * PAGE, address + size, PAGE)):
            raise RemoteFault("gone")
        return bytes(self._bytes[i // PAGE * PAGE][i % PAGE] for i in range(address, address + size))
