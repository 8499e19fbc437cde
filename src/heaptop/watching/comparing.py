"""Compares two snapshots, each of a heap dump or of a process."""

from __future__ import annotations

import time

from heaptop.analysis.reports.dumps_diff import ComparedHeap, HeapsDiff, difference, mark, sizes, unmarked
from heaptop.analysis.snapshot.asking import NotAnswered
from heaptop.dumps.source import DumpSource
from heaptop.protocol.source import Source
from heaptop.watching.dumping import started
from heaptop.watching.snapshot_watch import SnapshotWatch


def compared_heap(watch: SnapshotWatch, source: Source, name: str) -> ComparedHeap:
    """Freeze it; ``source`` is the one that ``watch`` watches. Errors: as :class:`SnapshotWatch`."""
    image = watch.freeze()
    pid = watch.attached.target.pid
    info = source.dump.info if isinstance(source, DumpSource) else None
    wall, begun = (time.time(), started(pid)) if info is None else (info.wall, info.started)
    ticks = watch.history.ticks
    rss = ticks[-1].rss if ticks else None
    return ComparedHeap(name, pid, begun, wall, image, watch.types, rss)


def compare(
    before: SnapshotWatch, after: SnapshotWatch, heaps: tuple[ComparedHeap, ComparedHeap], by: str
) -> HeapsDiff:
    """Both are frozen. Errors: as :class:`SnapshotWatch`."""
    old, new = heaps
    held = before.run(sizes(by, old.types)), after.run(sizes(by, new.types))
    if by == "path" or not _is_one_process(old, new):
        return difference(*held)
    try:
        fresh = after.run(unmarked(before.run(mark(old.image)), by, new.types))
        gone = before.run(unmarked(after.run(mark(new.image)), by, old.types))
    except NotAnswered:
        return difference(*held)
    return difference(*held, fresh, gone)


def _is_one_process(before: ComparedHeap, after: ComparedHeap) -> bool:
    """By its pid and when it started, and a clock that went on."""
    is_later = before.image.time_ns <= after.image.time_ns
    return is_later and before.started > 0 and (before.pid, before.started) == (after.pid, after.started)
