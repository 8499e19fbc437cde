"""``heaptop census``: the types of a heap as a table or as JSON."""

from __future__ import annotations

import argparse
import json
import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass

from heaptop.census.attributes import BAND_KEYS, BandKey, band_key
from heaptop.census.filters import Filter, parse_filter
from heaptop.census.history import Amount, History, Snapshot
from heaptop.census.units import format_bytes, format_count, format_duration_ns
from heaptop.cli.options import add_attach_options, add_json, add_target, attach_options, target_pid
from heaptop.cli.terminal import Progress, table
from heaptop.errors import AgentLost
from heaptop.protocol.messages import Failure
from heaptop.protocol.source import Attached, Ended, Event, Received, Source, Waiting

TOP = 20
"""Rows a person is shown unless they ask for another number."""

TURN = 0.1
"""Seconds between two looks at the clock while there is nothing else to do."""


class CensusCommand:
    """Count a process's live objects once, and print them by type, module or generation.

    heaptop census PID --by module --where 'type:Session,Cart size>1MB' --top 5
    """

    name = "census"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target(parser)
        parser.add_argument("--by", choices=tuple(BAND_KEYS), default="type", help="(default %(default)s)")
        parser.add_argument("--where", metavar="FILTER", default="", help="count only what passes")
        parser.add_argument(
            "--top",
            type=_row_count,
            metavar="N",
            help=f"rows to print, 0 for all (default {TOP}, --json: all)",
        )
        add_json(parser)
        add_attach_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.injector.api import attach_source

        # A wrong filter is said before anything is touched.
        where = parse_filter(args.where)
        taken = take_census(attach_source(target_pid(args), attach_options(args)), Progress())
        report = Report.of(taken, band_key(args.by), where)
        if args.json:
            print(json.dumps(report.as_json(args.top or None), indent=2))
        else:
            print("\n".join(report.as_lines(TOP if args.top is None else args.top or None)))
        return 0


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


@dataclass(frozen=True, slots=True)
class Report:
    """A census cut into rows, ready to be printed."""

    taken: Taken
    by: BandKey
    where: Filter
    rows: Sequence[tuple[str, Amount]]
    """By bytes, descending; equal ones by name."""
    total: Amount
    """Of all rows, those that are not printed too."""

    @classmethod
    def of(cls, taken: Taken, by: BandKey, where: Filter) -> Report:
        amounts: dict[str, Amount] = {}
        for cell in where.select(taken.snapshot):
            name = by.label(cell)
            before = amounts.get(name, Amount(0, 0))
            amounts[name] = Amount(before.count + cell.count, before.bytes + cell.bytes)
        rows = sorted(amounts.items(), key=lambda row: (-row[1].bytes, row[0]))
        return cls(taken, by, where, rows, _sum(rows))

    def as_json(self, top: int | None) -> dict[str, object]:
        """The shape of the README; times are milliseconds with their fractions."""
        census, attached = self.taken.snapshot.census, self.taken.attached
        return {
            "pid": attached.target.pid,
            "python": attached.hello.python,
            "mode": census.mode,
            "complete": census.complete,
            "cut": census.cut,
            "pause_ms": census.pause_ns / 1e6,
            "duration_ms": census.duration_ns / 1e6,
            "cpu_ms": census.cpu_ns / 1e6,
            "agent_bytes": census.agent_bytes,
            "sizeof_guessed": census.sizeof_guessed,
            "by": self.by.name,
            "where": str(self.where),
            "total": {"count": self.total.count, "bytes": self.total.bytes},
            "rows": [
                {"name": name, "count": amount.count, "bytes": amount.bytes}
                for name, amount in self.rows[:top]
            ],
        }

    def as_lines(self, top: int | None) -> list[str]:
        """A table, its total, and what the figures are worth."""
        shown, rest = self.rows[:top], self.rows[top:] if top else ()
        lines = [(name, amount) for name, amount in shown]
        if rest:
            lines.append((f"({len(rest)} more)", _sum(rest)))
        lines.append(("total", self.total))
        cells = [
            (format_count(amount.count), format_bytes(amount.bytes), self._share(amount), name)
            for name, amount in lines
        ]
        header = ("OBJECTS", "SIZE", "SHARE", self.by.title.upper())
        return [*table(header, cells, left=frozenset({3})), "", *self._remarks()]

    def _share(self, amount: Amount) -> str:
        return f"{100 * amount.bytes / self.total.bytes:.1f} %" if self.total.bytes else ""

    def _remarks(self) -> list[str]:
        census, target = self.taken.snapshot.census, self.taken.attached.target
        remarks = [f"{target.command} (pid {target.pid}, Python {self.taken.attached.hello.python})"]
        if self.where:
            remarks.append(f"only {self.where}")
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


def _sum(rows: Sequence[tuple[str, Amount]]) -> Amount:
    return Amount(sum(amount.count for _, amount in rows), sum(amount.bytes for _, amount in rows))


def _row_count(text: str) -> int:
    value = int(text)  # argparse turns a ValueError into its own message
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of rows")
    return value
