"""The app around the screens: it starts with a source or with the picker, and leaves nothing attached.

:func:`make_app` is the one place where an app is made, for the commands and for tests; its return value from ``run()``
is the error that the session ended with, or None.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, work
from textual.binding import BindingType
from textual.command import CommandPalette, Provider
from textual.geometry import Size
from textual.screen import Screen

from heaptop.choices import TIMES
from heaptop.errors import HeaptopError, UsageError
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import PALETTES, Palette, choose
from heaptop.tui.keys.bindings import HEAPTOP, bindings
from heaptop.tui.keys.remapping import Wanted, keymap, shown_as
from heaptop.tui.screens.opening import OpeningScreen
from heaptop.tui.state.messages import TabArrived
from heaptop.tui.state.opening import Opening
from heaptop.tui.terminal import contract
from heaptop.tui.widgets.too_small import HORIZONTAL, VERTICAL, is_too_small

if TYPE_CHECKING:
    from heaptop.protocol.source import Source
    from heaptop.tui.screens.host import Host
    from heaptop.tui.screens.live import LiveScreen
    from heaptop.tui.screens.picker import Picker
    from heaptop.tui.screens.several import Several
    from heaptop.tui.screens.tab_screen import TabScreen
    from heaptop.tui.screens.tabs import Tabs

if TYPE_CHECKING or contract.broken() is None:
    from heaptop.tui.terminal.terminal import TerminalApp
else:
    from heaptop.tui.terminal.plain import PlainApp as TerminalApp


LARGEST: Final = Size(400, 150)  # Of a screen that is served to a browser


def _commands() -> type[Provider]:
    from heaptop.tui.screens.commands import HeaptopCommands

    return HeaptopCommands


def load_screens() -> None:
    """Load what is behind the first frame. What fails here fails again, and is reported, where it is needed."""
    with contextlib.suppress(ImportError):
        import heaptop.tui.screens.live  # noqa: F401


def no_file(pid: int, path: str) -> bytes:
    """The content of a file that process ``pid`` knows by ``path``: nothing, where files are not to be read."""
    return b""


class HeaptopApp(TerminalApp["HeaptopError | None"], inherit_bindings=False):
    """``ctrl+c``, ``ctrl+q`` and ``ctrl+z`` work everywhere; every other key belongs to a screen.

    What screens are made of is loaded when the first of them is, so that the opening is seen before."""

    TITLE = "heaptop"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands}
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = bindings(HEAPTOP, everywhere=True)
    HORIZONTAL_BREAKPOINTS = HORIZONTAL
    VERTICAL_BREAKPOINTS = VERTICAL
    CSS = """
    * { transition: none; }
    CommandPalette SearchIcon { display: none; }
    CommandPalette CommandList { scrollbar-size-vertical: 0; }
    CommandPalette.-ascii #--input, CommandPalette.-ascii CommandList { border: none; }
    """

    def __init__(
        self,
        source: Source | None,
        picker: Picker | None,
        look: ChartStyle,
        user_code: Sequence[str] = (),
        several: Several | None = None,
        hinted: Callable[[], None] | None = None,
        opening: Opening | None = None,
        read_only: bool = False,
        files: Callable[[int, str], bytes] = no_file,
    ) -> None:
        # With NO_COLOR Textual would turn colours to greys; as an ANSI app it leaves them out.
        super().__init__(ansi_color=True if look.colourless else None)
        self.look = look
        self._source = source
        self._opening = opening
        self.files = files
        self._picker = picker
        self._several = several
        self.tabs: Tabs | None = None
        self._user_code = user_code
        self._hinted = hinted
        self.read_only = read_only
        """Somebody else's eyes and keys, far away: nothing is written on this machine, and sizes are bounded."""
        self.animation_level = "none"
        for palette in PALETTES.values():
            self.register_theme(palette.theme)
        self.theme = look.palette.theme.name

    def on_key(self, event: events.Key) -> None:
        # Its field gets keys a moment after a filter was opened; what was typed by then is text, no command (q quits).
        if isinstance(self.screen, OpeningScreen) or is_too_small(self.size):
            return
        from heaptop.tui.widgets.filter_bar import FilterBar

        bar = next(iter(self.screen.query(FilterBar)), None)
        if bar is not None and bar.editing and event.is_printable and event.character is not None:
            bar.insert(event.character)
            event.prevent_default()

    def on_mount(self) -> None:
        # By default SIGTERM would leave the terminal raw. A closed terminal (SIGHUP) needs no such care.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.action_leave)
        if self._picker is not None:
            from heaptop.tui.screens.picker import PickerScreen

            self.push_screen(PickerScreen(self._picker))
        if self._source is not None:
            self.open_live(self._source)
        if self._several is not None:
            self.open_several(self._several)

    # -- screens ---------------------------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        return OpeningScreen(self._opening, self.look, self._connect)

    def _connect(self, opening: Opening) -> None:
        """Load what a heap is shown with, which takes longer than the opening has taken, beside the event loop: key q
        leaves meanwhile, and nothing is attached to then."""
        threading.Thread(target=self._load, args=(opening,), name="heaptop-load", daemon=True).start()

    def _load(self, opening: Opening) -> None:
        load_screens()
        if not self.ending:
            with contextlib.suppress(RuntimeError):  # it has ended since
                self.call_from_thread(self.call_later, self._connect_loaded, opening)

    def _connect_loaded(self, opening: Opening) -> None:
        if self.ending:
            return
        try:
            self.open_live(opening.connect())
        except HeaptopError as error:
            self.exit(error)
        self.all_loaded()

    @property
    def _live(self) -> LiveScreen | None:
        if isinstance(self.screen, OpeningScreen):
            return None
        from heaptop.tui.screens.live import LiveScreen

        return next((screen for screen in self.screen_stack if isinstance(screen, LiveScreen)), None)

    def open_live(self, source: Source) -> None:
        """Show a source; the screen opens it."""
        from heaptop.protocol.source import Player
        from heaptop.tui.screens.live import LiveScreen

        if isinstance(source, Player):
            from heaptop.tui.screens.replay import ReplayScreen

            self.push_screen(ReplayScreen(source, user_code=self._user_code))
        elif source.target.file is not None:
            from heaptop.tui.screens.dump import DumpScreen

            self.push_screen(DumpScreen(source, source.target.file, user_code=self._user_code))
        else:
            self.push_screen(LiveScreen(source, way_back=self._picker is not None, user_code=self._user_code))

    def open_several(self, several: Several) -> None:
        """Show several processes, in tabs."""
        from heaptop.tui.screens.tabs import CHECK_SECONDS, Tabs

        self.tabs = tabs = Tabs(self, several, self.show_tab, self._user_code)
        self.push_screen(self._kept(tabs.open()))
        self.set_interval(1.0, tabs.advance)
        if tabs.look:
            self.set_interval(CHECK_SECONDS, self._find_others)

    def show_tab(self, screen: TabScreen) -> None:
        """In place of the tab that is shown."""
        self.switch_screen(self._kept(screen))

    def _kept(self, screen: TabScreen) -> TabScreen:
        """Installed, which keeps it when another one is shown."""
        if not self.is_screen_installed(screen):
            self.install_screen(screen, f"tab-{id(screen)}")
        return screen

    def on_tab_arrived(self, event: TabArrived) -> None:
        if self.tabs is not None:
            self.tabs.arrived(event.pid)

    @work(thread=True, exclusive=True, group="others", exit_on_error=False)
    def _find_others(self) -> None:
        tabs = self.tabs
        family_changes = tabs.family_changes() if tabs is not None else None
        if tabs is not None and family_changes is not None:
            self.call_from_thread(tabs.apply_changes, family_changes)

    def close_live(self, screen: LiveScreen) -> None:
        """Go back to the picker from a session that is over."""
        self.pop_screen()
        self.run_worker(screen.detach_and_wait, thread=True)

    def take_hint(self) -> bool:
        """Whether this is the first time: once, and it is remembered that it was."""
        hinted, self._hinted = self._hinted, None
        if hinted is not None:
            self.run_worker(hinted, thread=True)  # a home folder may be far away
        return hinted is not None

    def use_palette(self, palette: Palette) -> None:
        """Change the colours. Screens draw themselves again once Textual has worked the theme into its styles."""
        self.look = ChartStyle.of(palette, ascii_only=self.look.ascii_only, keys=self.look.keys, times=self.look.times)
        self.theme = palette.theme.name

    def action_command_palette(self) -> None:
        """The palette, with a prompt that every terminal can show."""
        if not (self.screen.is_modal or is_too_small(self.size)):
            classes = "-ascii" if self.look.ascii_only else None
            self.push_screen(CommandPalette(placeholder="Search for a command", classes=classes))

    # -- the terminal ----------------------------------------------------------------------------------------

    async def on_resize(self, event: events.Resize) -> None:
        """Bound it: a page may say its size among its keys too (``CSI 48 t``). Textual's own handler comes next."""
        if self.read_only:
            event.size = Size(min(event.size.width, LARGEST.width), min(event.size.height, LARGEST.height))
            event.virtual_size = event.container_size = event.size

    def save_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str:
        if self.read_only:
            raise UsageError("This page is read-only: nothing is saved on the server.")
        return super().save_screenshot(filename, path, time_format)

    def action_suspend(self) -> None:
        """ctrl+Z, as everywhere: the agent waits in the target meanwhile, and nothing is asked of it."""
        from heaptop.tui.screens.table_screen import TableScreen

        if not self.stop_process() and isinstance(self.screen, TableScreen):
            self.screen.show_notice("no shell can resume heaptop here: it is not suspended")

    def resumed(self, seconds: float) -> None:
        from heaptop.tui.screens.table_screen import TableScreen

        for screen in self.screen_stack:
            if isinstance(screen, TableScreen):
                screen.resumed(seconds)

    def lost(self) -> None:
        self.action_leave()

    # -- leaving ---------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        """Detach, wait for it without freezing the screen, and end."""
        tabs, live = self.tabs, self._live
        if live is None:
            self.exit(None)
        elif not live.state.leaving:
            held = live if tabs is None else tabs
            held.begin_leaving()
            self.run_worker(lambda: self._detach_and_wait(held), thread=True)

    def _detach_and_wait(self, held: LiveScreen | Tabs) -> None:
        error: HeaptopError | None = None
        try:
            error = held.detach_and_wait()
        finally:
            self.call_from_thread(self.exit, error)


