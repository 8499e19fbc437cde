"""The table of view 1: its columns by width, and how each figure is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from rich.style import Style

from heaptop.analysis.bands.table import Rows, TableRow
from heaptop.analysis.text.units import format_bytes, format_change, format_count
from heaptop.tui.charts.chart_style import ChartStyle, change_style
from heaptop.tui.charts.marks import SHORT_NONE
from heaptop.tui.charts.palette import REST_SLOT
from heaptop.tui.charts.sparkline import meter, sparkline
from heaptop.tui.state.sheet import ALWAYS, WIDE, CellText, Column, Sheet, change_title
from heaptop.tui.widgets.legend import swatch

LEAST: Final = 1 << 10
"""Bytes below which a change of an estimate is none: blocks of nearly one size took the place of each other."""


@dataclass(frozen=True)
class BandTable:
    """What all rows of one table have in common."""

    title: str  # Of the column of names
    width: int
    look: ChartStyle
    slots: Mapping[str, int]  # Colours and letters, by name
    lettered: Collection[int]  # Slots with a letter in the chart
    estimated: bool
    interval_ns: int  # Between the last two moments

    @property
    def _bar(self) -> int:
        return self.width // 4 if self.width >= WIDE else 0

    @property
    def _spark(self) -> int:
        return 16 if self.width >= WIDE else 8

    def sheet(self, found: Rows, sort: str, descending: bool, nothing: str) -> Sheet[TableRow]:
        largest = (found.largest / found.total if found.total else 0.0) or 1.0
        left_out = ("bar", "hidden") if self.width < WIDE else () if found.hides else ("hidden",)
        return Sheet(
            columns=self._columns(),
            exact=(
                (
                    "exact_blocks" if self.estimated else "exact_objects",
                    lambda row: "" if row.count is None else row.count,
                ),
                ("exact_bytes", lambda row: row.bytes),
                ("exact_hidden", lambda row: row.hidden),
                ("exact_change", lambda row: "" if row.bytes_change is None or row.count is None else row.bytes_change),
            ),
            rows=found,
            key=lambda row: row.name,
            draw=lambda row: self._cells(row, largest),
            look=self.look,
            sort=sort,
            descending=descending,
            nothing=nothing,
        ).without(left_out)

    def _columns(self) -> tuple[Column, ...]:
        return (
            Column("band", "", 3, right=False, rank=ALWAYS),
            Column("name", self.title, 0, right=False, keep_tail=True),
            Column("count", "Blocks" if self.estimated else "Objects", 9),
            Column("bytes", "Bytes", 9),
            Column("share", "≈Share" if self.estimated else "Share", 7 if self.estimated else 6),
            Column("hidden", "Attributes", 10),
            Column("bar", "", self._bar, right=False, rank=0),
            Column("change", change_title(self.interval_ns), 12, rank=2),
            Column("growth", "Trend", self._spark, rank=0),
        )

    def _cells(self, row: TableRow, largest: float) -> list[CellText]:
        slot, look, ascii_only = self.slots.get(row.name), self.look, self.look.ascii_only
        tint = Style.parse(look.palette.band(REST_SLOT if slot is None else slot))
        about = "≈" if self.estimated else ""
        changed = (about if row.bytes_change else "") + format_change(row.bytes_change)
        if self.estimated and row.bytes_change is not None and abs(row.bytes_change) < LEAST:
            changed = "0"
        if row.count is None:
            changed = ""
        size = ("≈" if self.estimated or row.guessed else "") + format_bytes(row.bytes)
        if self.estimated and not row.bytes:
            size = SHORT_NONE
        counted = row.count or (row.count == 0 and not self.estimated)
        return [
            CellText(*swatch(slot, look, lettered=slot in self.lettered)) if slot is not None else CellText(""),
            CellText(row.name),
            CellText(about + format_count(row.count) if row.count is not None and counted else ""),
            CellText(size),
            CellText(f"{row.share:.1%}"),
            CellText(format_bytes(row.hidden) if row.hidden else ""),
            CellText(meter(row.share / largest, self._bar, ascii_only=ascii_only), tint),
            CellText(changed, change_style(row.bytes_change, look)),
            CellText(sparkline(row.spark, self._spark, ascii_only=ascii_only), tint),
        ]
