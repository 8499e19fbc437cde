"""Lints: what is known to go wrong in Python programs, and can be seen without knowing the program.

Each is a function of what was seen at a mark and now, and one entry of :data:`LINTS` with its threshold. This module
never asks anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from heaptop.analysis.heap.history import Amount
from heaptop.analysis.leaks.marks import MarkContext
from heaptop.analysis.rss.allocators import malloc_name
from heaptop.analysis.rss.malloc_sites import largest_growth
from heaptop.analysis.rss.memory import explain
from heaptop.analysis.text.units import format_bytes, format_change, format_count, format_rate
from heaptop.protocol.findings import LEAK, NO_LEAK, UNCLEAR, UNREACHED, Lint, MarkFacts, Suspect
from heaptop.protocol.images import KINDS, Image
from heaptop.protocol.messages import Memory, TypeName

_GARBAGE: Final = KINDS.index("none")
_STEADY_TICKS: Final = 16  # Fewer ticks do not tell a step from growth
_STEADY_LEAST: Final = 4 << 20
"""Bytes: an attach, the first snapshots and a program that warms up leave half as much in a target."""
_FAIR: Final = 0.4
"""Of the average growth from one quarter of the time to the next: each has so much of it where growth is steady."""
_NOISE: Final = 4.0  # Times the median distance from steady growth
_FLAT: Final = 0.2  # The live heap is flat where it explains no more than this part of RSS's growth


@dataclass(frozen=True, slots=True)
class LintContext:
    """The first mark and now."""

    image: Image
    now: MarkContext
    totals: Mapping[TypeName, Amount]
    then: MarkContext
    then_totals: Mapping[TypeName, Amount]
    mark: MarkFacts
    suspects: Sequence[Suspect] = ()
    course: Sequence[tuple[int, int]] = ()  # (time in nanoseconds, RSS) of the ticks since the mark
    garbage: Mapping[str, int] = field(default_factory=dict)
    """By a type's full name: new objects that nothing holds, and that the next full collection frees."""
    verdict_of: Callable[[str], str] = lambda _: UNCLEAR  # Of all objects of a type, by its full name

    def count(self, *names: str) -> tuple[int, int]:
        """How many objects of types of these full names there were at the mark, and are now but for garbage."""
        before, now = (
            sum(amount.count for name, amount in totals.items() if name.full in names)
            for totals in (self.then_totals, self.totals)
        )
        return before, now - sum(self.garbage.get(name, 0) for name in names)


class Rule(NamedTuple):
    """One lint. It is said where its function finds something of at least ``threshold``."""

    threshold: int
    find: Callable[[LintContext, int], Lint | None]
    about: str  # For a list of them


def lints_of(seen: LintContext, allowed: Collection[str] = ()) -> Iterator[Lint]:
    """All that apply, but those whose names are allowed, in the order of :data:`LINTS`."""
    for name, rule in LINTS.items():
        found = rule.find(seen, rule.threshold) if name not in allowed else None
        if found is not None:
            yield found


def _grown(name: str, what: str, before: int, now: int, threshold: int, advice: str = "") -> Lint | None:
    if now - before < threshold:
        return None
    more = f": {advice}" if advice else ""
    return Lint(name, f"{format_count(now - before)} more {what} than at the mark{more}", before, now, threshold)


def _of_types(
    seen: LintContext, threshold: int, *, name: str, what: str, types: tuple[str, ...], advice: str
) -> Lint | None:
    before, now = seen.count(*types)
    if all(seen.verdict_of(each) == NO_LEAK for each in types):
        return None  # they come and go
    return _grown(name, what, before, now, threshold, advice)


def _uncollected(seen: LintContext, threshold: int) -> Lint | None:
    """Cyclic garbage that nobody will collect."""
    garbage = next((each for each in seen.image.kinds if each.kind == _GARBAGE), None)
    if seen.image.gc_enabled or garbage is None or garbage.objects < threshold:
        return None
    text = (
        f"gc is off, and {format_count(garbage.objects)} objects ({format_bytes(garbage.bytes)}) are kept only by "
        f"{format_count(seen.image.cycles)} cycles"
    )
    return Lint("gc-off-cycles", text, 0, garbage.objects, threshold)


