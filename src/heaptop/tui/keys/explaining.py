"""What a help page says of figures: what each means in two sentences, and the paper or CPython file it comes from.

This module never draws, and knows no view: each has a table of its own; :data:`ABOVE` is what stands above all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class FigureSource:
    """A paper, or the program that is looked at."""

    short: str
    full: str
    """As a list of papers has it."""

    def at(self, place: str) -> Citation:
        """A place in it."""
        return Citation(self, place)


class Citation(NamedTuple):
    """Where in a source something stands."""

    source: FigureSource
    place: str

    def __str__(self) -> str:
        return f"{self.source.short}, {self.place}"


NHC: Final = FigureSource(
    "Runciman and Röjemo 1996", "Colin Runciman and Niklas Röjemo: New dimensions in heap profiling. 1996."
)
BEE: Final = FigureSource(
    "Serrano and Boehm 2000",
    "Manuel Serrano and Hans-J. Boehm: Understanding memory allocation of Scheme programs (KPROF, KBDB). 2000.",
)
MPROF: Final = FigureSource(
    "Zorn and Hilfinger 1988",
    "Benjamin Zorn and Paul Hilfinger: A memory allocation profiler for C and Lisp programs (mprof). 1988.",
)
STATMEMPROF: Final = FigureSource(
    "Jourdan 2016", "Jacques-Henri Jourdan: Statistically profiling memory in OCaml (statmemprof). 2016."
)
SML: Final = FigureSource(
    "Stefanović and Moss 1994",
    "Darko Stefanović and J. Eliot B. Moss: Characterisation of object behaviour in Standard ML of New Jersey. 1994.",
)
MAT: Final = FigureSource(
    "Eclipse MAT",
    "Eclipse Memory Analyzer: its component report, and the queries on collections and duplicate strings.",
)
CPYTHON: Final = FigureSource("CPython", "CPython: its source files, where a figure is what CPython itself says.")
SOURCES: Final = (NHC, BEE, MPROF, STATMEMPROF, SML, MAT, CPYTHON)


@dataclass(frozen=True, slots=True)
class FigureHelp:
    """A figure, or several that are read alike."""

    names: tuple[str, ...]
    """Headings and marks as they stand on the screen; one that ends in … is only how they begin."""
    text: str
    """At most two sentences."""
    cited: Citation | None = None
    """None for what is only arithmetic."""


ABOVE: Final = (
    FigureHelp(
        ("pid", "Python", "via …"),
        "Which process, the Python that runs in it, and how heaptop came in: ptrace borrows one of its threads for a "
        "moment, pep768 is the door that Python 3.14 has for this, run is a program that heaptop has started.",
    ),
    FigureHelp(
        ("● live", "○ attaching", "‖ paused", "waiting", "detaching…"),
        "Figures are new, or about to come, or held by Space, or heaptop is leaving. While they are held the process "
        "is counted on: so many censuses are waiting to be shown.",
    ),
    FigureHelp(
        ("○ exited", "○ detached", "○ agent lost"),
        "The program ended, heaptop left it, or heaptop's thread in it went silent. Figures are the last that there "
        "were.",
    ),
    FigureHelp(
        ("○ not attached", "○ all ended"),
        "heaptop never came in, or all of several processes ended.",
    ),
    FigureHelp(
        ("recording", "● rec"),
        "recording is a file that is shown, at this moment of so long a time. ● rec is the file that is written now, "
        "and its size.",
    ),
    FigureHelp(("… of … processes",), "How many live of those that were attached to; figures are sums over them."),
    FigureHelp(
        ("heap", "in … objects", "≈"),
        "What all objects take as sys.getsizeof has it, and how many there are, at the last census. ≈ where the heap "
        "moved while it was counted, sizes were guessed, a part is missing, or it is a sum.",
        NHC.at("§1.1"),
    ),
    FigureHelp(
        ("*approximate*", "… sizes guessed"),
        "So many objects have a __sizeof__ that is written in Python and never called. What stands in their type is "
        "taken for their size.",
    ),
    FigureHelp(("*partial*",), "Not all could be counted. Behind it stands what is missing."),
    FigureHelp(
        ("census failed:", "no answer for …"),
        "Nothing new came, and why; older figures stay. After four seconds without a word from the program it is said "
        "for how long.",
    ),
    FigureHelp(
        ("RSS", "(shared pages in each)"),
        "The process's resident memory as the kernel has it. It holds more than objects: code, free room in arenas, "
        "what C libraries keep; and in a sum, pages that processes share are counted in each.",
    ),
    FigureHelp(
        ("first count: pause about", "huge pages"),
        "How long the program will stand still for the first census, by how much memory it has. The part that is in "
        "huge pages takes next to no time.",
    ),
    FigureHelp(
        ("pause", "mode"),
        "How long the program stood still for the last census, and how it was counted. clone is in a frozen copy "
        "beside the program, stop in the program while it stands still, python in slices that take turns with it.",
    ),
    FigureHelp(
        ("every", "stretched to", "census … in"),
        "How often there is a census, how many there were, and how long the last one took. Where that is long they are "
        "further apart than was asked for, stretched to this, so that they cost the machine little.",
    ),
    FigureHelp(
        ("sampling",),
        "One sample for so many allocated bytes, at random, so that a block is met the surer the larger it is.",
        STATMEMPROF.at("“Sampling allocations”"),
    ),
    FigureHelp(
        ("not sampled", "sampling off", "tracemalloc on", "… samples lost"),
        "Nobody says who allocates what, or tracemalloc does in place of samples. Lost are samples that could not be "
        "followed: sampled figures are too low by them.",
    ),
    FigureHelp(
        ("agent",),
        "The part of one core that heaptop's thread in the program took of late, with the clones that it counted in.",
    ),
    FigureHelp(
        ("frozen … ago", "closes in", "copied", "tables"),
        "In the line of an open snapshot: its age, and when it closes by itself. It takes the memory that the program "
        "changed since, which had to be copied, and tables of its own.",
    ),
)
"""The two lines at the top of the screen."""


def papers(explained: Iterable[FigureHelp]) -> tuple[FigureSource, ...]:
    """The sources of these figures, each once."""
    cited = {one.cited.source for one in explained if one.cited is not None}
    return tuple(source for source in SOURCES if source in cited)
