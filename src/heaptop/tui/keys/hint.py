"""The line for whoever sees heaptop for the first time, from the table of keys: for a while, or for some keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from heaptop.tui.keys.bindings import Key
from heaptop.tui.text import together

SECONDS, KEYS = 30.0, 6
"""How long it stays: so many seconds, or as many keys."""
_WORDS: Final = (
    ("view('producers')", "allocation sites"),
    ("view('leaks')", "leaks"),
    ("view('memory')", "RSS"),
    ("help", "views, keys"),
    ("leave", ""),
)


def hint_words(keys: Sequence[Key], *, leaving: str) -> str:
    """``2 allocation sites · 4 leaks · …``; ``leaving`` says what that does."""
    said = []
    for action, words in _WORDS:
        shown = [key.shown for key in keys if key.action == action and not key.everywhere]
        if shown:
            said.append(f"{together(shown)} {words or leaving}")
    return " · ".join(said)


class Hint:
    """Whether it is shown, from when it is asked for first."""

    def __init__(self) -> None:
        self._until: float | None = None
        """When it goes; None before it came."""
        self._keys = 0
        """That were pressed under it."""

    def is_on(self, is_new: Callable[[], bool]) -> bool:
        """``is_new``: whether this person sees heaptop for the first time; asked once."""
        if self._until is None:
            self._until = monotonic() + SECONDS if is_new() else float("-inf")
        return monotonic() < self._until and self._keys < KEYS

    def press(self, key: str) -> bool:
        """A key was pressed; whether it may have ended this. Who opens the help needs it no longer."""
        if self._until is None or monotonic() >= self._until or self._keys >= KEYS:
            return False
        self._keys += 1 if key != "question_mark" else KEYS
        return True
