"""Prints what a process's resident memory is used for: ``heaptop census --memory``.

This module never attaches, and computes nothing that :mod:`heaptop.analysis.rss.memory` could.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.rss.memory import (
    NOT_SAID,
    OWN_LEFT_OUT,
    MemoryByUse,
    explain_counted,
    mapped_certain,
    memory_json,
)
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns, format_share
from heaptop.cli.counting import census_notices
from heaptop.cli.terminal import WIDEST, stdout_columns, table
from heaptop.protocol.messages import Memory, Outside, Region
from heaptop.protocol.text import printable
from heaptop.watching.source_watch import CensusResult

if TYPE_CHECKING:
    from heaptop.documents import MemoryJson

NAMED: Final = (
    ("file", "mapped file"),
    ("stack", "stack"),
    ("shared", "shared memory"),
    ("anonymous", "named by its owner"),
    ("own", "heaptop"),
)
"""Kinds of regions whose names mean something to a person, and how to call one."""

OTHER_COLUMNS: Final = 50  # Columns of a line that are not the explanation, which is wrapped into the rest
NARROWEST: Final = 24


def as_json(taken: CensusResult) -> MemoryJson:
    """The document of ``--memory --json``."""
    assert taken.memory is not None
    target, hello = taken.attached.target, taken.attached.hello
    return memory_json(taken.memory, taken.record, pid=target.pid, python=hello.python)


def as_lines(taken: CensusResult, top: int | None) -> list[str]:
    """The uses of memory, the largest mappings with a name (``top`` of each kind, all for None), and remarks."""
    memory = taken.memory
    assert memory is not None
    explained = explain_counted(memory, taken.record)
    if explained is None or memory.outside is None:
        return [NOT_SAID]
    lines = [*_uses(explained), "", *_details(memory.outside, top)]
    # Files, threads and libraries are called what the target likes; so all of it is made fit for a terminal here.
    noted = [*census_notices(taken, EVERYTHING, 0), *_notices(memory, memory.outside)]
    noted += [*explained.notes, *explained.advice]
    if any(row.key == "own" for row in explained.rows):
        noted.append(OWN_LEFT_OUT)
    return [printable(line) for line in [*lines, "", *noted]]


def _uses(explained: MemoryByUse) -> list[str]:
    cells = []
    room = max(NARROWEST, (stdout_columns() or WIDEST) - OTHER_COLUMNS)
    for row in explained.rows:
        size = ("≥" if row.key == "own" else "≈" if row.approximate else "") + format_bytes(row.bytes)
        first, *more = wrap(row.meaning, room)
        cells.append((size, format_share(row.bytes, explained.rss), row.name, first))
        cells += [("", "", "", line) for line in more]
    cells.append((format_bytes(explained.rss), format_share(explained.rss, explained.rss), "resident", ""))
    return table(("SIZE", "SHARE", "USE", "WHAT IT IS"), cells, left=frozenset({2, 3}))


def _details(outside: Outside, top: int | None) -> list[str]:
    rows = [row for kind, called in NAMED for row in _largest(outside.regions, kind, called, top)]
    return table(("RESIDENT", "MAPPED", "MAPPING", "NAME"), rows, left=frozenset({2, 3}))


def _largest(regions: Iterable[Region], kind: str, called: str, top: int | None) -> Sequence[tuple[str, str, str, str]]:
    found = [region for region in regions if region.kind == kind and region.name]
    shown, rest = found[:top], found[top:] if top is not None else ()
    lines = [(format_bytes(region.rss), format_bytes(region.size), called, region.name) for region in shown]
    if rest:
        rss, size = sum(region.rss for region in rest), sum(region.size for region in rest)
        lines.append((format_bytes(rss), format_bytes(size), called, f"({len(rest)} more)"))
    return lines


def _notices(memory: Memory, outside: Outside) -> list[str]:
    notices = [
        f"memory read from outside in {format_duration_ns(outside.duration_ns)}: no thread was stopped, but mmap "
        "and munmap may have waited",
        "≈: combined from figures of different moments, so that all add up to RSS",
    ]
    if memory.malloc is not None:
        notices.append(f"malloc queried in {format_duration_ns(memory.duration_ns)}, its arenas locked one by one")
    if memory.malloc is not None and memory.malloc.mapped_chunks:
        size = f", {format_bytes(memory.malloc.mapped)}," if mapped_certain(memory) else ""
        blocks = f"malloc's {format_count(memory.malloc.mapped_chunks)} large blocks"
        notices.append(f"{blocks}{size} have mappings of their own")
    if outside.huge:
        notices.append(f"{format_bytes(outside.huge)} are in huge pages")
    return notices
