"""What grew between a mark and a later moment: by type, by module, by the site that allocated it, and by retainer.

Births and deaths by type come from the ages of all objects, those by site from sampled blocks. An address that was used
again for an object of the same type hides a death and a birth: of both there were *at least* so many, and who has it
now passes for as old as who had it first. This module never asks anything and never judges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heaptop.analysis.heap.history import Amount
from heaptop.analysis.heap.path_words import type_of
from heaptop.analysis.leaks.marks import NOTHING, Mark, MarkContext, Trends, retainer_words, sums_by
from heaptop.analysis.samples.estimate import Sums, joint_error, weight
from heaptop.analysis.samples.producers import Flow
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.findings import GrownRow, Growth
from heaptop.protocol.images import Ages, Paths
from heaptop.protocol.messages import TypeName

MOST_ROWS: Final = 500  # Of one table: what grew and shrank most


@dataclass(frozen=True, slots=True)
class BirthIntervals:
    """Which interval a number of marks seen means. New is what was born after the first mark that is compared with, and
    before the one at ``until`` where that is given."""

    marks: int  # All that the image knows, each of which an object may have seen
    compared: tuple[int, ...]  # Positions of those that are compared with, ascending: an interval begins at each
    until: int | None = None  # Position of a mark

    @property
    def birth_intervals(self) -> int:
        return len(self.compared)

    @property
    def new(self) -> tuple[int, ...]:
        """For :attr:`~heaptop.protocol.images.Selection.seen`."""
        return numbers_of_new(self.marks, self.compared[0], self.until)

    def birth_interval(self, seen: int) -> int | None:
        """By position; None for what was there at the first mark."""
        interval = bisect_left(self.compared, self.marks - seen) - 1
        return interval if interval >= 0 else None

    def was_there(self, seen: int, place: int) -> bool:
        """Whether an object was there at the mark that is compared with at this place."""
        return self.marks - seen <= self.compared[place]


def numbers_of_new(marks: int, since: int, until: int | None) -> tuple[int, ...]:
    """How many of so many marks those objects have seen that were born after the one at ``since``, and before the one
    at ``until`` where there is one."""
    return tuple(range(marks - until if until is not None and until < marks else 0, marks - since))


@dataclass(slots=True)
class BirthCounts:
    """Objects of one sort by when they were born."""

    born: list[int]  # By interval
    born_bytes: int = 0
    old: int = 0
    old_bytes: int = 0

    @property
    def new(self) -> int:
        return sum(self.born)

    @property
    def count(self) -> int:
        return self.new + self.old

    @property
    def bytes(self) -> int:
        return self.born_bytes + self.old_bytes

    def less(self, part: BirthCounts) -> BirthCounts:
        """Without a part of them."""
        born = [one - other for one, other in zip(self.born, part.born, strict=True)]
        born_bytes, old_bytes = self.born_bytes - part.born_bytes, self.old_bytes - part.old_bytes
        return BirthCounts(born, born_bytes, self.old - part.old, old_bytes)

    def add(self, birth_interval: int | None, count: int, size: int) -> None:
        if birth_interval is None:
            self.old += count
            self.old_bytes += size
        else:
            self.born[birth_interval] += count
            self.born_bytes += size


def aged_by_type(ages: Ages, types: Sequence[TypeName], epochs: BirthIntervals) -> dict[TypeName, BirthCounts]:
    found: dict[TypeName, BirthCounts] = {}
    for row in ages.rows:
        name = type_of(types, row.type)
        aged = found.get(name)
        if aged is None:
            aged = found[name] = BirthCounts([0] * epochs.birth_intervals)
        aged.add(epochs.birth_interval(row.seen), row.count, row.bytes)
    return found


# -- by type and module --------------------------------------------------------------------------------------


def type_growth(aged: Mapping[TypeName, BirthCounts], then: Mapping[TypeName, Amount], complete: bool = True) -> Growth:
    none = BirthCounts([0] * next((len(each.born) for each in aged.values()), 0))
    names = {**dict.fromkeys(aged), **dict.fromkeys(then)}
    rows = (_row(name.full, aged.get(name, none), then.get(name, NOTHING)) for name in names)
    return _growth("type", rows, complete)


def module_growth(types: Growth, modules: Mapping[str, str]) -> Growth:
    """``modules``: of each type's full name."""
    found: dict[str, GrownRow] = {}
    for row in types.rows:
        name = modules.get(row.name, "")
        before = found.get(name)
        found[name] = replace(row, name=name) if before is None else _added(before, row)
    return _growth("module", found.values(), types.complete)


def modules_of(aged: Mapping[TypeName, BirthCounts], then: Mapping[TypeName, Amount]) -> dict[str, str]:
    return {name.full: name.module or "builtins" for name in [*then, *aged]}


def _row(name: str, now: BirthCounts, then: Amount) -> GrownRow:
    return GrownRow(
        name,
        count=now.count - then.count,
        bytes=now.bytes - then.bytes,
        now=now.count,
        now_bytes=now.bytes,
        born=now.new,
        died=max(0, then.count - now.old),
        generations=tuple(now.born),
    )


def _added(one: GrownRow, other: GrownRow) -> GrownRow:
    return GrownRow(
        one.name,
        one.count + other.count,
        one.bytes + other.bytes,
        one.now + other.now,
        one.now_bytes + other.now_bytes,
        None if one.born is None or other.born is None else one.born + other.born,
        None if one.died is None or other.died is None else one.died + other.died,
        tuple(a + b for a, b in zip(one.generations, other.generations, strict=True)),
    )


