"""What every screen with a table does with the shared keys: moving, help, the palette, leaving.

This module never shows anything by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, cast

from textual.screen import Screen

from heaptop.tui.bindings import Key
from heaptop.tui.compositor import SpanCompositor
from heaptop.tui.look import Look
from heaptop.tui.widgets.cursor import Cursor
from heaptop.tui.widgets.help_screen import HelpScreen, Page

if TYPE_CHECKING:
    from heaptop.tui.app import HeaptopApp

PREFIX_SECONDS: Final = 1.0
"""Time for the second g of gg."""


class Command(NamedTuple):
    """One line of the palette."""

    title: str
    help: str
    run: Callable[[], object]


class TableScreen(Screen[None]):
    """Base of the live screen and the picker."""

    KEYS: ClassVar[Sequence[Key]]
    AUTO_FOCUS = ""

    _prefix_at = float("-inf")

    def __init__(self) -> None:
        super().__init__()
        self._compositor = SpanCompositor()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda theme: self.restyle())

    @property
    def heaptop(self) -> HeaptopApp:
        """The app, by its own type."""
        return cast("HeaptopApp", self.app)

    @property
    def look(self) -> Look:
        return self.heaptop.look

    @property
    def table(self) -> Cursor:
        """The table that the keys move in."""
        raise NotImplementedError

    def moved(self) -> None:
        """The cursor stands elsewhere."""

    def restyle(self) -> None:
        """The colours changed."""
        raise NotImplementedError

    @property
    def help_page(self) -> Page:
        """What key ? shows."""
        raise NotImplementedError

    @property
    def keys_now(self) -> Sequence[Key]:
        """The keys that mean something at this moment."""
        return self.KEYS

    def commands(self) -> Iterator[Command]:
        """What the palette offers beside them."""
        yield from ()

    def action_row(self, rows: int) -> None:
        self.table.move(rows)
        self.moved()

    def action_page(self, pages: int) -> None:
        self.table.page(pages)
        self.moved()

    def action_shift(self, columns: int) -> None:
        self.table.shift(columns)

    def action_top(self) -> None:
        self.table.move_to(0)
        self.moved()

    def action_bottom(self) -> None:
        self.table.move_to(self.table.row_count - 1)
        self.moved()

    def action_top_prefix(self) -> None:
        if monotonic() - self._prefix_at < PREFIX_SECONDS:
            self._prefix_at = float("-inf")
            self.action_top()
        else:
            self._prefix_at = monotonic()

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.help_page, self.look))

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_leave(self) -> None:
        self.heaptop.action_leave()
