"""View 1 over the sum of several processes: bands as of one, and for each the process that has most of it.

The figures beside the table's own are :func:`heaptop.analysis.bands.summed.largest`; this module adds up nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from heaptop.analysis.bands.summed import ProcessShare, largest
from heaptop.analysis.bands.table import Rows, TableRow
from heaptop.analysis.filters.attributes import Origin
from heaptop.analysis.text.units import format_bytes
from heaptop.errors import UsageError
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.explaining import FigureHelp
from heaptop.tui.state.drill import Level
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import GAP, CellText, Column, Sheet
from heaptop.tui.views.bands.view import BandsView

LARGEST: Final = Column("largest", "Largest in", 16, rank=3)
NAME_ROOM: Final = 24  # Columns that names should have


class SummedBandsView(BandsView):
    """Only what is counted has a sum."""

    SHOWS = (
        "The sum over all attached processes. Each census has its own time; how far they are apart is above the "
        "chart. When a process starts or exits, the sum rises or falls by its whole heap, and the line above says "
        "so. All other views show one process: press Tab."
    )
    EXPLAINS = (
        *BandsView.EXPLAINS,
        FigureHelp(("Largest in",), "The process with the largest part of the row."),
        FigureHelp(
            ("heap", "RSS"),
            "Memory that workers inherited from their parent is counted in each; so are shared pages in RSS.",
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.parts: Sequence[ProcessShare] = ()  # What the sum that is shown is made of
        self._largest: tuple[object, dict[str, tuple[int, int]]] | None = None

    @staticmethod
    def _origin(level: Level) -> Origin:
        origin = BandsView._origin(level)
        if origin is not Origin.CENSUS:
            raise UsageError("Only census figures can be summed.")
        return origin

    def _made_of(self, display: Display, look: ChartStyle) -> tuple[object, ...]:
        return *super()._made_of(display, look), *(part.record for part in self.parts)

    def _sheet(self, found: Rows, slots: dict[str, int], look: ChartStyle) -> Sheet[TableRow]:
        """With a column for the largest process, in place of those that leave names no room beside it."""
        sheet = super()._sheet(found, slots, look)
        largest = self._found()
        for dropped in ("growth", "bar", "hidden"):
            if sum(column.width + GAP for column in sheet.columns) + LARGEST.width + NAME_ROOM > self.size.width:
                sheet = sheet.without((dropped,))

        def draw(row: TableRow) -> list[CellText]:
            pid, size = largest.get(row.name, (0, 0))
            return [*sheet.draw(row), CellText(f"{pid} {format_bytes(size)}" if size else "")]

        return replace(sheet, columns=(*sheet.columns, LARGEST), draw=draw)

    def _found(self) -> dict[str, tuple[int, int]]:
        made_of = (tuple(part.record for part in self.parts), self._level)
        if self._largest is None or self._largest[0] != made_of:
            self._largest = made_of, largest(self.parts, self._level.key, self._level.where)
        return self._largest[1]
