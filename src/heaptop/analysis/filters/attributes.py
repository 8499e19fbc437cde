"""The registry of band keys: the attributes by which a heap is cut into bands and rows.

A new key is one line in ``BAND_KEYS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from heaptop.analysis.heap.graph_history import GraphCell
from heaptop.analysis.heap.history import AnyCell
from heaptop.analysis.samples.moments import SiteCell
from heaptop.analysis.samples.sizes import CLASS_RANGES
from heaptop.errors import UsageError
from heaptop.protocol.messages import NO_INTERPRETER, PERMANENT, UNTRACKED

_GENERATIONS: Final = {PERMANENT: "permanent", UNTRACKED: "untracked"}


def generation_label(generation: int) -> str:
    """``gen 0`` to ``gen 2``, ``permanent`` (after ``gc.freeze()``), ``untracked`` (not the collector's)."""
    return _GENERATIONS.get(generation) or f"gen {generation}"


def interpreter_label(interpreter: int) -> str:
    """``interpreter 0 (main)``, ``interpreter 1``, and what represents those that are not distinguished."""
    if interpreter == NO_INTERPRETER:
        return NOT_DISTINGUISHED
    return "interpreter 0 (main)" if interpreter == 0 else f"interpreter {interpreter}"


class Origin(Enum):
    """Which figures know of an attribute."""

    ANY = "any"
    CENSUS = "counted objects"
    SAMPLES = "sampled blocks"
    KINDS = "graph censuses by kind of root"
    RETAINERS = "graph censuses by retainer set"


NOT_DISTINGUISHED: Final = "(not distinguished)"  # The band of what interpreter is not known
NOT_SAMPLED: Final = "(not sampled)"  # The band of a cell that no sample is behind
NOT_FROZEN: Final = "(not in a snapshot)"  # The band of a cell that no snapshot of the object graph is behind


def site_of(cell: AnyCell) -> str:
    """``shop/views.py:88 create_session``."""
    return cell.site if isinstance(cell, SiteCell) else NOT_SAMPLED


def producer_module_of(cell: AnyCell) -> str:
    """The module of its site."""
    return cell.module if isinstance(cell, SiteCell) else NOT_SAMPLED


def size_label(cell: AnyCell) -> str:
    """``33–256 bytes``; what is older than the sampling has no size."""
    if isinstance(cell, SiteCell):
        return f"{CLASS_RANGES[cell.size_class]} bytes" if cell.size_class >= 0 else cell.site
    return NOT_SAMPLED


def kind_of(cell: AnyCell) -> str:
    """By which sort of root it is kept: ``module``, ``frame``, ``runtime``, ``interpreter``, ``c``, ``none``."""
    return cell.kind if isinstance(cell, GraphCell) else NOT_FROZEN


def retainer_of(cell: AnyCell) -> str:
    """``module app.cache ._sessions``, and more joined by +."""
    return cell.retainer if isinstance(cell, GraphCell) else NOT_FROZEN


@dataclass(frozen=True, slots=True)
class BandKey:
    """One attribute: its name on the command line, its heading, and the band a cell belongs to."""

    name: str
    title: str
    label: Callable[[AnyCell], str]
    origin: Origin = Origin.ANY


BAND_KEYS: Final[dict[str, BandKey]] = {
    key.name: key
    for key in (
        BandKey("type", "Type", lambda cell: cell.type.full),
        BandKey("module", "Module", lambda cell: cell.type.module),
        BandKey("generation", "Generation", lambda cell: generation_label(cell.generation), Origin.CENSUS),
        BandKey("interpreter", "Interpreter", lambda cell: interpreter_label(cell.interpreter), Origin.CENSUS),
        BandKey("producer", "Producer", site_of, Origin.SAMPLES),
        BandKey("producer-module", "Producer's module", producer_module_of, Origin.SAMPLES),
        BandKey("size", "Block size", size_label, Origin.SAMPLES),
        BandKey("retainer", "Retainers", retainer_of, Origin.RETAINERS),
        BandKey("kind", "Kind of root", kind_of, Origin.KINDS),
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
        raise UsageError(f"Unknown grouping {name!r}.", fix=f"Choose one of: {', '.join(BAND_KEYS)}.") from None
