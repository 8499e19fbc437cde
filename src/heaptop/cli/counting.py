"""Takes one census from a source and prints it: what ``heaptop census`` does once its arguments are read.

This module never reads the command line and never attaches by itself.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass

from heaptop.census.attributes import BandKey
from heaptop.census.filters import Filter
from heaptop.census.history import Amount, History, Snapshot
from heaptop.census.report import census_json, census_rows
from heaptop.census.table import TableRow
from heaptop.census.units import format_bytes, format_count, format_duration_ns
from heaptop.cli.terminal import Progress, table
from heaptop.errors import AgentLost
from heaptop.protocol.messages import Failure
from heaptop.protocol.source import Attached, Ended, Event, Received, Source, Waiting

TURN = 0.1
"""Seconds between two looks at the clock while there is nothing else to do."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One census, and of whom."""

    attached: Attached
    snapshot: Snapshot


def take_census(source: Source, progress: Progress) -> Taken:
    """Attach, wait for the first census, detach. Errors: whatever the source ended with.

    Ctrl+C takes an attach that still waits back, and leaves the target as it was.
    """
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    source.open(events.put)
    try:
        return _first_census(source, events, progress)
    except KeyboardInterrupt:
        source.cancel()
        raise
    finally:
        progress.clear()
        source.close()


def _first_census(source: Source, events: queue.SimpleQueue[Event], progress: Progress) -> Taken:
    history = History()
    attached: Attached | None = None
    counting_since = 0.0
    while True:
        try:
            event = events.get(timeout=TURN)
        except queue.Empty:
            if attached is not None:
                progress.show(f"counting the heap {time.monotonic() - counting_since:.1f} s")
            continue
        if isinstance(event, Waiting):
            progress.show(f"{event.phase} {event.seconds:.1f} s")
        elif isinstance(event, Attached):
            attached, counting_since = event, time.monotonic()
        elif isinstance(event, Ended):
            raise event.error or AgentLost(
                f"The agent in process {source.target.pid} ended before it had counted the heap."
            )
        elif isinstance(event, Received):
            if isinstance(event.message, Failure):
                raise AgentLost(f"The agent could not count the heap: {event.message.text}.")
            history.feed(event.message)
            if attached is not None and history.latest is not None:
                return Taken(attached, history.latest)


def as_json(taken: Taken, by: BandKey, where: Filter, top: int | None) -> dict[str, object]:
    """The document of ``--json``, with at most ``top`` rows (all for None)."""
    target, hello = taken.attached.target, taken.attached.hello
    return census_json(taken.snapshot, pid=target.pid, python=hello.python, by=by.name, where=where, top=top)


def as_lines(taken: Taken, by: BandKey, where: Filter, top: int | None) -> list[str]:
    """A table of at most ``top`` rows (all for None), its total, and what the figures are worth."""
    rows = census_rows(taken.snapshot, by.name, where)
    shown, rest = rows[:top], rows[top:] if top is not None else ()
    everything = _sum(rows)
    lines = [(row.name, Amount(row.count, row.bytes)) for row in shown]
    if rest:
        lines.append((f"({len(rest)} more)", _sum(rest)))
    lines.append(("total", everything))
    cells = [
        (format_count(amount.count), format_bytes(amount.bytes), _share(amount, everything), name)
        for name, amount in lines
    ]
    header = ("OBJECTS", "SIZE", "SHARE", by.title.upper())
    return [*table(header, cells, left=frozenset({3})), "", *_remarks(taken, where)]


def _sum(rows: Sequence[TableRow]) -> Amount:
    return Amount(sum(row.count for row in rows), sum(row.bytes for row in rows))


def _share(amount: Amount, everything: Amount) -> str:
    return f"{100 * amount.bytes / everything.bytes:.1f} %" if everything.bytes else ""


def _remarks(taken: Taken, where: Filter) -> list[str]:
    census, target = taken.snapshot.census, taken.attached.target
    remarks = [f"{target.command} (pid {target.pid}, Python {taken.attached.hello.python})"]
    if where:
        remarks.append(f"only {where}")
    remarks.append(
        f"mode {census.mode}, longest pause {format_duration_ns(census.pause_ns)}, "
        f"took {format_duration_ns(census.duration_ns)} and {format_duration_ns(census.cpu_ns)} of CPU, "
        f"agent {format_bytes(census.agent_bytes)}"
    )
    if not census.complete:
        remarks.append(f"partial: {census.cut}")
    if census.mode == "python":
        remarks.append("approximate: counted in slices, while the program went on and its heap moved")
    if census.sizeof_guessed:
        remarks.append(
            f"{format_count(census.sizeof_guessed)} objects have a __sizeof__ written in Python, which "
            "is never called: their basic size is counted"
        )
    return remarks
