"""Takes one census from a source and prints it: what ``heaptop census`` does once its arguments are read.

This module never reads the command line and never attaches by itself.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from heaptop.census.attributes import BandKey
from heaptop.census.filters import Filter
from heaptop.census.history import Amount, History, Snapshot
from heaptop.census.report import census_json, census_rows
from heaptop.census.sampling import Sampling
from heaptop.census.table import TableRow
from heaptop.census.units import format_bytes, format_count, format_duration_ns
from heaptop.cli.leaving import say_what_stays
from heaptop.cli.terminal import Progress, table
from heaptop.errors import AgentLost, HeaptopError, PauseTooLong, SamplerRefused
from heaptop.protocol.messages import Decision, Failure, Memory, Message, Sampler
from heaptop.protocol.source import Attached, Ended, Event, Forecast, Received, Source, Waiting

MOST_WAITING = 64
"""Events of a tick, about: while more wait to be taken, no other tick is asked for."""
TURN = 0.1
"""Seconds between two looks at the clock while there is nothing else to do."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One census, and of whom."""

    attached: Attached
    snapshot: Snapshot
    memory: Memory | None = None
    """What memory is used for, where that was asked for too."""


def take_census(
    source: Source, progress: Progress, *, memory: bool = False, sampling: Sampling | None = None, seconds: float = 0.0
) -> Taken:
    """Attach, wait for the first census, and then for what memory is used for if that is asked for, detach.

    With ``sampling`` allocations are sampled into it for so many ``seconds``, and the census is made after that.

    Errors: whatever the source ended with; SamplerRefused.
    Ctrl+C takes an attach that still waits back, and leaves the target as it was.
    """
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    source.open(events.put, lambda: events.qsize() > MOST_WAITING)
    watch = _Watch(source, events, progress, sampling)
    try:
        taken = watch.census()
        if sampling is not None:
            watch.sample(seconds)
            taken = watch.census()
        return replace(taken, memory=watch.memory()) if memory else taken
    except KeyboardInterrupt:
        source.cancel()
        raise
    finally:
        progress.clear()
        source.close()
        watch.say_what_stays()


class _Watch:
    """Takes a source's events one by one, and raises what a command cannot go on with."""

    def __init__(
        self, source: Source, events: queue.SimpleQueue[Event], progress: Progress, sampling: Sampling | None
    ) -> None:
        self._source = source
        self._events = events
        self._progress = progress
        self._sampling = sampling
        self._history = History()
        self._attached: Attached | None = None
        self._seen: Snapshot | None = None
        self._foreseen = ""
        self._asked = "count the heap"

    def census(self) -> Taken:
        """Wait for one that was not returned before."""
        since = time.monotonic()
        while True:
            if self._next() is None and self._attached is not None:
                self._progress.show(f"counting the heap {time.monotonic() - since:.1f} s{self._foreseen}")
            latest = self._history.latest
            if self._attached is not None and latest is not None and latest is not self._seen:
                self._seen = latest
                return Taken(self._attached, latest)

    def sample(self, seconds: float) -> None:
        """Let the time pass, take all that was said meanwhile, then ask for a census."""
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < seconds or not self._events.empty():
            self._next()
            self._progress.show(f"sampling allocations {passed:.1f} of {seconds:g} s")
        self._seen = self._history.latest
        self._source.census_now()

    def memory(self) -> Memory:
        """Ask what memory is used for, and wait for the answer."""
        since = time.monotonic()
        self._asked = "say what memory is used for"
        self._source.memory_now()
        while True:
            message = self._next()
            if isinstance(message, Memory):
                return message
            if message is None:
                self._progress.show(f"looking at what memory is used for {time.monotonic() - since:.1f} s")

    def say_what_stays(self) -> None:
        """Say on stderr what could not be taken out of the target, once the source is closed."""
        while not self._events.empty():
            event = self._events.get()
            if isinstance(event, Ended):
                say_what_stays(event, self._source.target.pid)

    def _next(self) -> Message | None:
        """The next message; None when there was none for a moment, or another event."""
        try:
            event = self._events.get(timeout=TURN)
        except queue.Empty:
            return None
        if isinstance(event, Waiting):
            self._progress.show(f"{event.phase} {event.seconds:.1f} s")
        elif isinstance(event, Attached):
            self._attached = event
        elif isinstance(event, Forecast):
            self._foreseen = f" ({forecast_words(event)})"
        elif isinstance(event, Ended):
            pid = self._source.target.pid
            raise event.error or AgentLost(f"The agent in process {pid} ended before it had counted the heap.")
        elif isinstance(event, Received):
            self._take(event.message)
            return event.message
        return None

    def _take(self, message: Message) -> None:
        pid = self._source.target.pid
        if isinstance(message, Failure):
            raise AgentLost(
                f"The agent could not {self._asked}: {message.text}.",
                why=f"heaptop leaves process {pid}, which goes on.",
                fix=f"Try again, or count in slices: `heaptop census {pid} --mode python`.",
            )
        if isinstance(message, Decision):
            raise pause_too_long(message, pid)
        if self._sampling is not None:
            if isinstance(message, Sampler) and not message.on:
                raise sampler_refused(message, pid)
            self._sampling.feed(message)
        self._history.feed(message)


