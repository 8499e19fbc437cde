"""Prints what differs between two snapshots: ``heaptop diff`` of heap dumps."""

from __future__ import annotations

import time
from typing import Final

from heaptop.analysis.reports.dumps_diff import ComparedHeap, HeapsDiff
from heaptop.analysis.reports.moments_diff import Changed, MomentSizes, most_changed, total
from heaptop.analysis.text.units import format_bytes, format_change, format_count
from heaptop.cli.terminal import table

_NAMES: Final = {"type": "TYPE", "module": "MODULE", "path": "KEPT BY"}


def heaps_diff_lines(
    before: ComparedHeap, after: ComparedHeap, by: str, found: HeapsDiff, top: int | None
) -> list[str]:
    """What grew most first; at most ``top`` rows (all for None), those that changed most."""
    shown, whole = most_changed(found.rows, top), total(found.rows)
    lines = [f"before  {_heap(before)}", f"after   {_heap(after)}", ""]
    lines += _rows(shown, by, found) if shown else ["Nothing changed."]
    if len(found.rows) > len(shown):
        lines.append(f"({len(found.rows) - len(shown)} more)")
    lines += ["", f"total {format_change(whole.bytes)}, {format_change(whole.count, bytes_=False)} objects"]
    if found.new is not None:
        lines.append("NEW and GONE are lower bounds: an address may be reused by an object of the same type.")
    elif by != "path":
        lines.append("NEW and GONE are known only for two snapshots of one process.")
    return lines


def _rows(rows: list[Changed], by: str, found: HeapsDiff) -> list[str]:
    sides = [side for side in (found.new, found.gone) if side is not None]
    header = ("GROWN", "OBJECTS", "SIZE AFTER", "OBJECTS AFTER", *("NEW", "GONE")[: len(sides)], _NAMES[by])
    cells = []
    for row in rows:
        counts = [format_count(side.get(row.name, MomentSizes()).count) for side in sides]
        figures = (format_change(row.count, bytes_=False), format_bytes(row.after.bytes), format_count(row.after.count))
        cells.append((format_change(row.bytes), *figures, *counts, row.name))
    return table(header, cells, left=frozenset({len(header) - 1}))


def _heap(heap: ComparedHeap) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(heap.wall))
    size = f"live heap {format_bytes(heap.image.bytes)} in {format_count(heap.image.objects)} objects"
    return f"{heap.name}, pid {heap.pid}, {when}, {size}"
