"""What the figures and headings of view 3 mean, each with its source: its help page."""

from __future__ import annotations

from typing import Final

from heaptop.tui.keys.explaining import BEE, CPYTHON, NHC, STATMEMPROF, FigureHelp

EXPLAINED: Final = (
    FigureHelp(
        ("Retained",),
        "The retained sizes of the row's objects, added up: the bytes freed if each went alone. On a path, of the "
        "objects at its end. What several objects keep together is not included.",
    ),
    FigureHelp(("≤",), "An upper bound: some objects may be counted twice."),
    FigureHelp(
        ("Objects", "Share", "█"),
        "The number of objects, and their share of the bytes of all rows. Bars are relative to the largest row.",
    ),
    FigureHelp(
        ("Own bytes",),
        "Shallow size: the objects themselves, without what they refer to. View 1 may show less for a type: it "
        "counts at another moment, and leaves out what sys.getsizeof leaves out (its column Attributes).",
        CPYTHON.at("Objects/object.c and each type's __sizeof__"),
    ),
    FigureHelp(
        ("What keeps it", "Path", "▸", "▾"),
        "Each object has one path, a shortest one from the first kind of root that reaches it; there may be others. "
        "▸ opens with Enter, ▾ is open, v shows a list. Successive steps share one row if each is several objects "
        "and their figures are the same; key u shows each on a row of its own.",
        BEE.at("§4.1"),
    ),
    FigureHelp(
        ("Frees",),
        "Retained size of the one object at this step of the path, or of this retainer: everything that only "
        "it keeps. It can exceed Retained, and it is smaller where something else keeps the objects too.",
    ),
    FigureHelp(
        ("Retainers", "Retainer", "(more than…"),
        "A retainer set is everything that keeps an object: the nearest globals, class attributes, closures, "
        "caches and locals on all paths from the roots. Objects with more than N retainers are one row; R "
        "changes N, e excludes one, v groups by module.",
        NHC.at("§3, fig. 13"),
    ),
    FigureHelp(
        ("Kind", "Kind of root"),
        "The first kind of GC root that reaches it: module, frame, runtime (the interpreter), c (an "
        "extension), none (garbage).",
        NHC.at("§4.4"),
    ),
    FigureHelp(
        ("Allocated at", "Sampled", "≈ bytes", "≈"),
        "Objects whose blocks were sampled, by allocation site, and the bytes that they represent. The site of "
        "other objects, and of tables and buffers, is unknown.",
        STATMEMPROF.at("“Sampling allocations”"),
    ),
    FigureHelp(("Type", "Largest types"), "The class of the objects; of several, the largest first."),
    FigureHelp(
        ("Object", "Length", "Age", "Address"),
        "One object: address, length, and collector generation. gen 2 is the oldest.",
        BEE.at("§4.1"),
    ),
    FigureHelp(("new",), "New since the mark (key m): a lower bound, because addresses are reused.", BEE.at("§4.2")),
    FigureHelp(
        ("●", "tagged"),
        "Tagged with t. The line below the table shows what dropping all tagged objects would free, and how "
        "much of it is shared.",
    ),
)
