"""Text in a number of columns: what is left out, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final


def clip(text: str, width: int, *, shift: int = 0, keep_tail: bool = False) -> str:
    """The part of ``text`` that fits in ``width`` columns, an ellipsis where something is cut.

    Without ``shift`` it is the beginning, or with ``keep_tail`` the end: of several words also the first, which names
    its sort (``module …app .cache``), and of a path what :func:`elide` leaves. ``shift`` moves the part to
    the right.
    """
    over = len(text) - width
    if over <= 0:
        return text
    if width < 2:
        return text[: max(width, 0)]
    if keep_tail and not shift:
        if _PATH.match(text):
            return elide(text, width)
        kind, blank, rest = text.partition(" ")
        if kind and blank and 3 * len(kind) < 2 * width:  # what it is, or where, stands first
            return f"{kind} …{rest[len(rest) - (width - len(kind) - 2) :]}"
    start = min(max((over if keep_tail else 0) + shift, 0), over)
    part = text[start : start + width]
    if start > 0:
        part = "…" + part[1:]
    if start < over:
        part = part[:-1] + "…"
    return part


def clip_parts(text: str, width: int) -> str:
    """Parts with `` · `` between them: as many whole ones as fit, and … for the others; a first part that is too long
    is cut."""
    if len(text) <= width:
        return text
    fitting = ""
    for part in text.split(PARTS):
        longer = f"{fitting}{PARTS}{part}" if fitting else part
        if len(longer) + len(MORE) > width:
            break
        fitting = longer
    return fitting + MORE if fitting else clip(text, width)


PARTS: Final = " · "
MORE: Final = f"{PARTS}…"
_PATH: Final = re.compile(r"([^\s/]*/)((?:[^\s/]*/)*)(\S+)(.*)", re.DOTALL)
"""Its first folder, the others, its name (and line), and what is behind it."""


def elide(text: str, width: int) -> str:
    """A path in ``width`` columns, with folders left out of its middle: ``shop/…/views.py:88 create_session``.

    What is kept longest is the file's name with its line, then what is behind it, then the first folder.
    """
    found = _PATH.fullmatch(text)
    if found is None or len(text) <= width:
        return clip(text, width)
    first, others, name, rest = found.groups()
    folders = others.split("/")[:-1]
    while folders:
        folders = folders[1:]
        shorter = f"{first}…/{''.join(f'{folder}/' for folder in folders)}{name}{rest}"
        if len(shorter) <= width:
            return shorter
    if len(name) + 3 <= width:
        return clip(f"…/{name}{rest}", width)
    if len(name) == width:
        return name
    return clip(name, width, shift=len(name)) if len(name) > width else clip(f"{name}{rest}", width)


def together(shown: Sequence[str]) -> str:
    """``<>``; of digits ``0-9`` or ``1-3,5-9,0``, and of two ``1 2``."""
    all_of_them = "".join(shown)
    if len(shown) < 2 or not all_of_them.isdigit():
        return all_of_them
    if len(set(all_of_them)) == 10:
        return "0-9"
    if len(shown) == 2:
        return " ".join(shown)
    runs: list[str] = []
    for digit in all_of_them:
        if runs and int(digit) == int(runs[-1][-1]) + 1:
            runs[-1] += digit
        else:
            runs.append(digit)
    return ",".join(run if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