def make_app(
    source: Source | None = None,
    *,
    ascii: bool = False,
    theme: str | None = None,
    picker: Picker | None = None,
    user_code: Sequence[str] = (),
    several: Several | None = None,
    hinted: Callable[[], None] | None = None,
    opening: Opening | None = None,
    keys: Wanted | None = None,
    times: str = TIMES[0],
    read_only: bool = False,
    files: Callable[[int, str], bytes] = no_file,
    environ: Mapping[str, str] = os.environ,
) -> HeaptopApp:
    """The app on ``source``, on what ``opening`` makes, on ``several`` processes, or with ``picker`` on a list of them.

    Args:
        user_code: folders and files whose code is the user's own, wherever they lie.
        hinted: what to call once the hint for new users was shown; None for those who know it.
        keys: other keys for some of the binding table, as :func:`heaptop.tui.keys.remapping.check` lets them pass.
        times: how moments are written, one of ``TIMES``.
        read_only: nothing can be saved, and the screen is at most :data:`LARGEST`: it is served to a browser.
        files: reads a file of a process, by its pid and the path that it knows it by; empty where that may not be.
        theme: a name of ``PALETTES``; without it HEAPTOP_THEME, and NO_COLOR over both.

    Raises:
        UsageError: there is no such theme.
    """
    if source is None and opening is None and picker is None and several is None:
        raise ValueError("an app needs a source or a picker")
    look = ChartStyle.of(choose(theme, environ), ascii_only=ascii, keys=shown_as(keys or {}), times=times)
    app = HeaptopApp(source, picker, look, user_code, several, hinted, opening, read_only, files)
    if keys:
        from heaptop.tui.views import SCREENS

        app.set_keymap(keymap(keys, SCREENS))
    return app


if TYPE_CHECKING:

    def _host(app: HeaptopApp) -> Host:
        """It is what screens take it for."""
        return app
