"""What messages about sampled blocks hold: records and columns, unpacked and checked, and packed for recordings."""

from __future__ import annotations

import math
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from heaptop.analysis.samples.estimate import Sums, of_parts, parts_of
from heaptop.analysis.samples.live_blocks import FREE, ID_LIMIT, NONE, Likeness, LiveBlockTable
from heaptop.analysis.samples.sizes import CLASSES
from heaptop.analysis.samples.stacks import FORGOTTEN
from heaptop.analysis.samples.tallies import UNKNOWN_TYPE, Tally
from heaptop.errors import ProtocolError
from heaptop.protocol.messages import BIRTH, DEATH, DOMAINS, MAX_INTERVAL, TRACED, TYPED, Samples, Traced
from heaptop.protocol.recorded import PIECE, TALLY, Likenesses, LiveBlocks, Tallied

MAX_SIZE: Final = 1 << 47  # Bytes of a block: what a machine can address
CLOCK_LIMIT: Final = 1 << 61
"""A sampler's clock stays below: what a machine can allocate in a year, some thousand times."""
_MAX_TRACED: Final = 1 << 47
_LIKENESS: Final = "iiQQ"  # Codes of arrays for the columns of likenesses
_ANY_DOMAIN: Final = bytes(range(len(DOMAINS)))
_HIGHEST: Final = bytes(range(CLOCK_LIMIT >> 56))  # What the highest byte of a clock may be

Records = Sequence[tuple[int, ...]]


class KnownNumbers(NamedTuple):
    """How many stacks, types and intervals there are: a record may name these alone."""

    stacks: int
    types: int
    intervals: int = 0


# -- from the sampler ------------------------------------------------------------------------------------------------


def read_samples(message: Samples, live: LiveBlockTable[Any], known: KnownNumbers) -> tuple[Records, Records, Records]:
    """Births, types of living blocks, and deaths."""
    births = _records(BIRTH.iter_unpack, message.births, "births")
    deaths = _records(DEATH.iter_unpack, message.deaths, "deaths")
    typed = _records(TYPED.iter_unpack, message.typed, "types")
    born = {record[0] for record in births}
    if len(born) < len(births) or live.lives_any(born):
        raise ProtocolError("A sampled block was born that is live already.")
    if not _are_sound(births, known):
        _refuse(births, known)
    died = {record[0] for record in deaths}
    if len(died) < len(deaths):
        raise ProtocolError("A sampled block died twice.")
    for number, kind, _ in deaths:
        if not (number in born or number in live):
            raise ProtocolError(f"The sampled block {number} died, which was not alive.")
        if kind > known.types:
            raise ProtocolError(f"A sampled block was of type {kind - 1}, which was never named.")
    if any(kind >= known.types for _, kind in typed):
        raise ProtocolError("A sampled block was found to be of a type that was never named.")
    if max([message.clock, *[one[2] for one in births], *[one[2] for one in deaths]]) >= CLOCK_LIMIT:
        raise ProtocolError("The sampler's clock has more bytes than a machine can allocate.")
    return births, typed, deaths


def _are_sound(births: Records, known: KnownNumbers) -> bool:
    """Checks them column by column, which takes a fraction of the time that one by one takes."""
    if not births:
        return True
    numbers, stacks, _, sizes, kinds, domains, intervals, _ = zip(*births, strict=True)
    return bool(
        max(numbers) < ID_LIMIT
        and max(stacks) < known.stacks
        and max(kinds) <= known.types
        and min(sizes) > 0
        and max(sizes) <= MAX_SIZE
        and max(domains) < len(DOMAINS)
        and max(intervals) < known.intervals
    )


def _refuse(births: Records, known: KnownNumbers) -> None:
    """Raise what is wrong with the first of them that is not sound."""
    for number, stack, _, size, kind, domain, interval, _ in births:
        if number >= ID_LIMIT:
            raise ProtocolError(f"A sampled block has the number {number}; {ID_LIMIT - 1} is the largest.")
        if stack >= known.stacks or kind > known.types:
            raise ProtocolError(f"A block has the stack {stack} and the type {kind - 1}: one was never sent.")
        if not 0 < size <= MAX_SIZE or domain >= len(DOMAINS) or interval >= known.intervals:
            raise ProtocolError(f"A sampled block of {size} bytes has an impossible size, domain or interval.")


def read_traced(message: Traced, known: KnownNumbers) -> Records:
    """(stack, type, size class, objects, bytes) each."""
    rows = _records(TRACED.iter_unpack, message.rows, "traces")
    for stack, kind, size_class, count, size in rows:
        if stack >= known.stacks or kind >= known.types or size_class >= len(CLASSES):
            raise ProtocolError(f"Objects have the stack {stack} and the type {kind}: one was never sent.")
        if not 0 < count <= _MAX_TRACED or size > _MAX_TRACED:
            raise ProtocolError(f"{count} objects of {size} bytes were traced, which cannot be.")
    return rows


def _records(unpack: Callable[[bytes], Iterable[tuple[int, ...]]], packed: bytes, what: str) -> list[tuple[int, ...]]:
    try:
        return list(unpack(packed))
    except struct.error as error:
        raise ProtocolError(f"The records of {what} of sampled blocks are incomplete.") from error


# -- in recordings: sums of freed blocks -----------------------------------------------------------------------------


class KeptSums(NamedTuple):
    """Sums of the blocks of a stack, type and size bin."""

    place: tuple[int, int, int]
    sums: Sums
    volume: int  # Bytes that they represent


