"""Prints live native memory by allocation site: ``heaptop run --native``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heaptop.analysis.rss.malloc_sites import NO_STACK, by_library, by_site, notes, total
from heaptop.analysis.samples.estimate import INTERVAL, Estimate
from heaptop.analysis.text.units import format_bytes, format_count
from heaptop.cli.terminal import table
from heaptop.protocol.messages import MallocSites
from heaptop.protocol.text import printable


def as_lines(found: MallocSites, top: int | None, *, exited: bool) -> list[str]:
    """Sites and libraries, at most ``top`` of each (all for None), and remarks."""
    sites, libraries = by_site(found), by_library(found)
    what = "never freed" if exited else "live now"
    lines = ["native memory {}: {} ± {}".format(what, *_figures(total(found))), ""]
    rows = [
        (*_figures(row.estimate), row.line, row.frame.function if row.frame is not None else "", row.caller)
        for row in sites[:top]
    ]
    lines += table(("LIVE", "±", "LINE", "FUNCTION", "CALLED BY"), rows, left=frozenset({2, 3, 4}))
    if len(sites) > len(rows):
        lines.append(f"({len(sites) - len(rows)} more sites: --top)")
    named = [(*_figures(row.estimate), row.library) for row in libraries[:top]]
    lines += ["", *table(("LIVE", "±", "LIBRARY"), named, left=frozenset({2})), "", *_remarks(found)]
    return [printable(line) for line in lines]


def _remarks(found: MallocSites) -> Iterator[str]:
    yield (
        f"estimated from {format_count(found.sampled)} samples, one per {format_bytes(found.interval)} of malloc and "
        f"mmap; ± is the larger side of the {INTERVAL}"
    )
    yield "the line is that of the innermost Python frame; memory of Python's objects is in the interpreter's rows"
    if any(site.gap == "none" for site in found.sites):
        yield f"({NO_STACK['none']}): the thread ran no Python code, or released the GIL and was not the main thread"
    yield from notes(found)


def _figures(estimate: Estimate) -> Sequence[str]:
    return format_bytes(estimate.bytes), format_bytes(estimate.error)
