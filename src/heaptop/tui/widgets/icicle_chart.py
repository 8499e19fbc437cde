"""The widget around :mod:`heaptop.tui.charts.icicle`: which box is chosen, which one is looked into, and moving
between them.

Sums come from :class:`~heaptop.analysis.callers.call_paths.Amounts`, names from its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from textual import events

from heaptop.analysis.callers.call_paths import Amounts, CallPaths, Measure
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.icicle import Box, BoxStyle, at, layout, neighbour, paint
from heaptop.tui.charts.icicle_table import IcicleColumns, IcicleLayout, divide, table
from heaptop.tui.charts.raster import AXIS, EMPTY, StyleRun
from heaptop.tui.state.messages import RowChosen, ViewChanged
from heaptop.tui.text import clip
from heaptop.tui.widgets.picture import Picture

WIDE: Final = 160  # From this many columns on the table is beside the boxes, which need room too; else below them
DETAIL: Final = 2  # Lines under both that say in words what is chosen
_SHIFT: Final = 8  # Columns of one press of the keys to the left and right: one box

Path = tuple[int, ...]


@dataclass(frozen=True)
class IcicleScene:
    """What there is to be seen at one moment."""

    amounts: Amounts
    measure: Measure
    face: Callable[[int], BoxStyle]
    whole: str  # What the root is called
    detail: Callable[[int], str]  # In words, of a node
    figures: IcicleColumns


class IcicleChart(Picture):
    """Boxes are remembered by their paths of functions, so that they stay themselves when the nodes are others."""

    DEFAULT_CSS = """
    IcicleChart { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.follow = False
        self.zoom: Path = ()  # The path of the box that is looked into
        self._zooms: list[Path] = []  # Those before, the last one last
        self.chosen: Path = ()
        self._scene: IcicleScene | None = None
        self._look: ChartStyle | None = None
        self._boxes: list[Box] = []
        self._listed: list[int] = []  # The nodes of the table's rows
        self._ordered: tuple[CallPaths | None, dict[int, list[int]]] = (None, {})

    # -- what is shown ---------------------------------------------------------------------------------------

    def show_scene(self, scene: IcicleScene, look: ChartStyle) -> None:
        self._scene, self._look = scene, look
        self._again()

    def _again(self) -> None:
        if self._look is not None:
            self.show(self._picture, self._look)

    def _picture(self, width: int, height: int) -> list[list[StyleRun]]:
        scene, look = self._scene, self._look
        if scene is None or look is None:
            return []
        room = self._room(width, height)
        across, rows = room.boxes
        chosen, top = self._node(self.chosen), max(len(self.chosen) + 1 - rows, 0)
        self._boxes = self._laid_out(across, top + rows)
        order = scene.amounts.paths.functions

        def face(node: int) -> BoxStyle:
            return scene.face(order[node]) if node else BoxStyle(scene.whole, 0)

        def drawn(node: int) -> BoxStyle:
            label, slot = face(node)
            return BoxStyle(look.text(label), slot)

        picture = paint(self._boxes, drawn, chosen, across, rows, look.ink, top)
        listed, self._listed = table(self._boxes, face, scene.figures, chosen, room.table, look)
        if room.left:
            picture = [
                [*row, StyleRun("  ", EMPTY, EMPTY), *(listed[y] if y < len(listed) else [])]
                for y, row in enumerate(picture)
            ]
        else:
            picture += [*listed, *[[]] * (room.table[1] - len(listed))]
        ways = self.way
        for line in (scene.detail(chosen), ways)[: height - len(picture)]:
            picture.append([StyleRun(look.text(clip(line, width, keep_tail=line is ways)).ljust(width), AXIS, EMPTY)])
        return picture

    @staticmethod
    def _room(width: int, height: int) -> IcicleLayout:
        return divide(width, max(height - DETAIL, 1), wide=width >= WIDE)

    @property
    def way(self) -> str:
        """The functions that lead to the box that is chosen."""
        scene = self._scene
        if scene is None:
            return ""
        functions = scene.amounts.paths.functions
        return " › ".join(scene.face(functions[node]).label for node in self._along(self.chosen)[1:])

    @property
    def chosen_text(self) -> str:
        """Words about the box that is chosen: its figures, and the way to it."""
        scene = self._scene
        return f"{self.way or scene.whole}\t{scene.detail(self._node(self.chosen))}" if scene is not None else ""

    def _laid_out(self, width: int, depth: int) -> list[Box]:
        assert self._scene is not None
        assert self._look is not None
        amounts, measure = self._scene.amounts, self._scene.measure
        paths, face = amounts.paths, self._scene.face
        if self._ordered[0] is not paths:
            self._ordered = (paths, {})
        ordered = self._ordered[1]

        def children(node: int) -> Sequence[int]:
            # By name: boxes keep their order while figures change, and it need not be sought again.
            found = ordered.get(node)
            if found is None:
                found = ordered[node] = sorted(
                    paths.children[node], key=lambda child: (face(paths.functions[child]).label, child)
                )
            return found

        return layout(
            self._along(self.zoom),
            children,
            lambda node: amounts.total(node, measure),
            width * self._look.ink.levels,
            depth,
            least=self._look.ink.levels // 2 or 1,
        )

    def _along(self, path: Path) -> list[int]:
        """The nodes of a path from the root on, as far as it is there."""
        assert self._scene is not None
        paths, nodes = self._scene.amounts.paths, [0]
        for function in path:
            found = next((child for child in paths.children[nodes[-1]] if paths.functions[child] == function), None)
            if found is None:
                break
            nodes.append(found)
        return nodes

    def _node(self, path: Path) -> int:
        return self._along(path)[-1] if self._scene is not None else 0

    # -- moving ----------------------------------------------------------------------------------------------

    @property
    def place(self) -> object:
        return self.chosen

    @property
    def row_count(self) -> int:
        return 1 + max((box.depth for box in self._boxes), default=0)

    def choose(self, path: Path) -> None:
        """Put the cursor on a box."""
        self.chosen = path
        self._again()
        self.post_message(ViewChanged())

    @property
    def zooms(self) -> list[Path]:
        """The boxes that were zoomed into, each inside the one before."""
        return [zoom for zoom in (*self._zooms, self.zoom) if zoom]

    def zoom_in(self) -> bool:
        """Draw the chosen box over the whole width; False where it is so already."""
        chosen = self.chosen
        if chosen == self.zoom:
            return False
        self._zooms = [zoom for zoom in (*self._zooms, self.zoom) if chosen[: len(zoom)] == zoom and zoom != chosen]
        self.zoom = chosen
        self.choose(chosen)
        return True

    def zoom_out(self) -> bool:
        """Undo the last :meth:`zoom_in`; False where there is none."""
        if not self._zooms:
            return False
        self.zoom = self._zooms.pop()
        self.choose(self.zoom)
        return True

    def move(self, rows: int) -> None:
        """Down to the widest box below, or up to the one above."""
        if self._scene is None:
            return
        path = self.chosen
        if rows < 0:
            path = path[: max(len(path) + rows, 0)]
        for _ in range(rows):
            path = self._widest_below(path)
        self.choose(path)

    def _widest_below(self, path: Path) -> Path:
        assert self._scene is not None
        node = self._node(path)
        below = [box for box in self._boxes if self._scene.amounts.paths.parents[box.node] == node and box.node]
        if len(path) < len(self.zoom):
            return self.zoom[: len(path) + 1]
        if not below:  # not drawn yet: deeper than the screen
            amounts, measure = self._scene.amounts, self._scene.measure
            drawn = [(amounts.total(child, measure), child) for child in amounts.paths.children[node]]
            total, widest = max(drawn, default=(0, node))
            if not total or any(box.depth > len(path) for box in self._boxes):
                return path
            return (*path, amounts.paths.functions[widest])
        widest = max(below, key=lambda box: box.end - box.start).node
        return (*path, self._scene.amounts.paths.functions[widest])

    def move_to(self, row: int) -> None:
        """To the first row, or down along the widest boxes."""
        self.choose(())
        self.move(row)

    def page(self, pages: int) -> None:
        self.move(pages * max(1, self._room(*self.size).boxes[1] - 1))

    def shift(self, columns: int) -> None:
        """To the boxes beside, a box for each press of a key."""
        if self._scene is not None:
            node = neighbour(self._boxes, self._node(self.chosen), columns // _SHIFT)
            self.choose(self._scene.amounts.paths.path(node))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if self._scene is None or self._look is None:
            return
        room = self._room(*self.size)
        across, rows = room.boxes
        line = event.y - (0 if room.left else rows) - 1
        if event.y >= rows or event.x >= across:
            in_table = event.x >= room.left and 0 <= line < len(self._listed)
            node = self._listed[line] if in_table else None
        else:
            top = max(len(self.chosen) + 1 - rows, 0)
            node = at(self._boxes, event.y + top, event.x, self._look.ink)
        if node is None:
            return
        path = self._scene.amounts.paths.path(node)
        if path == self.chosen and event.chain > 1:
            self.post_message(RowChosen(str(node)))
        self.choose(path)
