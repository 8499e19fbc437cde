"""What resident memory was used for over time: each answer explained as it comes, the last and the first kept whole.

It takes :class:`~heaptop.protocol.messages.Memory` and censuses as they arrive, in any order, and explains memory by
the census that is nearest in time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from heaptop.analysis.heap.history import CensusRecord, thin
from heaptop.analysis.rss.memory import NAMES, MemoryByUse, MemoryRow, explain, explain_counted, live_bytes
from heaptop.protocol.messages import Memory, Region, Tick

LIMIT: Final = 600  # Answers kept, as sums; beyond it the older ones get sparser

SHORTEST: Final = 5.0  # Seconds from one asking to the next, at least
REST: Final = 20
"""And so many times as long as the last one took: while the kernel makes out what is resident, the target's mmap and
munmap may wait, and heaptop receives nothing else."""

LATE: Final = 3  # So many times that long without an answer, and it is not read any more
FEW: Final = 12
"""With no more ticks between two answers, these are as near to each other as anything of their time that is kept."""
FRESH_NS: Final = 8_000_000_000  # An answer is good for so long; from then on until the next one ticks say RSS

OWNERS: Final = {
    "arenas": "Python's arenas",
    "malloc": "malloc",
    "stacks": "thread stacks",
    "files": "mapped files",
    "shared": "shared memory",
    "rest": "other mappings",
    "own": "heaptop",
}
"""Whose memory it is, in the order of the screen: the kernel's figures alone, which need no census."""
_OWNER_OF: Final = {
    "arena": "arenas",
    "heap": "malloc",
    "chunk": "malloc",
    "stack": "stacks",
    "file": "files",
    "shared": "shared",
    "own": "own",
}

GREW: Final = 1 << 20  # Bytes, and a part of RSS (GREW_PART), from which a change is worth a word
GREW_PART: Final = 100


def owner_of(region: Region, *, foreign: bool) -> str:
    """Whose it is; with ``foreign``, where the program's malloc is not glibc's, unnamed anonymous memory is its."""
    if foreign and region.kind == "anonymous" and not region.name:
        return "malloc"
    return _OWNER_OF.get(region.kind, "rest")


def owners(memory: Memory) -> dict[str, int]:
    """Resident bytes by owner; they sum to RSS. Arenas that were not found are left out, heaptop where it has none."""
    outside = memory.outside
    if outside is None:
        return {}
    found = dict.fromkeys(OWNERS, 0)
    for region in outside.regions:
        found[owner_of(region, foreign=bool(memory.malloc_library))] += region.rss
    if not found["arenas"] and outside.pymalloc is None:
        del found["arenas"]
    if not found["own"]:
        del found["own"]
    return found


def took_ns(memory: Memory) -> int:
    """How long it was read from outside, and malloc asked."""
    return memory.duration_ns + (memory.outside.duration_ns if memory.outside is not None else 0)


def interval(memory: Memory | None) -> float:
    """Seconds to let pass before it is asked again."""
    return max(SHORTEST, REST * took_ns(memory) / 1e9) if memory is not None else SHORTEST


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer, in full."""

    memory: Memory
    explained: MemoryByUse
    counted_ns: int | None  # When the census was that live objects are of; None where there was none

    @property
    def uses(self) -> dict[str, int]:
        return {row.key: row.bytes for row in self.explained.rows}

    def row(self, key: str) -> MemoryRow | None:
        """One use; None where it is not known."""
        return next((row for row in self.explained.rows if row.key == key), None)

    @property
    def live(self) -> int | None:
        row = self.row("live")
        return row.bytes if row is not None else None


@dataclass(frozen=True, slots=True)
class MemorySample:
    """What is kept of every answer."""

    time_ns: int
    run: int  # Answers that followed one another as asked for have the same; between two runs nothing was read
    uses: Mapping[str, int]
    owners: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What is known at one moment; it never changes."""

    samples: tuple[MemorySample, ...] = ()
    first: Reading | None = None
    """What changes are counted from: the first of those that know of the same uses as the last."""
    latest: Reading | None = None
    unsaid: bool = False  # The last answer came without what is resident: the kernel does not give it to heaptop

    @property
    def elapsed_ns(self) -> int:
        """From the first to the last."""
        if self.first is None or self.latest is None:
            return 0
        return self.latest.memory.time_ns - self.first.memory.time_ns


@dataclass
class MemoryHistory:
    """Takes messages, in order."""

    facts: MemoryFacts = field(default_factory=MemoryFacts)

    def feed(self, memory: Memory, records: Sequence[CensusRecord]) -> None:
        """An answer, and the censuses so far."""
        reading = _read(memory, min(records, key=lambda each: abs(each.time_ns - memory.time_ns), default=None))
        if reading is None:
            self.facts = MemoryFacts(self.facts.samples, self.facts.first, self.facts.latest, unsaid=True)
            return
        samples = [*self.facts.samples]
        before, last = self.facts.latest, samples[-1] if samples else None
        run = 0
        if before is not None and last is not None:
            late = max(_late_ns(before.memory), _late_ns(memory))
            run = last.run + (memory.time_ns - last.time_ns > late)
        samples.append(MemorySample(memory.time_ns, run, reading.uses, owners(memory)))
        thin(samples, LIMIT)
        self.facts = MemoryFacts(tuple(samples), _first(self.facts.first, reading), reading)

    def counted(self, record: CensusRecord) -> None:
        """A census came: where it is nearer to the last answer than the one before, that is explained by it."""
        facts = self.facts
        if facts.latest is None:
            return
        memory, before = facts.latest.memory, facts.latest.counted_ns
        if before is not None and abs(record.time_ns - memory.time_ns) >= abs(before - memory.time_ns):
            return
        reading = _read(memory, record)
        if reading is None:
            return
        last = facts.samples[-1]
        samples = (*facts.samples[:-1], MemorySample(last.time_ns, last.run, reading.uses, last.owners))
        first = None if facts.first is facts.latest else facts.first
        self.facts = MemoryFacts(samples, _first(first, reading), reading, facts.unsaid)


