"""The page behind `?`: the keys of this view, what its figures mean, then every other key of the binding table.

It is given a :class:`HelpPage`. A key that works is on it, one that is on it works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from textwrap import wrap
from typing import ClassVar, Final

from rich.text import Text
from textual.binding import Binding, BindingType

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.bindings import Key, grouped
from heaptop.tui.keys.explaining import FigureHelp
from heaptop.tui.widgets.scroll_page import ScrollPage

LEFT: Final = 39
"""Columns of the left half of the keys."""
WIDTH: Final = 77
"""Columns of the text, where there are so many."""
KEY: Final = 7
"""Columns of a key, with the gap behind it."""
MARGIN: Final = 3
"""Columns of the border, and of the gap beside it."""
_GLUE: Final = "\N{NO-BREAK SPACE}"
NAMES: Final = 15
"""Columns of the names of figures; longer ones have a line of their own."""


@dataclass(frozen=True)
class HelpPage:
    """The parts of a help page, in its order."""

    title: str
    keys: Sequence[Key]
    """All of the screen."""
    first: str = ""
    """What must be known of this session."""
    shows: str = ""
    explains: Sequence[FigureHelp] = ()
    words: str = ""
    """What else there is to say."""
    here: Sequence[str] = ()
    """Actions of the keys that mean something here, the most needed first."""
    means: Mapping[str, str] = field(default_factory=dict)
    """What some of them do here."""
    above: Sequence[FigureHelp] = ()
    """What is above every view."""


def help_text(page: HelpPage, look: ChartStyle, width: int = WIDTH) -> Text:
    """What the view shows, the names of all views, its keys, what must be known of this session, its figures, filters,
    all other keys in two columns where there is room, and the header's figures. Where figures come from is in
    ``docs/sources.md``."""
    here = keys_here(page)
    text = Text()
    if page.shows:
        text.append(look.text(_filled(page.shows, width)) + "\n\n")
    if views := _views(page, look):
        text.append(_filled(views, width).replace(_GLUE, " ") + "\n\n")
    for key in here:
        first, *more = wrap(page.means.get(key.action, key.description), width - KEY)
        text.append_text(_key_line(key, first, look)).append("\n")
        text.append("".join(f"{'':{KEY}}{look.text(line)}\n" for line in more))
    if page.first:
        text.append("\nIn this session\n" if here else "In this session\n", "bold")
        text.append(look.text(_filled(page.first, width)) + "\n")
    if page.explains:
        text.append("\nWhat the figures mean\n" if here else "", "bold")
    for one in page.explains:
        text.append_text(_explained(one, look, width))
    if page.words:
        text.append("\n" + "\n\n".join(look.text(_filled(part, width)) for part in page.words.split("\n\n")) + "\n")
    text.append("\n")
    groups = grouped(key for key in page.keys if key not in here)
    left, right = halves(groups) if width >= WIDTH else (groups, {})
    for before, after in zip_longest(_lines(left, look), _lines(right, look), fillvalue=Text()):
        before.pad_right(LEFT - len(before))
        text.append_text(before).append_text(after).append("\n")
    if page.above:
        text.append("\nAbove every view\n", "bold")
        for one in page.above:
            text.append_text(_explained(one, look, width))
    text.rstrip()
    return text


def _views(page: HelpPage, look: ChartStyle) -> str:
    """``Views: 1 Bands  2 Producers`` …, a number and its name held together; empty for a screen that has none."""
    names = (f"{look.key(key.shown)} {key.word}" for key in page.keys if key.group == "Views" and key.word)
    found = "  ".join(name.replace(" ", _GLUE) for name in names)
    return f"Views: {found}" if found else ""


def keys_here(page: HelpPage) -> list[Key]:
    """The keys that mean something on this view, in its order; each action's once."""
    by_action = {key.action: key for key in reversed(page.keys)}
    wanted = (action.partition("=")[0] for action in page.here)
    return [by_action[action] for action in wanted if action in by_action]


def halves(groups: dict[str, list[Key]]) -> tuple[dict[str, list[Key]], dict[str, list[Key]]]:
    """The groups in two columns of about the same height, none torn apart."""
    total = sum(len(keys) + 1 for keys in groups.values())
    left: dict[str, list[Key]] = {}
    right: dict[str, list[Key]] = {}
    height = 0
    for group, keys in groups.items():
        (left if height < total / 2 - 1 else right)[group] = keys
        height += len(keys) + 1
    return left, right


def _filled(text: str, width: int) -> str:
    return "\n".join(line for part in text.split("\n") for line in wrap(part, width) or [""])


def _explained(one: FigureHelp, look: ChartStyle, width: int) -> Text:
    """Its names on the left, beside them what they mean."""
    names = "  ".join(look.text(name) for name in one.names)
    text = Text()
    if len(names) > NAMES - 2:
        text.append(names + "\n", "bold")
        names = ""
    for line in wrap(look.text(one.text), width - NAMES):
        text.append(f"{names:<{NAMES}}", "bold").append(line + "\n")
        names = ""
    return text


def _strong(look: ChartStyle) -> str:
    plain = look.colourless or look.palette.theme.ansi
    return "bold" if plain else f"bold {look.palette.theme.accent}"


def _key_line(key: Key, description: str, look: ChartStyle) -> Text:
    return Text.assemble((f"{look.key(key.shown):>{KEY - 1}}", _strong(look)), f" {look.text(description)}")


def _lines(groups: dict[str, list[Key]], look: ChartStyle) -> list[Text]:
    lines = []
    for group, keys in groups.items():
        lines.append(Text(group, "bold"))
        lines += [_key_line(key, key.description, look) for key in keys]
    return lines


class HelpScreen(ScrollPage):
    """Esc, q or ? closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "dismiss", priority=True)]
    DEFAULT_CSS = """
    HelpScreen VerticalScroll { width: 80; padding: 0 0 0 1; }
    """

    def __init__(self, page: HelpPage, look: ChartStyle) -> None:
        super().__init__(page.title, look)
        self.page = page

    @property
    def text(self) -> Text:
        return help_text(self.page, self._look, min(self.app.size.width - MARGIN, WIDTH))
