"""Symbols of the files mapped in another process, read from its memory and never from a file.

A binary on disk may be stripped, deleted, upgraded since, or in a namespace heaptop does not see; what is mapped is
what runs. ``.dynsym`` with its hash table is always mapped, also in stripped and static-pie builds.

Structures: System V ABI, chapter 5; the GNU hash table as glibc's ``elf/dl-lookup.c`` (do_lookup_x) reads it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from heaptop.injector.inspect.memory import Mapping, ReadableMemory, RemoteFault

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
DT_NULL: Final = 0
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_GNU_HASH: Final = 0x6FFFFEF5
EM_X86_64: Final = 62  # Numbers of the ABI
MACHINES: Final = {
    3: "386",
    8: "mips",
    20: "ppc",
    21: "ppc64",
    22: "s390",
    40: "arm",
    43: "sparcv9",
    EM_X86_64: "x86_64",
    183: "aarch64",
    243: "riscv",
    258: "loongarch",
}
"""What Linux and its emulators run (``e_machine``)."""
ELFCLASS64: Final = 2
TAGS: Final = frozenset({DT_HASH, DT_STRTAB, DT_SYMTAB, DT_GNU_HASH})  # What is kept of a dynamic section
SEGMENT_SIZE: Final = 56
SYMBOL_SIZE: Final = 24
SYMBOL: Final = struct.Struct("<IBBHQQ")  # Elf64_Sym: st_name, st_info, st_other, st_shndx, st_value, st_size


LONGEST_CHAIN: Final = 1 << 10
"""Entries of one hash bucket that are examined: linkers make a handful, a target that lies may make any number."""
MOST_ALIKE: Final = 8  # Symbols with one 32-bit hash whose names are compared
MOST_SEGMENTS: Final = 64
LARGEST_DYNAMIC: Final = 1 << 12  # Bytes of a dynamic section, 256 entries: linkers make some forty
MOST_IMAGES: Final = 1 << 12  # Files of one process: a large program maps a thousand
MOST_READS: Final = 50_000
"""Of one process's memory, for all its images and look-ups together: an interpreter with a thousand libraries takes
some 5,000."""


def machine_name(machine: int) -> str:
    """``aarch64`` for EM_AARCH64, and so on; the bare number of another."""
    return MACHINES.get(machine, str(machine))


def gnu_hash(name: bytes) -> int:
    """The hash of DT_GNU_HASH tables (Bernstein's, times 33)."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def sysv_hash(name: bytes) -> int:
    """The hash of DT_HASH tables (System V ABI, figure 5-13)."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


class Exhausted(Exception):
    """A process's images would take more reads than any real ones do."""


class Metered:
    """A process's memory, of which only so much is read. Raises RemoteFault as that does, and Exhausted."""

    def __init__(self, memory: ReadableMemory) -> None:
        self._memory, self._left = memory, MOST_READS

    def read(self, address: int, size: int) -> bytes:
        if not self._left:
            raise Exhausted
        self._left -= 1
        return self._memory.read(address, size)

    def u32(self, address: int) -> int:
        return int.from_bytes(self.read(address, 4), "little")

    def u64(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")


@dataclass(slots=True)
class ElfImage:
    """One ELF file as mapped: its address, its header, and look-up by name."""

    memory: ReadableMemory
    base: int
    path: str
    elf_class: int
    machine: int
    runs: bool = False  # Whether its code is mapped. What a program reads as data is no code to call.
    bias: int = 0  # What is added to an address of the file to get one of the process
    dynamic: dict[int, int] = field(default_factory=dict)

    @classmethod
    def at(cls, memory: ReadableMemory, base: int, path: str) -> ElfImage | None:
        """The image whose header is mapped at ``base``; None when there is none. May raise RemoteFault."""
        header = memory.read(base, 64)
        if header[:4] != b"\x7fELF":
            return None
        (machine,) = struct.unpack_from("<H", header, 18)
        image = cls(memory, base, path, header[4], machine)
        if image.elf_class == ELFCLASS64:
            image._read_segments(header)
        return image

    def _read_segments(self, header: bytes) -> None:
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        if size != SEGMENT_SIZE or count > MOST_SEGMENTS:
            return
        segments = self.memory.read(self.base + table, size * count)
        lowest: int | None = None
        dynamic: tuple[int, int] | None = None
        for index in range(count):
            kind, _, _, address, _, _, length, _ = struct.unpack_from("<IIQQQQQQ", segments, index * size)
            if kind == PT_LOAD and lowest is None:
                lowest = address & ~0xFFF
            elif kind == PT_DYNAMIC:
                dynamic = address, length
        self.bias = self.base - (lowest or 0)
        if dynamic is not None:
            entries = self.memory.read(self.bias + dynamic[0], min(dynamic[1] & ~15, LARGEST_DYNAMIC))
            for tag, value in struct.iter_unpack("<qQ", entries):
                if tag == DT_NULL:
                    break
                if tag in TAGS:
                    self.dynamic.setdefault(tag, value)

    def _address(self, tag: int) -> int | None:
        """A table's address: glibc relocates these entries in place, musl and the vdso leave them relative."""
        value = self.dynamic.get(tag)
        if value is None:
            return None
        return value if value >= self.base else value + self.bias

    def lookup(self, name: str) -> int | None:
        """The address in the process of the symbol this image *defines* as ``name``; None when it does not."""
        symbols, strings = self._address(DT_SYMTAB), self._address(DT_STRTAB)
        if symbols is None or strings is None:
            return None
        wanted = name.encode()
        gnu, sysv = self._address(DT_GNU_HASH), self._address(DT_HASH)
        if gnu is not None:
            candidates = self._gnu_chain(gnu, wanted)
        elif sysv is not None:
            candidates = self._sysv_chain(sysv, wanted)
        else:
            return None
        for index in candidates:
            raw = self.memory.read(symbols + SYMBOL_SIZE * index, SYMBOL_SIZE)
            name_at, _, _, section, value, _ = SYMBOL.unpack(raw)
            if section and self.memory.read(strings + name_at, len(wanted) + 1) == wanted + b"\0":
                return int(self.bias + value)
        return None

    def _gnu_chain(self, table: int, name: bytes) -> list[int]:
        """Indices of the symbols whose GNU hash is that of ``name`` (bloom filter, bucket, chain)."""
        buckets, first, bloom_size, shift = struct.unpack("<IIII", self.memory.read(table, 16))
        if not buckets or not bloom_size:
            return []
        value = gnu_hash(name)
        bloom = self.memory.u64(table + 16 + 8 * (value // 64 % bloom_size))
        if not (bloom >> value % 64) & (bloom >> (value >> shift) % 64) & 1:
            return []
        bucket_table = table + 16 + 8 * bloom_size
        index = self.memory.u32(bucket_table + 4 * (value % buckets))
        found: list[int] = []
        last = index + LONGEST_CHAIN
        while first <= index < last and len(found) < MOST_ALIKE:
            entry = self.memory.u32(bucket_table + 4 * buckets + 4 * (index - first))
            if entry | 1 == value | 1:
                found.append(index)
            if entry & 1:
                break
            index += 1
        return found

    def _sysv_chain(self, table: int, name: bytes) -> list[int]:
        """Indices of the symbols in the System V bucket of ``name``."""
        buckets, chains = struct.unpack("<II", self.memory.read(table, 8))
        if not buckets:
            return []
        index = self.memory.u32(table + 8 + 4 * (sysv_hash(name) % buckets))
        found: list[int] = []
        seen = {0}
        while index not in seen and len(found) <= min(chains, LONGEST_CHAIN):
            seen.add(index)
            found.append(index)
            index = self.memory.u32(table + 8 + 4 * (buckets + index))
        return found


Identity = tuple[str, int, str]  # Of a file: device, inode and path


def _identity(mapping: Mapping) -> Identity:
    return mapping.device, mapping.inode, mapping.path


def _begins_file(mapping: Mapping) -> bool:
    return not mapping.offset and mapping.permissions.startswith("r") and mapping.path.startswith("/")


def _below_code(mappings: list[Mapping]) -> set[tuple[Identity, int]]:
    """The files that run, and where each begins: at several places if it was loaded several times. Elsewhere the same
    file may be mapped as data, as programs do that look up symbols of their own."""
    latest: dict[Identity, int] = {}
    found: set[tuple[Identity, int]] = set()
    for mapping in mappings:
        identity = _identity(mapping)
        if _begins_file(mapping):
            latest[identity] = mapping.start
        if "x" in mapping.permissions and identity in latest:
            found.add((identity, latest[identity]))
    return found


def images(memory: ReadableMemory, mappings: list[Mapping]) -> list[ElfImage]:
    """Every ELF file mapped from its first byte, in address order: where it runs, or else once; unreadable ones are
    left out.

    Raises Exhausted, as do all look-ups in them, where there is more to read than any real program has.
    """
    metered = Metered(memory)
    found: list[ElfImage] = []
    running = _below_code(mappings)
    seen = {identity for identity, _ in running}
    for mapping in mappings:
        identity = _identity(mapping)
        runs = (identity, mapping.start) in running
        if not _begins_file(mapping) or (identity in seen and not runs):
            continue
        try:
            image = ElfImage.at(metered, mapping.start, mapping.path)
        except (RemoteFault, struct.error):
            continue
        if image is not None:
            image.runs = runs
            seen.add(identity)
            found.append(image)
            if len(found) > MOST_IMAGES:
                raise Exhausted
    return found
