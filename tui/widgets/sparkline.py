"""A row of figures as a row of small blocks, as a pure function. It never scales two rows alike: shape, not size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_ASCII: Final = "_.-=+*#@"


def sparkline(values: Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """The last ``width`` values between their own minimum and maximum, padded on the left to ``width`` columns.

    A flat row is drawn low, so that a rise catches the eye and steadiness does not.
    """
    marks = _ASCII if ascii_only else _BLOCKS
    shown = values[-width:] if width > 0 else ()
    if not shown:
        return " " * width
    low, high = min(shown), max(shown)
    steps = len(marks) - 1
    scale = steps / (high - low) if high > low else 0.0
    return "".join(marks[round((value - low) * scale)] for value in shown).rjust(width)
