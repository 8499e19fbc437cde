"""Looking into a band: what is shown after Enter, and what Esc goes back to. Pure; it never touches a widget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from heaptop.analysis.filters.attributes import NOT_DISTINGUISHED, band_key
from heaptop.analysis.filters.filters import EVERYTHING, Filter, origin_of, parse_filter
from heaptop.analysis.filters.predicates import NameTerm, Pattern
from heaptop.errors import UsageError

_INSIDE: Final = {
    "module": ("type",),
    "type": ("generation",),
    "generation": ("type",),
    "interpreter": ("type",),
    "producer-module": ("producer",),
    "producer": ("type",),
    "retainer": ("type",),
    "kind": ("type",),
}
"""What a band is cut by when it is looked into: the first that goes together with the filter."""
_TERMS: Final = {"producer": "site"}  # What the filter calls a key, where that is not its name


@dataclass(frozen=True, slots=True)
class Level:
    """One level: what bands are cut by, and what they are cut from."""

    key: str = "type"
    where: Filter = EVERYTHING
    given: Filter = field(default=EVERYTHING, kw_only=True)
    """The filter that it was entered with; any other one was typed there."""
    cursor: int = field(default=0, kw_only=True)  # Where the cursor was when the next level was entered


def added(before: Filter, after: Filter) -> str:
    """The part of a filter that another one has not."""
    text, known = str(after), str(before)
    return text[len(known) :].strip() if known and text.startswith(f"{known} ") else text


def exact_term(key: str, name: str) -> str:
    """The filter term for the band ``name`` of ``key``, and no other. A set of one retainer is told from those that it
    is one of."""
    if key == "generation":
        return f"generation:={name.removeprefix('gen ')}"
    if key == "interpreter" and name != NOT_DISTINGUISHED:
        return f"interpreter:={name.split()[1]}"
    term = str(NameTerm(_TERMS.get(key, key), (Pattern(name, "exact"),)))
    return f"{term} !retainer:+" if key == "retainer" and "+" not in name else term


def into(level: Level, name: str) -> Level | None:
    """The level inside a band; None when nothing is left to cut it by."""
    if level.key not in _INSIDE or level.where.lifetime is not None:
        return None
    where = level.where & parse_filter(exact_term(level.key, name))
    for key in _INSIDE[level.key]:
        try:
            origin_of(band_key(key), where)
        except UsageError:
            continue
        if _TERMS.get(key, key) not in where.attributes:
            return Level(key, where)
    return None
