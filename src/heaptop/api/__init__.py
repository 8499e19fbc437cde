"""heaptop from a program: counts, snapshots, leak hunts and recordings of running Python processes, as plain data.

    from heaptop import api

    with api.attach(4711) as process:
        print(process.census().rows[:3])
        print(process.hunt(seconds=30).verdict)

The room stands on ``watching``, ``injector`` and ``recordings``; it draws and prints nothing, and ``tui`` never meets
it. Errors are those of :mod:`heaptop.errors`; all derive from HeaptopError. Methods block; :mod:`heaptop.api.aio` has
the same for asyncio. What is exported here follows semantic versioning: within a major version names, parameters and
fields stay, and new ones may come.
"""

from heaptop.analysis.reports.moments_diff import Changed, MomentSizes
from heaptop.analysis.rss.memory import MemoryByUse, MemoryRow
from heaptop.analysis.snapshot.retained import RetainedRow
from heaptop.analysis.snapshot.waste import SortTotal, WasteGroup, WasteReport
from heaptop.api.figures import AllocationSite, CensusRow, CensusTable, Dominator, KeptBy, RootPath
from heaptop.api.opened import OpenedRecording
from heaptop.api.opened import open_recording as open
from heaptop.api.process import Process, Rounds, attach
from heaptop.api.snapshot import HeapSnapshot
from heaptop.errors import HeaptopError
from heaptop.protocol.findings import Findings, GrownRow, Growth, HandlerShare, Lint, MarkFacts, Suspect

__all__ = [
    "AllocationSite",
    "CensusRow",
    "CensusTable",
    "Changed",
    "Dominator",
    "Findings",
    "GrownRow",
    "Growth",
    "HandlerShare",
    "HeapSnapshot",
    "HeaptopError",
    "KeptBy",
    "Lint",
    "MarkFacts",
    "MemoryByUse",
    "MemoryRow",
    "MomentSizes",
    "OpenedRecording",
    "Process",
    "RetainedRow",
    "RootPath",
    "Rounds",
    "SortTotal",
    "Suspect",
    "WasteGroup",
    "WasteReport",
    "attach",
    "open",
]
