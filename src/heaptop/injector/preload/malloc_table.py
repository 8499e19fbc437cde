"""The table that the preloaded library writes: makes it, and reads it while the program runs and after its end.

The layout is that of ``table.h``. The table is the target's: each number in it is checked before it is used, and texts
are made printable.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from heaptop.errors import LaunchFailed
from heaptop.injector.inspect import symbols
from heaptop.injector.inspect.memory import each_mapping
from heaptop.protocol.messages import MallocBlocks, MallocFrame, MallocSite, MallocSites
from heaptop.protocol.text import printable

NAME: Final = "heaptop-malloc"
MAPPED: Final = f"/memfd:{NAME}"  # In `/proc/PID/maps`, in front of a blank
VARIABLE: Final = "HEAPTOP_MALLOC"
MAGIC: Final = 0x31434C414D505448
HEAD: Final = struct.Struct("<QIiQQQ4B5IB")
RECORD: Final = struct.Struct("<QQQIIIBB2x")
SITE: Final = struct.Struct("<QII")
NODE: Final = struct.Struct("<II")
FRAME: Final = struct.Struct("<III")
RECORDS, SITES, NODES, FRAMES, TEXTS = 1 << 16, 1 << 14, 1 << 16, 1 << 14, 1 << 21
RECORDS_AT: Final = 4096
SITES_AT: Final = RECORDS_AT + RECORDS * RECORD.size
NODES_AT: Final = SITES_AT + SITES * SITE.size
FRAMES_AT: Final = NODES_AT + NODES * NODE.size
TEXTS_AT: Final = FRAMES_AT + FRAMES * FRAME.size
SIZE: Final = TEXTS_AT + TEXTS
GAPS: Final = {0: "none", 1: "early", 2: "full"}  # Nodes that are no stack
DEEPEST: Final = 64
MOST_LIBRARIES: Final = 64  # Whose functions are named
NAMING_LIMIT: Final = 4.0  # Seconds for all of them
LONGEST: Final = 1024
SAMPLING: Final = 1
STATES: Final = {
    0: "the preloaded library was not loaded into the interpreter",
    2: "the program has a malloc of its own, which the library cannot observe",
    3: "the kernel is older than Linux 4.14 (MADV_WIPEONFORK)",
    4: "there is no memory for the library's tables",
}
REPLACED: Final = "the program has started another in its place (execve), which is not sampled"

SMALLEST_MEASURED: Final = 1 << 17
"""Bytes of a block of malloc's that may have untouched pages: smaller ones lie in its heaps (M_MMAP_THRESHOLD)."""
MAPPING: Final = 1

Resident = Callable[[int, int], int]  # How many bytes from one address to another are resident
Read = Callable[[int, int], bytes]  # Bytes of the table, by offset and size. Raises OSError.
Blocks = Counter[tuple[int, int, int, int]]  # Live blocks by site, size, bytes left and logarithm of the interval
Same = Counter[tuple[int, int, int]]  # Those of one site


class TableInvalid(Exception):
    """The table holds something that the library does not write."""


class MallocTable:
    """The table of a program that heaptop starts. Close it when the program needs no report any more."""

    def __init__(self, interval: int) -> None:
        """``interval``: mean bytes between samples; taken as the next lower power of two."""
        self.executable = "?"  # The program's path: to be set while it runs, because afterwards its link is gone
        self.exponent = max(10, min(interval.bit_length() - 1, 30))
        self.fd = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            # All its pages now: where there is no memory for one later, the program would get a SIGBUS.
            os.posix_fallocate(self.fd, 0, SIZE)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            os.pwrite(self.fd, MAGIC.to_bytes(8, "little"), 0)
        except OSError as error:
            os.close(self.fd)
            raise LaunchFailed(f"There is no memory for the table of native samples: {error.strerror}.") from None

    def environment(self, library: Path, preloaded: str) -> list[str]:
        """What ``env`` sets for the program."""
        entries = [str(library), *([preloaded] if preloaded else [])]
        return [f"LD_PRELOAD={':'.join(entries)}", f"{VARIABLE}={self.fd}:{self.exponent}:{library}"]

    def refusal(self, pid: int) -> str:
        """Why nothing is sampled in the program, as a sentence without its full stop; empty when it is."""
        head = HEAD.unpack(self._read(0, HEAD.size))
        state, owner = head[1], head[2]
        if owner != pid:
            return STATES[0]
        if state != SAMPLING:
            return STATES.get(state, STATES[0])
        return REPLACED if _has_lost_the_table(pid) else ""

    def sites(self) -> MallocSites:
        """What lives now. Errors: :class:`TableInvalid`."""
        return read_sites(self._read, self.executable)

    def _read(self, at: int, size: int) -> bytes:
        return os.pread(self.fd, size, at)

    def close(self) -> None:
        os.close(self.fd)


