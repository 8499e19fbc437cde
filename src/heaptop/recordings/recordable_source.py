"""A source that can be recorded while it is watched: passes everything through, and keeps what a recording needs.

Another thread writes, so the source waits only while its messages are packed, and at the end of a recording: for
:data:`AT_ONCE`, or :data:`PATIENCE` at the end of the session. An error ends the recording, not the session.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from heaptop import __version__
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.errors import HeaptopError
from heaptop.files import NewFile
from heaptop.protocol.messages import Message
from heaptop.protocol.recorded import RecordingInfo
from heaptop.protocol.source import (
    Attached,
    Behind,
    Deliver,
    Ended,
    Event,
    Received,
    RecordingStatus,
    Source,
    never_behind,
)
from heaptop.protocol.source_wrapper import SourceWrapper
from heaptop.recordings import compression
from heaptop.recordings.blocks import RecordingBlocks
from heaptop.recordings.recording_state import RecordingState, is_recorded
from heaptop.recordings.writer import MAX_SIZE, PATIENCE, RecordingWriter, create, reason

UNPACKED: Final[tuple[type[Exception], ...]] = (HeaptopError, *compression.BEST.errors)  # What packing may come to
AT_ONCE: Final = 0.2  # Seconds in which a disk that is not slow has written what waits


class RecordableSource(SourceWrapper):
    """A :class:`~heaptop.protocol.source.Recordable` around any source."""

    def __init__(
        self,
        source: Source,
        *,
        max_size: int = MAX_SIZE,
        wall: Callable[[], float] = time.time,
        samples: SampledBlocks | None = None,
    ) -> None:
        """``max_size`` is in bytes; ``wall`` returns the seconds since 1970. ``samples``: see
        :class:`~heaptop.recordings.recording_state.RecordingState`."""
        super().__init__(source)
        self._max_size = max_size
        self._wall = wall
        self._deliver: Deliver = _ignore
        self._wanted: queue.SimpleQueue[NewFile | Message | None] = queue.SimpleQueue()
        """A file to begin, something to note, or None to end, in the order in which they were asked for."""
        self._runs = False  # Whether the source's thread does what is wanted: from its opening to its end
        self._all_delivered = threading.Event()  # Ended was delivered
        # What follows belongs to the source's thread.
        self._thread: threading.Thread | None = None
        self._recording_state: RecordingState | None = RecordingState(samples)
        """None when messages did not fit: then nothing can be recorded any more."""
        self._attached: Attached | None = None
        self._next: NewFile | None = None  # Made before the agent answered
        self._writer: RecordingWriter | None = None
        self._blocks: RecordingBlocks | None = None
        self._ending: list[tuple[RecordingWriter, str, float]] = []
        """Ended, and not told yet: what waited is still being written. Why they ended, and when to wait no longer."""
        self._untold = 0  # Recordings whose end it was not informed of

    # -- Recordable ------------------------------------------------------------------------------------------

    def begin_recording(self, path: str, *, force: bool = False) -> None:
        """As in :class:`~heaptop.protocol.source.Recordable`; with ``force`` an existing file is replaced
        as soon as there is something to record.

        Raises:
            RecordingExists, RecordingFailed: the file cannot be made.
        """
        self._wanted.put(create(path, force=force))

    def end_recording(self) -> None:
        self._wanted.put(None)

    def note(self, message: Message) -> None:
        self._wanted.put(message)

    def close(self, timeout: float = 5.0) -> None:
        """As :meth:`~heaptop.protocol.source.Source.close`; where it records it takes :data:`PATIENCE` or so longer, at
        most, until its end was reported."""
        super().close(timeout)
        if self._runs and self._untold and threading.current_thread() is not self._thread:
            self._all_delivered.wait(PATIENCE + 1)
        if not self._runs:  # nobody else looks at what is wanted
            self._do_wanted()
            self._give_up_next()

    # -- on the source's thread --------------------------------------------------------------------------------

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver = deliver
        self._runs = True
        super().open(self._event, behind)

    def _event(self, event: Event) -> None:
        self._thread = threading.current_thread()
        match event:
            case Attached():
                self._attached = event
            case Received(message):
                self._received(message)
            case Ended():
                self._source_ended()
        self._deliver(event)
        if self._runs:
            self._report_ended()
            self._do_wanted()
        else:
            self._deliver = _ignore
            self._all_delivered.set()

    def _source_ended(self) -> None:
        self._do_wanted()
        self._end()
        self._report_ended(PATIENCE)
        self._give_up_next()
        self._attached = None
        self._runs = False

    def _received(self, message: Message) -> None:
        if self._recording_state is None or not is_recorded(message):
            return
        try:
            self._recording_state.feed(message)
        except HeaptopError as error:
            self._recording_state = None
            self._end(error.message.rstrip("."))
            return
        self._record(message)

    def _do_wanted(self) -> None:
        while True:
            try:
                wanted = self._wanted.get_nowait()
            except queue.Empty:
                break
            if isinstance(wanted, Message):
                self._record(wanted)
            else:
                self._end()
                self._give_up_next()
                self._next = wanted
        if self._next is not None and self._attached is not None and not self._ending:
            self._begin(self._attached, self._next)

    def _give_up_next(self) -> None:
        """Nothing will be recorded in the file that was made for it."""
        if self._next is not None:
            self._next.give_up()
            self._next = None

    def _begin(self, attached: Attached, file: NewFile) -> None:
        if self._recording_state is None:
            self._give_up_next()
            self._report(file.path, 0, on=False, error="the agent sent inconsistent data, so nothing can be recorded")
            return
        try:
            file.take_place()
        except OSError as error:
            self._give_up_next()
            self._report(file.path, 0, on=False, error=reason(error))
            return
        self._next = None
        self._untold += 1
        about = _about(attached, self._wall())
        self._writer = RecordingWriter(file, about, self._max_size)
        self._blocks = RecordingBlocks(about, attached.hello, self._recording_state, self._max_size, self._wall)
        self._write(self._blocks.flush() if self._recording_state.counted else ())

    def _record(self, message: Message) -> None:
        if self._blocks is not None:
            self._write(self._blocks.add(message))

    def _write(self, blocks: Iterable[bytes]) -> None:
        """Append them, and tell how it goes where there was any, or something went wrong."""
        writer = self._writer
        assert writer is not None
        written = False
        try:
            for block in blocks:
                writer.append(block)
                written = True
        except UNPACKED as error:
            self._end(_sentence(error))
            return
        if writer.error:
            self._end()
        elif written:
            self._report(writer.path, writer.size, on=True, thinned=writer.thinned)

    def _end(self, error: str = "") -> None:
        """Record no more; say so where anything was recorded."""
        writer, blocks = self._writer, self._blocks
        self._writer = self._blocks = None
        if writer is None or blocks is None:
            return
        if not (error or writer.error):
            try:
                for block in blocks.flush():
                    writer.append(block)
            except UNPACKED as unpacked:
                error = _sentence(unpacked)
        writer.finish()
        self._ending.append((writer, error, time.monotonic() + PATIENCE))
        self._report_ended(AT_ONCE)

    def _report_ended(self, wait: float = 0.0) -> None:
        """Tell of those that are whole, will not be, or take too long; each is waited for so many seconds."""
        for ending in tuple(self._ending):
            writer, error, until = ending
            left = until - time.monotonic()
            if not (writer.error or writer.wait(max(min(wait, left), 0))):
                if left > wait:
                    continue
                writer.close(0)  # it is given up
            self._ending.remove(ending)
            self._report(writer.path, writer.size, on=False, error=error or writer.error, thinned=writer.thinned)
            self._untold -= 1

    def _report(self, path: str, size: int, *, on: bool, error: str = "", thinned: bool = False) -> None:
        self._deliver(RecordingStatus(path, size, on, error, thinned))


def _ignore(event: Event) -> None:
    """Before the opening and after the end: who took events is kept no longer."""


def _sentence(error: BaseException) -> str:
    return f"it could not be encoded: {error}".rstrip(".")


def _about(attached: Attached, wall: float) -> RecordingInfo:
    target = attached.target
    return RecordingInfo(
        heaptop=__version__,
        pid=target.pid,
        command=target.command,
        python=target.python,
        user=target.user,
        backend=attached.backend,
        stopped_ns=attached.stopped_ns,
        time_ns=attached.hello.time_ns,
        wall=wall,
        note=target.note,
    )
