"""The one thing a front end knows of where its data comes from: a :class:`Source` that delivers events.

The injector's session, a recording and the fake agent implement the protocol, the front end and the commands consume
it, and neither side imports the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from heaptop.errors import HeaptopError
from heaptop.protocol.images import Question
from heaptop.protocol.messages import Census, Hello, Message, Tick


@dataclass(frozen=True, slots=True)
class HeapFile:
    """A heap dump or core file that is in place of a process."""

    what: str  # `heap dump`, `core file` (also where it was converted) or `copy`, of a process
    values: str  # One of protocol.dumped.VALUES
    redacted: bool
    opaque: int  # Bytes of objects in which C code keeps references that nobody knows


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What is known of the target from outside, before anyone attaches."""

    pid: int
    command: str  # Its command line on one line
    python: str  # `3.11.7`, or `3.11` where the micro version cannot be read from outside
    user: str
    note: str = ""  # Something the screen should say, such as where a launched program's output goes
    is_others: bool = False  # It runs as another user than heaptop does
    file: HeapFile | None = None  # What is read in place of it, where there is no process


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One Python process, as a list of processes shows it."""

    pid: int
    user: str
    version: str  # As TargetInfo.python; empty where it is unknown
    rss: int  # Resident bytes
    command: str
    attachable: bool
    reason: str = ""  # Why not, in a few words, where it is not attachable
    parent: int = 0  # Pid of the Python process that has started it, directly or by others in between; 0 where none has
    created: float = 0.0  # When it began, in seconds: with the pid, it names a process forever


DUMP: Final = "dump"  # In place of a backend: the source is a heap dump, and nothing runs


class Event:
    """Base of what a source delivers."""


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """The attach continues. Repeated a few times a second, so a screen can count."""

    phase: str  # A short sentence: `waiting for the interpreter`, `looking for symbols`
    seconds: float  # Since the attach began


@dataclass(frozen=True, slots=True)
class Attached(Event):
    """The agent answered."""

    target: TargetInfo
    hello: Hello
    backend: str  # The way in that was taken: `ptrace`, `pep768`, `run`; DUMP where there was none
    stopped_ns: int  # For how long the injection stopped the target; 0 where it did not
    rss_before: int | None = None
    """Resident bytes of the target before heaptop looked at it; None where there was none, or that is not known."""
    native: bool = False  # It was started with a preloaded library that samples native memory (`heaptop run --native`)


@dataclass(frozen=True, slots=True)
class Forecast(Event):
    """What the first census in a clone will cost, by the kernel's figures of the target; follows Attached."""

    rss: int  # Resident bytes
    anonymous: int  # Of those, the ones whose page tables a clone copies
    huge: int  # Of these, the ones in huge pages
    pause_ns: int


@dataclass(frozen=True, slots=True)
class IntervalChanged(Event):
    """The interval between censuses changed, because they cost what they cost."""

    interval: float  # Seconds from the start of one to the start of the next
    asked: float  # What was asked for; the interval is longer where a census would take more than its share of a core

    @property
    def is_throttled(self) -> bool:
        return self.interval > 1.05 * self.asked


@dataclass(frozen=True, slots=True)
class ImageCost(Event):
    """What an open snapshot costs; follows each tick while there is one. All that it holds is free again at its end."""

    image: int
    own: int  # Bytes of its own tables
    copied: int | None
    """Bytes that it alone still has, because the target has changed them since, or given them back; what was copied
    while it was being built may count as tables. None where neither heaptop may see it (that takes CAP_SYS_PTRACE) nor
    the clone can (before Linux 5.9, or without /proc)."""
    left: float  # Seconds of its time


@dataclass(frozen=True, slots=True)
class Received(Event):
    """A message of the agent (filled in from outside: a tick's ``rss`` where the target cannot say it, and what the
    kernel's figures of memory)."""

    message: Message


@dataclass(frozen=True, slots=True)
class RecordingStatus(Event):
    """The status of this session's recording: after each flush, and when it begins or ends."""

    path: str
    bytes: int  # Of the file
    on: bool
    error: str = ""  # Why it ended without being asked to: a sentence without its full stop
    thinned: bool = False  # Older ticks were left out, to stay within its largest size


@dataclass(frozen=True, slots=True)
class Seek(Event):
    """The source is a recording, and shows another moment from now on: all events before are void. What follows
    is what was known at that moment."""

    time_ns: int  # Of the moment shown, on the target's clock
    first_ns: int
    last_ns: int  # Of the recording's first and last moment
    since_ns: int
    """From when on all messages are delivered: what was allocated and freed before, and how long it lived, is not
    known."""
    wall: float  # Seconds since 1970 of the moment shown


@dataclass(frozen=True, slots=True)
class SeekDone(Event):
    """All that was known at the moment of the last :class:`Seek` has been delivered."""


