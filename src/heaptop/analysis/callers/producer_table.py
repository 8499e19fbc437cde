"""Who allocates, as the rows of a table that is made anew every second: sorted now, summed up when a row is examined.

A row is no leak: what is kept may be wanted. A table of 5,000 rows of which 40 are seen costs the sums it is sorted by,
and the intervals of those 40.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final, Protocol

from heaptop.analysis.callers.call_paths import NO_FRAME_FUNCTION, Amounts, CallPaths
from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.filters.predicates import Rest
from heaptop.analysis.filters.selection import tally_filter
from heaptop.analysis.samples.estimate import Estimate, Sums
from heaptop.analysis.samples.moments import SiteRecord
from heaptop.analysis.samples.producers import FORGOTTEN_NAME, NO_FRAME_NAME, Sites
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sizes import CLASSES, class_of
from heaptop.analysis.samples.stacks import FORGOTTEN
from heaptop.analysis.samples.tallies import Tally
from heaptop.protocol.messages import CodeName

TABLE_KEYS: Final = ("site", "function", "module", "chain", "handler")
"""What rows are made by, in the order of the key that goes through them."""

CALLERS: Final = 5
"""Frames of a chain of the leak table, as in mprof (Zorn and Hilfinger, 1988, fig. 2), which must count as the program
runs; here whole stacks are there to look at."""

APPROXIMATE: Final = 0.1
"""From this part of a row's living bytes on, types that free lists hand on make its place approximate."""
TREND: Final = 16
_REBUILD: Final = 50  # The structure of paths is made anew when one stack in so many is new, …
_DISPLAYS: Final = 5  # … and otherwise when any is, after so many displays
_SLICE: Final = 3000  # Tallies that are gone through in one step


class ProducerRow(Protocol):
    """One row. Its figures may be asked for until the samples are fed again."""

    @property
    def key(self) -> str:
        """Its identity, from one moment to the next."""

    @property
    def name(self) -> str:
        """What it is called on the screen."""

    @property
    def weight(self) -> int:
        """The figure ``live``, for sorting by it fast."""

    @property
    def live(self) -> Estimate:
        """What lives of what it has allocated, or, of a function, of what it and its callees have."""

    @property
    def classes(self) -> tuple[float, ...]:
        """Of the bytes it has allocated, the part of each size class; empty where that is not known."""

    def part_of(self, types: frozenset[int]) -> float:
        """The part of its living bytes that is of these types."""

    def figure(self, column: str) -> int:
        """One figure without an interval, which is what costs most: ``live``, ``direct`` (itself, without callees),
        ``allocated`` and ``freed`` in the unit of ``Sums.bytes``; ``count`` of blocks, likewise; ``samples``; ``error``
        (a variance). -1 where it is not known."""


class ProducerGroup:
    """What the stacks of one site, module or chain have allocated."""

    # thousands are made for each display
    __slots__ = ("_live", "_missed", "key", "name", "stack", "tallies", "weight")

    def __init__(self, key: str, name: str, stack: int, missed: int) -> None:
        """``missed``: of what lives, as :meth:`Sums.estimate` has it."""
        self.key = key
        self.name = name
        self.stack = stack
        self.tallies: list[Tally] = []
        self.weight = 0  # Living bytes, in the unit of `Sums.bytes`
        self._missed = missed
        self._live: Estimate | None = None

    def figure(self, column: str) -> int:
        if column in ("live", "direct"):
            return self.weight
        if column == "allocated":
            return self.weight + sum([tally.freed.bytes + tally.lost.bytes for tally in self.tallies])
        if column == "freed":
            return sum([tally.freed.bytes for tally in self.tallies])
        return sum([getattr(tally.live, _LIVE_PARTS[column]) for tally in self.tallies])

    @property
    def live(self) -> Estimate:
        if self._live is None:
            self._live = alive(self.tallies, self._missed)
        return self._live

    @property
    def classes(self) -> tuple[float, ...]:
        parts = [0] * len(CLASSES)
        for tally in self.tallies:
            parts[class_of(tally.bin)] += tally.live.bytes + tally.freed.bytes + tally.lost.bytes
        return tuple(part / (sum(parts) or 1) for part in parts)

    def part_of(self, types: frozenset[int]) -> float:
        return sum([tally.live.bytes for tally in self.tallies if tally.type in types]) / (self.weight or 1)


