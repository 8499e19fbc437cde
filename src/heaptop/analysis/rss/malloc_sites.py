"""Live native memory by allocation site, line and library: estimates of what a preloaded library has sampled.

It works on a :class:`~heaptop.protocol.messages.MallocSites`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from heaptop.analysis.samples.estimate import Estimate, Sums, Weight, joint_error, weight
from heaptop.analysis.text.units import format_bytes, format_count
from heaptop.protocol.messages import MallocBlocks, MallocFrame, MallocSite, MallocSites

if TYPE_CHECKING:
    from heaptop.documents import NativeEstimateJson, NativeJson, NativeSiteJson

K = TypeVar("K")

NO_STACK: Final = {
    "none": "no Python stack",
    "early": "before heaptop's agent",
    "full": "stack not recorded: tables are full",
}
COST: Final = (
    "--native: until it ends, the program runs with a preloaded library that samples malloc and mmap. Its table has 6 "
    "MiB; a program that allocates all the time needs some per cent more time."
)


LARGE: Final = 64 << 20
"""Bytes of a block that may be address space more than memory: allocators reserve so much at once."""


@dataclass(frozen=True, slots=True)
class NativeGroup:
    """Live blocks that have the same site, line or library."""

    estimate: Estimate
    largest: MallocSite  # The site with the most bytes in it

    @property
    def library(self) -> str:
        return self.largest.library

    @property
    def short_library(self) -> str:
        """Its name without the folder."""
        return self.library.rpartition("/")[2]

    @property
    def caller(self) -> str:
        """Library and function: ``libz.so.1 deflateInit2_``."""
        return f"{self.short_library} {self.largest.symbol}".rstrip()

    @property
    def frame(self) -> MallocFrame | None:
        """The innermost Python frame."""
        return self.largest.stack[0] if self.largest.stack else None

    @property
    def no_stack(self) -> str:
        """Why there is none, in a few words; else empty."""
        return "" if self.largest.stack else NO_STACK.get(self.largest.gap, NO_STACK["none"])

    @property
    def line(self) -> str:
        """File and line, or why there are none."""
        return f"{self.frame.file}:{self.frame.line}" if self.frame is not None else f"({self.no_stack})"


def by_site(found: MallocSites) -> list[NativeGroup]:
    """By Python line, library and its function, the largest first."""
    return _grouped(found, lambda site: (_line_of(site), site.library, site.symbol))


def by_line(found: MallocSites) -> list[NativeGroup]:
    return _grouped(found, _line_of)


def by_library(found: MallocSites) -> list[NativeGroup]:
    return _grouped(found, lambda site: site.library)


@dataclass(frozen=True, slots=True)
class NativeGrowth:
    """A site that holds more than before."""

    now: NativeGroup
    more: int
    error: int


def largest_growth(then: MallocSites, now: MallocSites) -> NativeGrowth | None:
    """The site that grew most, if it grew by more than the intervals allow.

    A site that was among those left out may have been as large then as the smallest that was not: it is passed."""
    before = {(row.line, row.caller): row.estimate for row in by_site(then)}
    grown = []
    for row in by_site(now):
        old = before.get((row.line, row.caller))
        if old is None and then.left_out:
            continue
        error = joint_error([row.estimate.error, old.error if old else 0])
        grown.append(NativeGrowth(row, row.estimate.bytes - (old.bytes if old else 0), error))
    largest = max(grown, key=lambda each: each.more, default=None)
    return largest if largest is not None and largest.more > largest.error else None


def total(found: MallocSites) -> Estimate:
    """Of all sites."""
    return _estimate(found, found.sites)


def notes(found: MallocSites) -> Iterator[str]:
    """Sentences on what the figures leave out."""
    if found.dropped:
        lost = format_bytes(found.dropped * found.coarsest)
        many = format_count(found.dropped)
        yield f"At least: {many} samples of native memory were dropped, which represent up to {lost}."
    if found.missed:
        yield f"At most: {format_count(found.missed)} frees of native memory were not seen."
    if found.own_new:
        yield "At least: what C++ allocates by new is not sampled, as the program's allocator has its own operator new."
    if not found.resident and any(blocks.left >= LARGE for site in found.sites for blocks in site.blocks):
        yield "Mappings and large blocks count in full, also where they were never touched."
    if found.left_out:
        yield f"{format_count(found.left_out)} smaller sites of native memory are left out."
    unknown = [site.library == "?" for site in found.sites]
    if unknown and all(unknown):
        yield "Libraries are not known: that needs glibc 2.35."
    elif any(unknown):
        yield "?: code that is in no library, such as compiled at run time."
    if found.coarsest > found.interval:
        yield (
            f"The sampling interval of native memory rose to {format_bytes(found.coarsest)} while the program "
            "allocated fast: a site may hold as much without a sample."
        )


def native_json(
    found: MallocSites, *, pid: int, python: str, exited: bool, status: int | None, top: int | None
) -> NativeJson:
    """The document of ``heaptop run --native --json``, with at most ``top`` rows of each kind (all for None)."""
    return {
        "schema": "heaptop.native",
        "version": 1,
        "pid": pid,
        "python": python,
        "exited": exited,
        "status": status,
        "interval": found.interval,
        "coarsest": found.coarsest,
        "sampled": found.sampled,
        "dropped": found.dropped,
        "missed": found.missed,
        "total": _estimate_json(total(found)),
        "sites": [site_json(group) for group in by_site(found)[:top]],
        "libraries": [
            {"library": group.library, **_estimate_json(group.estimate)} for group in by_library(found)[:top]
        ],
        "lines": [
            {
                "file": group.frame.file if group.frame else "",
                "line": group.frame.line if group.frame else 0,
                "no_stack": group.no_stack,
                **_estimate_json(group.estimate),
            }
            for group in by_line(found)[:top]
        ],
        "notes": list(notes(found)),
    }


def _line_of(site: MallocSite) -> tuple[str, int, str]:
    return (site.stack[0].file, site.stack[0].line, "") if site.stack else ("", 0, site.gap)


def _grouped(found: MallocSites, key: Callable[[MallocSite], K]) -> list[NativeGroup]:
    groups: dict[K, list[MallocSite]] = {}
    for site in found.sites:
        groups.setdefault(key(site), []).append(site)
    rows = [NativeGroup(_estimate(found, sites), max(sites, key=_seen)) for sites in groups.values()]
    return sorted(rows, key=lambda row: (-row.estimate.bytes, row.line, row.caller))


def _seen(site: MallocSite) -> int:
    return sum(blocks.left * blocks.number for blocks in site.blocks)


def _estimate(found: MallocSites, sites: Sequence[MallocSite]) -> Estimate:
    sums = Sums()
    for site in sites:
        for blocks in site.blocks:
            sums.add_alike(_weight(blocks), blocks.number)
    return sums.estimate(found.coarsest if found.coarsest > found.interval else 0)


def _weight(blocks: MallocBlocks) -> Weight:
    """Of a block what it has now, by the chance that it was sampled with at its first size."""
    whole = weight(blocks.size, blocks.interval)
    if blocks.left == blocks.size:
        return whole
    part = blocks.left / blocks.size
    return Weight(
        seen=blocks.left,
        bytes=round(whole.bytes * part),
        count=whole.count,
        variance=round(whole.variance * part**2),
        third=round(whole.third * part**3),
    )


def _estimate_json(estimate: Estimate) -> NativeEstimateJson:
    return {"bytes": estimate.bytes, "low": estimate.low, "high": estimate.high, "samples": estimate.samples}


def site_json(group: NativeGroup) -> NativeSiteJson:
    """A row of ``sites``."""
    return {
        "library": group.library,
        "function": group.largest.symbol,
        "stack": [{"file": each.file, "function": each.function, "line": each.line} for each in group.largest.stack],
        "no_stack": group.no_stack,
        **_estimate_json(group.estimate),
    }
