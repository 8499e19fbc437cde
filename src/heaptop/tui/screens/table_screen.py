"""What every screen with a table does with the shared keys: moving, help, the palette, leaving."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import ClassVar, Final, NamedTuple, cast

from textual.screen import Screen

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.bindings import Key
from heaptop.tui.screens.host import Host
from heaptop.tui.state.control.status_line import FIRST, LAST
from heaptop.tui.terminal.ensured_resize import EnsuredResize
from heaptop.tui.terminal.on_time import OnTime
from heaptop.tui.widgets.cursor import Cursor
from heaptop.tui.widgets.filter_bar import FilterBar
from heaptop.tui.widgets.footer import Footer
from heaptop.tui.widgets.help_screen import HelpPage, HelpScreen
from heaptop.tui.widgets.too_small import ROOMY, TooSmall, is_too_small

NO_ROWS: Final = "no rows"
UNSEEN: Final = frozenset({"leave", "suspend", "redraw"})  # Actions that need no look at the screen
PREFIX_SECONDS: Final = 1.0  # Time for the second g of gg


class PaletteCommand(NamedTuple):
    """One line of the palette."""

    title: str
    help: str
    run: Callable[[], object]
    word: str = ""  # Found by this too: the word that the footer has for it


class TableScreen(OnTime, Screen[None]):
    """Base of the live screen and the picker."""

    KEYS: ClassVar[Sequence[Key]]
    AUTO_FOCUS = ""
    DEFAULT_CLASSES = " ".join(ROOMY)  # nearly always so: the first resize need not style all widgets once more
    DEFAULT_CSS = """
    TableScreen { layers: below above; overflow: hidden; }
    TableScreen.-narrow TooSmall, TableScreen.-low TooSmall { display: block; }
    TableScreen.paneled TooSmall { height: 2; margin: 0; }
    """

    _prefix_at = float("-inf")

    def on_mount(self) -> None:
        self.mount(TooSmall(ascii_only=self.look.ascii_only))
        self.app.theme_changed_signal.subscribe(self, lambda theme: self.restyle())
        self.screen_layout_refresh_signal.subscribe(self, self._laid_out)

    def on_resize(self) -> None:
        self.query_one(TooSmall).refresh()
        self.query_one(FilterBar).listen(not is_too_small(self.app.size))
        self._draw_words()

    def _laid_out(self, _: Screen[object]) -> None:
        for widget in self.walk_children():
            if isinstance(widget, EnsuredResize):
                widget.laid_out()

    def on_screen_resume(self) -> None:
        for notice in self.query(TooSmall):
            notice.refresh()

    @property
    def heaptop(self) -> Host:
        """The app."""
        return cast("Host", self.app)

    @property
    def look(self) -> ChartStyle:
        return self.heaptop.look

    @property
    def table(self) -> Cursor:
        """The table that the keys move in."""
        raise NotImplementedError

    def moved(self) -> None:
        """The cursor has moved."""

    def restyle(self) -> None:
        """The colours changed."""
        raise NotImplementedError

    @property
    def help_page(self) -> HelpPage:
        """What key ? shows."""
        raise NotImplementedError

    @property
    def keys_now(self) -> Sequence[Key]:
        """The keys that mean something at this moment."""
        return self.KEYS

    def commands(self) -> Iterator[PaletteCommand]:
        """What the palette offers beside them."""
        yield from ()

    def _draw_words(self) -> None:
        """The lines around the table: what any key may change."""
        raise NotImplementedError

    def show_keys(self, keys: Sequence[Key], said: str = "") -> None:
        """The footer: of these, what acts at this moment; or a text in their place."""
        self.query_one(Footer).show([key for key in keys if self.acts(key.action)], self.look, said)

    def acts(self, action: str) -> bool:
        """Whether a key may do this: what it changes can be seen, or need not be."""
        return action.partition("(")[0] in UNSEEN or not is_too_small(self.app.size)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.acts(action)

    def action_take_text(self) -> None:
        self.query_one(FilterBar).take()

    def action_drop_text(self) -> None:
        self.query_one(FilterBar).drop()

    def stuck(self, why: str) -> None:
        """A key has moved nothing, for this reason; empty where it has."""

    def action_row(self, rows: int) -> None:
        self._move(lambda: self.table.move(rows), LAST if rows > 0 else FIRST)

    def action_page(self, pages: int) -> None:
        self._move(lambda: self.table.page(pages), LAST if pages > 0 else FIRST)

    def action_shift(self, columns: int) -> None:
        self._move(lambda: self.table.shift(columns), "no more on this side")

    def action_top(self) -> None:
        self._move(lambda: self.table.move_to(-1), FIRST)

    def action_bottom(self) -> None:
        self._move(lambda: self.table.move_to(self.table.row_count), LAST)

    def _move(self, move: Callable[[], None], end: str) -> None:
        """``end``: why nothing may have moved, where there is anything to move in."""
        before = self.table.place
        move()
        self.moved()
        why = end if self.table.row_count else NO_ROWS
        self.stuck(why if self.table.place == before else "")

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

    def show_notice(self, text: str) -> None:
        """The outcome of a key."""
        raise NotImplementedError

    def resumed(self, seconds: float) -> None:
        """heaptop was stopped for so long; 0 where that is not known."""

    def action_suspend(self) -> None:
        self.heaptop.action_suspend()

    def action_redraw(self) -> None:
        self.heaptop.action_redraw()

    def action_leave(self) -> None:
        self.heaptop.action_leave()
