"""Marks: what is kept of a moment, and that a later image, told it, knows what is new."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heaptop.analysis.heap.history import Amount, History
from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.leaks.marks import (
    MarkContext,
    is_item,
    retainer_words,
    send_pieces,
    take_pieces,
)
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.asking import NotAnswered, drive
from heaptop.protocol import images
from heaptop.protocol.images import Ages, Live, Question, Step
from heaptop.protocol.messages import GcEvent, GcEvents, Tick, TypeName
from tests.fakes.heap import PlantedImage
from tests.fakes.shop import growing_shop
from tests.unit.hunting_cases import Hunting, image_of, put
from tests.unit.sample_cases import Program

SESSION = TypeName("shop.models", "Session")


def ages(planted: PlantedImage) -> Ages:
    answer = planted.answer(1, Question(images.AGES))
    assert isinstance(answer, Ages)
    return answer


def test_what_a_mark_keeps() -> None:
    planted = PlantedImage(growing_shop(1))
    hunt, history = LeakHunt(), History()
    history.feed(Tick(1, 7, 5_000_000, 9, True, (1, 2, 3), 0, 5, 0))
    image = image_of(planted, 1)
    put(hunt.check(image, planted.types, history, Sampling(), mark="before", collected=True), planted)
    (mark,), trends = hunt.marks, hunt.marks[0].trends
    assert (mark.facts.name, mark.facts.time_ns, mark.facts.collected) == ("before", 10 * 10**9, True)
    assert (mark.facts.objects, mark.facts.rss, mark.facts.collections) == (len(planted.graph.objects), 5_000_000, 0)
    assert sum(amount.count for amount in mark.types.values()) == mark.facts.objects
    assert sum(amount.bytes for amount in mark.types.values()) == mark.facts.bytes
    assert mark.types[SESSION].count == 80
    assert trends.amount("module shop.cache ._sessions", SESSION.full) == Amount(80, mark.types[SESSION].bytes)
    assert trends.amount("module shop.cache", SESSION.full) == Amount(80, mark.types[SESSION].bytes)
    assert trends.amount("module shop.cache ._sess", SESSION.full) == Amount(0, 0)
    lengths = {holder.type: holder.length for holder in trends.holders.values() if holder.length > 60}
    assert lengths["dict"] == 80
    assert len(hunt.pieces) > 1


def test_a_later_image_knows_how_many_marks_each_object_has_seen() -> None:
    hunting = Hunting()
    hunting.checks(3)
    planted = PlantedImage(growing_shop(4))
    known = put(send_pieces(hunting.hunt.pieces), planted)
    assert known == sum(row.count for row in ages(planted).rows if row.seen)
    seen = {row.seen: row.count for row in ages(planted).rows if planted.types[row.type] == SESSION}
    assert seen == {3: 80, 2: 30, 1: 30, 0: 30}


def test_a_mark_that_cannot_be_taken_is_none() -> None:
    hunting = Hunting()
    with pytest.raises(NotAnswered, match="cancelled"):
        hunting.check(refused=[images.LIVE])
    assert (hunting.hunt.marks, hunting.hunt.pieces) == ([], ())


def test_a_mark_that_cannot_be_taken_leaves_the_one_before() -> None:
    hunting = Hunting()
    hunting.checks(2)
    pieces = hunting.hunt.pieces
    with pytest.raises(NotAnswered):
        hunting.check(refused=[images.LIVE])
    assert (len(hunting.hunt.marks), hunting.hunt.pieces) == (2, pieces)
    hunting.check()
    assert hunting.hunt.pieces != pieces


@pytest.mark.parametrize(
    "lie",
    [
        Live(1, b"", next=1 << 40),
        Live(1, bytes(400), next=1),
        Live(1, bytes(images.LONGEST_PIECE + 1), next=0),
        Live(1, bytes(100), next=0),
    ],
    ids=["beyond its objects", "of more bytes than objects have", "longer than a query", "of more than there is"],
)
def test_a_hostile_mark_is_refused(lie: Live) -> None:
    objects = 2 if len(lie.data) == 100 else 1 << 30
    image = replace(image_of(PlantedImage(growing_shop(1)), 1), objects=objects)
    with pytest.raises(NotAnswered, match="larger than its objects allow"):
        drive(take_pieces(image), lambda _: lie)


def test_a_mark_that_never_ends_is_refused() -> None:
    image = replace(image_of(PlantedImage(growing_shop(1)), 1), objects=1 << 30)
    asked: list[Question] = []

    def ask(question: Question) -> Live:
        asked.append(question)
        return Live(1, b"", next=5)

    with pytest.raises(NotAnswered, match="larger than its objects allow"):
        drive(take_pieces(image), ask)
    assert [question.offset for question in asked] == [0, 5]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["module app.cache", "._sessions", "[*]", ".name"], "module app.cache ._sessions"),
        (["module app.cache", "._sessions"], "module app.cache ._sessions"),
        (["module app", ".local", ".client of a thread"], "module app .local"),
        (["module app", "", ".first", ".next"], "module app .first .next"),
        (["[*]"], "[*]"),
    ],
)
def test_the_words_of_a_retainer(labels: list[str], words: str) -> None:
    assert retainer_words([Step(label, 0, 1) for label in labels]) == words


def test_a_chain_is_one_step_of_many() -> None:
    steps = [Step("module app", 0, 1), Step(".first", 1, 2), Step(".next", 1, 3), Step(".next", 1, 0, repeated=True)]
    assert retainer_words(steps) == "module app .first"
    assert [is_item(label) for label in ("[*]", "[0]", "{*}", "(a key)", ".name", "")] == [True] * 4 + [False] * 2


def test_what_is_known_around_a_snapshot() -> None:
    history, sampling = History(), Sampling()
    nothing = MarkContext.of(history, sampling)
    assert (nothing.rss, nothing.collections, nothing.threads, nothing.voids) == (None, None, -1, -1)
    tick = Tick(1, 7, 4_096, 9, False, (1, 2, 3), 0, 5, 0, garbage=2, exits=4)
    events = GcEvents(
        tuple(GcEvent(each, generation, 0, 0, 1, None) for each, generation in enumerate((0, 2, 1, 2))), 0
    )
    for message in (tick, events):
        history.feed(message)
        sampling.feed(message)
    known = MarkContext.of(history, sampling)
    assert (known.time_ns, known.rss, known.collections, known.threads) == (7, 4_096, 2, 5)
    assert (known.garbage, known.exits, known.gc_enabled) == (2, 4, False)


def test_flows_are_by_site_and_type() -> None:
    sampling = Sampling()
    program = Program(samples=sampling.samples)
    sampling.sampling_status = sampling.sampling_status.after(sampling.samples.state)  # type: ignore[arg-type]
    blocks = [program.allocate(("main", "make:7"), 100, "Job") for _ in range(5)]
    program.allocate(("main", "make:7"), 30, "Name")
    program.free(blocks[0])
    program.run()
    flows = MarkContext.of(History(), sampling).flows
    (site,) = {site for site, _ in flows}
    assert site.endswith("app.py:7 make")
    job, name = flows[site, "app.Job"], flows[site, "app.Name"]
    assert (job.live.rounded_bytes, job.freed.rounded_bytes, name.live.rounded_bytes) == (400, 100, 30)
