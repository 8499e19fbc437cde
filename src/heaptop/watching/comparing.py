"""Compares two snapshots, each of a heap dump or of a process."""

from __future__ import annotations

import time

from heaptop.analysis.reports.dumps_diff import ComparedHeap, HeapsDiff, difference, mark, sizes, unmarked
from heaptop.analysis.snapshot.asking import NotAnswered
from heaptop.dumps.source import DumpSource
from heaptop.protocol.source import Source
from heaptop.watching.snapshot_watch import SnapshotWatch


def compared_heap(watch: SnapshotWatch, source: Source, name: str) -> ComparedHeap:
    """Freeze it; ``source`` is the one that ``watch`` watches. Errors: as :class:`SnapshotWatch`."""
    image = watch.freeze()
    wall = source.dump.info.wall if isinstance(source, DumpSource) else time.time()
    ticks = watch.history.ticks
    rss = ticks[-1].rss if ticks else None
    return ComparedHeap(name, watch.attached.target.pid, wall, image, watch.types, rss)


def compare(
    before: SnapshotWatch, after: SnapshotWatch, heaps: tuple[ComparedHeap, ComparedHeap], by: str
) -> HeapsDiff:
    """Both are frozen. Errors: as :class:`SnapshotWatch`."""
    old, new = heaps
    held = before.run(sizes(by, old.types)), after.run(sizes(by, new.types))
    if by == "path" or not _is_one_process(before, after, heaps):
        return difference(*held)
    try:
        fresh = after.run(unmarked(before.run(mark(old.image)), by, new.types))
        gone = before.run(unmarked(after.run(mark(new.image)), by, old.types))
    except NotAnswered:
        return difference(*held)
    return difference(*held, fresh, gone)


def _is_one_process(before: SnapshotWatch, after: SnapshotWatch, heaps: tuple[ComparedHeap, ComparedHeap]) -> bool:
    """By its pid, command and Python, and a clock that went on."""
    one, other = before.attached, after.attached
    is_later = heaps[0].image.time_ns <= heaps[1].image.time_ns
    same = (one.target.pid, one.target.command, one.hello.python) == (
        other.target.pid,
        other.target.command,
        other.hello.python,
    )
    return is_later and same
