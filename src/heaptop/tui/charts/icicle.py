"""The icicle, a flame graph from the top, as pure functions from a tree of figures to rows of coloured text.

A row is a depth, a box is a node, as wide as its part of the whole. Where boxes meet within a cell, eighth blocks draw
the border where it is; what a node has by itself stays empty below it::

    main
    create_session▍list_orders     ▏Cache.get
    __init__       decode

Without colours boxes are outlined: ``│main────│``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from heaptop.tui.charts.raster import EMPTY, INK, NOTHING, Glyph, Ink, StyleRun, runs

LEFT_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_RIGHT_HALF: Final = "▐"


class Box(NamedTuple):
    """One node's place. ``start`` and ``end`` count slices of cells from the left: :attr:`Ink.levels` to a cell."""

    node: int
    depth: int
    start: int
    end: int


class BoxStyle(NamedTuple):
    """What a node looks like."""

    label: str
    slot: int


def layout(
    path: Sequence[int],
    children: Callable[[int], Sequence[int]],
    total: Callable[[int], int],
    slices: int,
    depth: int,
    least: int = 1,
) -> list[Box]:
    """The boxes of ``depth`` rows, row by row from the left; those narrower than a slice are left out.

    Args:
        path: the nodes from the root down to the one that is looked into: each is drawn over the whole width.
        children: of a node, in the order they are drawn in.
        total: of a node, no less than that of all its children together.
        least: slices of a box for anything to be drawn below it.
    """
    boxes = [Box(node, row, 0, slices) for row, node in enumerate(path)]
    whole = total(path[-1]) or 1
    row = [(path[-1], 0, 0)]
    for level in range(len(path), depth):
        below: list[tuple[int, int, int]] = []
        for node, offset, _ in row:
            before = offset
            for child in children(node):
                amount = total(child)
                # By the sum of all before it, and not by the widths before it: errors do not add up.
                start, end = round(before * slices / whole), round((before + amount) * slices / whole)
                if end > start:
                    boxes.append(Box(child, level, start, end))
                    if end - start >= least:
                        below.append((child, before, amount))
                before += amount
        if not below:
            break
        row = below
    return boxes


def paint(
    boxes: Sequence[Box], face: Callable[[int], BoxStyle], chosen: int, width: int, height: int, ink: Ink, top: int = 0
) -> list[list[StyleRun]]:
    """``height`` rows from depth ``top`` on, each exactly ``width`` columns; the ``chosen`` node is highlighted."""
    rows: list[list[Box]] = [[] for _ in range(height)]
    for box in boxes:
        if top <= box.depth < top + height:
            rows[box.depth - top].append(box)
    draw = _coloured if ink is Ink.COLOUR else _outlined
    return [runs(draw(row, face, chosen, width, ink)) for row in rows]


def _outlined(row: Sequence[Box], face: Callable[[int], BoxStyle], chosen: int, width: int, ink: Ink) -> list[Glyph]:
    side, line, mark = ("|", "-", ">") if ink is Ink.ASCII else ("│", "─", "›")
    cells = [NOTHING] * width
    for place, box in enumerate(row):
        label, slot = face(box.node)
        is_chosen = box.node == chosen
        room = box.end - box.start - 1
        shown = clip_label((mark if is_chosen else "") + label, room, "~" if ink is Ink.ASCII else "…")
        text = side + shown.ljust(room, line)
        touching = place + 1 < len(row) and row[place + 1].start == box.end
        if not touching and room > 1:
            text = text[:-1] + side
        fg, bg = (INK, slot) if is_chosen else (slot, EMPTY)
        cells[box.start : box.end] = [Glyph(glyph, fg, bg) for glyph in text]
    return cells


def _coloured(row: Sequence[Box], face: Callable[[int], BoxStyle], chosen: int, width: int, ink: Ink) -> list[Glyph]:
    cells = [NOTHING] * width
    shared: dict[int, list[tuple[Box, int]]] = {}
    before: Box | None = None
    for box in row:
        label, slot = face(box.node)
        is_chosen = box.node == chosen
        first, last = -(-box.start // 8), box.end // 8
        if box.start % 8:
            shared.setdefault(box.start // 8, []).append((box, min(box.end, first * 8) - box.start))
        if box.end % 8 and (last >= first or not box.start % 8):
            shared.setdefault(last, []).append((box, box.end - max(box.start, last * 8)))
        if last > first:
            beside = before is not None and before.end == box.start and face(before.node).slot == slot
            text = "▏" if beside and not box.start % 8 else ""
            room = last - first - len(text)
            text += clip_label(("›" if is_chosen else "") + label, room).ljust(room)
            fg, bg = (slot, EMPTY) if is_chosen else (INK, slot)
            cells[first:last] = [Glyph(glyph, fg, bg) for glyph in text]
        before = box
    for place, parts in shared.items():
        if place < width:
            cells[place] = _shared(parts, face)
    for box in row:
        if box.node == chosen and box.end - box.start < 16 and box.start // 8 < width:
            cells[box.start // 8] = Glyph("›", face(box.node).slot, EMPTY)
    return cells


def _shared(parts: Sequence[tuple[Box, int]], face: Callable[[int], BoxStyle]) -> Glyph:
    """A cell that several boxes meet in, or that one fills in part: parts are boxes and slices, from the left."""
    widest = sorted(sorted(parts, key=lambda part: -part[1])[:2], key=lambda part: part[0].start)
    box, slices = widest[0]
    slot = face(box.node).slot
    if len(widest) == 2 and sum(part[1] for part in parts) >= 7:
        other = face(widest[1][0].node).slot
        if other == slot:
            return Glyph("▏", INK, slot)
        return Glyph(LEFT_EIGHTHS[min(max(slices, 1), 7)], slot, other)
    filled = sum(part[1] for part in widest)
    if box.start % 8 == 0 or (box.start // 8 < box.end // 8 == widest[-1][0].end // 8 and box.end % 8):
        return Glyph(LEFT_EIGHTHS[min(filled, 8)], slot, EMPTY)
    if filled >= 7:
        return Glyph("█", slot, slot)
    return Glyph(_RIGHT_HALF if filled >= 3 else "▕", slot, EMPTY)


def clip_label(label: str, room: int, cut: str = "…") -> str:
    """The beginning of a label; nothing where less than three of its letters would be seen."""
    if len(label) <= room:
        return label
    return label[: room - 1] + cut if room >= 4 else ""


def neighbour(boxes: Sequence[Box], chosen: int, step: int) -> int:
    """The node ``step`` boxes to the right of the chosen one in its row; it stops at the ends."""
    depth = next((box.depth for box in boxes if box.node == chosen), None)
    row = [box.node for box in boxes if box.depth == depth]
    if chosen not in row:
        return chosen
    return row[min(max(row.index(chosen) + step, 0), len(row) - 1)]


def at(boxes: Sequence[Box], depth: int, x: int, ink: Ink) -> int | None:
    """The node that is drawn at a column of a row."""
    levels = ink.levels
    for box in boxes:
        if box.depth == depth and box.start // levels <= x < max(-(-box.end // levels), box.start // levels + 1):
            return box.node
    return None
