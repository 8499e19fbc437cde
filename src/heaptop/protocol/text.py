"""Text that others chose, made fit for a terminal, a file and one line."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 4096  # Characters of a name or a command line that are shown

_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What ``str.isprintable`` lets through and no terminal draws: joiners, fillers, variation selectors."""


def printable(text: str, most: int | None = None) -> str:
    """Text that others chose (a command line, the name of a type, a file or a thread) on one line.

    A blank replaces each control character (C0, DEL, C1), line separator, bidirectional override, zero-width
    character and half of a surrogate pair, so the length stays. What is longer than ``most`` ends in ``…``.
    """
    if most is not None and len(text) > most:
        text = text[: most - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    text = _INVISIBLE.sub(" ", text)
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)
