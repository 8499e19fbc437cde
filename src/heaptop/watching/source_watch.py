"""Takes what a source delivers, one event at a time, for a command that waits for a few messages and then leaves."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Final, TypeVar

from heaptop.analysis.heap.history import CensusRecord, History
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.units import format_bytes, format_duration_ns
from heaptop.choices import TIMEOUT
from heaptop.errors import AgentLost, HeaptopError, PauseTooLong, SamplerRefused, UnresponsiveTarget
from heaptop.protocol.event_queue import EventQueue
from heaptop.protocol.images import FIRST_ID
from heaptop.protocol.messages import Decision, Failure, Memory, Message, Sampler
from heaptop.protocol.source import Attached, Ended, Event, Forecast, Received, Source, Waiting
from heaptop.watching.progress import ProgressReport

TURN: Final = 0.1  # Seconds between two looks at the clock while there is nothing else to do

W = TypeVar("W", bound="SourceWatch")


@dataclass(frozen=True, slots=True)
class CensusResult:
    """One census, and of whom."""

    attached: Attached
    record: CensusRecord
    memory: Memory | None = None  # What memory is used for, where that was asked for too


class SourceWatch:
    """A source from its opening to its end: attaches when entered, detaches when left, however that happens.

    Its methods raise what the command cannot continue with: whatever the source ended with, a failure of the agent, a
    pause that was not allowed, UnresponsiveTarget. Ctrl+C takes an attach that still waits back, and leaves the
    target as it was.
    """

    turn: ClassVar[float] = TURN

    def __init__(
        self, source: Source, progress: ProgressReport, sampling: Sampling | None = None, *, timeout: float = TIMEOUT
    ) -> None:
        """With ``sampling``, what is sampled goes there. ``timeout``: seconds for all answers together, from the attach
        on; the attach itself has limits of its own."""
        self._source = source
        self._progress = progress
        self._sampling = sampling
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._events = EventQueue()
        self._history = History()
        self._attached: Attached | None = None
        self._ended: HeaptopError | None = None  # How the source ended, once it has
        self._seen: CensusRecord | None = None
        self._foreseen = ""
        self._asked = "take a census"

    def __enter__(self: W) -> W:
        self._deadline = time.monotonic() + self._timeout
        self._source.open(self._put, self._events.is_behind)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._source.cancel()
        self._progress.clear()
        self._events.close()
        self._source.close()
        self._report_leftovers()

    def census(self) -> CensusResult:
        """Wait for one that was not returned before."""
        since = time.monotonic()
        while True:
            if self._next() is None and self._attached is not None:
                self._progress.show(f"census {time.monotonic() - since:.1f} s{self._foreseen}")
            latest = self._history.latest
            if self._attached is not None and latest is not None and latest is not self._seen:
                self._seen = latest
                return CensusResult(self._attached, latest)

    def sample(self, seconds: float) -> None:
        """Let the time pass, take all messages, then ask for a census."""
        begin = time.monotonic()
        with self._untimed():
            while (passed := time.monotonic() - begin) < seconds:
                self._next()
                self._progress.show(f"sampling allocations {passed:.1f} of {seconds:g} s")
        self.forget()
        self._source.census_now()

    def forget(self) -> None:
        """Process all waiting messages: the next census is of a later moment."""
        self._take_waiting()
        self._seen = self._history.latest

    def wait(self, seconds: float, words: Callable[[float], str]) -> None:
        """Let the time pass, and take all messages; ``words`` returns the progress line, given the seconds left."""
        end = time.monotonic() + seconds
        with self._untimed():
            while (left := end - time.monotonic()) > 0:
                self._next()
                self._progress.show(words(left))
        self._take_waiting()

    def memory(self) -> Memory:
        """Ask what memory is used for, and wait for the answer."""
        since = time.monotonic()
        self._asked = "report its memory use"
        self._source.memory_now()
        while True:
            message = self._next()
            if isinstance(message, Memory):
                return message
            if message is None:
                self._progress.show(f"reading memory use {time.monotonic() - since:.1f} s")

    def renew(self) -> None:
        """From now on there is as much time for answers as at the beginning: for a command that has no end."""
        self._deadline = time.monotonic() + self._timeout

    @contextmanager
    def _untimed(self) -> Iterator[None]:
        """What passes meanwhile was asked for, and takes nothing from the time for answers."""
        left, self._deadline = self._deadline - time.monotonic(), float("inf")
        try:
            yield
        finally:
            self._deadline = time.monotonic() + left

    @property
    def history(self) -> History:
        """All that was counted so far."""
        return self._history

    @property
    def attached(self) -> Attached:
        """What the attach found, once there was one."""
        assert self._attached is not None
        return self._attached

    @property
    def _pid(self) -> int:
        return self._source.target.pid

    def _put(self, event: Event) -> None:
        """On the source's thread."""
        self._events.put(event)

    def _take_waiting(self) -> None:
        """Take the messages so far. More may come meanwhile, and always more from a busy process."""
        for _ in range(len(self._events)):
            self._next()

    def _report_leftovers(self) -> None:
        """Take the events until the source was closed; report what could not be removed from the target."""
        for event in self._events.drain():
            if isinstance(event, Ended):
                if remark := event.leftovers(self._pid):
                    self._progress.notice(remark)
            else:
                self._receive_after(event)

    def _next(self) -> Message | None:
        """The next message; None when there was none for a moment, or another event. Errors: UnresponsiveTarget, once
        the time for answers is over, whatever else comes meanwhile."""
        if self._ended is not None:
            raise self._ended
        if time.monotonic() > self._deadline:
            raise self._overdue()
        try:
            event = self._events.get(timeout=self.turn)
        except queue.Empty:
            return None
        match event:
            case Waiting():
                self.renew()  # how long an attach may take is decided where it is made
                self._progress.show(f"{event.phase} {event.seconds:.1f} s")
            case Attached():
                self._attached = event
            case Forecast():
                self._foreseen = f" ({forecast_words(event)})"
            case Ended():
                lost = AgentLost(f"The agent in process {self._pid} exited before the census was done.")
                self._ended = event.error or lost
                raise self._ended
            case Received(message):
                self._take(message)
                return message
            case _:
                self._receive(event)
        return None

    def _overdue(self) -> HeaptopError:
        return UnresponsiveTarget(
            f"Process {self._pid} did not {self._asked} within {self._timeout:g} s.",
            why="It may be stopped (state T), a long C call may hold the GIL, or its heap may need more time. heaptop "
            "closed its connection; the agent removes itself as soon as the process runs Python again.",
            fix=f"Check its state (`ps -o stat,wchan {self._pid}`) and retry when it runs. Or wait longer: add "
            f"`--timeout {self._timeout * 4:g}`.",
        )

    def _receive(self, event: Event) -> None:
        """Take an event other than the one that is waited for."""

    def _receive_after(self, event: Event) -> None:
        """Take an event that came while the source was closed."""

    def _take(self, message: Message) -> None:
        match message:
            case Failure():
                raise self._failed(message)
            case Decision():
                raise self._undecided(message)
            case Sampler() if self._sampling is not None and not message.on:
                self._sampler_is_off(message)
        if self._sampling is not None:
            self._sampling.feed(message)
        self._history.feed(message)

    def _sampler_is_off(self, state: Sampler) -> None:
        """For a command that has no result without samples."""
        raise sampler_refused(state, self._pid)

    def _failed(self, failure: Failure) -> HeaptopError:
        return AgentLost(
            f"The agent could not {self._asked}: {failure.text}.",
            why=f"heaptop detaches; process {self._pid} continues.",
            fix=f"Retry, or count in slices: `heaptop census {self._pid} --mode python`.",
        )

    def _undecided(self, decision: Decision) -> HeaptopError:
        """For a command that cannot ask."""
        stop = decision.stop_ns and f"--mode stop --pause-budget {enough_ms(decision.stop_ns)}"
        return pause_too_long(
            decision,
            self._pid,
            fix=f"Allow the pause: `heaptop census {self._pid} --pause-budget {enough_ms(decision.pause_ns)}`. "
            + (f"Or stop the process for the census: `heaptop census {self._pid} {stop}`. " if stop else "")
            + f"Or count in slices of a few milliseconds (slower, estimated): `heaptop census {self._pid} "
            "--mode python`.",
        )


