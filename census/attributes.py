"""The registry of band keys: the attributes by which a heap is cut into bands and rows.

This module never counts anything. A new key is one line in ``BAND_KEYS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from heaptop.census.history import Cell
from heaptop.errors import UsageError
from heaptop.protocol.messages import PERMANENT, UNTRACKED

_GENERATIONS: Final = {PERMANENT: "permanent", UNTRACKED: "untracked"}


def generation_label(generation: int) -> str:
    """``gen 0`` to ``gen 2``, ``permanent`` (after ``gc.freeze()``), ``untracked`` (not the collector's)."""
    return _GENERATIONS.get(generation) or f"gen {generation}"


@dataclass(frozen=True, slots=True)
class BandKey:
    """One attribute: its name on the command line, its heading, and the band a cell belongs to."""

    name: str
    title: str
    label: Callable[[Cell], str]


BAND_KEYS: Final[dict[str, BandKey]] = {
    key.name: key
    for key in (
        BandKey("type", "Type", lambda cell: cell.type.full),
        BandKey("module", "Module", lambda cell: cell.type.module),
        BandKey("generation", "Generation", lambda cell: generation_label(cell.generation)),
    )
}


def band_key(name: str) -> BandKey:
    """The key called ``name``.

    Raises:
        UsageError: there is none; lists those that are there.
    """
    try:
        return BAND_KEYS[name]
    except KeyError:
        raise UsageError(f"There is no band key {name!r}.", fix=f"Choose one of: {', '.join(BAND_KEYS)}.") from None
