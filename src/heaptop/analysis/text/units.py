"""Numbers as people read and write them: bytes, counts, changes, rates, durations, sizes.

It formats for the eye and parses what was typed.

Units of bytes are the one thing here that is the same for a whole process and not an argument: a person chooses them
once, before anything is written (:func:`using`), and some hundred places write bytes. What a program reads has numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from heaptop.choices import UNITS
from heaptop.errors import UsageError


@dataclass(frozen=True, slots=True)
class ByteUnits:
    """A way to write bytes."""

    base: int
    names: tuple[str, ...]
    steps: tuple[int, ...]  # Between the labels of an axis, in one unit; the last is one of the next


_BINARY: Final = ByteUnits(
    1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"), (1, 2, 5, 10, 20, 50, 100, 200, 512, 1024)
)
_DECIMAL: Final = ByteUnits(1000, ("B", "kB", "MB", "GB", "TB", "PB", "EB"), (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000))
BYTE_UNITS: Final = dict(zip(UNITS, (_BINARY, _DECIMAL), strict=True))
_used = _BINARY

COUNT_UNITS: Final = ("", "k", "M", "G", "T", "P", "E")
_SIZE: Final = re.compile(r"(\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})\s*([kmgtpe]?)(i?)(b?)", re.IGNORECASE | re.ASCII)


def used() -> ByteUnits:
    """The units that bytes are written in."""
    return _used


@contextmanager
def using(name: str) -> Iterator[None]:
    """Write bytes in these units, and afterwards as before: around a whole command, and in tests."""
    global _used  # noqa: PLW0603  the one setting of the process, see the module
    before, _used = _used, BYTE_UNITS[name]
    try:
        yield
    finally:
        _used = before


def _scaled(value: float, base: int, last: int) -> tuple[str, int]:
    """Three significant digits, and the power of ``base`` they represent.

    What would round up to the next unit is written in it: 1023.99 KiB is ``1.00 MiB``, never ``1024 KiB``.
    """
    power = 0
    while power < last and round(value) >= base:
        value /= base
        power += 1
    if power == 0 or round(value, 1) >= 100:
        return f"{value:.0f}", power
    return (f"{value:.1f}" if round(value, 2) >= 10 else f"{value:.2f}"), power


def format_bytes(number: int) -> str:
    """``123 B``, ``1.21 KiB``, ``12.3 MiB``: at most 8 columns up to 2⁶³, and one more below 0. Or ``12.9 MB``:
    :func:`using`."""
    sign = "-" if number < 0 else ""
    digits, power = _scaled(abs(number), _used.base, len(_used.names) - 1)
    return f"{sign}{digits} {_used.names[power]}"


def format_count(number: int) -> str:
    """``12,345`` while it fits in six digits, then ``1.23 M``: at most 8 columns with its sign."""
    if abs(number) < 1_000_000:
        return f"{number:,}"
    sign = "-" if number < 0 else ""
    digits, power = _scaled(abs(number), 1000, len(COUNT_UNITS) - 1)
    return f"{sign}{digits} {COUNT_UNITS[power]}"


def format_number(number: int, what: str) -> str:
    """``1 sample``, ``2 samples``."""
    return f"{format_count(number)} {what}{'s' * (number != 1)}"


def format_share(part: int, whole: int) -> str:
    """``12.3 %``; empty of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else ""


def format_change(number: int | None, *, bytes_: bool = True) -> str:
    """A signed figure: ``+1.21 KiB``, ``-3``; ``0`` for no change, ``new`` for None (nothing was there)."""
    if number is None:
        return "new"
    if number == 0:
        return "0"
    text = format_bytes(abs(number)) if bytes_ else format_count(abs(number))
    return ("+" if number > 0 else "-") + text


def filtered_words(rows: int = 0, size: int | None = None, *, what: str = "row", about: str = "") -> str:
    """What a filter hides, in the same words everywhere: ``328 rows, 45.2 MiB filtered out``, ``nothing filtered out``.

    Args:
        rows: that are not shown at all; others may be shown in part.
        size: bytes that are not shown; None where they are not known.
        what: what a row is, in the singular.
        about: is before what is estimated.
    """
    parts = [format_number(rows, what)] if rows > 0 else []
    parts += [about + format_bytes(size)] if size is not None and size > 0 else []
    return f"{', '.join(parts) or 'nothing'} filtered out"


def format_rate(rate: float, *, bytes_: bool = False) -> str:
    """``1,234/s``, ``1.2/s``, and what is slow by the minute or the hour: ``3.0/min``, ``1.8/h``; of bytes
    ``1.21 KiB/s``, ``18 B/min``. Above 0."""
    if bytes_:
        for unit, seconds in (("s", 1), ("min", 60)):
            if rate * seconds >= 1:
                return f"{format_bytes(round(rate * seconds))}/{unit}"
        return f"{format_bytes(round(rate * 3600))}/h"
    if rate >= 10:
        return f"{rate:,.0f}/s"
    if rate >= 0.1:
        return f"{rate:.1f}/s"
    if rate * 60 >= 0.05:  # what is less would be 0.0
        return f"{rate * 60:.1f}/min"
    return f"{rate * 3600:.1f}/h"


def format_duration_ns(nanoseconds: int) -> str:
    """``850 ns``, ``12.3 µs``, ``4.56 ms``, ``7.89 s``, then ``2m 05s`` and ``3h 07m``."""
    sign = "-" if nanoseconds < 0 else ""
    left = abs(nanoseconds)
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)):
        value = left / size
        if round(value) < (1000 if unit != "s" else 60):
            digits = f"{value:.0f}" if size == 1 or round(value) >= 100 else f"{value:.3g}"
            return f"{sign}{digits} {unit}"
    seconds = round(left / 1_000_000_000)
    if seconds < 3600:
        return f"{sign}{seconds // 60}m {seconds % 60:02d}s"
    return f"{sign}{seconds // 3600}h {seconds % 3600 // 60:02d}m"


def parse_size(text: str) -> int:
    """Bytes of ``123``, ``10kB``, ``1.5M``, ``1MiB``: k, M, G … are powers of 1000, Ki, Mi, Gi … of 1024.

    Raises:
        UsageError: the text is not a size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found[3] and not found[2]):
        raise UsageError(f"{text!r} is not a size.", fix="Write a size as 500, 10kB, 1.5MB or 1MiB.")
    power = "kmgtpe".index(found[2].lower()) + 1 if found[2] else 0
    return int(Fraction(found[1]) * (1024 if found[3] else 1000) ** power)


def fit_command(command: str, width: int | None = None) -> str:
    """A command line with what matters in front: the interpreter without its folder, then the program.

    With a ``width`` it is too long for, the folders of all absolute paths in it give way too: ``…/shop.py``.
    """
    first, *rest = command.split(" ")
    words = [first.rpartition("/")[2] or first, *rest]
    if width is not None and len(" ".join(words)) > width:
        words = [f"…/{word.rpartition('/')[2]}" if word.count("/") > 1 and word[0] == "/" else word for word in words]
    return " ".join(words)
