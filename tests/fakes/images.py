"""What a fake agent says of open snapshots: answers from a planted heap; late, none or an end where it is told so.

This module never starts a process, and reads no clock: the fake agent tells it the time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from heaptop.protocol.images import (
    KINDS,
    AskRequest,
    CancelRequest,
    CloseRequest,
    Image,
    ImageGone,
    ImageRequest,
    ImageTypes,
    KindTotal,
    Progress,
    Question,
    Selection,
)
from heaptop.protocol.messages import Failure, Message
from heaptop.protocol.source import ImageCost
from tests.fakes.graph import PlantedHeap
from tests.fakes.heap import PlantedImage, Refused
from tests.fakes.shop import shop

HEAD: Final = struct.Struct("<IIIIIIQQQ")
LISTS: Final = 9
CLONE: Final = 4_301
"""Process id of the first image's clone; each one after it has the next."""


def unpack(body: bytes) -> tuple[int, Question]:
    """The id and the question of :meth:`~heaptop.protocol.images.Question.pack`.

    Raises:
        struct.error: the bytes end before the lists do.
    """
    what, flags, offset, limit, number, _, id, low, high = HEAD.unpack_from(body)
    lists, at = [], HEAD.size
    for _ in range(LISTS):
        (count,) = struct.unpack_from("<I", body, at)
        lists.append(struct.unpack_from(f"<{count}Q", body, at + 4))
        at += 4 + 8 * count
    types, kinds, addresses, stacks, below, path, excluded, retainers, seen = lists
    selection = Selection(types, kinds, addresses, stacks, below, path, retainers, seen)
    return id, Question(
        what,
        selection,
        offset=offset,
        limit=limit,
        number=number,
        modules=bool(flags & 1),
        excluded=excluded,
        values=bool(flags & 2),
        buffers=bool(flags & 4),
        containers=bool(flags & 16),
        low=low,
        high=high,
        known=body[at:],
    )


