"""The page behind `?`, written from the binding table: a key that works is on it, one that is on it works."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from heaptop.tui.bindings import Key, grouped
from heaptop.tui.look import Look
from heaptop.tui.widgets.too_small import TooSmall

LEFT = 40
"""Columns of the left half."""


def help_text(table: Sequence[Key], words: str, look: Look, first: str = "", *, narrow: bool = False) -> Text:
    """``first``, every key by group in two columns, on a narrow screen in one, and then ``words``: what the view's
    columns and marks mean."""
    groups = grouped(table)
    left, right = (groups, {}) if narrow else halves(groups)
    text = Text(f"{look.text(first)}\n\n" if first else "")
    for before, after in zip_longest(_lines(left, look), _lines(right, look), fillvalue=Text()):
        before.pad_right(LEFT - len(before))
        text.append_text(before).append_text(after).append("\n")
    text.append(f"\n{look.text(words)}")
    return text


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


def _lines(groups: dict[str, list[Key]], look: Look) -> list[Text]:
    plain = look.colourless or look.palette.theme.ansi
    strong = "bold" if plain else f"bold {look.palette.theme.accent}"
    lines = []
    for group, keys in groups.items():
        lines.append(Text(group, "bold"))
        lines += [Text.assemble((f"{look.key(key.shown):>7}", strong), f"  {key.description}") for key in keys]
    return lines


class HelpScreen(ModalScreen[None]):
    """Scrolls where the screen is low; Esc, q or ? closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", priority=True),
        Binding("j", "scroll(1)"),
        Binding("k", "scroll(-1)"),
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; layers: below above; }
    HelpScreen TooSmall { margin: 0; }
    HelpScreen.-narrow TooSmall, HelpScreen.-low TooSmall { display: block; }
    HelpScreen:ansi { background: ansi_default; }
    HelpScreen VerticalScroll {
        width: 80; max-width: 100%; height: auto; max-height: 100%; padding: 0 2; background: $surface;
        border: round $secondary; border-title-color: $accent; border-subtitle-color: $secondary;
        scrollbar-size-vertical: 0;
    }
    HelpScreen.-ascii VerticalScroll { border: ascii $secondary; }
    HelpScreen Static { width: 1fr; height: auto; }
    """

    def __init__(self, table: Sequence[Key], words: str, look: Look, *, first: str = "") -> None:
        super().__init__(classes="-ascii" if look.ascii_only else "")
        self._text = partial(help_text, table, words, look, first)

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = "Keys"
            page.border_subtitle = "j k scroll  Esc closes"
            yield Static(self._text(narrow=self._narrow))
        yield TooSmall(ascii_only=self.has_class("-ascii"))

    @property
    def _narrow(self) -> bool:
        return self.app.size.width < 2 * LEFT

    def on_resize(self) -> None:
        self.query_one(Static).update(self._text(narrow=self._narrow))

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)