def _read(memory: Memory, counted: CensusRecord | None) -> Reading | None:
    explained = explain(memory, None) if counted is None else explain_counted(memory, counted)
    if explained is None:
        return None
    return Reading(memory, explained, counted.time_ns if counted is not None else None)


def _first(first: Reading | None, latest: Reading) -> Reading:
    """Where another set of uses is known, changes from the one before would be changes of what is known."""
    if first is None or first.uses.keys() != latest.uses.keys():
        return latest
    return first


# -- over time ---------------------------------------------------------------------------------------------------

UNSEEN: Final = "unseen"  # Resident memory of a time at which its use was not asked for


@dataclass(frozen=True, slots=True)
class UseHistory:
    """Bytes of each use over time: at every time they sum to RSS."""

    times_ns: tuple[int, ...]
    keys: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]  # For each key, at each time


class LiveBytes:
    """What censuses counted, by their times: each is summed up once."""

    def __init__(self) -> None:
        self._known: dict[CensusRecord, int] = {}

    def of(self, records: Sequence[CensusRecord]) -> list[tuple[int, int]]:
        self._known = {each: self._known.get(each, -1) for each in records}
        for each, known in self._known.items():
            if known < 0:
                self._known[each] = live_bytes(each)
        return [(each.time_ns, known) for each, known in self._known.items()]


def course(
    facts: MemoryFacts, ticks: Sequence[Tick], live: Sequence[tuple[int, int]], *, by_owner: bool = False
) -> UseHistory:
    """From ticks, where there is no answer: RSS with what was ``live`` then, the rest of it being :data:`UNSEEN`."""
    points: list[tuple[int, Mapping[str, int]]] = []
    points += ((look.time_ns, look.owners if by_owner else look.uses) for look in facts.samples)
    counted, seen = _Stepper(() if by_owner else live), _spans(facts, ticks)
    span = 0
    for tick in ticks:
        while span < len(seen) and tick.time_ns > seen[span][1]:
            span += 1
        if tick.rss is None or (span < len(seen) and tick.time_ns >= seen[span][0]):
            continue
        known = min(counted.at(tick.time_ns), tick.rss)
        points.append((tick.time_ns, {"live": known, UNSEEN: tick.rss - known}))
    points.sort(key=lambda point: point[0])
    names = (*(OWNERS if by_owner else NAMES), UNSEEN)
    keys = tuple(key for key in names if any(point.get(key) for _, point in points))
    values = tuple(tuple(point.get(key, 0) for _, point in points) for key in keys)
    return UseHistory(tuple(time for time, _ in points), keys, values)


def _spans(facts: MemoryFacts, ticks: Sequence[Tick]) -> list[tuple[int, int]]:
    """From when to when somebody looked."""
    times = [tick.time_ns for tick in ticks]
    spans: list[tuple[int, int]] = []
    run = -1
    for look in facts.samples:
        near = look.run == run or (
            spans and bisect_right(times, look.time_ns) - bisect_right(times, spans[-1][1]) <= FEW
        )
        begin = spans.pop()[0] if near else look.time_ns
        spans.append((begin, look.time_ns))
        run = look.run
    if facts.latest is not None:
        begin, end = spans.pop()
        spans.append((begin, end + FRESH_NS))
    return spans


def _late_ns(memory: Memory) -> int:
    """After so long, the next answer is not one that was asked for in turn."""
    return round(LATE * interval(memory) * 1e9)


class _Stepper:
    """The last figure up to a time; times ascend."""

    def __init__(self, figures: Sequence[tuple[int, int]]) -> None:
        self._figures = figures
        self._next = 0
        self._last = 0

    def at(self, time_ns: int) -> int:
        while self._next < len(self._figures) and self._figures[self._next][0] <= time_ns:
            self._last = self._figures[self._next][1]
            self._next += 1
        return self._last


# -- in one sentence ---------------------------------------------------------------------------------------------


def largest(explained: MemoryByUse) -> MemoryRow | None:
    """The largest use that is not live objects."""
    return max((row for row in explained.rows if row.key != "live"), key=lambda row: row.bytes, default=None)


def growth(facts: MemoryFacts) -> tuple[int, str, int] | None:
    """The change of RSS since the first reading, the use that has most of it, and that use's change; None where it is
    not worth a word."""
    first, latest = facts.first, facts.latest
    if first is None or latest is None or first is latest:
        return None
    change = latest.explained.rss - first.explained.rss
    if abs(change) < max(GREW, latest.explained.rss // GREW_PART):
        return None
    sign = 1 if change > 0 else -1
    before, now = first.uses, latest.uses
    name = max(now, key=lambda key: sign * (now[key] - before[key]))
    return change, name, now[name] - before[name]