def _gc_garbage(seen: LintContext, threshold: int) -> Lint | None:
    what, advice = "objects in gc.garbage", "they stay until they are removed from it"
    return _grown("gc-garbage", what, seen.then.garbage, seen.now.garbage, threshold, advice)


def _threads(seen: LintContext, threshold: int) -> Lint | None:
    before, now = seen.then.threads, seen.now.threads
    if min(before, now) < 0:
        return None
    return _grown("threads", "threads", before, now, threshold, "each keeps its frames and their local variables")


def _exits(seen: LintContext, threshold: int) -> Lint | None:
    if seen.now.exits is None:
        return None
    before = seen.then.exits or 0
    return _grown("atexit", "callbacks of atexit", before, seen.now.exits, threshold, "they stay until exit")


def _caches(seen: LintContext, threshold: int) -> Lint | None:
    """A cache of functools that continues growing."""
    for each in seen.suspects:
        step = next((step for step in each.path if step.startswith("lru_cache of ")), None)
        if step is not None and each.verdict == LEAK and each.held >= threshold:
            text = f"the {step} grows by {format_count(each.held)} {each.type}: it has no bound, or what it keeps grows"
            old = max(each.series[-1], each.held) - each.held
            return Lint("lru-cache", text, old, old + each.held, threshold)
    return None


def _resident(seen: LintContext, threshold: int) -> Lint | None:
    """RSS grows, and live objects do not: what does, as far as the allocators tell. A single rise is reported from the
    threshold on, steady growth from :data:`_STEADY_LEAST` on."""
    before, now = seen.then.rss, seen.now.rss
    if before is None or now is None:
        return None
    rate = steady_rate(seen.course)
    least = min(threshold, _STEADY_LEAST) if rate else threshold
    live = seen.image.bytes - seen.mark.bytes
    if now - before - _own_growth(seen) < least or live > _FLAT * (now - before):
        return None
    steadily = f" (steadily, {format_rate(rate, bytes_=True)} with heaptop's own)" if rate else ""
    text = (
        f"resident memory grew by {format_bytes(now - before)}{steadily}, and live objects by {format_bytes(live)}: "
        f"{_where_memory_went(seen)}{_native_site(seen)}{_sites_of_unreached(seen)}"
    )
    return Lint("rss", text, before, now, least)


def _sites_of_unreached(seen: LintContext) -> str:
    """Where Python's allocators are asked for what no object has."""
    sites = [each.site for each in seen.suspects if each.type == UNREACHED]
    return f"; memory blocks that no live object has come from {', '.join(sites)}" if sites else ""


def _native_site(seen: LintContext) -> str:
    """Which line and library hold more of malloc's memory, in a program that was started with ``--native``."""
    then, now = (each.memory.outside if each.memory is not None else None for each in (seen.then, seen.now))
    if then is None or now is None or then.native is None or now.native is None:
        return ""
    grown = largest_growth(then.native, now.native)
    if grown is None:
        return ""
    more = f"{format_bytes(grown.more)} ± {format_bytes(grown.error)}"
    return f"; {grown.now.line} holds {more} more by {grown.now.caller}"


def steady_rate(course: Sequence[tuple[int, int]]) -> float | None:
    """Bytes a second by which RSS grows all the time; None where it does not, or too little is known.

    The time is cut into quarters: each must be above the one before by a fair part of the average, and all of it above
    the noise within the quarters. So a single step, such as an attach or a large request, is none."""
    if len(course) < _STEADY_TICKS:
        return None
    size = len(course) / 4
    quarters = [course[round(size * part) : round(size * (part + 1))] for part in range(4)]
    times, levels = ([median([point[side] for point in quarter]) for quarter in quarters] for side in (0, 1))
    grown, passed = levels[-1] - levels[0], times[-1] - times[0]
    steps = [after - before for before, after in pairwise(levels)]
    if passed <= 0 or min(steps) < _FAIR * grown / len(steps):
        return None
    rate = grown / passed
    noise = median(
        [
            abs(rss - level - rate * (time - middle))
            for quarter, middle, level in zip(quarters, times, levels, strict=True)
            for time, rss in quarter
        ]
    )
    return rate * 1e9 if grown > max(_STEADY_LEAST / 2, _NOISE * noise) else None


