"""The help page's texts on figures: what each means in one to three sentences, and where it comes from, for
``docs/sources.md``.

Each view has a table of its own; :data:`ABOVE` is what is above all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class FigureSource:
    """A paper, or the program that is examined."""

    short: str
    full: str  # As `docs/sources.md` has it

    def at(self, place: str) -> Citation:
        """A place in it."""
        return Citation(self, place)


class Citation(NamedTuple):
    """The place in a source."""

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
CPYTHON: Final = FigureSource("CPython", "CPython: the source file that a figure comes from.")
SOURCES: Final = (NHC, BEE, MPROF, STATMEMPROF, SML, MAT, CPYTHON)


@dataclass(frozen=True, slots=True)
class FigureHelp:
    """A figure, or several that are read alike."""

    names: tuple[str, ...]  # Headings and marks as they are on the screen; one that ends in … is only how they begin
    text: str  # At most three short sentences
    cited: Citation | None = None  # None for what is only arithmetic. In docs/sources.md, not on screen.


ABOVE: Final = (
    FigureHelp(
        ("pid", "Python", "via …"),
        "The process, its Python version, and the backend: ptrace borrows one of its threads for a moment, pep768 "
        "is the debugger interface of Python 3.14, run is a program that heaptop started.",
    ),
    FigureHelp(
        ("● live", "○ attaching", "‖ paused", "waiting", "detaching…"),
        "Figures are current, about to come, paused by Space, or heaptop is detaching. While the display is paused, "
        "censuses continue; the number shows how many wait to be shown.",
    ),
    FigureHelp(
        ("○ exited", "○ detached", "○ agent lost"),
        "The program exited, heaptop detached, or heaptop's thread in it no longer answers. The figures are the "
        "last ones received.",
    ),
    FigureHelp(("○ not attached", "○ all ended"), "heaptop never attached, or all of several processes exited."),
    FigureHelp(
        ("heap dump", "core file", "○ reading"),
        "A file with the heap at one moment: nothing changes, and there is no process.",
    ),
    FigureHelp(
        ("redacted", "with values", "no lengths"),
        "redacted: the program's names were replaced. with values: the file has values of objects. no lengths: it "
        "has not even the lengths of containers and texts.",
    ),
    FigureHelp(
        ("opaque",),
        "For a core file: the bytes of objects of C types that may refer to other objects; heaptop does not know to "
        "which. Objects that only they keep alive may be missing.",
    ),
    FigureHelp(
        ("recording", "● rec"),
        "recording: a file is shown, at this moment of its length. ● rec: a file is being written, with its size.",
    ),
    FigureHelp(("… of … processes",), "How many of the attached processes are running; figures are sums over them."),
    FigureHelp(
        ("heap", "in … objects", "≈"),
        "The size of all objects by sys.getsizeof, with what they own natively, and their number, at the last "
        "census. ≈: the heap changed during the census, sizes were guessed, a part is missing, or it is a sum.",
        NHC.at("§1.1"),
    ),
    FigureHelp(
        ("*estimated*", "… sizes guessed"),
        "The number of objects whose __sizeof__ is written in Python. heaptop never calls it; their size is "
        "guessed from their type.",
    ),
    FigureHelp(("*partial*",), "Not everything could be counted; what is missing follows."),
    FigureHelp(
        ("census failed:", "no answer for …"),
        "No new figures, and why; the older ones stay. After four seconds without an answer, the time since the "
        "last one is shown.",
    ),
    FigureHelp(
        ("RSS", "(shared pages in each)"),
        "Resident memory of the process, from the kernel. It holds more than objects: code, free arena memory, "
        "memory of C libraries. In a sum, shared pages are counted in each process.",
    ),
    FigureHelp(
        ("first census: predicted pause", "huge pages"),
        "How long a clone for the first census pauses the program, predicted from its memory. The part in huge "
        "pages costs almost nothing. With few objects, heaptop stops the program for the census instead, which "
        "takes less time.",
    ),
    FigureHelp(
        ("pause", "mode"),
        "How long the last census paused the program, and its mode. clone: counted in a forked copy; stop: counted "
        "in the program while it is stopped; python: counted in slices between which the program runs.",
    ),
    FigureHelp(
        ("every", "throttled to", "census … in"),
        "How often a census is taken, how many there were, and how long the last one took. If a census takes long, "
        "heaptop takes fewer of them: every … (throttled).",
    ),
    FigureHelp(
        ("sampling 31/s  1/64 KiB",),
        "The number of samples in the last second, and the mean number of allocated bytes between two samples, "
        "which adapts to the program. If that interval is fixed (key r), it comes first. Samples are random: the "
        "larger a block, the likelier it is sampled.",
        STATMEMPROF.at("“Sampling allocations”"),
    ),
    FigureHelp(
        ("not sampled", "sampling off", "tracemalloc on", "… samples lost"),
        "Allocation sites are unknown, or come from tracemalloc. Lost samples could not be followed, so sampled "
        "figures are too low by as much.",
    ),
    FigureHelp(
        ("agent",),
        "CPU of heaptop's thread in the program and of its clones, as a share of one core, averaged over ten seconds.",
    ),
    FigureHelp(
        ("snapshot … old", "closes in", "in a file", "copied", "tables"),
        "The snapshot: its age, and when it closes by itself; the snapshot of a heap dump does not close. It costs "
        "the memory pages that the program changed since, and its own tables.",
    ),
)
"""The two lines at the top of the screen."""