def forecast_words(seen: Forecast) -> str:
    """The kernel's figures of the target, and the pause that follows."""
    huge = f"{100 * seen.huge / seen.anonymous:.0f} % of it in huge pages, " if seen.huge else ""
    return f"RSS {format_bytes(seen.rss)}, {huge}a clone pauses it for about {format_duration_ns(seen.pause_ns)}"


def sampler_refused(state: Sampler, pid: int) -> HeaptopError:
    """The error for a command that has no result without samples."""
    text = f"Allocations in process {pid} cannot be sampled: {state.text}."
    if not state.offer:
        return SamplerRefused(text).about(pid)
    fix = "tracemalloc can report allocation sites, at a cost that is shown first: add `--tracemalloc`."
    return SamplerRefused(text, fix=fix).about(pid)


def pause_too_long(decision: Decision, pid: int, fix: str) -> PauseTooLong:
    """What there would have been to decide."""
    expected, budget = format_duration_ns(decision.pause_ns), format_duration_ns(decision.budget_ns)
    what, how = "A census", f"It would run in mode {decision.mode}."
    if decision.request >= FIRST_ID:
        what, how = "A snapshot", "It needs a clone, which copies the page tables of all its memory."
    stop = f" In mode stop about {format_duration_ns(decision.stop_ns)}." if decision.stop_ns else ""
    return PauseTooLong(
        f"{what} would pause process {pid} for about {expected}; the budget is {budget}.",
        why=how + stop + (f" No better mode: {decision.reason}." if decision.reason else ""),
        fix=fix,
    )


def enough_ms(pause_ns: int) -> int:
    """A budget, in milliseconds, that the pause stays within."""
    return int(pause_ns * 1.5 / 1e6) + 1
