"""The line above the figures: what is shown, and behind it the crumbs, which say what was looked into to get there.

Views name the crumbs, and Esc removes the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heaptop.tui.text import clip

SEPARATOR: Final = "  ›  "  # Stands before each crumb: what Esc takes off, the last one first


def trail(crumbs: Sequence[str]) -> str:
    """The crumbs, as they are behind what is shown."""
    return "".join(f"{SEPARATOR}{crumb}" for crumb in crumbs)


def fit_trail(text: str, width: int) -> str:
    """A text with crumbs in so many columns: closer together, then without those in the middle, then cut there."""
    if len(text) <= width:
        return text
    first, *crumbs = text.split(SEPARATOR)
    if not crumbs:
        return clip(text, width)
    *between, last = crumbs
    shown = " › ".join([first, *between, last])
    while len(shown) > width and between:
        del between[0]
        shown = " › ".join([first, "…", *between, last])
    if len(shown) <= width:
        return shown
    # Both ends say what a name is, the first part what is shown of it: each has half of the room, if it needs that.
    middle = " › … › " if len(crumbs) > 1 else " › "
    room = width - len(middle)
    left = max(room - len(last), room // 2)
    first = clip(first, left)
    return clip(f"{first}{middle}{fit_middle(last, room - len(first))}", width)


def fit_middle(text: str, width: int) -> str:
    """Both ends of a text that is too long."""
    if len(text) <= width or width < 5:
        return clip(text, width)
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"
