"""Text that is a target's, fit for a terminal. This module never shortens any."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text that others chose (a command line, the name of a type, a file or a thread) on one line, as long as it was.

    It may hold newlines, escape sequences and halves of surrogate pairs; a blank stands for each such character.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)
