"""A leak hunt without an agent: planted heaps that are asked directly."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from heaptop.analysis.heap.history import History
from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.asking import Asking, NotAnswered, T, drive
from heaptop.protocol.findings import Findings, Suspect
from heaptop.protocol.images import KINDS, Image, KindTotal, Question
from heaptop.protocol.messages import Message
from tests.fakes.graph import PlantedHeap
from tests.fakes.heap import PlantedImage, Refused
from tests.fakes.shop import growing_shop

SECOND = 10**9
SENTENCE = (
    "1,240 Session (+3.10 MiB) allocated at views.py:88 in create_session, all held by module app.cache ._sessions"
)
SUSPECT = Suspect(
    verdict="leak",
    type="app.models.Session",
    count=1_240,
    bytes=3_250_585,
    rate=21.0,
    site="app/views.py:88 create_session",
    stack=tuple(f"app/views.py:{line} f{line}" for line in (88, 70, 60, 50, 40)),
    site_share=1.0,
    samples=49,
    retainer="module app.cache ._sessions",
    holder="dict",
    path=("module app.cache", "._sessions", "dict[*]", "app.models.Session"),
    kind="module",
    held=1_240,
    point=0x7F00,
    example=0,
    generations=(620, 620),
    series=(80, -1, 1_320),
    evidence=("it grew in every interval", "none of the old ones went"),
    sentence=SENTENCE,
)


def image_of(planted: PlantedImage, number: int, *, gc_enabled: bool = True) -> Image:
    """As the agent tells of it: one each ten seconds."""
    graph = planted.graph
    size = sum(map(graph.size, graph.objects))
    return Image(
        id=number,
        image=number,
        time_ns=10 * number * SECOND,
        pause_ns=1,
        build_ns=1,
        keep_ns=1,
        pid=1,
        memory=1,
        objects=len(graph.objects),
        edges=0,
        bytes=size,
        kinds=tuple(
            KindTotal(kind, len(of_kind), sum(map(graph.size, of_kind)))
            for kind in range(len(KINDS))
            if (of_kind := [each for each in graph.objects if graph.kind[each] == kind])
        ),
        cycles=0,
        gc_enabled=gc_enabled,
    )


def put(asking: Asking[T], planted: PlantedImage, refused: Callable[[Question], bool] = lambda _: False) -> T:
    """Put all its questions to the image; some are not answered."""

    def ask(question: Question) -> Message:
        if refused(question):
            raise NotAnswered("it was cancelled")
        try:
            return planted.answer(1, question)
        except Refused as error:
            raise NotAnswered(str(error)) from error

    return drive(asking, ask)


@dataclass
class Hunting:
    """Looks at a heap that changes from image to image."""

    plant: Callable[[int], PlantedHeap] = growing_shop
    sampling: Sampling = field(default_factory=Sampling)
    history: History = field(default_factory=History)
    hunt: LeakHunt = field(default_factory=LeakHunt)
    gc_enabled: bool = True
    number: int = 0

    def check(
        self,
        mark: str | None = "mark",
        *,
        since: int = 0,
        until: int | None = None,
        refused: Collection[int] = (),
    ) -> Findings | None:
        """At the next image; questions of the kinds in ``refused`` are not answered."""
        self.number += 1
        planted = PlantedImage(self.plant(self.number))
        image = image_of(planted, self.number, gc_enabled=self.gc_enabled)
        asking = self.hunt.check(image, planted.types, self.history, self.sampling, mark=mark, since=since, until=until)
        return put(asking, planted, lambda question: question.what in refused)

    def checks(self, number: int, mark: str | None = "mark") -> Findings:
        """The last of several."""
        for _ in range(number - 1):
            self.check()
        found = self.check(mark)
        assert found is not None
        return found
