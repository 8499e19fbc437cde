"""The command palette: keys by their descriptions, what the screen has besides, and the themes.

Both come from the tables that footer and help are made from. What does nothing at this moment is not in it, nor are the
keys that move the cursor. This module knows no view.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from heaptop.tui.palette import MONO, PALETTES
from heaptop.tui.table_screen import Command, TableScreen

if TYPE_CHECKING:
    from heaptop.tui.app import HeaptopApp


class HeaptopCommands(Provider):
    """What the palette offers on the screen it was opened from."""

    def _commands(self) -> Iterator[Command]:
        screen, app = self.screen, cast("HeaptopApp", self.app)
        if isinstance(screen, TableScreen):
            for key in screen.keys_now:
                again = key.everywhere and key.action == "leave"  # key q is that too
                if key.group != "Move" and key.action != "palette" and not again:
                    title = key.description[0].upper() + key.description[1:]
                    yield Command(title, f"key {app.look.key(key.shown)}", partial(screen.run_action, key.action))
            for command in screen.commands():
                yield Command(app.look.text(command.title), app.look.text(command.help), command.run)
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