@dataclass(frozen=True, slots=True)
class WholeCourse(Event):
    """How a whole recording went: (time in nanoseconds, bytes) at some of its moments. Told once, after the first
    SeekDone."""

    heap: tuple[tuple[int, int], ...]  # All live objects, at censuses
    rss: tuple[tuple[int, int], ...]  # At ticks
    shown: Mapping[int, int]
    """Of each census's time, that of the tick with which it came: the first moment that shows it."""


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """The last event. ``error`` is None after an orderly detach; :class:`~heaptop.errors.TargetExited` when the
    target ended (its message has the way); any other error when the attach failed or the agent was lost."""

    error: HeaptopError | None
    left: str = ""
    """What could not be taken out of the target, as a sentence without its full stop; empty where nothing stays."""
    gone: bool = False  # It was seen that the agent has taken out what it had put in, and that its thread has ended

    def leftovers(self, pid: int) -> str:
        """One remark on process ``pid`` where the agent could not take out all that it had put in; else empty."""
        return f"process {pid} continues, but not all of heaptop could be removed: {self.left}" if self.left else ""


def is_tick(event: Event) -> bool:
    """Whether it is a tick or a census: each ends the messages that belong to it."""
    return isinstance(event, Received) and isinstance(event.message, (Tick, Census))


Deliver = Callable[[Event], None]
Behind = Callable[[], bool]  # Whether what was delivered still waits to be taken: a tick and what came with it, or more


def never_behind() -> bool:
    """Of one who takes each event as it is delivered."""
    return False


class Source(Protocol):
    """Where events come from. Methods may be called from any thread and never block, except :meth:`close`."""

    @property
    def target(self) -> TargetInfo: ...

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        """Begin. ``deliver`` is called from the source's own thread, one event at a time, ending with Ended. ``behind``
        is asked from there too: while it is true, the target is asked for nothing more, so that nothing piles up."""

    def census_now(self) -> None:
        """Ask for a census at once instead of at the next interval. Coalesces: never queues more than one."""

    def memory_now(self) -> None:
        """Ask what memory is used for; a :class:`~heaptop.protocol.messages.Memory` follows. Coalesces likewise."""

    def sample(self, interval: int, depth: int, tracer: bool = False, target: int = 0) -> None:
        """Sample allocations from now on every ``interval`` bytes, on average (0: not at all), with at most ``depth``
        frames of a stack; a :class:`~heaptop.protocol.messages.Sampler` follows. With ``tracer`` by tracemalloc where
        there is no native core: only after the user has confirmed its cost. With a ``target`` the interval
        follows the program, for so many samples a second. The last call counts."""

    def decide(self, accept: bool, stop: bool = False) -> None:
        """Answer the :class:`~heaptop.protocol.messages.Decision` that was delivered last: pause the target for that
        long, also later in this session and up to twice as long, or count in slices from now on (make no snapshot, if
        it was about one). With ``stop``, count in the stopped process from now on, where that was offered. Until then
        nothing is counted."""

    def image(self, keep: float, memory: int = 0) -> int:
        """Freeze the target in a clone that stays open for ``keep`` seconds at most and takes ``memory`` bytes at most
        for its tables (0: half of what the target may still take, as it never takes more). The id that its
        :class:`~heaptop.protocol.images.Image` will have, and each Progress before it, or the Failure. The image before
        is closed. An :class:`ImageCost` follows each tick, and where that is too much, the image is ended."""

    def ask(self, image: int, question: Question) -> int:
        """Put a question to the open image of that number. The id of the answer, or of the Failure.

        Raises:
            ValueError: it is too long for one request.
        """

    def give_up(self, id: int) -> None:
        """Cancel the image that is being built, or the question."""

    def close_snapshot(self) -> None:
        """End it; an ImageGone follows where there was one."""

    def request(self, make: Callable[[int], Message]) -> int:
        """Send the agent a request that ``make`` makes of its id, such as
        :class:`~heaptop.protocol.messages.CollectRequest`. The id, which its answer or the Failure will have."""

    def cancel(self) -> None:
        """Give up an attach that is still waiting; Ended follows. No effect once attached."""

    def close(self, timeout: float = 5.0) -> None:
        """Detach and wait until the target is as it was, at most ``timeout`` seconds. Idempotent."""


@runtime_checkable
class Recordable(Source, Protocol):
    """A source of which a recording can be made while it is watched."""

    def begin_recording(self, path: str) -> None:
        """Record from now on, into a new file; a :class:`RecordingStatus` reports its progress.

        Raises:
            RecordingExists, RecordingFailed: the file cannot be made.
        """

    def end_recording(self) -> None:
        """Record no more; no effect where nothing is recorded."""

    def note(self, message: Message) -> None:
        """Record what heaptop itself has found (:data:`~heaptop.protocol.findings.NOTED`), where it records."""


@runtime_checkable
class Player(Source, Protocol):
    """A source that is a recording: nothing runs, and any moment of it can be shown."""

    @property
    def path(self) -> str:
        """Of its file."""

    @property
    def moments(self) -> Sequence[int]:
        """Times of all that can be shown, ascending, on the target's clock."""

    def seek(self, time_ns: int, since_ns: int | None = None) -> None:
        """Show the last moment up to this one, or else the first: a :class:`Seek` follows, what was known, and
        :class:`SeekDone`. With ``since_ns`` every message stored from then on is sent."""
