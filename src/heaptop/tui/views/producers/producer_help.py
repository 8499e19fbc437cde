"""What the figures and headings of view 2 mean, each with its source: its help page."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.samples.estimate import INTERVAL
from heaptop.analysis.samples.handlers import NO_HANDLER
from heaptop.analysis.samples.producers import NO_SITE, NO_SITE_MEANS
from heaptop.tui.keys.explaining import BEE, CPYTHON, MPROF, STATMEMPROF, FigureHelp

EXPLAINED: Final = (
    FigureHelp(
        ("Site", "Function", "Module", "›"),
        "A site is the innermost line of your own code on the call stack (not a library's); in stacks › marks "
        "it. Functions and modules are distinguished by name and file.",
        BEE.at("§4.1"),
    ),
    FigureHelp(
        ("Live", "≈Live", "≈", "exact", "no samples", "0 samples"),
        "Bytes that were allocated there and are still live. ≈ marks a column of estimates (exact where every such "
        "block is sampled). No samples does not mean zero; memory that C code takes from malloc or PyMem_RawMalloc "
        "(such as zlib contexts) is never sampled.",
        STATMEMPROF.at("“Sampling allocations”"),
    ),
    FigureHelp(
        ("±", INTERVAL, "Samples", ">999"),
        f"± is the larger side of the {INTERVAL}, in percent of the figure; Samples is how many samples the figure "
        "is based on. A figure from few samples is uncertain; key r samples more.",
        STATMEMPROF.at("“Sampling allocations”"),
    ),
    FigureHelp(
        ("?",),
        "At least a tenth of the figure is of types with free lists: the site may be that of an earlier object "
        "at the same address.",
        CPYTHON.at("Objects/dictobject.c and others with free lists"),
    ),
    FigureHelp(
        ("≈Blocks", "Objects"),
        "Memory blocks; an object may have several. With tracemalloc they are objects, and figures are exact.",
    ),
    FigureHelp(
        ("≈Share", "Share", "≈Share", "█"),
        "Share of all live bytes; in a tree, of all that was sampled. Bars are relative to the largest row.",
    ),
    FigureHelp(
        ("≈Change…", "Change…", "Trend"),
        "Both cover the last 16 ticks: the heading shows how long that was. In a recording they also cover "
        "everything since the previous census. Change is allocated minus freed.",
    ),
    FigureHelp(
        ("≈Self", "Self", "Total", "≈Total"),
        "Self is what a function allocates itself, total includes its callees. Both are summed from whole call "
        "stacks, not estimated per callee.",
        BEE.at("§3.1.2 and §3.2.2, fig. 3"),
    ),
    FigureHelp(
        ("≈Alloc'd", "≈Freed"),
        "Allocated since sampling began, and how much of it was freed. The difference is live.",
        MPROF.at("the direct allocation table"),
    ),
    FigureHelp(
        ("≈% by size",),
        "Percent of its allocated bytes in small (s, up to 32 bytes), medium (m, 256), large (l, 2048) and "
        "extra large blocks (x), the largest share first.",
        MPROF.at("the direct allocation table"),
    ),
    FigureHelp(
        ("Call stack, innermost first", "Kept"),
        "The leak table: what each call stack allocated, freed and kept (not freed).",
        MPROF.at("the memory leak table"),
    ),
    FigureHelp(
        ("Handler…", NO_HANDLER),
        "The function of your code that a known server, framework or event loop called, found on the call stack: "
        "for a request, a Celery task, an asyncio task or callback, an executor or a thread. No handler: none of "
        "these called your code, or the stack was cut (key R).",
    ),
    FigureHelp(
        ("≈Part", "▸", "▾", "(self)"),
        "In the tree, the share of the line above; (self) is what a function allocates itself; functions that "
        "call each other are one line. ▸ opens with Enter, ▾ is open.",
        BEE.at("fig. 4"),
    ),
    FigureHelp(
        ("a › b", "… 7 library frames"),
        "Successive calls share one row if their figures are the same, or if all are frames of the standard library "
        "or of packages. Key u shows each on a row of its own, or folds them again.",
    ),
    FigureHelp(
        ("the icicle",),
        "A box is as wide as its share of the total; below it are its callees. Colours are your modules; libraries "
        "share one. The table beside it lists the boxes in the same order; › is the selected one in both.",
        MPROF.at("the allocation call graph"),
    ),
    FigureHelp(
        (NO_SITE,),
        f"What a census counted beyond the samples: {NO_SITE_MEANS}. It is the last row, and its share of all is "
        "above the table. It is a remainder of estimates, so no change is shown.",
    ),
    FigureHelp(
        ("Frames, innermost first; › is the site",),
        "The call stacks of one site, with source lines where they can be read; below, the types and sizes "
        "allocated there.",
        BEE.at("§4.1"),
    ),
    FigureHelp(
        ("Python line", "Called by"),
        "Native memory (heaptop run --native, key b): the innermost Python line, and the library and function that "
        "called malloc or mmap. Figures are live bytes, estimated from the samples of the preloaded library; they are "
        "read as often as those of view 9. Enter shows the call stack of the largest site.",
    ),
)
