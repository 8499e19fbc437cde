"""What the figures and headings of view 6 mean, each with its source: its help page."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.lifetimes.lifetime_table import FEW
from heaptop.analysis.samples.estimate import INTERVAL
from heaptop.tui.keys.explaining import NHC, SML, STATMEMPROF, FigureHelp

EXPLAINED: Final = (
    FigureHelp(
        ("object survival", "% ≥…"),
        f"The share of allocations that reach that age, with the {INTERVAL} (43 35–51): a Kaplan-Meier "
        "estimate, in which live blocks count up to their age.",
        SML.at("§1.1, fig. 2"),
    ),
    FigureHelp(
        ("object mortality per MB", "at"),
        "Of the blocks that reached that age, the share that dies within the next megabyte. Smoothed, then "
        "differentiated; both axes are logarithmic.",
        SML.at("§1.1, §2.5, fig. 2"),
    ),
    FigureHelp(("≤",), "At the end of a mortality axis: smaller values are drawn there too."),
    FigureHelp(
        ("nursery mortality per MB",),
        "What a young generation of that size would gain from one more megabyte.",
        SML.at("§1.1"),
    ),
    FigureHelp(
        ("Dead", "Live", "≈Bytes dead", "≈Bytes live"),
        f"Dead and live samples, and the bytes they represent. Rows with fewer than {FEW} samples have no figures.",
        STATMEMPROF.at("“Sampling allocations”"),
    ),
    FigureHelp(
        ("≈Median", "≈Time", ">", "≈"),
        "The age that half of the bytes reach, in bytes allocated and in time at the mean rate so far. >: more "
        "than the oldest block.",
    ),
    FigureHelp(
        ("1 kB … 1 GB",),
        "Each row's survival over that range of ages, from all to none, on one common scale.",
        SML.at("fig. 5"),
    ),
    FigureHelp(
        ("Type", "Site", "Block size"),
        "What samples are grouped by (key b). heaptop keeps only sums of dead blocks, by type and by site, so "
        "filters apply to one of the two at a time.",
        SML.at("§3.2"),
    ),
    FigureHelp(
        ("Lifetime", "≈Mean", "≈Share", "≈Peak", "≈Now", "Trend"),
        "Bands by lifetime show, for every moment, how long the blocks that were live then lived in the end; "
        "live blocks count by age. Mean is over the chart; share is of that mean; peak is the maximum; now is "
        "the current value.",
        NHC.at("§2, figs. 8–10"),
    ),
    FigureHelp(
        ("over time, by age", "░▒▓█"),
        "Time runs across and age upwards, both in allocated bytes: the darker, the more bytes of that age "
        "were live. The line below the chart explains the shades.",
        SML.at("fig. 1"),
    ),
)
