"""Looking into a band: what is shown after Enter, and what Esc goes back to. Pure; it never touches a widget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from heaptop.census.filters import EVERYTHING, Filter, parse_filter

_INSIDE: Final = {"module": "type", "type": "generation", "generation": "type"}
"""What a band is cut by when it is looked into."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level: what bands are cut by, and what they are cut from."""

    key: str = "type"
    where: Filter = EVERYTHING


def exact_term(key: str, name: str) -> str:
    """The filter term for the band ``name`` of ``key``, and no other where the filter's syntax can say so.

    A name with blanks or commas, which separate terms and alternatives, is asked for with ``?`` in their place.
    """
    if key == "generation":
        return f"generation:={name.removeprefix('gen ')}"
    asked = re.sub(r"[\s,]", "?", name)
    return f"{key}:={name}" if asked == name else f"{key}:{asked}"


def into(level: Level, name: str) -> Level | None:
    """The level inside a band; None when nothing is left to cut it by."""
    term = exact_term(level.key, name)
    pinned = {word.partition(":")[0] for word in f"{level.where} {term}".split() if ":" in word}
    key = _INSIDE[level.key]
    if key in pinned:
        return None
    return Level(key, parse_filter(f"{level.where} {term}"))
