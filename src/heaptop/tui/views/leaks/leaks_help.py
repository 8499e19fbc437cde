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
        "objects pass for older). A leak has survivors of every interval; a cache at its bound has those of "
        "the last, and seems to have a few older ones.",
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
        "Of which request, task or thread the call stacks are: the function that a known server, framework or event "
        "loop called. Of several, each one's share of the bytes sampled. View 2 groups by it (key b).",
    ),
    FigureHelp(
        ("≥New", "New", "≥Bytes", "≥"),
        "How many objects of the type are new and still there, and the bytes of everything new in the same "
        "place, of any type (not their retained size: see w). Both are lower bounds, because addresses are "
        "reused; between two marks they are estimates.",
        BEE.at("§4.2"),
    ),
    FigureHelp(
        (UNREACHED,),
        "A suspect that is no object: memory that Python's allocators gave at this site and that no live object "
        "has. C code lost a reference to it, or an extension holds it. Estimates from samples.",
    ),
    FigureHelp(
        ("≥Born", "≥Died"),
        "How many are new since the mark and still there, and how many of those at the mark are gone. Both are "
        "lower bounds.",
    ),
    FigureHelp(
        ("Objects", "Bytes"),
        "Growth since the mark in objects and bytes; for a mark, its totals. From censuses these leave out "
        "Attributes (view 1), so they are smaller than by type.",
    ),
    FigureHelp(("Now", "Bytes now"), "All live objects at the last check, not only new ones."),
    FigureHelp(
        ("Rate", "Objects/s", "Bytes/s"),
        "Growth per second: of a suspect in the last interval, by censuses since the mark. The bytes per "
        "second beside it (≈) are that times the mean size of what is new there.",
    ),
    FigureHelp(
        ("≈Blocks", "≈Bytes", "≈Now", "≈Bytes now", "≈Alloc'd", "≈Freed", "±", "≈"),
        f"By site, figures are estimated from samples and count memory blocks. ± is the larger side of the {INTERVAL}.",
        STATMEMPROF.at("“Sampling allocations”"),
    ),
    FigureHelp(
        ("Type", "Module", "Site", "Retainer", "Allocated at"),
        "What grew: by class, module, the line of your code that allocated it, or retainer. ≈ before a site "
        "(indirect): what was sampled there is not these objects, but other new objects there, the table of "
        "their container, or the memory they reuse.",
        BEE.at("§4.1"),
    ),
    FigureHelp(
        ("Trend",),
        "The last censuses, each row scaled separately; the full height is at least 1 % of its largest value. It is "
        "updated without a check.",
    ),
    FigureHelp(
        ("Lint", "Before", "Threshold"),
        "A known kind of harmful growth: threads, cyclic garbage, caches without a bound. It is reported from "
        "the threshold in its row.",
    ),
    FigureHelp(
        ("Mark", "Compared", "When", "RSS", "Full GCs"),
        "A mark is a moment whose objects heaptop remembers, outside the program. Enter compares with it; t "
        "shows what came between two marks and is still there.",
        BEE.at("§4.2"),
    ),
    FigureHelp(
        ("Suspect details; ▸ opens more, Esc back", "▸", "›"),
        "Everything known about one suspect: its call stack (› marks your line), its path from the root, and "
        "the evidence for the verdict. Enter on a ▸ line opens single objects.",
        BEE.at("§4.2, fig. 7"),
    ),
)
