"""Several processes as one: their censuses and ticks added up, and what must be known of such a sum.

It is given each process's latest, and makes messages as an agent would send them. Times are of CLOCK_MONOTONIC, which
processes of one machine share (one in a time namespace of its own does not).

A sum is of several moments. One is made when every process was counted since the last one; who takes longer than
others delays no other, so a sum may have an older census of it in it, and how much older is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Final

from heaptop.analysis.bands.table import table
from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.heap.history import CensusRecord
from heaptop.analysis.text.units import format_bytes
from heaptop.choices import MODES
from heaptop.protocol.messages import Census, Pauses, Row, Tick, TypeName, Types

PATIENCE: Final = 3  # Censuses of one process that the first sum waits for those of the others


@dataclass(frozen=True, slots=True)
class ProcessShare:
    """One process's share of a sum."""

    pid: int
    record: CensusRecord

    @property
    def bytes(self) -> int:
        return self.record.total.bytes


@dataclass(frozen=True, slots=True)
class ProcessChange:
    """A process that came into the sum, or has left it: by as much the sum rose, or fell."""

    time_ns: int
    pid: int
    joined: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class ProcessSum:
    """What the last sum is made of."""

    parts: tuple[ProcessShare, ...] = ()
    missing: tuple[int, ...] = ()  # Processes that are attached to, or will be, and were not counted yet
    changes: tuple[ProcessChange, ...] = ()  # Since the first sum

    @property
    def spread_ns(self) -> int:
        """From the oldest of its moments to the latest."""
        times = [part.record.time_ns for part in self.parts]
        return max(times) - min(times) if times else 0


class Summing:
    """Takes what is known of each process, and returns the sum once there is a new one."""

    def __init__(self) -> None:
        self._expected: list[int] = []
        self._parts: dict[int, ProcessShare] = {}
        self._fresh: dict[int, int] = {}  # How often each was counted since the last sum
        self._ticks: dict[int, Tick] = {}
        self._ticked: set[int] = set()
        self._cpu_before = 0  # Of processes that have left
        self._names: dict[TypeName, int] = {}
        self._changes: list[ProcessChange] = []
        self._censuses = self._tick_count = 0
        self._time_ns = self._tick_ns = 0
        self.last = ProcessSum()

    def expect(self, pid: int) -> None:
        """It will be counted."""
        if pid not in self._expected:
            self._expected.append(pid)

    def count(self, pid: int, record: CensusRecord) -> list[Types | Census]:
        """It was counted. What there is to say of the sum now, if anything."""
        self.expect(pid)
        self._parts[pid] = ProcessShare(pid, record)
        again = self._fresh.get(pid, 0)
        self._fresh[pid] = again + 1
        if len(self._fresh) == len(self._expected) or again >= (1 if self._censuses else PATIENCE):
            return self._sum_messages()
        return []

    def tick(self, pid: int, tick: Tick) -> list[Tick]:
        """It ticked."""
        self._ticks[pid] = tick
        again = pid in self._ticked
        self._ticked.add(pid)
        return [self._added_up()] if again or len(self._ticked) == len(self._ticks) else []

    def leave(self, pid: int) -> list[Types | Census]:
        """It has ended, or is not attached to any more."""
        if pid in self._expected:
            self._expected.remove(pid)
        self._fresh.pop(pid, None)
        self._ticked.discard(pid)
        tick = self._ticks.pop(pid, None)
        self._cpu_before += tick.agent_cpu_ns if tick is not None else 0
        self._parts.pop(pid, None)
        if not self._parts:  # the last sum stays, as what was seen of a process that has ended does
            return []
        in_sum = any(part.pid == pid for part in self.last.parts)
        return self._sum_messages() if in_sum or len(self._fresh) == len(self._expected) else []

    # -- the sum ---------------------------------------------------------------------------------------------

    def _sum_messages(self) -> list[Types | Census]:
        parts = tuple(self._parts[pid] for pid in self._expected if pid in self._parts)
        missing = tuple(pid for pid in self._expected if pid not in self._parts)
        self._time_ns = max(*(part.record.time_ns for part in parts), self._time_ns + 1)
        if self._censuses:
            self._changes += self._joined_or_left(self.last.parts, parts)
        self.last = ProcessSum(parts, missing, tuple(self._changes))
        self._fresh = {}
        first = len(self._names)
        rows = self._rows(parts)
        new = tuple(self._names)[first:]
        census = self._census(rows)
        return [Types(first, new), census] if new else [census]

    def _joined_or_left(self, before: Sequence[ProcessShare], now: Sequence[ProcessShare]) -> Iterator[ProcessChange]:
        was, here = {part.pid for part in before}, {part.pid for part in now}
        for part in now:
            if part.pid not in was:
                yield ProcessChange(self._time_ns, part.pid, True, part.bytes)
        for part in before:
            if part.pid not in here:
                yield ProcessChange(self._time_ns, part.pid, False, part.bytes)

    def _rows(self, parts: Sequence[ProcessShare]) -> tuple[Row, ...]:
        sums: dict[tuple[TypeName, int], list[int]] = {}
        for part in parts:
            for cell in part.record.cells:
                amounts = sums.setdefault((cell.type, cell.generation), [0, 0, 0, 0])
                amounts[0] += cell.count
                amounts[1] += cell.bytes
                amounts[2] += cell.hidden
                amounts[3] += cell.guessed
        names = self._names
        return tuple(
            Row(names.setdefault(kind, len(names)), generation, *amounts)
            for (kind, generation), amounts in sums.items()
        )

    def _census(self, rows: tuple[Row, ...]) -> Census:
        last = self.last
        each = [(part.pid, part.record.census) for part in last.parts]
        self._censuses += 1
        lacking = (
            [f"{len(last.missing)} of {len(self._expected)} processes without a census yet"] if last.missing else []
        )
        lacking += [f"process {pid}: {census.cut}" for pid, census in each if not census.complete]
        worst, mode = max(each, key=lambda one: MODES.index(one[1].mode))
        return Census(
            id=self._censuses,
            time_ns=self._time_ns,
            mode=mode.mode,
            complete=not lacking,
            cut="; ".join(lacking),
            rows=rows,
            duration_ns=max(census.duration_ns for _, census in each),
            pause_ns=max(census.pause_ns for _, census in each),
            cpu_ns=sum(census.cpu_ns for _, census in each),
            agent_bytes=sum(census.agent_bytes for _, census in each),
            sizeof_guessed=sum(census.sizeof_guessed for _, census in each),
            owned=sum(census.owned for _, census in each),
            mapped=sum(census.mapped for _, census in each),
            at_least=sum(census.at_least for _, census in each),
            mode_reason=f"process {worst}: {mode.mode_reason}" if mode.mode_reason else "",
            pauses=_longest([census.pauses for _, census in each if census.pauses is not None]),
        )

    def _added_up(self) -> Tick:
        ticks = list(self._ticks.values())
        self._ticked = set()
        self._tick_count += 1
        self._tick_ns = max(*(tick.time_ns for tick in ticks), self._tick_ns + 1)
        known = [tick.rss for tick in ticks if tick.rss is not None]
        blocks = [tick.blocks for tick in ticks if tick.blocks is not None]
        return Tick(
            id=self._tick_count,
            time_ns=self._tick_ns,
            rss=sum(known) if len(known) == len(ticks) else None,
            blocks=sum(blocks) if len(blocks) == len(ticks) else None,
            gc_enabled=all(tick.gc_enabled for tick in ticks),
            gc_counts=(0, 0, 0),
            frozen=sum(tick.frozen for tick in ticks),
            threads=sum(max(tick.threads, 0) for tick in ticks),
            agent_cpu_ns=self._cpu_before + sum(tick.agent_cpu_ns for tick in ticks),
            garbage=sum(tick.garbage for tick in ticks),
            exits=sum(exits) if (exits := [tick.exits for tick in ticks if tick.exits is not None]) else None,
        )


