"""The tables of view 9: uses or owners of resident memory, and what one of them is made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from rich.style import Style

from heaptop.analysis.rss.allocators import malloc_name
from heaptop.analysis.rss.malloc_sites import by_site
from heaptop.analysis.rss.memory import NAMES, OwnUse, heaps_certain, mapped_certain
from heaptop.analysis.rss.memory_history import OWNERS, MemoryFacts, Reading, owner_of, owners
from heaptop.analysis.text.units import format_bytes, format_change, format_count, format_share
from heaptop.protocol.messages import Memory, Region
from heaptop.protocol.text import printable
from heaptop.tui.charts.chart_style import ChartStyle, change_style, letter_of
from heaptop.tui.charts.sparkline import meter, sparkline
from heaptop.tui.state.sheet import CellText, Column, change_title
from heaptop.tui.views.memory.memory_words import OWNED

USE, OWNER = "use", "owner"  # What resident memory is cut by
SPARK: Final = 12
BAR: Final = 24


@dataclass(frozen=True, slots=True)
class UseRow:
    """One use, or one owner."""

    key: str
    name: str
    slot: int
    bytes: int
    mark: str  # ≈ for what is made of figures of different moments; empty for the kernel's own
    rss: int
    change: int | None  # Since it was first seen
    meaning: str
    trend: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UsePart:
    """One thing that a use is made of."""

    name: str
    kind: str
    bytes: int | None  # None where only its size is known
    size: int | None  # Of address space; None for figures of allocators
    mark: str = ""
    many: str = ""  # How many of it there are, behind its name
    whole: int | None = None  # What it is a part of, where that is not its size
    change: int | None = None

    @property
    def key(self) -> str:
        return f"{self.kind} {self.name}"


def slots(key: str) -> dict[str, int]:
    """The letters of a cut: each use keeps its own."""
    return {name: place for place, name in enumerate(NAMES if key == USE else OWNERS)}


def rows(facts: MemoryFacts, key: str) -> list[UseRow]:
    """By use or owner, as known now."""
    latest, first = facts.latest, facts.first
    if latest is None or first is None:
        return []
    if key == OWNER:
        before = owners(first.memory)
        found = [(name, OWNERS[name], size, "", OWNED[name]) for name, size in owners(latest.memory).items()]
    else:
        before = first.uses
        found = [
            (row.key, row.name, row.bytes, "≈" if row.approximate else "", row.meaning)
            for row in latest.explained.rows
        ]
    courses = [look.uses if key == USE else look.owners for look in facts.samples[-SPARK:]]
    return [
        UseRow(
            name,
            title,
            slots(key)[name],
            size,
            mark,
            latest.explained.rss,
            _change(size, before.get(name)),
            meaning,
            tuple(course.get(name, 0) for course in courses),
        )
        for name, title, size, mark, meaning in found
    ]


# -- what one of them is made of ---------------------------------------------------------------------------------

_MAPPED: Final = ("stacks", "files", "shared", "rest")
_IN_ARENAS: Final = ("pools", "free_pools", "overhead", "arenas")
_IN_MALLOC: Final = ("malloc_free", "malloc")


def parts(facts: MemoryFacts, key: str, arena_size: int | None) -> list[UsePart]:
    """Mappings by name, or the allocator's own figures; ``arena_size`` is that of this Python, where it is known."""
    latest, first = facts.latest, facts.first
    if latest is None or first is None:
        return []
    made = _parts_of(key, arena_size)
    before = {part.key: part.bytes for part in made(first)}
    return [replace(part, change=_change(part.bytes, before.get(part.key))) for part in made(latest)]