_NATIVE: Final = frozenset({"other", "rest", "stacks", "files", "shared"})
_FREE: Final = frozenset({"pools", "free_pools", "overhead", "malloc_free"})


def _where_memory_went(seen: LintContext) -> str:
    then, now = (
        _rows(each.memory, size) for each, size in ((seen.then, seen.mark.bytes), (seen.now, seen.image.bytes))
    )
    if not then or not now:
        return "a native leak or fragmentation (allocators were not queried)"
    native, free = (sum(now.get(key, 0) - then.get(key, 0) for key in keys) for keys in (_NATIVE, _FREE))
    if native > 2 * max(free, 0):
        seconds = (seen.now.time_ns - seen.then.time_ns) / 1e9
        rate = f", {format_rate(native / seconds, bytes_=True)}," if seconds > 0 else ""
        return f"a native leak: {format_bytes(native)} more{rate} are in use outside Python objects{_given_out(seen)}"
    if free > 2 * max(native, 0):
        return f"fragmentation: allocators keep {format_bytes(free)} more free memory{_kept_by_malloc(seen)}"
    return f"{format_change(native)} in use outside Python objects, and {format_change(free)} free in allocators"


def _given_out(seen: LintContext) -> str:
    """How much more an allocator in malloc's place has given out, by its own figures."""
    then, now = (each.memory.other_malloc if each.memory is not None else None for each in (seen.then, seen.now))
    if then is None or now is None or seen.now.memory is None or now.in_use <= then.in_use:
        return ""
    return f" ({malloc_name(seen.now.memory)} gave out {format_bytes(now.in_use - then.in_use)} more)"


def _kept_by_malloc(seen: LintContext) -> str:
    """How much of it is malloc's, by its name, and what makes it keep less."""
    then, now = (
        explain(each.memory, size) if each.memory is not None else None
        for each, size in ((seen.then, seen.mark.bytes), (seen.now, seen.image.bytes))
    )
    if then is None or now is None or seen.now.memory is None:
        return ""
    before, after = ({row.key: row.bytes for row in each.rows}.get("malloc_free", 0) for each in (then, now))
    if after <= before:
        return ""
    advice = "".join(f". {sentence.rstrip('.')}" for sentence in now.advice)
    return f", {format_bytes(after - before)} of it in {malloc_name(seen.now.memory)}{advice}"


def _own_growth(seen: LintContext) -> int:
    """What heaptop itself takes more of, as far as that is known."""
    then, now = (_rows(each.memory, 0).get("own", 0) for each in (seen.then, seen.now))
    return max(now - then, 0) if then else 0


def _rows(memory: Memory | None, live: int) -> dict[str, int]:
    explained = explain(memory, live) if memory is not None else None
    return {row.key: row.bytes for row in explained.rows} if explained else {}


def _rule(threshold: int, name: str, what: str, types: tuple[str, ...], advice: str = "") -> tuple[str, Rule]:
    return name, Rule(threshold, partial(_of_types, name=name, what=what, types=types, advice=advice), f"more {what}")


LINTS: Final[Mapping[str, Rule]] = {
    "gc-off-cycles": Rule(100, _uncollected, "unreachable cycles, with gc off"),
    "gc-garbage": Rule(1, _gc_garbage, "gc.garbage grows"),
    "threads": Rule(5, _threads, "more threads"),
    **dict(
        (
            _rule(10, "tasks", "asyncio tasks", ("_asyncio.Task", "asyncio.tasks.Task"), "they are not finished"),
            _rule(10, "loggers", "loggers", ("logging.Logger",), "logging keeps each by name, permanently"),
            _rule(20, "tracebacks", "tracebacks", ("traceback",), "each keeps a frame with all its local variables"),
            _rule(20, "modules", "modules", ("module",), "they are loaded or created repeatedly"),
            _rule(200, "code", "code objects", ("code",), "code is compiled repeatedly"),
        )
    ),
    "atexit": Rule(10, _exits, "more callbacks of atexit"),
    "lru-cache": Rule(50, _caches, "an lru_cache that keeps growing"),
    "rss": Rule(16 << 20, _resident, "resident memory grows, live objects do not"),
}
"""By the name that ``--allow`` takes."""
