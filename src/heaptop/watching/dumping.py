"""Writes a heap dump of a watched source: freezes the target, asks for the few answers that a dump cannot give later,
and has the pieces written as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from heaptop import __version__
from heaptop.analysis.snapshot.waste import MOST_ROWS
from heaptop.dumps.captured_source import CapturedSource
from heaptop.dumps.writer import DumpFile, DumpParts, asked_pieces
from heaptop.injector.inspect.process import start_time
from heaptop.protocol.dumped import DumpInfo
from heaptop.protocol.images import UNREACHED, WASTE, Blocks, Image, Question, Waste
from heaptop.protocol.messages import Message
from heaptop.watching.progress import ProgressReport, time_left
from heaptop.watching.snapshot_watch import SnapshotWatch

KEEP: Final = 1800.0  # Seconds that the snapshot may stay: a slow disk may need them
BLOCKS: Final = 10_000  # Stacks whose blocks no object has, at most


def write_dump(
    watch: SnapshotWatch,
    source: CapturedSource,
    file: DumpFile,
    values: str,
    progress: ProgressReport,
    *,
    sampled: float = 0.0,
    keep: float = KEEP,
) -> DumpInfo:
    """Write the heap of what ``watch`` watches, whose source is ``source``, where allocations were ``sampled`` for so
    many seconds. After ``keep`` seconds the snapshot ends. Errors: DumpFailed, and as :class:`SnapshotWatch`."""
    watch.ask_memory()
    image = watch.freeze(keep)
    wall = time.time()
    answers = list(_answers(watch, sampled=bool(sampled)))
    watch.wait_for_memory()
    info = _info(watch, image, wall, values, sampled)
    parts = DumpParts(source.state(), [*source.types, image], answers)
    since = time.monotonic()

    def show(done: int, total: int) -> None:
        passed = time.monotonic() - since
        if passed < keep:
            watch.renew()
        progress.show(f"writing the heap dump: {done / max(total, 1):.0%}{time_left(passed, done, total)}")

    file.write(info, parts, asked_pieces(info, watch.ask, show))
    progress.clear()
    return info


def started(pid: int) -> int:
    """Clock ticks from the machine's boot until a process started; 0 where it is gone."""
    try:
        return start_time(pid)
    except (OSError, ValueError, IndexError):
        return 0


def _info(watch: SnapshotWatch, image: Image, wall: float, values: str, sampled: float) -> DumpInfo:
    target = watch.attached.target
    python = watch.attached.hello.python
    return DumpInfo(
        heaptop=__version__,
        pid=target.pid,
        command=target.command,
        python=python,
        user=target.user,
        wall=wall,
        time_ns=image.time_ns,
        values=values,
        objects=image.objects,
        edges=image.edges,
        started=started(target.pid),
        sampled=sampled,
    )


def _answers(watch: SnapshotWatch, *, sampled: bool) -> Iterator[Message]:
    """What a dump does not hold by itself."""
    yield watch.ask(Question(WASTE, limit=MOST_ROWS), Waste)
    if sampled:
        yield watch.ask(Question(UNREACHED, limit=BLOCKS), Blocks)