def forecast_words(seen: Forecast) -> str:
    """What the kernel says of the target, and the pause that follows."""
    huge = f"{100 * seen.huge / seen.anonymous:.0f} % of it in huge pages, " if seen.huge else ""
    return f"RSS {format_bytes(seen.rss)}, {huge}a clone pauses it for about {format_duration_ns(seen.pause_ns)}"


def sampler_refused(state: Sampler, pid: int) -> HeaptopError:
    """The error for a command that has nothing to say without samples."""
    text = f"Allocations in process {pid} cannot be sampled: {state.text}."
    if not state.offer:
        return SamplerRefused(text).about(pid)
    fix = "tracemalloc can tell who allocates, at a cost that is said first: add `--tracemalloc`."
    return SamplerRefused(text, fix=fix).about(pid)


def pause_too_long(decision: Decision, pid: int) -> PauseTooLong:
    """The error for a command that cannot ask."""
    expected, budget = format_duration_ns(decision.pause_ns), format_duration_ns(decision.budget_ns)
    enough = int(decision.pause_ns * 1.5 / 1e6) + 1
    return PauseTooLong(
        f"To count the heap of process {pid} would stop it for about {expected}, and the budget is {budget}.",
        why=f"It would be counted in mode {decision.mode}."
        + (f" Not better, because: {decision.reason}." if decision.reason else ""),
        fix=f"Allow the pause: `heaptop census {pid} --pause-budget {enough}`. "
        f"Or count in slices of a few milliseconds, which is slower and approximate: "
        f"`heaptop census {pid} --mode python`.",
    )


def as_json(taken: Taken, by: BandKey, where: Filter, top: int | None) -> dict[str, object]:
    """The document of ``--json``, with at most ``top`` rows (all for None)."""
    target, hello = taken.attached.target, taken.attached.hello
    return census_json(taken.snapshot, pid=target.pid, python=hello.python, by=by.name, where=where, top=top)


def as_lines(taken: Taken, by: BandKey, where: Filter, top: int | None) -> list[str]:
    """A table of at most ``top`` rows (all for None), its total, and what the figures are worth."""
    rows = census_rows(taken.snapshot, by.name, where)
    shown, rest = rows[:top], rows[top:] if top is not None else ()
    everything = _sum(rows)
    lines = [(row.name, [row]) for row in shown]
    if rest:
        lines.append((f"({len(rest)} more)", list(rest)))
    lines.append(("total", list(rows)))
    cells = []
    for name, summed in lines:
        amount = _sum(summed)
        about = "≈" if any(row.guessed for row in summed) else ""
        size = about + format_bytes(amount.bytes)
        cells.append((format_count(amount.count), size, _share(amount, everything), name))
    header = ("OBJECTS", "SIZE", "SHARE", by.title.upper())
    hidden = sum(row.hidden for row in rows)
    return [*table(header, cells, left=frozenset({3})), "", *census_remarks(taken, where, hidden)]


def _sum(rows: Sequence[TableRow]) -> Amount:
    return Amount(sum(row.count or 0 for row in rows), sum(row.bytes for row in rows))


def _share(amount: Amount, everything: Amount) -> str:
    return f"{100 * amount.bytes / everything.bytes:.1f} %" if everything.bytes else ""


def census_remarks(taken: Taken, where: Filter, hidden: int) -> list[str]:
    """Whose census it is, what it cost, and what its figures are worth; ``hidden`` is in bytes."""
    census, target = taken.snapshot.census, taken.attached.target
    remarks = [f"{target.command} (pid {target.pid}, Python {taken.attached.hello.python})"]
    if where:
        remarks.append(f"only {where}")
    remarks.append(
        f"mode {census.mode}, longest pause {format_duration_ns(census.pause_ns)}, "
        f"took {format_duration_ns(census.duration_ns)} and {format_duration_ns(census.cpu_ns)} of CPU, "
        f"agent {format_bytes(census.agent_bytes)}"
    )
    if census.mode_reason:
        remarks.append(f"not in a better mode: {census.mode_reason}")
    if not census.complete:
        remarks.append(f"partial: {census.cut}")
    if census.mode == "python":
        remarks.append("approximate: counted in slices, while the program went on and its heap moved")
    if census.sizeof_guessed:
        remarks.append(
            f"{format_count(census.sizeof_guessed)} objects have a __sizeof__ written in Python, which "
            "is never called: their basic size is counted (≈)"
        )
    if hidden:
        remarks.append(
            f"and {format_bytes(hidden)} that sys.getsizeof does not tell: attribute values kept without a dict"
        )
    return remarks
