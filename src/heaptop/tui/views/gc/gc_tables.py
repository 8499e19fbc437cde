"""The three tables of view 8: what each is made of, its columns, and how a row is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.style import Style

from heaptop.analysis.samples.gc_profile import Collection, GcSeries, GcTotals, GenerationTotals, PhaseSpan
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns
from heaptop.tui.state.sheet import ALWAYS, CellText, Column


@dataclass(frozen=True, slots=True)
class Profile:
    """All figures of one moment."""

    rows: tuple[Collection, ...]
    totals: GcTotals
    series: tuple[GcSeries, ...]
    spans: tuple[PhaseSpan, ...]
    phases_lost: int
    sampled: bool  # Whether allocations were sampled at any time, so that it is known how much was allocated

    def of(self, name: str, unit: str) -> GcSeries:
        """One curve."""
        return next(one for one in self.series if (one.name, one.unit) == (name, unit))


def take(sampling: Sampling) -> Profile:
    """The figures of now, which stay as they are."""
    profile = sampling.gc
    return Profile(
        tuple(profile.rows),
        profile.totals,
        profile.series(),
        profile.spans(sampling.timeline if sampling.timeline.pairs else None),
        profile.phases_lost,
        bool(sampling.timeline.pairs),
    )


_QUIET: Final = Style(dim=True)


Moment = Callable[[int], str]  # How a time of the target's clock is written


@dataclass(frozen=True, slots=True)
class GcTable:
    """What is shown by one key."""

    rows: Callable[[Profile], Sequence[Any]]
    key: Callable[[Any], str]
    columns: tuple[Column, ...]
    draw: Callable[[Any, Moment], list[CellText]]  # From a row, and how its times are written
    numbers: dict[str, Callable[[Any], Any]]  # What it can be sorted by
    wide: frozenset[str]  # Columns of wide screens only
    nothing: str


def _known(number: int | None, form: Callable[[int], str]) -> CellText:
    return CellText("-", _QUIET) if number is None else CellText(form(number))


def _draw_collection(row: Collection, at: Moment) -> list[CellText]:
    return [
        CellText(at(row.time_ns)),
        CellText(str(row.generation), Style(bold=row.generation == 2)),
        CellText(format_duration_ns(row.duration_ns)),
        CellText(format_count(row.collected)),
        CellText(format_count(row.uncollectable), Style(bold=row.uncollectable > 0)),
        _known(row.allocated, format_bytes),
        _known(row.live_blocks, format_count),
        _known(row.heap_blocks, format_count),
        _known(row.rss, format_bytes),
        CellText(""),
    ]


def _draw_generation(row: GenerationTotals, at: Moment) -> list[CellText]:
    each = row.duration_ns // row.collections
    return [
        CellText(f"generation {row.generation}"),
        CellText(format_count(row.collections)),
        CellText(format_duration_ns(row.duration_ns)),
        CellText(format_duration_ns(each)),
        CellText(format_duration_ns(row.longest_ns)),
        CellText(format_count(row.collected)),
        CellText(format_count(row.uncollectable)),
    ]


def _draw_phase(row: PhaseSpan, at: Moment) -> list[CellText]:
    return [
        CellText(row.name),
        CellText(at(row.begin_ns)),
        CellText(format_duration_ns(row.end_ns - row.begin_ns) + (" …" if row.open else "")),
        CellText(format_count(row.collections)),
        CellText(format_duration_ns(row.gc_ns)),
        _known(row.allocated, format_bytes),
    ]


def _or_least(number: int | None) -> int:
    return -1 if number is None else number


TABLES: Final = {
    "collection": GcTable(
        rows=lambda profile: profile.rows,
        key=lambda row: str(row.number),
        columns=(
            Column("time", "At", 9, rank=ALWAYS),
            Column("generation", "Gen", 4),
            Column("duration", "Took", 8),
            Column("collected", "Collected", 10),
            Column("uncollectable", "Uncollectable", 14),
            Column("allocated", "≈Allocated", 11),
            Column("live", "Live after", 11),
            Column("heap", "Heap blocks", 12),
            Column("rss", "RSS", 9),
            Column("", "", 0, least=0),
        ),
        draw=_draw_collection,
        numbers={
            "time": lambda row: row.time_ns,
            "generation": lambda row: (row.generation, row.time_ns),
            "duration": lambda row: row.duration_ns,
            "collected": lambda row: row.collected,
            "uncollectable": lambda row: row.uncollectable,
            "allocated": lambda row: _or_least(row.allocated),
            "live": lambda row: _or_least(row.live_blocks),
        },
        wide=frozenset({"heap", "rss"}),
        nothing="No collection yet.",
    ),
    "generation": GcTable(
        rows=lambda profile: profile.totals.generations,
        key=lambda row: str(row.generation),
        columns=(
            Column("name", "Generation", 0, right=False),
            Column("collections", "Collections", 11),
            Column("duration", "Time", 8),
            Column("each", "Each", 8),
            Column("longest", "Longest", 8),
            Column("collected", "Collected", 9),
            Column("uncollectable", "Uncoll.", 8),
        ),
        draw=_draw_generation,
        numbers={
            "name": lambda row: row.generation,
            "collections": lambda row: row.collections,
            "duration": lambda row: row.duration_ns,
            "each": lambda row: row.duration_ns / row.collections,
            "longest": lambda row: row.longest_ns,
            "collected": lambda row: row.collected,
            "uncollectable": lambda row: row.uncollectable,
        },
        wide=frozenset(),
        nothing="No collection yet.",
    ),
    "phase": GcTable(
        rows=lambda profile: profile.spans,
        key=lambda row: f"{row.begin_ns} {row.name}",
        columns=(
            Column("name", "Phase", 0, right=False),
            Column("begin", "Began", 9),
            Column("duration", "Takes", 10),
            Column("collections", "Collections", 11),
            Column("gc", "In them", 8),
            Column("allocated", "≈Allocated", 11),
        ),
        draw=_draw_phase,
        numbers={
            "name": lambda row: row.name,
            "begin": lambda row: row.begin_ns,
            "duration": lambda row: row.end_ns - row.begin_ns,
            "collections": lambda row: row.collections,
            "gc": lambda row: row.gc_ns,
            "allocated": lambda row: _or_least(row.allocated),
        },
        wide=frozenset(),
        nothing="The program names no phases. It can: with heaptop.phase('load'): …",
    ),
}
