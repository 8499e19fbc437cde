"""Containers that grow in place by what is no new object: a buffer of bytes, a list of one object again and again.

What is new since a mark does not show them, as they themselves are old. How large the largest containers were at each
mark does (:class:`~heaptop.analysis.leaks.marks.Trends`). This module never asks anything.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from heaptop.analysis.leaks.marks import Holder, Mark, Trends
from heaptop.analysis.leaks.verdicts import Turnover
from heaptop.analysis.text.units import format_bytes, format_count, format_rate
from heaptop.protocol.findings import GROWING

LEAST_GROWTH: Final = 64 << 10  # Bytes: containers that grew by less are not looked at
LEAST_SHARE: Final = 0.01  # Of what it is now: a container that grew by less is as good as steady
MOST: Final = 3


@dataclass(frozen=True, slots=True)
class ContainerGrowth:
    """One of them."""

    address: int
    type: str
    grown: int  # Bytes, at least
    sizes: tuple[int, ...]
    """How long it was at each mark and at last, or how many bytes it took where no length is known; -1: not known."""
    in_bytes: bool = False
    """What ``sizes`` are: for array.array, io.BytesIO and similar types a snapshot reports no length."""

    @property
    def share(self) -> float:
        """What it grew by, as a part of what it is now; 1 where it is not known how large it was. By length where there
        is one: a resize is a jump in bytes, and no growth."""
        first, last = self.sizes[0], self.sizes[-1]
        return (last - first) / last if first >= 0 and last > 0 else 1.0

    @property
    def words(self) -> str:
        """As :func:`sizes_words`."""
        return sizes_words(self.sizes, in_bytes=self.in_bytes)

    @property
    def now(self) -> str:
        """``1.16 M long``; ``1.16 MiB large``"""
        size = self.sizes[-1]
        return f"{format_bytes(size)} large" if self.in_bytes else f"{format_count(size)} long"

    def course(self, seconds: tuple[float, ...]) -> Turnover:
        """As if each item more were an object born then. What is not known is taken to be as it was a mark later."""
        known = list(self.sizes)
        for place in range(len(known) - 2, -1, -1):
            if known[place] < 0:
                known[place] = known[place + 1]
        born = tuple(max(0, after - before) for before, after in pairwise(known))
        return Turnover(seconds, born, known[0], self.sizes)


def sizes_words(sizes: Sequence[int], *, in_bytes: bool = True) -> str:
    """``at the marks and now: 40,000, ? and 1.16 M long``; ``at the marks and now: 40.0 KiB, ? and 1.16 MiB large``"""
    *then, now = [(format_bytes if in_bytes else format_count)(size) if size >= 0 else "?" for size in sizes]
    return f"at the marks and now: {', '.join(then)} and {now} {'large' if in_bytes else 'long'}"


def grown_containers(marks: Sequence[Mark], now: Trends, explained: Collection[int]) -> list[ContainerGrowth]:
    """Those that grew since the first of these marks, the most first, but for those that were ``explained``: what is
    new collects there."""
    found = [
        growth
        for address, holder in now.holders.items()
        if address not in explained
        if (growth := _grown(address, holder, marks)) and growth.share >= LEAST_SHARE
    ]
    return sorted(found, key=lambda each: -each.grown)[:MOST]


def _grown(address: int, holder: Holder, marks: Sequence[Mark]) -> ContainerGrowth | None:
    """None for one that grew by less than ``LEAST_GROWTH``, as nearly all of thousands did, and where another container
    was at a mark."""
    first = marks[0].trends.holders.get(address)
    before = first.size if first is not None else min(marks[0].trends.least, holder.size)
    if holder.size - before < LEAST_GROWTH:
        return None
    then = [mark.trends.holders.get(address) for mark in marks]
    if any(each is not None and each.type != holder.type for each in then):
        return None
    by_length = holder.length >= 0
    sizes = [-1 if each is None else each.length if by_length else each.size for each in then]
    sizes.append(holder.length if by_length else holder.size)
    return ContainerGrowth(address, holder.type, holder.size - before, tuple(sizes), in_bytes=not by_length)


def container_growth_sentence(found: ContainerGrowth, verdict: str, where: str, rate: float, site: str = "") -> str:
    """``1 bytearray grew in place (+2.90 MiB, now 3,040,000 long, still growing 20,000/s) at app.py:5 in log: module
    app → .LOG``"""
    more = [f"+{format_bytes(found.grown)}", f"now {found.now}"]
    if verdict in GROWING and rate > 0:
        more.append(f"still growing {format_rate(rate, bytes_=found.in_bytes)}")
    at = f" at {site}" if site else ""
    return f"1 {found.type} grew in place ({', '.join(more)}){at}: {where}"