class FakeImages:
    """One open snapshot at a time. What it is told stays so, but for :attr:`failure`."""

    def __init__(self, plant: Callable[[int], PlantedHeap] = shop) -> None:
        self.plant = plant
        """The heap of the image with this number, from 1."""
        self.refusal = ""
        """Why it opens none; empty where it does."""
        self.failure = ""
        """What it says instead of the next image or answer; taken back once said."""
        self.progress = 0
        """How often it says how far it has come, before each image and each answer."""
        self.hold = False
        """Whether all that is asked waits, until :meth:`go_on`, or until it is cancelled or the image ends."""
        self.copied: int | None = 1_310_720
        """Bytes that the clone alone still has; None where nobody can tell."""
        self.asked: list[Question] = []
        """All questions there were."""
        self.number = 0
        """Of the last image."""
        self._image: PlantedImage | None = None
        self._until_ns = 0
        self._waiting: list[ImageRequest | AskRequest] = []

    @property
    def is_open(self) -> bool:
        return self._image is not None

    def answer(self, request: Message, time_ns: int) -> list[Message]:
        if isinstance(request, ImageRequest):
            return self._open(request, time_ns)
        if isinstance(request, AskRequest):
            return self._ask(request, time_ns)
        if isinstance(request, CancelRequest):
            return self._cancel(request.id, time_ns)
        if isinstance(request, CloseRequest):
            return self.end(request.why or "it was closed", expected=not request.why)
        return [Failure(-1, f"{type(request).__name__} is not about images")]

    def end(self, reason: str = "it was closed", expected: bool = True) -> list[Message]:
        """End the image, where there is one; what is asked of it fails."""
        if self._image is None:
            return []
        waiting, self._waiting, self._image = self._waiting, [], None
        return [*(Failure(each.id, reason) for each in waiting), ImageGone(self.number, reason, expected)]

    def pass_time(self, time_ns: int) -> list[Message]:
        return self.end("its time was over") if time_ns >= self._until_ns else []

    def cost(self, time_ns: int) -> ImageCost | None:
        """What it costs, as seen from outside; None where there is none."""
        if self._image is None:
            return None
        return ImageCost(self.number, self._own(self._image), self.copied, max(0, self._until_ns - time_ns) / 1e9)

    def go_on(self, time_ns: int) -> list[Message]:
        """Answer all that waits."""
        self.hold = False
        told: list[Message] = []
        while self._waiting:
            told += self._say(self._waiting.pop(0), time_ns)
        return told

    # -- requests

    def _open(self, request: ImageRequest, time_ns: int) -> list[Message]:
        gone = self.end()
        if self.refusal:
            return [*gone, Failure(request.id, self.refusal)]
        self.number += 1
        self._image = PlantedImage(self.plant(self.number))
        self._until_ns = time_ns + request.keep_ns
        return [*gone, *self._take(request, time_ns)]

    def _ask(self, request: AskRequest, time_ns: int) -> list[Message]:
        if self._image is None or request.image != self.number:
            return [Failure(request.id, "that snapshot is closed")]
        return self._take(request, time_ns)

    def _take(self, request: ImageRequest | AskRequest, time_ns: int) -> list[Message]:
        phase = "walking the heap" if isinstance(request, ImageRequest) else "answering"
        told: list[Message] = [
            Progress(request.id, phase, 1_000 * (each + 1), 1_000 * (self.progress + 1), 65_536 * (each + 1))
            for each in range(self.progress)
        ]
        if self.hold:
            self._waiting.append(request)
            return told
        return [*told, *self._say(request, time_ns)]

    def _cancel(self, id: int, time_ns: int) -> list[Message]:
        """An answer that is given up is partial; one that had not begun is none."""
        for place, request in enumerate(self._waiting):
            if request.id != id:
                continue
            if isinstance(request, ImageRequest):
                return self.end()
            del self._waiting[place]
            if place:
                return [Failure(id, "cancelled")]
            return [_partial(each) for each in self._say(request, time_ns)]
        return []

    # -- answers

    def _say(self, request: ImageRequest | AskRequest, time_ns: int) -> list[Message]:
        assert self._image is not None
        failure, self.failure = self.failure, ""
        if failure and isinstance(request, ImageRequest):
            self._waiting.insert(0, request)
            return self.end(failure, expected=False)
        if failure:
            return [Failure(request.id, failure)]
        if isinstance(request, ImageRequest):
            return [ImageTypes(request.id, 0, tuple(self._image.types)), self._told(self._image, request.id, time_ns)]
        try:
            id, question = unpack(request.body)
            self.asked.append(question)
            return [self._image.answer(id, question)]
        except struct.error:
            return [Failure(request.id, "the question is malformed")]
        except Refused as error:
            return [Failure(request.id, str(error))]

    def _own(self, image: PlantedImage) -> int:
        """Bytes of its tables."""
        return 60 * len(image.graph.objects)

    def _told(self, image: PlantedImage, id: int, time_ns: int) -> Image:
        graph = image.graph
        totals = []
        for kind in range(len(KINDS)):
            nodes = [each for each in graph.objects if graph.kind[each] == kind]
            totals.append(KindTotal(kind, len(nodes), sum(map(graph.size, nodes))))
        return Image(
            id,
            image=self.number,
            time_ns=time_ns,
            pause_ns=3_100_000,
            build_ns=420 * len(graph.objects),
            keep_ns=max(0, self._until_ns - time_ns),
            pid=CLONE + self.number - 1,
            memory=self._own(image),
            objects=len(graph.objects),
            edges=sum(map(len, graph.references.values())),
            bytes=sum(map(graph.size, graph.objects)),
            kinds=tuple(totals),
            cycles=sum(KINDS[graph.kind[root]] == "none" for root in graph.roots),
            gc_enabled=True,
        )


def _partial(message: Any) -> Message:
    told: Message = replace(message, complete=False) if hasattr(message, "complete") else message
    return told