def _growth(key: str, rows: Iterable[GrownRow], complete: bool) -> Growth:
    """What has changed, the largest growth first; what is cut is what changed least."""
    changed = [row for row in rows if row.count or row.bytes or row.born or row.died]
    kept = sorted(changed, key=lambda row: (-abs(row.bytes), row.name))[:MOST_ROWS]
    kept.sort(key=lambda row: (-row.bytes, -row.count, row.name))
    return Growth(key, tuple(kept), complete and len(kept) == len(changed))


# -- by site -------------------------------------------------------------------------------------------------


def site_growth(marks: Sequence[Mark], now: MarkContext, sampling: Sampling) -> Growth | None:
    """From the first of these marks on; None where sampled blocks were not followed from then to now."""
    then = marks[0].around
    if then.voids < 0 or then.voids != now.voids:
        return None
    survivors = _survivors([mark.around.clock for mark in marks], sampling)
    before, after = _by_site(then.flows), _by_site(now.flows)
    missed = sampling.samples.live_missed
    rows = (
        _site_row(site, before.get(site), after[site], survivors.get(site, {}), len(marks), missed) for site in after
    )
    return _growth("site", rows, complete=True)


def _by_site(flows: Mapping[tuple[str, str], Flow]) -> dict[str, Flow]:
    found: dict[str, Flow] = {}
    for (site, _), flow in flows.items():
        found.setdefault(site, Flow()).add(flow)
    return found


def _survivors(clocks: Sequence[int], sampling: Sampling) -> dict[str, dict[int, Sums]]:
    """By site, the living sampled blocks by interval: -1 for those born before the first mark."""
    samples: SampledBlocks = sampling.samples
    columns = samples.live_block_columns()
    found: dict[str, dict[int, Sums]] = {}
    alike = columns.places(lambda birth: bisect_left(clocks, birth) - 1, 0, columns.rows)
    for (stack, _, size, interval, birth_interval), number in alike.items():
        by_interval = found.setdefault(sampling.sites.name(stack, "site"), {})
        by_interval.setdefault(birth_interval, Sums()).add_alike(weight(size, interval), number)
    return found


def _site_row(
    site: str,
    then: Flow | None,
    now: Flow,
    survivors: Mapping[int, Sums],
    birth_intervals: int,
    missed: int,
) -> GrownRow:
    before = then.live if then else Sums()
    freed_before = then.freed if then else Sums()
    new = Sums()
    for birth_interval, sums in survivors.items():
        if birth_interval >= 0:
            new.merge(sums)
    freed = now.freed.rounded_count - freed_before.rounded_count
    old_gone = _less(before, survivors.get(-1, Sums()))
    old_freed = old_gone.rounded_count
    return GrownRow(
        site,
        count=now.live.rounded_count - before.rounded_count,
        bytes=now.live.rounded_bytes - before.rounded_bytes,
        now=now.live.rounded_count,
        now_bytes=now.live.rounded_bytes,
        born=max(0, new.rounded_count + freed - old_freed),
        died=max(0, freed - old_freed),
        generations=tuple(survivors[each].rounded_count if each in survivors else 0 for each in range(birth_intervals)),
        error=joint_error(part.estimate(missed).error for part in (new, old_gone) if part.samples),
    )


def _less(one: Sums, part: Sums) -> Sums:
    """Without a part of it; nothing where types that became known later have made the part larger."""
    rest = Sums.made_of([a - b for a, b in zip(one.parts, part.parts, strict=True)])
    return rest if rest.samples > 0 and min(rest.parts[:5]) >= 0 else Sums()


# -- by retainer ---------------------------------------------------------------------------------------------


def retainer_growth(new: Paths, now: Trends, then: Trends) -> Growth:
    """``new``: the paths to what is new. Where nobody knows how much a retainer held then, its new objects count, and
    deaths are not counted."""
    born: dict[str, Amount] = sums_by((retainer_words(group.steps), group.count, group.bytes) for group in new.groups)
    before, after = (sums_by((key[0], a.count, a.bytes) for key, a in each.kept.items()) for each in (then, now))
    rows = (
        _retainer_row(name, born.get(name, NOTHING), after.get(name), before.get(name), now, then)
        for name in {**born, **after, **before}
    )
    return _growth(
        "retainer", (row for row in rows if row is not None), now.all_kept and then.all_kept and not new.other_groups
    )


def _retainer_row(
    name: str, born: Amount, after: Amount | None, before: Amount | None, now: Trends, then: Trends
) -> GrownRow | None:
    if after is None and now.all_kept:
        after = NOTHING
    if before is None and then.all_kept:
        before = NOTHING
    if after is None:
        return GrownRow(name, born.count, born.bytes, born.count, born.bytes, born.count, None) if born.count else None
    if before is None or (before == NOTHING and after.count > 2 * born.count):
        # Held nothing, but most of what it holds is older: another path led there at the mark.
        return GrownRow(name, born.count, born.bytes, after.count, after.bytes, born.count, None)
    died = max(0, before.count - max(0, after.count - born.count))
    return GrownRow(
        name,
        after.count - before.count,
        after.bytes - before.bytes,
        after.count,
        after.bytes,
        born.count,
        died,
    )
