"""What the figures and headings of view 1 mean, each with its source: its help page."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.samples.producers import NO_SITE, NO_SITE_MEANS
from heaptop.tui.keys.explaining import CPYTHON, NHC, FigureHelp

EXPLAINED: Final = (
    FigureHelp(
        ("the chart", "~"),
        "Steady bands are at the bottom, volatile bands on top, so that steady growth shows as a wedge. ~ is "
        "everything without a band of its own; a band that is never half a line high has no letter.",
        NHC.at("§4.4 and fig. 14"),
    ),
    FigureHelp(
        ("Objects", "Blocks", "Bytes", "≈", "0 samples"),
        "The number of live objects and their own size: with the native memory that they own (mmap, zlib, Arrow, "
        "Pillow), without the objects that they refer to. ≈: estimated from samples (0 samples does not mean "
        "zero), guessed where __sizeof__ is written in Python (heaptop never calls it), or a lower bound where a C "
        "library hides what it owns (lzma, ssl, sqlite3).",
        CPYTHON.at("Objects/object.c and each type's __sizeof__"),
    ),
    FigureHelp(("Share", "≈Share", "█"), "Share of the sum of all rows. Bars are relative to the largest row."),
    FigureHelp(
        ("Change…", "Trend"),
        "Change: since the previous census, as long ago as the heading says. Trend: the last censuses, each "
        "row scaled separately; the full height is at least 1 % of its largest value.",
    ),
    FigureHelp(
        ("Attributes",),
        "Memory that sys.getsizeof leaves out: attributes that are stored without a dict. By type, module and "
        "generation, no other figure includes it, and neither does heap in the header; in other groupings Bytes "
        "does.",
        CPYTHON.at("Objects/dictobject.c"),
    ),
    FigureHelp(("Type", "Module"), "The class of an object, and the module of that class.", NHC.at("§1.1")),
    FigureHelp(
        ("Generation",),
        "The collector's generation: gen 0 is new, gen 2 has survived. untracked: objects the collector need "
        "not visit; permanent: set aside by gc.freeze().",
        CPYTHON.at("Python/gc.c, before 3.13 Modules/gcmodule.c"),
    ),
    FigureHelp(
        ("Producer", "Producer's module", "Block size"),
        "By the line of your code that allocated a block, its module, or the block's size class, from samples "
        "since the attach. Counts are memory blocks, as in views 2 and 7.",
        NHC.at("§1.1"),
    ),
    FigureHelp(
        (NO_SITE,),
        f"What the last census counted beyond the samples: {NO_SITE_MEANS}. It is a remainder of estimates, and "
        "updated only when it is off by more than their interval, so no change is shown.",
    ),
    FigureHelp(
        ("Lifetime",),
        "A block's lifetime is known when it dies, so the past of these bands changes. Lifetimes are bytes "
        "allocated meanwhile, in kB and MB (1000); sizes are in KiB and MiB (1024).",
        NHC.at("§2, figs. 8–10"),
    ),
    FigureHelp(
        ("(more than…", "(smaller ones)"),
        "One row each: objects with more retainers than heaptop lists separately, and objects of the smallest "
        "retainers.",
    ),
    FigureHelp(
        ("Retainers",),
        "What keeps an object alive, by name: a module's global, a local, a cache. Objects with two retainers "
        "are in the band of the pair. While this is on screen, heaptop takes graph censuses (short snapshots "
        "of the object graph); their cost is shown above.",
        NHC.at("§3, fig. 13"),
    ),
    FigureHelp(
        ("Kind of root",),
        "The first kind of GC root that reaches an object: module, frame, runtime (the interpreter), c (an "
        "extension), none (garbage). It comes from the same snapshots.",
        NHC.at("§4.4"),
    ),
)