def largest(parts: Sequence[ProcessShare], key: str, where: Filter) -> dict[str, tuple[int, int]]:
    """Of each band by ``key`` the process that has most of it, and how many bytes of it."""
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        for row in table([part.record], key, where, "name", False):
            if row.name not in found or row.bytes > found[row.name][1]:
                found[row.name] = part.pid, row.bytes
    return found


def sum_text(last: ProcessSum, origin_ns: int) -> str:
    """What must be known of a sum, on one line: of how many moments it is, and who came or went last."""
    count = len(last.parts)
    if not count:
        words = "no census yet"
    elif count == 1:
        words = "of 1 process"
    else:
        words = f"≈ sum of {count} censuses within {last.spread_ns / 1e9:.1f} s"
    if last.missing:
        words += f" · {len(last.missing)} without a census yet"
    if last.changes:
        latest = last.changes[-1]
        alike = sum(change.joined is latest.joined for change in last.changes)
        others = f"{alike} processes {'joined' if latest.joined else 'left'}, the last: " if alike > 1 else ""
        words += f" · {others}{change_text(latest, origin_ns)}"
    return words


def _longest(each: Sequence[Pauses]) -> Pauses | None:
    """Of each cause the longest; None where none is known."""
    return Pauses(*map(max, zip(*map(astuple, each), strict=True))) if each else None


def change_text(change: ProcessChange, origin_ns: int) -> str:
    """``1203 left at 90 s, with 212 MiB``."""
    seconds = max(change.time_ns - origin_ns, 0) / 1e9
    return f"{change.pid} {'joined' if change.joined else 'left'} at {seconds:.0f} s, with {format_bytes(change.bytes)}"
