"""What the figures and headings of view 4 mean, each with its source: its help page."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.samples.estimate import INTERVAL
from heaptop.protocol.findings import UNREACHED
from heaptop.tui.keys.explaining import BEE, NHC, STATMEMPROF, FigureHelp

EXPLAINED: Final = (
    FigureHelp(
        ("! L", "+ B", "? U", "- N", "!", "+", "?", "-"),
        "L leak, B backlog (a queue that outruns its consumer), U unclear, N no leak, judged by the survivors of "
        "each interval between two marks, and by bounds. With only one interval nothing is called a leak.",
        BEE.at("§4.2, fig. 7"),
    ),
    FigureHelp(
        ("≈Survivors",),
        "Survivors per interval between marks, the oldest on the left (estimate: addresses are reused, so some "
        "objects pass for older). A leak has survivors of every interval. A cache at its bound has survivors of the "
        "last interval, and seems to have a few older ones.",
        NHC.at("§2, fig. 3"),
    ),
    FigureHelp(
        ("#", "Held by"),
        "What holds the new objects of a suspect: the object that alone keeps them, or the start of the one "
        "known path to each (others may hold them too). # is the rank, the most severe first.",
        BEE.at("§4.2"),
    ),
    FigureHelp(
        ("Handler",),
        "The request, task or thread that allocated, by the call stacks: the function that a known server, "
        "framework or event loop called. If there are several, each has its share of the sampled bytes. View 2 "
        "groups by handler (key b).",
    ),
    FigureHelp(
        ("≥New", "New", "≥Bytes", "≥"),
        "How many objects of the type are new and still there, and the bytes of everything new in the same place, "
        "of any type (not their retained size: key w shows that). Both are lower bounds, because addresses are "
        "reused; between two marks they are estimates.",
        BEE.at("§4.2"),
    ),
    FigureHelp(
        (UNREACHED,),
        "A suspect that is not an object: memory from Python's allocators that was allocated at this site and "
        "belongs to no live object. C code lost a reference to it, or an extension holds it. The figures are "
        "estimated from samples.",
    ),
    FigureHelp(
        ("≥Born", "≥Died"),
        "How many are new since the mark and still there, and how many of those at the mark are gone. Both are "
        "lower bounds.",
    ),
    FigureHelp(
        ("Objects", "Bytes"),
        "Growth since the mark in objects and bytes; for a mark, its totals. Growth by censuses leaves out Attributes "
        "(view 1), so it is smaller than growth by type, which comes from marks.",
    ),
    FigureHelp(("Now", "Bytes now"), "All live objects at the last check, not only new ones."),
    FigureHelp(
        ("Rate", "Objects/s", "Bytes/s"),
        "Growth per second: for a suspect, in the last interval; for rows from censuses, since the mark. The bytes "
        "per second beside it (≈) are this rate times the mean size of the new objects there.",
    ),
    FigureHelp(
        ("≈Blocks", "≈Bytes", "≈Now", "≈Bytes now", "≈Alloc'd", "≈Freed", "±", "≈"),
        f"By site, figures are estimated from samples and count memory blocks. ± is the larger side of the {INTERVAL}.",
        STATMEMPROF.at("“Sampling allocations”"),
    ),
    FigureHelp(
        ("Type", "Module", "Site", "Retainer", "Allocated at"),
        "What grew: by class, module, the line of your code that allocated it, or retainer. ≈ before a site means "
        "indirect: the samples there are not of these objects, but of other new objects there, of the table of "
        "their container, or of memory that they reuse.",
        BEE.at("§4.1"),
    ),
    FigureHelp(
        ("Trend",),
        "The last censuses, each row scaled separately; the full height is at least 1 % of its largest value. It is "
        "updated without a check.",
    ),
    FigureHelp(
        ("Lint", "Before", "Threshold"),
        "A known kind of harmful growth: threads, cyclic garbage, caches without a bound. It is reported once it "
        "reaches the threshold in its row.",
    ),
    FigureHelp(
        ("Mark", "Compared", "When", "RSS", "Full GCs"),
        "A mark is a moment whose objects heaptop remembers, outside the program. Enter compares with this mark. t "
        "ends the comparison at this mark: heaptop then shows objects that are new between the two marks and still "
        "there.",
        BEE.at("§4.2"),
    ),
    FigureHelp(
        ("Suspect details; ▸ opens more, Esc back", "▸", "›"),
        "Everything known about one suspect: its call stack (› marks your line), its path from the root, and "
        "the evidence for the verdict. Enter on a ▸ line opens single objects.",
        BEE.at("§4.2, fig. 7"),
    ),
)
