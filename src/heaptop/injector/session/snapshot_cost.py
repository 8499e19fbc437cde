"""What an open snapshot costs while it is open, and when that is too much.

It is seen from outside, or, where heaptop may not look, from within the clone. Reads ``/proc`` only, and of the target
nothing at all: its page table is walked for nobody's figures. Decides nothing but :func:`excess`, which is a sentence;
the conversation acts on it.

    a page of the target      left alone    changed since         freed since
    the target has            shared        a copy of its own     nothing
    the clone has             shared        private: the cost     private: the cost

Private are also the clone's own tables. What is private is what is free again when the clone ends (measured, with small
and with huge pages); of the target's own private pages it is not known which are copies and which are new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from heaptop.injector.inspect import proc
from heaptop.injector.inspect.threads import thread_ids
from heaptop.injector.session.control_groups import PROC
from heaptop.injector.session.forecast import CLONE_LEAST, Headroom, rollup
from heaptop.protocol.images import CloseRequest, Image, ImageGone, ImageMemory, ImageRequest, Progress
from heaptop.protocol.messages import Failure, Message
from heaptop.protocol.source import ImageCost

SHARE: Final = 0.02
"""Of one core, what looking at a clone may take: its page table is as large as the target's, 12 ms a GiB."""


class SnapshotCost:
    """The image of one session: whether there is one, or will be, and what it costs."""

    def __init__(self, private: Callable[[int], int | None], clock: Callable[[], float] = time.monotonic) -> None:
        """``private`` is asked for the private bytes of the clone whose pid the target sees so; None: not known."""
        self._private = private
        self._clock = clock
        self._building = 0
        self._image: Image | None = None
        self._until = self._next_check = 0.0
        self._own = 0
        self._held: int | None = None
        self._closes: set[int] = set()  # Ids of the requests to end the image
        self._close_failed = False

    def on_close(self, request: CloseRequest) -> None:
        self._closes.add(request.id)

    def on_request(self, request: ImageRequest) -> None:
        self._building, self._own = request.id, 0

    def take(self, message: Message) -> None:
        """Take a message of the agent about the image."""
        match message:
            case Progress() if message.id == self._building:
                self._own = message.memory
            case Image():
                self._built(message)
            case ImageMemory():
                self._learn(message.holding)
            case ImageGone():
                self._image = None
                self._closes.clear()
            case Failure() if message.request in self._closes:
                self._close_failed = True
            case Failure() if message.request == self._building:
                self._building = 0

    def _built(self, image: Image) -> None:
        self._building, self._image, self._close_failed = 0, image, False
        self._until, self._next_check = self._clock() + image.keep_ns / 1e9, 0.0
        self._own, self._held = image.memory, None
        self._look()

    @property
    def is_open(self) -> bool:
        """Whether there is an image whose end the agent will report. Where it failed to end one, as without memory for
        the message, it is not known whether it is there, and its cost is still watched."""
        return self._image is not None and not self._close_failed

    @property
    def is_there(self) -> bool:
        """Whether there is an image, or one is being built."""
        return self._image is not None or self._building != 0

    def cost(self) -> ImageCost | None:
        """None where there is no image, nor will be. Of one that is being built only the tables are known."""
        if self._image is None:
            return ImageCost(0, self._own, None, 0.0) if self._building else None
        self._look()
        copied = None if self._held is None else self._held - self._own
        return ImageCost(self._image.image, self._own, copied, max(0.0, self._until - self._clock()))

    def _look(self) -> None:
        began = self._clock()
        if self._image is not None and began >= self._next_check:
            self._learn(self._private(self._image.pid))
            self._next_check = began + (self._clock() - began) / SHARE

    def _learn(self, held: int | None) -> None:
        """It reports the size of its tables by its own accounts, and not all of that is in use."""
        if held is not None:
            self._held, self._own = held, min(self._own, held)


def excess(cost: ImageCost, room: Headroom) -> str:
    """Why the image is to be ended now, as a sentence without its full stop; empty where it may stay. It may hold half
    of what there would be without it."""
    held = cost.own + (cost.copied or 0)
    if room.left is None or room.left >= max(held, CLONE_LEAST):
        return ""
    return (
        f"it used {held >> 20} MiB of memory and only {room.left >> 20} MiB were left: it was closed so that the "
        "program does not run out of memory"
    )


def private_bytes(pid: int, seen: int) -> int | None:
    """Private bytes of the clone of ``pid`` whose pid is ``seen`` in the target's namespace; None where it is gone, or
    not to be seen."""
    for clone in _children(pid):
        if _innermost(clone) == seen:
            try:
                return rollup(proc.text(PROC / str(clone) / "smaps_rollup")).get("Private_Dirty")
            except (OSError, ValueError):
                return None
    return None


def _children(pid: int) -> Iterator[int]:
    """Of all threads: a clone is its maker's child."""
    for tid in thread_ids(pid):
        try:
            yield from map(int, proc.text(PROC / f"{pid}/task/{tid}/children").split())
        except OSError:
            continue


def _innermost(pid: int) -> int:
    """Its pid in the namespace that it lives in; 0 when it is gone."""
    try:
        lines = proc.text(PROC / f"{pid}/status").split("\n")
    except OSError:
        return 0
    return next((int(line.split()[-1]) for line in lines if line.startswith("NSpid:")), pid)
