"""What a help page says of figures: what each means in two sentences, and the paper or CPython file it comes from.

This module never draws, and knows no view: each has a table of its own; :data:`ABOVE` is what stands above all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Source:
    """A paper, or the program that is looked at."""

    short: str
    full: str
    """As a list of papers has it."""

    def at(self, place: str) -> Citation:
        """A place in it."""
        return Citation(self, place)


class Citation(NamedTuple):
    """Where in a source something stands."""

    source: Source
    place: str

    def __str__(self) -> str:
        return f"{self.source.short}, {self.place}"


NHC: Final = Source(
    "Runciman and Röjemo 1996", "Colin Runciman and Niklas Röjemo: New dimensions in heap profiling. 1996."
)
BEE: Final = Source(
    "Serrano and Boehm 2000",
    "Manuel Serrano and Hans-J. Boehm: Understanding memory allocation of Scheme programs (KPROF, KBDB). 2000.",
)
MPROF: Final = Source(
    "Zorn and Hilfinger 1988",
    "Benjamin Zorn and Paul Hilfinger: A memory allocation profiler for C and Lisp programs (mprof). 1988.",
)
STATMEMPROF: Final = Source(
    "Jourdan 2016", "Jacques-Henri Jourdan: Statistically profiling memory in OCaml (statmemprof). 2016."
)
SML: Final = Source(
    "Stefanović and Moss 1994",
    "Darko Stefanović and J. Eliot B. Moss: Characterisation of object behaviour in Standard ML of New Jersey. 1994.",
)
CPYTHON: Final = Source("CPython", "CPython: its source files, where a figure is what CPython itself says.")
SOURCES: Final = (NHC, BEE, MPROF, STATMEMPROF, SML, CPYTHON)


@dataclass(frozen=True, slots=True)
class Explained:
    """A figure, or several that are read alike."""

    names: tuple[str, ...]
    """Headings and marks as they stand on the screen; one that ends in … is only how they begin."""
    text: str
    """At most two sentences."""
    cited: Citation | None = None
    """None for what is only arithmetic."""


ABOVE: Final = (
    Explained(
        ("heap", "in … objects", "*approximate*", "*partial*"),
        "All that the last census counted: what each object says it takes, and how many there are. With ≈ the heap "
        "moved while it was counted, sizes were guessed, or a part is missing; the words in stars say which.",
        NHC.at("§1.1"),
    ),
    Explained(
        ("RSS",),
        "The process's resident memory as the kernel has it. It holds more than objects: code, free room in arenas, "
        "and what C libraries keep.",
    ),
    Explained(
        ("pause", "mode", "every", "census … in"),
        "What the last census cost: how long the program stood still, in which way it was counted (clone is a frozen "
        "copy, stopped stands still, slices and python take turns with it), how often, and how long in all.",
    ),
    Explained(
        ("sampling", "agent"),
        "One sample for so many allocated bytes, at random, so that a block is met the surer the larger it is. agent "
        "is the part of one core that heaptop's thread in the program took.",
        STATMEMPROF.at("“Sampling allocations”"),
    ),
)
"""The two lines at the top of the screen."""


def papers(explained: Iterable[Explained]) -> tuple[Source, ...]:
    """The sources of these figures, each once."""
    cited = {one.cited.source for one in explained if one.cited is not None}
    return tuple(source for source in SOURCES if source in cited)
