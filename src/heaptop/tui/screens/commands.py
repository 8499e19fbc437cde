"""The command palette: keys by their descriptions, what the screen has besides, and the themes.

Both come from the tables that footer and help are made from. What does nothing at this moment is not in it, nor are the
keys that move the cursor. What is searched for are words, or how they begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from heaptop.tui.charts.palette import MONO, PALETTES
from heaptop.tui.keys.bindings import QUESTION
from heaptop.tui.screens.host import Host
from heaptop.tui.screens.table_screen import PaletteCommand, TableScreen

LEAST_PART: Final = 3  # Letters that are looked for also within words
_WORDS: Final = re.compile(r"\w[\w-]*")


class CommandMatch(NamedTuple):
    """How a command is what was searched for."""

    score: float
    places: list[tuple[int, int]]  # Of its title, what is meant


def match(query: str, command: PaletteCommand) -> CommandMatch | None:
    """None unless each word of the query is in it.

    The word of the footer comes before the first word of the title, that before the others, that before parts of words;
    the whole title comes before all.
    """
    asked = _WORDS.findall(query.lower())
    score, places = 0, []
    title = [(word[0].lower(), word.start()) for word in _WORDS.finditer(command.title)]
    for wanted in asked:
        best = 4 if wanted == command.word else 0
        for number, (word, begin) in enumerate(title):
            at = word.find(wanted)
            if at < 0 or (at and len(wanted) < LEAST_PART):
                continue
            best = max(best, 1 if at else 3 if number == 0 else 2)
            places.append((begin + at, begin + at + len(wanted)))
        if not best:
            return None
        score += best
    if len(asked) == len(title):
        score += 4
    return CommandMatch(score / (4 * len(asked) + 4), places) if asked else None


class HeaptopCommands(Provider):
    """What the palette offers on the screen it was opened from."""

    def _commands(self) -> Iterator[PaletteCommand]:
        screen, app = self.screen, cast("Host", self.app)
        if isinstance(screen, TableScreen):
            for key in screen.keys_now:
                again = key.everywhere and key.action == "leave"  # key q is that too
                if key.group not in ("Move", QUESTION) and key.action != "palette" and not again:
                    title = key.description[0].upper() + key.description[1:]
                    run = partial(screen.run_action, key.action)
                    yield PaletteCommand(title, f"key {app.look.key(key.shown)}", run, key.footer or key.word)
            for command in screen.commands():
                yield command._replace(title=app.look.text(command.title), help=app.look.text(command.help))
        if app.look.colourless:
            return
        for palette in PALETTES.values():
            if palette is not MONO:
                yield PaletteCommand(f"Theme: {palette.name}", palette.description, partial(app.use_palette, palette))

    async def discover(self) -> Hits:
        for command in self._commands():
            yield DiscoveryHit(command.title, command.run, help=command.help)

    async def search(self, query: str) -> Hits:
        for number, command in enumerate(self._commands()):
            found = match(query, command)
            if found is not None:
                title = Content(command.title)
                for begin, end in found.places:
                    title = title.stylize(self.match_style or "bold", begin, end)
                score = found.score - number / 10_000  # of those that match alike, in the order of the table
                yield Hit(score, title, command.run, text=command.title, help=command.help)
