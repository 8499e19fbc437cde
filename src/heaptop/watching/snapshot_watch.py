"""Freezes a process in an open snapshot and asks it, for a command that prints the answer and exits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final, TypeVar

from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.asking import Asking, NotAnswered, drive
from heaptop.analysis.snapshot.building import StepPace, progress_words
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns
from heaptop.choices import TIMEOUT
from heaptop.errors import AgentLost, HeaptopError, ImageLost, ImageRefused
from heaptop.protocol import images
from heaptop.protocol.images import Image, ImageGone, ImageTypes, Question
from heaptop.protocol.messages import Core, Decision, Failure, Memory, Message, TypeName
from heaptop.protocol.source import Attached, Source
from heaptop.watching.progress import ProgressReport
from heaptop.watching.source_watch import SourceWatch, enough_ms, pause_too_long

KEEP: Final = 300.0  # Seconds that the snapshot may stay at most: to build it, and for a handful of questions
LASTING: Final = "too many references"  # In why a snapshot cannot answer: it cannot at any other time either …
CENSUS: Final = "Use a census: `heaptop census PID`. Another snapshot would fail in the same way."
"""… so this is the advice."""
MEMORY_SECONDS: Final = 10.0  # So long what the allocators report is waited for once all else is known

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class SnapshotWatch(SourceWatch):
    """A source of which open snapshots are wanted, one at a time. The first census is waited for; later ones may
    fail."""

    def __init__(
        self,
        source: Source,
        progress: ProgressReport,
        again: str,
        sampling: Sampling | None = None,
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        """``again``: what a person would type to have all of it once more."""
        super().__init__(source, progress, sampling, timeout=timeout)
        self._again = again
        self._id: int | None = None  # Of the request that is to be answered, or was answered last
        self._doing = ""
        self._pace = StepPace()
        self._since = 0.0
        self._image: Image | None = None
        self._talks = False
        self.types: list[TypeName] = []  # Of the snapshot, by their ids
        self.reported: Memory | None = None
        """What the allocators reported since :meth:`ask_memory`; what needs it does without where there is none."""

    def ready(self) -> None:
        """Wait for the first census; no effect after it. Errors: as :meth:`freeze`."""
        if self._seen is None:
            census = self.census().record.census
            if census.mode == "python":
                self._not_frozen(census.mode_reason or f"the census ran in mode {census.mode}")

    def freeze(self, keep: float = KEEP) -> Image:
        """Have the snapshot made, to stay for ``keep`` seconds at most.

        Errors: ImageRefused, and as :class:`SourceWatch`."""
        self.ready()
        self.types = []
        self._since = time.monotonic()
        self._id, self._doing = self._source.image(keep), "taking a snapshot"
        self._image = self._answer(Image)
        return self._image

    def ask(self, question: Question, kind: type[M]) -> M:
        """The answer, which is of that ``kind``. Errors: ImageLost, and as :class:`SourceWatch`."""
        if self._image is None:
            raise ImageLost(f"The snapshot of process {self._pid} has ended.").about(self._pid)
        self._since = time.monotonic()
        self._id, self._doing = self._source.ask(self._image.image, question), "querying the snapshot"
        return self._answer(kind)

    def run(self, asking: Asking[T]) -> T:
        """What comes out of a conversation with the snapshot. A question that it cannot answer is no error here: the
        conversation continues without. Errors: ImageLost, and as :class:`SourceWatch`."""

        def put(question: Question) -> Message:
            return self.ask(question, Message)

        self._talks = True
        try:
            return drive(asking, put)
        finally:
            self._talks = False

    def ask_memory(self) -> None:
        """Ask what the allocators report, which is read while the snapshot is made: of a large heap that takes
        seconds."""
        self.reported = None
        self._source.memory_now()

    def wait_for_memory(self) -> Memory | None:
        """What :meth:`ask_memory` has asked for; None where it does not come in time: the snapshot's answers are worth
        more than an error."""
        if self.attached.target.file is not None:
            return self.reported  # a file answers in order: what has not come by now is not in it
        until = min(time.monotonic() + MEMORY_SECONDS, self._deadline)
        while self.reported is None and (left := until - time.monotonic()) > 0:
            self._next()
            self._progress.show(f"reading memory use, {left:.0f} s left")
        return self.reported

    def _not_frozen(self, reason: str) -> None:
        """For a command that has no result without a snapshot."""
        raise self._refused(reason)

    def close(self) -> None:
        """End the snapshot, or give up the one that is awaited; no effect where there is none."""
        if self._id is not None:
            self._image = self._id = None
            self._source.close_snapshot()

    def _answer(self, kind: type[M]) -> M:
        while True:
            message = self._next()
            is_of_it = getattr(message, "id", None) == self._id and not isinstance(message, images.Progress)
            if is_of_it and isinstance(message, kind):
                return message
            self._progress.show(f"{self._doing} {time.monotonic() - self._since:.1f} s")

    def _take(self, message: Message) -> None:
        match message:
            case Core() if not message.loaded:
                raise self._refused(message.text)
            case Failure() if message.request != self._id and self._seen is not None:
                return  # a later census or tick
            case Failure() if self._image is not None and self._talks:
                raise NotAnswered(message.text)
            case ImageTypes() if message.id == self._id:
                self.types[message.first :] = message.names
            case images.Progress() if message.id == self._id:
                taken = f", {format_bytes(message.memory)}" if message.memory else ""
                now = time.monotonic()
                self._pace.take(message, now)
                objects = self._seen.total.count if self._seen is not None else 0
                words = progress_words(message, now - self._since, self._pace.left, objects)
                self._doing = words + taken
            case ImageGone() if self._image is not None and message.image == self._image.image:
                lost = ImageLost(f"The snapshot of process {self._pid} was lost: {message.reason}.")
                raise lost.about(self._pid)
            case Memory():
                self.reported = message
        super()._take(message)

    def _failed(self, failure: Failure) -> HeaptopError:
        if self._image is not None:
            text = f"The snapshot of process {self._pid} could not answer: {failure.text}."
            return ImageLost(text, fix=CENSUS if LASTING in failure.text else None).about(self._pid)
        if self._id is not None:
            return self._refused(failure.text)
        text = f"The census before the snapshot failed: {failure.text}."
        why = f"heaptop detaches; process {self._pid} continues."
        return AgentLost(text, why=why, fix=f"Try again: `{self._again}`.")

    def _undecided(self, decision: Decision) -> HeaptopError:
        if decision.mode != "clone":
            return self._refused(decision.reason or f"the census would run in mode {decision.mode}")
        fix = f"Allow the pause: `{self._again} --pause-budget {enough_ms(decision.pause_ns)}`."
        return pause_too_long(replace(decision, stop_ns=0), self._pid, fix)

    def _refused(self, reason: str) -> HeaptopError:
        return ImageRefused(f"No snapshot of process {self._pid} could be made: {reason}.").about(self._pid)


def snapshot_notices(attached: Attached, image: Image) -> list[str]:
    """Whose snapshot it is, what it cost, and what is not known."""
    target = attached.target
    paused = f"paused for {format_duration_ns(image.pause_ns)}; " if image.pause_ns else ""  # a core file was not
    return [
        f"{target.command} (pid {target.pid}, Python {attached.hello.python})",
        f"{paused}snapshot of {format_count(image.objects)} objects, "
        f"{format_bytes(image.bytes)}, and {format_count(image.edges)} references: "
        f"{format_duration_ns(image.build_ns)}, {format_bytes(image.memory)} of tables",
        *(f"unknown: {gap}" for gap in image.gaps),
    ]
