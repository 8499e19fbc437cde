"""Bins of block sizes, and the four classes, as mprof has them (Zorn and Hilfinger, 1988).

A bin is a number: 1 … 1024 is that size in bytes, :data:`LARGE` and :data:`XLARGE` represent all above, and a negative
one for a whole class whose sizes were not kept apart.
"""

from __future__ import annotations

from typing import Final

CLASSES: Final = ("s", "m", "l", "x")  # Small (up to 32 bytes), medium (33 to 256), large (257 to 2048), extra large

CLASS_RANGES: Final = ("1–32", "33–256", "257–2048", "> 2048")

EXACT_UP_TO: Final = 1024
LARGE: Final = 1025  # 1025 to 2048 bytes
XLARGE: Final = 1026  # Above 2048 bytes


def bin_of(size: int) -> int:
    """The bin of a block of ``size`` bytes, 1 or more."""
    if size <= EXACT_UP_TO:
        return size
    return LARGE if size <= 2048 else XLARGE


def class_of(number: int) -> int:
    """The class that a bin lies in, as its position in :data:`CLASSES`."""
    if number < 0:
        return -1 - number
    if number <= 32:
        return 0
    if number <= 256:
        return 1
    return 2 if number <= LARGE else 3


def coarse(number: int) -> int:
    """The bin that represents the whole class of this one."""
    return whole_class(class_of(number))


def class_bin(size: int) -> int:
    """The bin that represents the whole class of a block of ``size`` bytes, 1 or more."""
    return coarse(bin_of(size))


def whole_class(kind: int) -> int:
    """The bin of a class whose sizes are not kept apart; ``kind`` is its position in :data:`CLASSES`."""
    return XLARGE if kind == 3 else -1 - kind


def bin_label(number: int) -> str:
    """``48``, ``1025–2048``, ``> 2048``; ``33–256`` for a class whose sizes were not kept apart."""
    if number < 0:
        return CLASS_RANGES[class_of(number)]
    if number <= EXACT_UP_TO:
        return str(number)
    return "1025–2048" if number == LARGE else "> 2048"