def executable(pid: int) -> str:
    """The path of a program that runs; ``?`` where it is not known."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return "?"


def _has_lost_the_table(pid: int) -> bool:
    """Whether it runs without: an execve keeps the pid and drops the mapping. False of one that has ended."""
    try:
        mapped = {mapping.path.split(" ")[0] for mapping in each_mapping(pid)}
    except OSError:
        return False
    return bool(mapped) and MAPPED not in mapped


def read_sites(
    read: Read, executable: str, pid: int = 0, most: int = SITES, resident: Resident | None = None
) -> MallocSites:
    """What lives now, by line, library and function: the ``most`` largest. Errors: :class:`TableInvalid`, OSError.

    ``executable``: the program's own path. ``pid``: the process that knows its libraries' paths, as in
    :func:`symbols.names`. ``resident``: count of mappings and large blocks what is resident, in place of all."""
    head = HEAD.unpack(_exactly(read, 0, HEAD.size))
    magic, _, _, dropped, missed, sampled, base, _, _, coarsest, *counts, own_new = head
    limits = (RECORDS, SITES, NODES, FRAMES, TEXTS)
    if magic != MAGIC or max(base, coarsest) > 30 or any(n > most for n, most in zip(counts, limits, strict=True)):
        raise TableInvalid("its head")
    blocks = _live(read, counts[0], resident)
    # After the records: what they refer to was there before them.
    _, site_count, node_count, frame_count, text_size = HEAD.unpack(_exactly(read, 0, HEAD.size))[10:15]
    reader = _Places(
        list(SITE.iter_unpack(_exactly(read, SITES_AT, min(site_count, SITES) * SITE.size))),
        list(NODE.iter_unpack(_exactly(read, NODES_AT, min(node_count, NODES) * NODE.size))),
        list(FRAME.iter_unpack(_exactly(read, FRAMES_AT, min(frame_count, FRAMES) * FRAME.size))),
        _exactly(read, TEXTS_AT, min(text_size, TEXTS)),
        executable,
        pid,
    )
    rows = _merged(blocks, reader)
    limit = (1 << 63) - 1
    return MallocSites(
        interval=1 << base,
        coarsest=1 << coarsest,
        sampled=min(sampled, limit),
        dropped=min(dropped, limit),
        missed=min(missed, limit),
        sites=tuple(reader.site(site, found) for site, found in rows[:most]),
        left_out=len(rows[most:]),
        own_new=own_new != 0,
        resident=resident is not None,
    )


def _merged(blocks: Blocks, reader: _Places) -> list[tuple[int, Same]]:
    """Blocks of the sites that have one line, library and function, each with the largest of these sites; the largest
    first."""
    by_site: dict[int, Same] = {}
    for (site, *same), number in blocks.items():
        by_site.setdefault(site, Counter())[same[0], same[1], same[2]] += number
    largest_first = sorted(by_site, key=lambda site: -_weight(by_site[site]))
    reader.name_functions(largest_first)
    rows: dict[tuple[object, ...], tuple[int, Same]] = {}
    for site in largest_first:
        rows.setdefault(reader.place_and_line(site), (site, Counter()))[1].update(by_site[site])
    return sorted(rows.values(), key=lambda row: -_weight(row[1]))


def _weight(blocks: Same) -> int:
    """Bytes that they stand for, roughly: to rank by."""
    return sum(max(left, 1 << interval) * number for (_, left, interval), number in blocks.items())


def _exactly(read: Read, at: int, size: int) -> bytes:
    found = read(at, size)
    if len(found) != size:
        raise TableInvalid("its size")
    return found


def _live(read: Read, count: int, resident: Resident | None) -> Blocks:
    """What lives, and is resident.

    The program runs on. What two readings say alike of a record, with an even version, was whole at one moment; those
    that change all the time are read again, and the last reading is taken.
    """
    before = list(RECORD.iter_unpack(_exactly(read, RECORDS_AT, count * RECORD.size)))
    after = list(RECORD.iter_unpack(_exactly(read, RECORDS_AT, count * RECORD.size)))
    found: Blocks = Counter()
    for i, record in enumerate(after):
        if record != before[i] or record[3] & 1:
            record = _settled(read, RECORDS_AT + i * RECORD.size)  # noqa: PLW2901
        address, size, left, _, site, _, interval, kind = record
        if not address:
            continue
        if not (0 < size < 1 << 62 and 0 < left < 1 << 62 and interval <= 30):
            raise TableInvalid("a record")
        if resident is not None and (kind == MAPPING or left >= SMALLEST_MEASURED):
            left = min(left, resident(address, address + left))
        if left:
            found[site, size, left, interval] += 1
    return found


def _settled(read: Read, at: int) -> tuple[int, ...]:
    """One record, whole."""
    record = RECORD.unpack(_exactly(read, at, RECORD.size))
    for _ in range(100):
        again = RECORD.unpack(_exactly(read, at, RECORD.size))
        if again == record and not record[3] & 1:
            return record
        record = again
    return (0,) * 8  # the program was killed in the middle of writing it


class _Places:
    """Sites with their names."""

    def __init__(
        self,
        sites: list[tuple[int, ...]],
        nodes: list[tuple[int, ...]],
        frames: list[tuple[int, ...]],
        texts: bytes,
        executable: str,
        pid: int,
    ) -> None:
        self._sites, self._nodes, self._frames, self._texts = sites, nodes, frames, texts
        self._executable, self._pid = executable, pid
        self._functions: dict[str, Mapping[int, str]] = {}
        self._known: dict[int, MallocFrame] = {}

    def name_functions(self, numbers: Iterable[int]) -> None:
        """Look up the functions of these sites: of a number of libraries, those of the first sites, and for a limited
        time."""
        wanted: dict[str, list[int]] = {}
        for number in numbers:
            offset, path, _ = self._place(number)
            if path in wanted or len(wanted) < MOST_LIBRARIES:
                wanted.setdefault(path, []).append(offset)
        end = time.monotonic() + NAMING_LIMIT
        for path, offsets in wanted.items():
            if time.monotonic() < end:
                self._functions[path] = symbols.names(self._pid, path, offsets)

    def place_and_line(self, number: int) -> tuple[object, ...]:
        """Library and function of a site, and the line of its innermost frame, or why there is none."""
        offset, path, node = self._place(number)
        innermost = next(self._stack(node), None)
        line = (innermost.file, innermost.line) if innermost is not None else node
        return path, self._function(path, offset), line

    def site(self, number: int, blocks: Same) -> MallocSite:
        offset, path, node = self._place(number)
        return MallocSite(
            library=printable(path, LONGEST),
            symbol=self._function(path, offset),
            stack=tuple(self._stack(node)),
            gap=GAPS.get(node, ""),
            blocks=tuple(MallocBlocks(*block[:2], 1 << block[2], many) for block, many in blocks.items()),
        )

    def _function(self, path: str, offset: int) -> str:
        return printable(self._functions.get(path, {}).get(offset, ""), LONGEST)

    def _place(self, number: int) -> tuple[int, str, int]:
        """The call's offset in the library, the library's path, and the node."""
        if number >= len(self._sites):
            raise TableInvalid("a site")
        offset, library, node = self._sites[number]
        # The instruction that calls is before the one to return to.
        return offset - 1, self._text(library) or self._executable, node

    def _stack(self, node: int) -> Iterator[MallocFrame]:
        for _ in range(DEEPEST):
            if node in GAPS:
                return
            if node >= len(self._nodes):
                raise TableInvalid("a node")
            node, frame = self._nodes[node]
            yield self._frame(frame)

    def _frame(self, number: int) -> MallocFrame:
        if number not in self._known:
            if number >= len(self._frames):
                raise TableInvalid("a frame")
            file, function, line = self._frames[number]
            self._known[number] = MallocFrame(printable(self._text(file)), printable(self._text(function)), line)
        return self._known[number]

    def _text(self, at: int) -> str:
        end = self._texts.find(b"\0", at, at + LONGEST + 1)
        if at >= len(self._texts) or end < 0:
            raise TableInvalid("a text")
        return self._texts[at:end].decode("utf-8", "replace")