def pack_sums(tallies: Sequence[Tally], dropped: int) -> Iterator[Tallied]:
    """What was freed and lost of these; at least one message."""
    for first in range(0, max(len(tallies), 1), PIECE // 8):
        part = tallies[first : first + PIECE // 8]
        freed = b"".join([_packed(tally, tally.freed) for tally in part if tally.freed.samples])
        lost = b"".join([_packed(tally, tally.lost) for tally in part if tally.lost.samples])
        yield Tallied(freed, lost, dropped)
        dropped = 0


def read_sums(packed: bytes, known: KnownNumbers) -> list[KeptSums]:
    """What :func:`pack_sums` was given."""
    found = []
    for record in _records(TALLY.iter_unpack, packed, "sums"):
        stack, kind, number, rest, count_rest, samples, seen, volume, count, variance, third = record
        if not (FORGOTTEN <= stack < known.stacks and UNKNOWN_TYPE <= kind < known.types):
            raise ProtocolError(f"Sums of the stack {stack} and the type {kind} were kept: one was never sent.")
        if max(seen, volume, count) >= CLOCK_LIMIT or not (0 <= variance < math.inf and abs(third) < math.inf):
            raise ProtocolError("Sums were kept that cannot be.")
        parts = samples, seen, of_parts(volume, rest), of_parts(count, count_rest), round(variance), round(third)
        found.append(KeptSums((stack, kind, number), Sums.made_of(parts), volume))
    return found


def _packed(tally: Tally, sums: Sums) -> bytes:
    samples, seen, volume, count, variance, third = sums.parts
    (volume, rest), (count, count_rest) = parts_of(volume), parts_of(count)
    place = tally.stack, tally.type, tally.bin
    return TALLY.pack(*place, rest, count_rest, samples, seen, volume, count, variance, third)


# -- in recordings: the living ---------------------------------------------------------------------------------------


def pack_likenesses(likenesses: Sequence[Likeness]) -> Iterator[Likenesses]:
    """All but the first, which is :data:`NONE` everywhere."""
    for first in range(1, len(likenesses), PIECE):
        columns = zip(*likenesses[first : first + PIECE], strict=True)
        packed = [array(code, column).tobytes() for code, column in zip(_LIKENESS, columns, strict=True)]
        yield Likenesses(first, *packed)


def read_likenesses(message: Likenesses, living: LiveBlockTable[Any], known: KnownNumbers) -> list[Likeness]:
    """Those there are, and these."""
    before = living.likenesses
    if message.first != len(before) or living.rows:
        raise ProtocolError(f"Likenesses were kept from number {message.first} on; {len(before)} comes next.")
    packed = message.stacks, message.types, message.sizes, message.intervals
    columns = [_column(code, column) for code, column in zip(_LIKENESS, packed, strict=True)]
    if len({len(column) for column in columns}) > 1:
        raise ProtocolError("Columns of likenesses are incomplete.")
    everyone = [*before, *map(Likeness, *columns)]
    for likeness in everyone[len(before) :]:
        _check_likeness(likeness, known)
    had = [likeness for likeness in everyone if likeness != NONE]
    if len(set(had)) < len(had):
        raise ProtocolError("A likeness was kept twice.")
    return everyone


def _check_likeness(likeness: Likeness, known: KnownNumbers) -> None:
    stack, kind, size, interval = likeness
    if likeness == NONE:
        return
    if not (FORGOTTEN <= stack < known.stacks and UNKNOWN_TYPE <= kind < known.types):
        raise ProtocolError(f"A live block has the stack {stack} and the type {kind}: one was never sent.")
    if not (0 < size <= MAX_SIZE and 0 < interval <= MAX_INTERVAL):
        raise ProtocolError(f"A live block of {size} bytes has an impossible size or interval.")


def pack_living(living: LiveBlockTable[Any], time_ns: int, clock: int) -> Iterator[LiveBlocks]:
    """All that live; at least one message."""
    for first, (numbers, births, domains) in living.pieces(PIECE):
        yield LiveBlocks(time_ns, clock, first, numbers, _by_place(births), domains)
    if not len(living):
        yield LiveBlocks(time_ns, clock, 0, b"", b"", b"")


def read_living(message: LiveBlocks, living: LiveBlockTable[Any]) -> tuple[array[int], array[int], Counter[int]]:
    """Numbers of likenesses, births, and how many there are of each likeness."""
    numbers, births = _column("i", message.likenesses), _column("Q", _by_number(message.births))
    alike, known = Counter(numbers), living.likenesses
    del alike[FREE]
    if not len(numbers) == len(births) == len(message.domains):
        raise ProtocolError("Columns of live blocks are incomplete.")
    if message.first != living.rows or living.rows + len(numbers) > ID_LIMIT:
        raise ProtocolError(f"Living blocks were kept from number {message.first} on, which others have.")
    if any(not 0 < number < len(known) or known[number] == NONE for number in alike):
        raise ProtocolError("A live block is like others that were never sent.")
    highest = message.births[len(births) * 7 :]
    if message.domains.translate(None, _ANY_DOMAIN) or highest.translate(None, _HIGHEST):
        raise ProtocolError("A live block has an impossible domain or birth.")
    if message.clock >= CLOCK_LIMIT:
        raise ProtocolError("The sampler's clock has more bytes than a machine can allocate.")
    return numbers, births, alike


def _column(code: str, packed: bytes) -> array[int]:
    column = array(code)
    try:
        column.frombytes(packed)
    except ValueError as error:
        raise ProtocolError("A column of live blocks is incomplete.") from error
    return column


def _by_place(numbers: bytes) -> bytes:
    """Numbers of eight bytes each as the first bytes of all, then the second ones, and so on."""
    return b"".join([numbers[place::8] for place in range(8)])


def _by_number(places: bytes) -> bytes:
    """What :func:`_by_place` was given."""
    numbers, length = bytearray(len(places)), len(places) // 8
    for place in range(8):
        numbers[place::8] = places[place * length : (place + 1) * length]
    return bytes(numbers)
