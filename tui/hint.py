"""The line for whoever sees heaptop for the first time, from the table of keys.

This module never decides when it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heaptop.tui.bindings import Key
from heaptop.tui.widgets.footer import together

_WORDS: Final = (("help", "explains this"), ("view", "views"), ("drill", "looks in"), ("back", "back"), ("leave", ""))


def hint_words(keys: Sequence[Key], *, leaving: str) -> str:
    """``? explains this · 1-9 views · Enter looks in · …``; ``leaving`` says what that does."""
    said = []
    for action, words in _WORDS:
        shown = [key.shown for key in keys if key.action.partition("(")[0] == action and not key.everywhere]
        if shown:
            said.append(f"{together(shown)} {words or leaving}")
    return " · ".join(said)
