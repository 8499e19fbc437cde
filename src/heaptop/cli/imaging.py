"""Freezes a process in an open snapshot and asks it, for a command that prints what it says and leaves.

This module never reads the command line, never attaches by itself, and prints nothing but progress.
"""

from __future__ import annotations

import time
from typing import Final, TypeVar

from heaptop.census.units import format_bytes, format_count, format_duration_ns
from heaptop.cli.terminal import Progress
from heaptop.cli.watching import Watch, enough_ms, pause_too_long
from heaptop.errors import AgentLost, HeaptopError, ImageLost, ImageRefused
from heaptop.protocol import images
from heaptop.protocol.images import Image, ImageGone, ImageTypes, Question
from heaptop.protocol.messages import Core, Decision, Failure, Message, TypeName
from heaptop.protocol.source import Attached, Source

KEEP: Final = 300.0
"""Seconds that the snapshot may stay at most: to build it, and for a handful of questions."""

M = TypeVar("M", bound=Message)


class ImageWatch(Watch):
    """A source of which one open snapshot is wanted. The first census says whether a clone can be made, at which
    pause, and is waited for: nobody is stopped for longer than was allowed."""

    def __init__(self, source: Source, progress: Progress, again: str) -> None:
        """``again``: what a person would type to have all of it once more."""
        super().__init__(source, progress)
        self._again = again
        self._id = -1
        self._doing = ""
        self._since = 0.0
        self._image: Image | None = None
        self.types: list[TypeName] = []
        """Of the snapshot, by their ids."""

    @property
    def attached(self) -> Attached:
        assert self._attached is not None
        return self._attached

    def freeze(self) -> Image:
        """Have the snapshot made. Errors: ImageRefused, and as :class:`Watch`."""
        census = self.census().snapshot.census
        if census.mode != "clone":
            raise self._refused(census.mode_reason or f"its heap was counted in mode {census.mode}")
        self._since = time.monotonic()
        self._id, self._doing = self._source.image(KEEP), "freezing the heap"
        self._image = self._answer(Image)
        return self._image

    def ask(self, question: Question, kind: type[M]) -> M:
        """The answer, which is of that ``kind``. Errors: ImageLost, and as :class:`Watch`."""
        assert self._image is not None
        self._since = time.monotonic()
        self._id, self._doing = self._source.ask(self._image.image, question), "asking the snapshot"
        return self._answer(kind)

    def _answer(self, kind: type[M]) -> M:
        while True:
            message = self._next()
            if isinstance(message, kind) and getattr(message, "id", None) == self._id:
                return message
            self._progress.show(f"{self._doing} {time.monotonic() - self._since:.1f} s")

    def _take(self, message: Message) -> None:
        if isinstance(message, Core) and not message.loaded:
            raise self._refused(message.text)
        if isinstance(message, ImageTypes):
            self.types[message.first :] = message.names
        elif isinstance(message, images.Progress) and message.id == self._id:
            self._doing = _step(message)
        elif isinstance(message, ImageGone):
            raise ImageLost(f"The open snapshot of process {self._pid} is gone: {message.reason}.").about(self._pid)
        super()._take(message)

    def _failed(self, failure: Failure) -> HeaptopError:
        if self._image is not None:
            text = f"The open snapshot of process {self._pid} could not answer: {failure.text}."
            return ImageLost(text).about(self._pid)
        if self._id >= 0:
            return self._refused(failure.text)
        text = f"The agent could not count the heap, which comes before the snapshot: {failure.text}."
        why = f"heaptop leaves process {self._pid}, which goes on."
        return AgentLost(text, why=why, fix=f"Try again: `{self._again}`.")

    def _undecided(self, decision: Decision) -> HeaptopError:
        if decision.mode != "clone":
            return self._refused(decision.reason or f"its heap would be counted in mode {decision.mode}")
        fix = f"Allow the pause: `{self._again} --pause-budget {enough_ms(decision)}`."
        return pause_too_long(decision, self._pid, fix)

    def _refused(self, reason: str) -> HeaptopError:
        return ImageRefused(f"No snapshot of process {self._pid} could be made: {reason}.").about(self._pid)


def _step(progress: images.Progress) -> str:
    """``finding dominators, 43 %, 12.0 MiB``"""
    part = f", {100 * progress.done / progress.total:.0f} %" if progress.total else ""
    taken = f", {format_bytes(progress.memory)}" if progress.memory else ""
    return progress.phase + part + taken


def image_remarks(attached: Attached, image: Image) -> list[str]:
    """Whose snapshot it is, what it cost, and what is not known."""
    target = attached.target
    return [
        f"{target.command} (pid {target.pid}, Python {attached.hello.python})",
        f"frozen for {format_duration_ns(image.pause_ns)}; {format_count(image.objects)} objects, "
        f"{format_bytes(image.bytes)}, and {format_count(image.edges)} references looked at in a clone, "
        f"{format_duration_ns(image.build_ns)} and {format_bytes(image.memory)} of tables",
        *(f"not known: {gap}" for gap in image.gaps),
    ]