def _change(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def _parts_of(key: str, arena_size: int | None) -> Callable[[Reading], list[UsePart]]:
    if key in _MAPPED:
        return lambda reading: list(_mappings(reading.memory, key))
    if key == "own":
        return lambda reading: list(_own(reading.memory))
    if key in _IN_ARENAS:
        return lambda reading: list(_arenas(reading.memory, arena_size))
    if key in _IN_MALLOC:
        return lambda reading: list(_malloc(reading.memory))
    return lambda reading: list(_given_out(reading))


def _mappings(memory: Memory, key: str) -> Iterator[UsePart]:
    foreign = bool(memory.malloc_library)
    for region in memory.outside.regions if memory.outside is not None else ():
        if owner_of(region, foreign=foreign) == key:
            # Files, threads and libraries are called what the target likes.
            yield UsePart(printable(region.name) or "(no name)", region.kind, region.rss, region.size)


def _own(memory: Memory) -> Iterator[UsePart]:
    yield from _mappings(memory, "own")
    if memory.outside is not None and (beside := OwnUse.of(memory, memory.outside).beside):
        yield UsePart("agent's objects, elsewhere", "figure", beside, None, "≈")


def _regions(memory: Memory, *kinds: str) -> list[Region]:
    return [region for region in memory.outside.regions if region.kind in kinds] if memory.outside is not None else []


def _arenas(memory: Memory, arena_size: int | None) -> Iterator[UsePart]:
    found = _regions(memory, "arena")
    size = sum(region.size for region in found)
    many = f"({format_count(size // arena_size)} of {format_bytes(arena_size)} each)" if arena_size else ""
    resident = sum(region.rss for region in found)
    yield UsePart("all arenas", "arenas", resident, size, many=many)
    figures = memory.outside.pymalloc if memory.outside is not None else None
    if figures is not None:
        for name, kind, size in (
            ("blocks in use", "blocks", figures.in_use),
            ("free blocks in partly used pools", "blocks", figures.free_blocks),
            ("empty pools", "pools", figures.free_pools),
            ("pool headers and unused ends", "pools", figures.overhead),
        ):
            yield UsePart(name, kind, size, None, "≈", whole=resident)


def arena_size(python: str) -> int | None:
    """Of CPython's arenas (``ARENA_BITS``), by the version; None where it is not known."""
    found = re.match(r"3\.(\d+)", python)
    return None if found is None else 1 << 20 if int(found[1]) >= 10 else 1 << 18


_HEAPS: Final = {"main": "the main heap", "threads": "heaps of threads' arenas"}


def _malloc(memory: Memory) -> Iterator[UsePart]:
    for region in _regions(memory, "heap"):
        yield UsePart(_HEAPS.get(region.name, region.name), "heap", region.rss, region.size)
    for region in _regions(memory, "chunk"):
        yield UsePart("large blocks, mapped alone", "blocks", region.rss, region.size)
    if memory.malloc_library:
        plain = [region for region in _regions(memory, "anonymous") if not region.name]
        name = f"memory of {printable(memory.malloc_library)}"
        yield UsePart(name, "heap", sum(r.rss for r in plain), sum(r.size for r in plain))
    yield from _native_sites(memory)
    name, other = malloc_name(memory), memory.other_malloc
    if other is not None:
        yield UsePart(f"{name}: in use", "figure", None, other.in_use)
        yield UsePart(f"{name}: free in caches and partly used pages", "figure", None, other.free_blocks)
        yield UsePart(f"{name}: unused pages", "figure", None, other.free_pages)
        if other.metadata:
            yield UsePart(f"{name}: its own tables", "figure", None, other.metadata)
    malloc = memory.malloc
    if malloc is None:
        return
    if heaps_certain(memory):
        yield UsePart("malloc: in use in its heaps", "figure", None, malloc.in_use)
        yield UsePart("malloc: free in its heaps", "figure", None, malloc.free)
    if mapped_certain(memory):
        many = f"({format_count(malloc.mapped_chunks)})"
        yield UsePart("malloc: large blocks", "figure", None, malloc.mapped, many=many)


def _native_sites(memory: Memory) -> Iterator[UsePart]:
    """Where it was allocated, of a program that was started with ``--native``: estimates, resident or not."""
    if memory.outside is not None and memory.outside.native is not None:
        for row in by_site(memory.outside.native):
            many = f"(≈ ±{format_bytes(row.estimate.error)})"
            yield UsePart(printable(f"{row.line} {row.caller}"), "site", None, row.estimate.bytes, many=many)


def _given_out(reading: Reading) -> Iterator[UsePart]:
    """Of live objects and other allocations: it is not known which allocator one of them has its bytes from."""
    memory = reading.memory
    figures = memory.outside.pymalloc if memory.outside is not None else None
    if figures is not None:
        yield UsePart("blocks in use in Python's arenas", "blocks", figures.in_use, None, "≈")
    for region in _regions(memory, "chunk"):
        yield UsePart("malloc's large blocks", "blocks", region.rss, region.size)
    heaps = sum(region.rss for region in _regions(memory, "heap"))
    free, other = reading.row("malloc_free"), memory.other_malloc
    if other is not None:
        yield UsePart(f"in use in {malloc_name(memory)}", "figure", None, other.in_use)
    elif free is not None:
        yield UsePart("in use in malloc's heaps", "heap", heaps - free.bytes, None, "≈")
    else:
        yield UsePart("malloc's heaps, free parts too", "heap", heaps, None)
    yield from _native_sites(memory)
    if reading.live is not None:
        yield UsePart("live objects in all of these", "figure", reading.live, None, "≈")


# -- how rows are written ----------------------------------------------------------------------------------------

USE_SORTS: Final[dict[str, Callable[[UseRow], object]]] = {
    "name": lambda row: row.slot,
    "bytes": lambda row: row.bytes,
    "change": lambda row: row.change or 0,
}
PART_SORTS: Final[dict[str, Callable[[UsePart], object]]] = {
    "name": lambda row: row.name,
    "bytes": lambda row: -1 if row.bytes is None else row.bytes,
    "size": lambda row: -1 if row.size is None else row.size,
    "change": lambda row: row.change or 0,
}


def use_columns(key: str, elapsed_ns: int, *, wide: bool) -> tuple[Column, ...]:
    change = Column("change", change_title(elapsed_ns), 12)
    figures = (Column("bytes", "Resident", 10), Column("share", "Share", 7), change)
    title = {USE: "Use", OWNER: "Owner"}[key]
    if not wide:
        return (Column("band", "", 3, right=False), Column("name", title, 0, right=False), *figures)
    return (
        Column("band", "", 3, right=False), Column("name", title, 26, right=False), *figures,
        Column("trend", "Trend", SPARK), Column("bar", "", BAR, right=False),
        Column("meaning", "What it is", 0, right=False),
    )  # fmt: skip


def use_pieces(row: UseRow, look: ChartStyle, *, wide: bool, largest: int) -> list[CellText]:
    tint = Style.parse(look.palette.band(row.slot))
    pieces = [
        CellText(f" {letter_of(row.slot)} ", look.swatch(row.slot)),
        CellText(row.name),
        CellText(row.mark + format_bytes(row.bytes)),
        CellText(format_share(row.bytes, row.rss)),
        CellText(change_text(row.change, row.mark), change_style(row.change, look)),
    ]
    if wide:
        pieces += [
            CellText(sparkline(row.trend, SPARK, ascii_only=look.ascii_only), tint),
            CellText(meter(row.bytes / max(largest, 1), BAR, ascii_only=look.ascii_only), tint),
            CellText(row.meaning),
        ]
    return pieces


PART_COLUMNS: Final = (
    Column("name", "Name", 0, right=False, keep_tail=True),
    Column("kind", "Kind", 9, right=False),
    Column("bytes", "Resident", 10),
    Column("size", "Size", 10),
    Column("full", "Part", 7),
)


def part_columns(elapsed_ns: int, *, wide: bool) -> tuple[Column, ...]:
    shown = [column for column in PART_COLUMNS if wide or column.key != "kind"]
    return (*shown, Column("change", change_title(elapsed_ns), 12))


def part_pieces(row: UsePart, look: ChartStyle, *, wide: bool) -> list[CellText]:
    whole = row.size if row.whole is None else row.whole
    return [
        CellText(f"{row.name} {row.many}".rstrip()),
        *([CellText(row.kind, Style(dim=True))] if wide else []),
        CellText("" if row.bytes is None else row.mark + format_bytes(row.bytes)),
        CellText("" if row.size is None else format_bytes(row.size)),
        CellText("" if row.bytes is None or whole is None else format_share(row.bytes, whole)),
        CellText("" if row.bytes is None else change_text(row.change, row.mark), change_style(row.change, look)),
    ]


def change_text(change: int | None, mark: str) -> str:
    """``≈+1.21 MiB``: of figures of different moments the change is no better known than they are."""
    return ("≈" if change and mark else "") + format_change(change)
