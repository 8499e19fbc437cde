"""Figures as small blocks, as pure functions: a row of them as a sparkline, one of them as a bar.

Each sparkline has a scale of its own: it shows shape and not size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_ASCII: Final = "_.-=+*#@"
LEAST_SHARE: Final = 0.01
_LEFT_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def sparkline(values: Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """The last ``width`` values between their own minimum and maximum, padded on the left to ``width`` columns.

    A flat row is drawn low, so that a rise catches the eye and steadiness does not. The full height is at least
    :data:`LEAST_SHARE` of the largest value: a few bytes more are no rise.
    """
    marks = _ASCII if ascii_only else _BLOCKS
    shown = values[-width:] if width > 0 else ()
    if not shown:
        return " " * width
    low, high = min(shown), max(shown)
    steps = len(marks) - 1
    height = max(high - low, LEAST_SHARE * max(abs(high), abs(low)))
    scale = steps / height if height else 0.0
    return "".join(marks[round((value - low) * scale)] for value in shown).rjust(width)


def meter(share: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar of ``share`` (0 to 1, beyond is cut) of ``width`` columns, padded on the right to ``width``."""
    part = min(max(share, 0.0), 1.0)
    if ascii_only:
        return ("#" * round(part * width)).ljust(width)
    whole, eighths = divmod(round(part * width * 8), 8)
    return ("█" * whole + (_LEFT_EIGHTHS[eighths] if eighths else "")).ljust(width)
