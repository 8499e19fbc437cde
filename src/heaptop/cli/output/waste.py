"""Prints what the heap could do without: ``heaptop waste``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.snapshot.waste import WasteGroup, WasteReport, sort_words, total_words
from heaptop.analysis.text.units import format_bytes, format_count, format_number
from heaptop.cli.output.retained import fitted
from heaptop.protocol.images import Image
from heaptop.protocol.source import Attached
from heaptop.protocol.text import printable
from heaptop.watching.snapshot_watch import snapshot_notices

HEADER: Final = ("SAVES", "OBJECTS", "WHAT", "TYPE", "HELD BY")


def waste_lines(report: WasteReport, image: Image, attached: Attached, where: Filter, top: int | None) -> list[str]:
    """The total, a table of at most ``top`` rows (all for None), advice on those, and remarks."""
    shown = report.rows[:top]
    lines = [f"could be saved: {total_words(report, image)}", ""]
    if shown:
        lines += fitted(HEADER, [_cells(row) for row in shown])
        lines += ["", *_advice(shown)]
    rest = len(report.rows) - len(shown) + report.other_rows
    if rest:
        lines.append(f"({format_number(rest, 'more row')}; --top N shows more)")
    notices = [f"only {where}"] if where else []
    if report.sorts:
        notices.append("by kind of waste: " + "; ".join(map(sort_words, report.sorts)))
    notices += [*report.notes, *snapshot_notices(attached, image)]
    return [printable(line) for line in [*lines, "", *notices]]


def _cells(row: WasteGroup) -> Sequence[str]:
    saved = ("≈" if row.estimated else "") + format_bytes(row.bytes)
    return saved, format_count(row.count) if row.count else "-", row.name, row.type or "-", row.holder or "-"


def _advice(rows: Sequence[WasteGroup]) -> list[str]:
    """Each sentence once, after what it is about."""
    said: dict[str, str] = {}
    for row in rows:
        name = f"{row.name} ({row.type})" if row.sort in ("spare", "slots") else row.name
        said.setdefault(row.advice if row.sort != "slots" else name, f"{name}: {row.advice}")
    return list(said.values())
