"""The command palette: every key of the binding table by its description, and the themes.

This module never adds a command that has no key, but for themes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from heaptop.tui.bindings import QUESTION
from heaptop.tui.palette import MONO, PALETTES
from heaptop.tui.table_screen import TableScreen

if TYPE_CHECKING:
    from heaptop.tui.app import HeaptopApp


class Command(NamedTuple):
    """One line of the palette."""

    title: str
    help: str
    run: Callable[[], object]


class HeaptopCommands(Provider):
    """What the palette offers on the screen it was opened from."""

    def _commands(self) -> Iterator[Command]:
        screen, app = self.screen, cast("HeaptopApp", self.app)
        if isinstance(screen, TableScreen):
            for key in screen.KEYS:
                if key.group not in ("Move", QUESTION) and key.action != "palette" and not key.everywhere:
                    title = key.description[0].upper() + key.description[1:]
                    yield Command(title, f"key {app.look.key(key.shown)}", partial(screen.run_action, key.action))
        if app.look.colourless:
            return
        for palette in PALETTES.values():
            if palette is not MONO:
                run = partial(app.use_palette, palette)
                yield Command(f"Theme: {palette.name}", palette.description, run)

    async def discover(self) -> Hits:
        for command in self._commands():
            yield DiscoveryHit(command.title, command.run, help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in self._commands():
            score = matcher.match(command.title)
            if score > 0:
                yield Hit(score, matcher.highlight(command.title), command.run, help=command.help)
