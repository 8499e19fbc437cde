"""The two clocks of lifetimes, allocated bytes and time, and from one to the other.

Pairs of both are given, as each message of samples brings one.

Lifetimes are measured in allocated bytes: a program that waits makes nothing older, and the figure does not depend on
the machine. People also ask in seconds. Between two pairs both clocks are taken to run evenly; where no byte was
allocated for a while, a number of bytes represents an interval of time, and a block was born at its beginning, because
its own birth is what moved the clock.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from heaptop.analysis.heap.history import thin
from heaptop.analysis.text.units import format_duration_ns, parse_size
from heaptop.errors import UsageError

PAIR_LIMIT: Final = 4096

_TIME: Final = re.compile(r"(\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})\s*(ms|s|sec|min|h)", re.IGNORECASE | re.ASCII)
_NANOSECONDS: Final = {"ms": 10**6, "s": 10**9, "sec": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}


class Timeline:
    """Pairs of (clock, time), oldest first, ``limit`` at most: beyond it the past gets coarser.

    The sampler's clock begins at 0 each time it is switched on. The timeline's own continues: it is the sampler's plus
    all that was counted before. Every function but :meth:`clock` and :meth:`add` speaks of the timeline's.
    """

    def __init__(self, limit: int = PAIR_LIMIT) -> None:
        if limit < 2:
            raise ValueError("a timeline needs room for two pairs at least")
        self._limit = limit
        self._pairs: list[tuple[int, int]] = []
        self._before = 0
        self._latest = 0
        self._allocated = 0  # and meanwhile so many nanoseconds: of all intervals in which both clocks ran
        self._meanwhile = 0

    def freeze(self) -> Timeline:
        """What is known now, whatever is added later."""
        frozen = Timeline(self._limit)
        frozen._pairs = self._pairs.copy()
        frozen._before, frozen._latest = self._before, self._latest
        frozen._allocated, frozen._meanwhile = self._allocated, self._meanwhile
        return frozen

    def clock(self, sampler_clock: int) -> int:
        """The timeline's clock, from the sampler's of now."""
        return self._before + sampler_clock

    @property
    def latest(self) -> int:
        """The clock of the last pair; 0 before any."""
        return self._latest

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """(clock, time in nanoseconds)."""
        return tuple(self._pairs)

    def add(self, sampler_clock: int, time_ns: int) -> None:
        """Both clocks at one moment. What would run back, by threads or by messages that overtake, stays."""
        before, self._latest = self._latest, max(self.clock(sampler_clock), self._latest)
        if self._pairs:
            time_ns = max(time_ns, self._pairs[-1][1])
            self._allocated += self._latest - before
            self._meanwhile += time_ns - self._pairs[-1][1]
        self._pair(time_ns)

    def begin_anew(self, time_ns: int) -> None:
        """Sampling begins: the sampler's clock is at 0 again, and what was allocated since the last pair is not known:
        that interval is part of no average."""
        self._before = self._latest
        self._pair(max(time_ns, self._pairs[-1][1]) if self._pairs else time_ns)

    def time_ns(self, clock: int) -> int | None:
        """When the clock first had this value; the nearest end for what lies outside; None before any pair."""
        return _interpolate(self._pairs, clock, 0)

    def clock_at(self, time_ns: int) -> int | None:
        """The clock's value then; the nearest end for what lies outside; None before any pair."""
        return _interpolate(self._pairs, time_ns, 1)

    def clock_by(self, time_ns: int) -> int | None:
        """What was born at this clock or before was so at this time or before; None where nothing was."""
        return self.clock_at(time_ns) if self._pairs and time_ns >= self._pairs[0][1] else None

    def bytes_in(self, time_ns: int) -> float | None:
        """What is allocated in so much time, on average over what was sampled; None where nothing is known."""
        return self._allocated * time_ns / self._meanwhile if self._meanwhile else None

    def _pair(self, time_ns: int) -> None:
        self._pairs.append((self._latest, time_ns))
        thin(self._pairs, self._limit)


def _interpolate(pairs: list[tuple[int, int]], value: int, side: int) -> int | None:
    """The other clock's value where clock number ``side`` first is at ``value``, or last for times."""
    if not pairs:
        return None
    other = 1 - side
    find = bisect_left if side == 0 else bisect_right
    place = find(pairs, value, key=lambda pair: pair[side])
    if place == 0:
        return pairs[0][other]
    if place == len(pairs):
        return pairs[-1][other]
    left, right = pairs[place - 1], pairs[place]
    gap = right[side] - left[side]
    return left[other] + (right[other] - left[other]) * (value - left[side]) // gap


@dataclass(frozen=True, slots=True)
class LifetimeBound:
    """What a restriction such as ``lifetime>10MB`` or ``lifetime>10s`` names: one of both is None."""

    bytes: int | None
    time_ns: int | None

    @property
    def text(self) -> str:
        """``10 MB``, ``10.0 s``."""
        if self.time_ns is not None:
            return format_duration_ns(self.time_ns)
        return size_label(self.bytes or 0)

    def born_by(self, timeline: Timeline, clock: int, time_ns: int) -> int | None:
        """What lives at this clock of the timeline and this time, and has lived for longer, was born at the clock that
        is returned or before; None where nothing was."""
        if self.time_ns is not None:
            return timeline.clock_by(time_ns - self.time_ns)
        return clock - (self.bytes or 0) - 1


def parse_lifetime(text: str) -> LifetimeBound:
    """``10MB``, ``1.5GiB`` are allocated bytes; ``500ms``, ``10s``, ``5min``, ``2h`` are time.

    Raises:
        UsageError: it is neither, or ``5m``, which could be minutes or megabytes.
    """
    fix = "Write allocated bytes as 10MB or 1GiB, or a time as 500ms, 10s, 5min or 2h."
    found = _TIME.fullmatch(text.strip())
    if found is not None:
        return LifetimeBound(None, int(Fraction(found[1]) * _NANOSECONDS[found[2].lower()]))
    if re.fullmatch(r"[\d.\s]+m", text.strip(), re.ASCII):
        raise UsageError(f"{text!r} may mean minutes or megabytes.", fix=fix)
    try:
        return LifetimeBound(parse_size(text), None)
    except UsageError:
        raise UsageError(f"{text!r} is not a lifetime.", fix=fix) from None


def size_label(number: float) -> str:
    """``10 MB``, ``2.13 GB``, ``512 B``: allocated bytes in powers of 1000, as one types them, with three digits."""
    for power, unit in ((6, "EB"), (5, "PB"), (4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if number >= 1000**power * 0.9995:
            return f"{number / 1000**power:.3g} {unit}"
    return f"{number:.0f} B"