class Callee:
    """One function: what it allocates itself, and with what it calls."""

    def __init__(self, function: int, name: str, amounts: Amounts, weight: int) -> None:
        self.function = function
        self.key = str(function)
        self.name = name
        self.weight = weight  # Living bytes with what it calls, in the unit of `Sums.bytes`
        self._amounts = amounts

    def figure(self, column: str) -> int:
        paths = self._amounts.paths
        if column == "live":
            return self.weight
        if column == "direct":
            return sum([self._amounts.own(node, "live") for node in paths.places[self.function]])
        name = f"live.{_LIVE_PARTS[column]}" if column in _LIVE_PARTS else column
        return self._amounts.total_of(paths.first_places[self.function], name)

    @cached_property
    def live(self) -> Estimate:
        amounts = self._amounts
        return amounts.live(amounts.paths.first_places[self.function]).estimate(amounts.missed)

    @cached_property
    def classes(self) -> tuple[float, ...]:
        return self._amounts.classes(self._amounts.paths.first_places[self.function])

    def part_of(self, types: frozenset[int]) -> float:
        return self._amounts.total_of(self._amounts.paths.first_places[self.function], types) / (self.weight or 1)


class OlderThanSampling:
    """What is older than the sampling."""

    classes: tuple[float, ...] = ()

    def __init__(self, name: str, live: Estimate) -> None:
        self.key = self.name = name
        self.live = live
        self.weight = live.bytes << 16

    def part_of(self, types: frozenset[int]) -> float:
        """Nothing of it has a place."""
        return 0.0

    def figure(self, column: str) -> int:
        if column == "error":
            return (self.live.error // 2) ** 2
        return self.weight if column == "live" else -1


_LIVE_PARTS: Final = {"count": "count", "samples": "samples", "error": "variance"}


_LIVE_SUMS: Final = [attrgetter(f"live.{part}") for part in ("samples", "seen", "bytes", "count", "variance", "third")]


def alive(tallies: Sequence[Tally], missed: int = 0) -> Estimate:
    """All that lives of these; ``missed`` as :meth:`Sums.estimate` has it."""
    return Sums.made_of([sum(map(part, tallies)) for part in _LIVE_SUMS]).estimate(missed)


def older_at(samples: SampledBlocks, moments: Sequence[SiteRecord]) -> OlderThanSampling | None:
    """What the last census before the last of these moments counted beyond what was sampled. None where nothing was
    counted, or nothing is sampled."""
    sampled = samples.state is not None and samples.state.on
    cells = moments[-1].cells if moments and sampled else ()
    cell = next((cell for cell in cells if not cell.counted), None)
    if cell is None:
        return None
    error = moments[-1].error
    return OlderThanSampling(cell.site, Estimate(cell.bytes, 0, max(cell.bytes - error, 0), cell.bytes + error, 0))


def moments_since(moments: Sequence[SiteRecord], since_ns: int) -> Sequence[SiteRecord]:
    """The last :data:`TREND` moments; where ``since_ns`` is before these, as many from then to the last one."""
    first = max(bisect_right(moments, since_ns, key=attrgetter("time_ns")) - 1, 0)
    covered = moments[min(first, max(len(moments) - TREND, 0)) :]
    if len(covered) <= TREND:
        return covered
    return [covered[place * (len(covered) - 1) // (TREND - 1)] for place in range(TREND)]


class RecentMoments:
    """Living bytes by site or module at the last moments: each moment is summed up once."""

    def __init__(self) -> None:
        self._of: tuple[str, str] = ("", "")
        self._sums: dict[int, tuple[SiteRecord, dict[str, int]]] = {}  # by id(), which the record beside keeps

    def trend(self, moments: Sequence[SiteRecord], key: str, where: Filter) -> Callable[[str], tuple[int, ...]]:
        """Of a name of ``key``, ``site`` or ``module``: its bytes at the last :data:`TREND` moments, oldest first."""
        if self._of != (key, where.text):
            self._of, self._sums = (key, where.text), {}
        last = moments[-TREND:]
        self._sums = {
            id(moment): self._sums.get(id(moment)) or (moment, _summed(moment, key, where)) for moment in last
        }
        sums = [self._sums[id(moment)][1] for moment in last]
        return lambda name: tuple([one.get(name, 0) for one in sums])


def _summed(moment: SiteRecord, key: str, where: Filter) -> dict[str, int]:
    sums: dict[str, int] = {}
    name = attrgetter(key)
    for cell in where.select(moment) if where else moment.cells:
        sums[name(cell)] = sums.get(name(cell), 0) + cell.bytes
    return sums


class ProducerTables:
    """Makes tables of one session's samples; remembers names, verdicts of filters, and the structure of paths."""

    def __init__(self, samples: SampledBlocks, sites: Sites) -> None:
        self.sites = sites
        self._samples = samples
        self._names: dict[str, dict[int, tuple[str, str]]] = {key: {} for key in TABLE_KEYS}
        self._verdicts: dict[Hashable, bool | Rest] = {}
        self._verdicts_of = ""
        self._paths: dict[Hashable, CallPaths] = {}
        self._built = 0
        self._asked = 0

    # -- what is counted -------------------------------------------------------------------------------------

    def tallies(self, samples: SampledBlocks, where: Filter) -> list[Tally]:
        """What the filter lets through.

        Args:
            samples: what :func:`heaptop.analysis.filters.selection.selected` gives for this filter.

        Raises:
            UsageError: the filter asks for what these samples do not know.
        """
        if where.text != self._verdicts_of:
            self._verdicts, self._verdicts_of = {}, where.text
        fits = tally_filter(samples, self.sites, where, self._verdicts)
        return [*samples.tallies()] if fits is None else [tally for tally in samples.tallies() if fits(tally)]

    # -- tables ----------------------------------------------------------------------------------------------

    def groups(self, tallies: Sequence[Tally], key: str) -> list[ProducerGroup]:
        """By site, module, handler or chain: all that ever allocated, whether or not any of it lives."""
        found: dict[str, ProducerGroup] = {}
        self._find_groups(tallies, key, found)
        return [*found.values()]

    def find_groups(self, tallies: Sequence[Tally], key: str, found: list[ProducerRow]) -> Iterator[None]:
        """The same into ``found``, in steps of a few milliseconds."""
        groups: dict[str, ProducerGroup] = {}
        for first in range(0, len(tallies), _SLICE):
            self._find_groups(tallies[first : first + _SLICE], key, groups)
            yield
        found += groups.values()

    def _find_groups(self, tallies: Sequence[Tally], key: str, found: dict[str, ProducerGroup]) -> None:
        names, missed = self._names[key], self._samples.live_missed
        for tally in tallies:
            if not (tally.live.samples or tally.freed.samples or tally.lost.samples):
                continue
            name = names.get(tally.stack)
            if name is None:
                name = names[tally.stack] = self._name(tally.stack, key)
            group = found.get(name[0])
            if group is None:
                group = found[name[0]] = ProducerGroup(*name, tally.stack, missed)
            group.tallies.append(tally)
            group.weight += tally.live.bytes

    def stacks(self, group: ProducerGroup) -> list[ProducerGroup]:
        """The whole stacks of a group, the one that keeps most first, then the one that allocated most."""
        found: dict[int, ProducerGroup] = {}
        missed = self._samples.live_missed
        for tally in group.tallies:
            one = found.setdefault(tally.stack, ProducerGroup(str(tally.stack), group.name, tally.stack, missed))
            one.tallies.append(tally)
            one.weight += tally.live.bytes
        return sorted(found.values(), key=lambda one: (-one.weight, -one.figure("allocated"), one.stack))

    def approximate(self, samples: SampledBlocks) -> frozenset[int]:
        """The types that free lists hand on, by the sampler."""
        names = samples.state.approximate if samples.state is not None else ()
        return frozenset(number for number, kind in enumerate(samples.types) if kind.full in names)

    def callees(self, amounts: Amounts) -> list[Callee]:
        """By function, those below which anything was ever allocated."""
        totals = amounts.totals(amounts.paths.first_places, "live")
        ever = amounts.totals(amounts.paths.first_places, "allocated")
        return [
            Callee(one, self.function(one), amounts, weight) for one, weight in totals.items() if weight or ever[one]
        ]

    def _name(self, stack: int, key: str) -> tuple[str, str]:
        """A group's key, and what it is called."""
        if key != "chain":
            return (self.sites.name(stack, key),) * 2
        nodes = self._samples.stacks.path(stack, CALLERS + 1)
        codes = [self._samples.codes[self._samples.stacks.codes[node]] for node in nodes[:CALLERS]]
        if not codes:
            return (FORGOTTEN_NAME if stack == FORGOTTEN else NO_FRAME_NAME,) * 2
        more = " ‹ …" if len(nodes) > CALLERS else ""
        named = " ‹ ".join(self._called(code) for code in codes) + more
        return "\n".join(f"{code.file} {code.line} {code.function}" for code in codes), named

    def function(self, function: int, members: Sequence[int] = (), *, with_file: bool = True) -> str:
        """``create_session (shop/views.py)``; of a cycle, with how many others."""
        if function < 0:
            return NO_FRAME_NAME if function == NO_FRAME_FUNCTION else FORGOTTEN_NAME
        code = self._samples.codes[function]
        name = code.function
        if not name:
            name = self._called(code)
        elif code.file and with_file:
            name = f"{name} ({self.sites.places.short(code.file)})"
        others = len(members) - 1
        return f"{name} + {others} in a cycle with it" if others > 0 else name

    def _called(self, code: CodeName) -> str:
        """A function's name; from tracemalloc, the file and line that represent one."""
        return code.function or f"{self.sites.places.short(code.file)}:{code.line}"

    def place(self, row: ProducerRow, key: str) -> tuple[str, int, str]:
        """File, line and function of a row by ``key``, in full: of a site, of a function where it begins, of a call
        chain its innermost. What is not known is empty, or 0."""
        if isinstance(row, Callee) and row.function >= 0:
            code = self._samples.codes[row.function]
            return code.file, code.line, code.function
        if not isinstance(row, ProducerGroup) or key in ("module", "handler"):
            return "", 0, ""
        frame = self.sites.frame(row.stack) if key == "chain" else self.sites.site(row.stack)
        return frame.file, frame.line, frame.function

    def is_user(self, function: int) -> bool:
        """Whether it is the user's own code."""
        return function >= 0 and self.sites.places.is_user(self._samples.codes[function].file)

    def is_library(self, function: int) -> bool:
        """Whether it is the standard library's or a package's."""
        return function >= 0 and not self.is_user(function)

    def file(self, function: int) -> str:
        """The file of a function, for the screen; empty where there is none, or :meth:`function` is called by it."""
        code = self._samples.codes[function] if function >= 0 else None
        return self.sites.places.short(code.file) if code is not None and code.file and code.function else ""

    def module(self, function: int) -> str:
        """The module of a function; empty where there is none."""
        return self.sites.places.module(self._samples.codes[function].file) if function >= 0 else ""

    # -- paths -----------------------------------------------------------------------------------------------

    def paths(self, *, merged: bool = False) -> CallPaths:
        """The structure of all paths, or with cycles merged."""
        known = len(self._samples.stacks)
        self._asked += 1
        new = known - self._built
        if not self._paths or new * _REBUILD > known or (new and self._asked >= _DISPLAYS):
            self._paths = {False: CallPaths.of(self._samples.stacks)}
            self._built, self._asked = known, 0
        if merged not in self._paths:
            self._paths[merged] = self._paths[False].merged()
        return self._paths[merged]

    def around(self, function: int, *, above: bool) -> CallPaths:
        """Merged paths from a function to its allocations, or to its callers."""
        paths = self.paths(merged=True)
        key = (function, above)
        if key not in self._paths:
            one = next((name for name, members in paths.members.items() if function in members), function)
            for old in [old for old in self._paths if isinstance(old, tuple) and old[0] != function]:
                del self._paths[old]
            self._paths[key] = paths.above({one}) if above else paths.below({one})
        return self._paths[key]

    def amounts(self, paths: CallPaths, tallies: Sequence[Tally]) -> Amounts:
        """What is on these paths now."""
        return Amounts(paths, tallies, self._samples.stacks, self._samples.live_missed)
