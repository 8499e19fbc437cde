"""What the fake agent says of open snapshots, by socket and in process: all answers, late ones, none, and the end."""

from __future__ import annotations

from collections import Counter

import pytest

from heaptop.protocol import images
from heaptop.protocol.codec import decode, encode, read_hello
from heaptop.protocol.images import (
    ANSWERS,
    CELL,
    KINDS,
    Ages,
    AskRequest,
    Blocks,
    CancelRequest,
    Cells,
    CloseRequest,
    Groups,
    Image,
    ImageGone,
    ImageRequest,
    ImageTypes,
    Live,
    Objects,
    Paths,
    Points,
    Progress,
    Question,
    Retainers,
    Selection,
)
from heaptop.protocol.messages import Collected, CollectRequest, Failure, Message, Tick
from heaptop.protocol.registry import REPLIES
from heaptop.protocol.source import Event, ImageCost, Received, Source
from tests.fakes.images import FakeImages, unpack
from tests.fakes.shop import (
    MORE_SESSIONS,
    NEW_PREVIEWS,
    PREVIEWS,
    SESSIONS,
    growing_shop,
)
from tests.fakes.source import SECOND, STACKS, START_NS, TOKEN, FakeAgent, FakeSource
from tests.unit.test_fake_agent import serving

EVERYTHING = Question(
    images.RETAINERS,
    Selection((1,), (2,), (3, 33), (4,), (5,), (6,), (7, 77), seen=(0,)),
    offset=8,
    limit=9,
    number=10,
    modules=True,
    excluded=(11,),
    values=True,
    low=12,
    high=13,
    known=b"14",
)
QUESTIONS = (
    *(Question(what) for what in (images.GROUPS, images.PATHS, images.OBJECTS, images.MAP, images.RETAINERS)),
    *(Question(images.STACKS), Question(images.LIVE), Question(images.LOSE, Selection(kinds=(5,)))),
    *(Question(images.AGES), Question(images.POINTS, number=70), Question(images.WASTE)),
)


@pytest.mark.parametrize("question", [Question(images.GROUPS), EVERYTHING])
def test_a_question_is_read_as_it_was_put(question: Question) -> None:
    assert unpack(question.pack(99)) == (99, question)


class Listener:
    """A source that is attached, and what it has said since it was last looked at."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.source = FakeSource()
        self.source.open(self.events.append)
        self.source.attach()
        self.images: FakeImages = self.source.agent.images
        self.said()

    def said(self) -> list[Message]:
        messages = [event.message for event in self.events if isinstance(event, Received)]
        self.events.clear()
        return messages

    def open(self, keep: float = 60.0) -> Image:
        id = self.source.image(keep)
        *_, types, image = self.said()
        assert isinstance(types, ImageTypes)
        assert isinstance(image, Image)
        assert image.id == types.id == id
        return image

    def ask(self, question: Question, image: int = 1) -> Message:
        id = self.source.ask(image, question)
        (answer,) = self.said()
        assert (answer.request if isinstance(answer, Failure) else getattr(answer, "id", -1)) == id
        return answer


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_every_answer_passes_the_codec(listener: Listener) -> None:
    def is_kept(message: Message) -> bool:
        return decode(encode(message), REPLIES) == message

    image = listener.open()
    answers = [listener.ask(each) for each in QUESTIONS]
    one, live = answers[2], answers[6]
    assert isinstance(one, Objects)
    assert isinstance(live, Live)
    answers.append(listener.ask(Question(images.OBJECT, Selection(addresses=(one.rows[0].address,)), values=True)))
    answers.append(listener.ask(Question(images.KNOWN, known=live.data)))
    known = {type(answer) for answer in answers}
    assert known == {*ANSWERS} - {images.Dumped}, "pieces of a heap dump are the core's own"
    assert all(map(is_kept, [image, *answers]))


def test_a_snapshot_is_asked_over_the_socket() -> None:
    with serving(FakeAgent()) as client:
        assert "image" in read_hello(client.payload(), TOKEN).capabilities
        client.ask(ImageRequest(1, 60 * SECOND))
        types, image = client.message(), client.message()
        assert isinstance(types, ImageTypes)
        assert isinstance(image, Image)
        assert [(total.kind, total.objects > 0) for total in image.kinds] == list(enumerate([1, 1, 1, 0, 1, 1]))
        client.ask(AskRequest(2, image.image, Question(images.GROUPS, limit=10_000).pack(2)))
        groups = client.message()
        assert isinstance(groups, Groups)
        assert sum(row.count for row in groups.rows) == image.objects
        assert sum(row.bytes for row in groups.rows) == image.bytes
        client.ask(AskRequest(3, image.image, b"no question"))
        assert client.message() == Failure(3, "the question is malformed")
        client.ask(CloseRequest(4))
        assert client.message() == ImageGone(1, "it was closed", expected=True)
        client.ask(AskRequest(5, image.image, Question(images.GROUPS).pack(5)))
        assert client.message() == Failure(5, "that snapshot is closed")


def test_a_fake_is_a_source() -> None:
    source: Source = FakeSource()
    assert source.image(60.0) != source.image(60.0)


def test_what_is_asked_before_the_attach_is_answered_then() -> None:
    source, events = FakeSource(), list[Event]()
    source.open(events.append)
    source.image(60.0)
    assert not events
    source.attach()
    assert [type(each.message) for each in events if isinstance(each, Received)] == [ImageTypes, Image]


def test_another_image_closes_the_one_before(listener: Listener) -> None:
    listener.open()
    listener.source.image(60.0)
    gone, _, image = listener.said()
    assert gone == ImageGone(1, "it was closed", expected=True)
    assert isinstance(image, Image)
    assert image.image == 2
    assert listener.ask(Question(images.GROUPS), image=1) == Failure(images.FIRST_ID + 2, "that snapshot is closed")


def test_its_time_is_over(listener: Listener) -> None:
    listener.open(keep=2.0)
    listener.source.tick(census=False)
    assert listener.images.is_open
    listener.said()
    listener.source.tick(census=False)
    gone, tick = listener.said()[:2]
    assert gone == ImageGone(1, "its time was over", expected=True)
    assert isinstance(tick, Tick)
    listener.source.close_snapshot()
    assert listener.said() == []


def test_what_it_costs_follows_each_tick(listener: Listener) -> None:
    def costs() -> list[ImageCost]:
        listener.events.clear()
        listener.source.tick(census=False)
        return [event for event in listener.events if isinstance(event, ImageCost)]

    assert costs() == []
    image = listener.open(keep=10.0)
    assert costs() == [ImageCost(1, image.memory, 1_310_720, 9.0)]
    listener.images.copied = None
    assert costs() == [ImageCost(1, image.memory, None, 8.0)]


def test_it_can_be_closed_for_a_reason(listener: Listener) -> None:
    listener.open()
    gone = listener.source.agent.answer(CloseRequest(1, "it took too much memory"))
    assert gone == [ImageGone(1, "it took too much memory", expected=False)]


def test_it_can_be_killed(listener: Listener) -> None:
    listener.open()
    listener.images.hold = True
    id = listener.source.ask(1, Question(images.GROUPS))
    listener.source.end_image("the clone was killed by signal 9")
    reason = "the clone was killed by signal 9"
    assert listener.said() == [Failure(id, reason), ImageGone(1, reason, expected=False)]


def test_it_can_be_refused_and_fail(listener: Listener) -> None:
    listener.images.refusal = "a snapshot needs the native core"
    id = listener.source.image(60.0)
    assert listener.said() == [Failure(id, "a snapshot needs the native core")]
    listener.images.refusal = ""
    listener.open()
    listener.images.failure = "the answer is longer than its room"
    assert isinstance(listener.ask(Question(images.GROUPS)), Failure)
    assert isinstance(listener.ask(Question(images.GROUPS)), Groups)
    listener.images.failure = "there was no memory for the graph"
    id = listener.source.image(60.0)
    closed, failure, gone = listener.said()
    assert closed == ImageGone(1, "it was closed", expected=True)
    assert failure == Failure(id, "there was no memory for the graph")
    assert gone == ImageGone(2, "there was no memory for the graph", expected=False)


def test_it_takes_its_time(listener: Listener) -> None:
    listener.images.progress, listener.images.hold = 2, True
    id = listener.source.image(60.0)
    waiting = listener.said()
    assert [(type(each), getattr(each, "id", -1)) for each in waiting] == [(Progress, id)] * 2
    asked = listener.source.ask(1, Question(images.GROUPS))
    assert [type(each) for each in listener.said()] == [Progress, Progress]
    listener.source.go_on()
    _, image, groups = listener.said()
    assert isinstance(image, Image)
    assert isinstance(groups, Groups)
    assert (image.id, groups.id) == (id, asked)


def test_what_waits_can_be_given_up(listener: Listener) -> None:
    listener.open()
    listener.images.hold = True
    first, second = (listener.source.ask(1, Question(images.GROUPS)) for _ in range(2))
    listener.source.give_up(second)
    assert listener.said() == [Failure(second, "cancelled")]
    listener.source.give_up(first)
    (answer,) = listener.said()
    assert isinstance(answer, Groups)
    assert (answer.id, answer.complete) == (first, False)
    building = listener.source.image(60.0)
    listener.said()
    listener.source.give_up(building)
    assert listener.said() == [Failure(building, "it was closed"), ImageGone(2, "it was closed", expected=True)]


def test_giving_up_what_is_answered_does_nothing() -> None:
    assert FakeAgent().answer(CancelRequest(7)) == []


# -- the shop -----------------------------------------------------------------------------------------------


def marked(listener: Listener, image: int) -> list[bytes]:
    live, at = [], 0
    while True:
        piece = listener.ask(Question(images.LIVE, offset=at), image)
        assert isinstance(piece, Live)
        live.append(piece.data)
        at = piece.next
        if not at:
            return live


def test_the_shop_leaks_sessions(listener: Listener) -> None:
    listener.open()
    live = marked(listener, 1)
    listener.source.image(60.0)
    names = next(each.names for each in listener.said() if isinstance(each, ImageTypes))
    for data in live:
        listener.ask(Question(images.KNOWN, known=data), image=2)
    new = listener.ask(Question(images.GROUPS, Selection(seen=(0,))), image=2)
    assert isinstance(new, Groups)
    assert (names[new.rows[0].type].full, new.rows[0].count) == ("shop.models.Session", 12)


def test_the_shop_has_what_views_show(listener: Listener) -> None:
    image = listener.open()
    assert 300 < image.objects < 2_000
    assert image.cycles == 6
    paths = listener.ask(Question(images.PATHS, limit=1_000))
    assert isinstance(paths, Paths)
    texts = [" ".join(step.label for step in group.steps) for group in paths.groups]
    assert "module shop.cache ._sessions [*] .basket [*]" in texts
    assert "frame worker() local rows [*]" in texts
    assert "module shop.billing .Invoice .total lru_cache of shop.billing.Invoice.total (a key)" in texts
    assert {KINDS[group.kind] for group in paths.groups} == {"module", "frame", "runtime", "c", "none"}
    assert any(step.repeated for group in paths.groups for step in group.steps)
    retainers = listener.ask(Question(images.RETAINERS, limit=1_000))
    assert isinstance(retainers, Retainers)
    shared = [{retainers.units[each].label for each in row.units} for row in retainers.rows if len(row.units) == 2]
    assert {"module shop.cache ._entries", "module shop.views .rendered"} in shared
    assert any(row.many for row in retainers.rows)
    blocks = listener.ask(Question(images.STACKS))
    assert isinstance(blocks, Blocks)
    assert {row.stack for row in blocks.rows} <= set(range(1, len(STACKS) + 1))


def test_the_shop_spreads_over_the_address_space(listener: Listener) -> None:
    image = listener.open()
    extents = listener.ask(Question(images.MAP))
    assert isinstance(extents, Cells)
    assert len(extents.extents) > 2
    arena = extents.extents[1]
    cells = listener.ask(Question(images.MAP, limit=64, low=arena.low, high=arena.high))
    assert isinstance(cells, Cells)
    taken = [CELL.unpack_from(cells.cells, at)[0] for at in range(0, len(cells.cells), CELL.size)]
    assert (len(taken), sum(taken)) == (64, arena.bytes)
    assert sum(each.bytes for each in extents.extents) == image.bytes


def test_a_growing_shop_has_a_leak_and_what_only_looks_like_one(listener: Listener) -> None:
    listener.images.plant = growing_shop
    mark: list[bytes] = []
    for image in (1, 2, 3):
        listener.source.image(60.0)
        names = next(each.names for each in listener.said() if isinstance(each, ImageTypes))
        for data in mark:
            listener.ask(Question(images.KNOWN, known=data), image)
        mark = marked(listener, image)
    ages = listener.ask(Question(images.AGES, limit=1_000), 3)
    assert isinstance(ages, Ages)
    seen = Counter({(names[row.type].qualname, row.seen): row.count for row in ages.rows})
    assert [seen["Session", each] for each in (0, 1, 2)] == [MORE_SESSIONS, MORE_SESSIONS, SESSIONS]
    assert [seen["Preview", each] for each in (0, 1, 2)] == [NEW_PREVIEWS, NEW_PREVIEWS, PREVIEWS - 2 * NEW_PREVIEWS]
    assert [seen["Quote", each] for each in (0, 1, 2)] == [4, 40, 20]
    assert [seen["Customer", each] for each in (0, 1, 2)] == [0, 0, 24]
    points = listener.ask(Question(images.POINTS, Selection(seen=(0, 1)), number=70), 3)
    assert isinstance(points, Points)
    found = {" ".join(step.label for step in point.path): point for point in points.points}
    assert list(found) == [
        "module shop.cache ._sessions",
        "module shop.views ._previews",
        "module shop.billing .quotes",
    ]
    first = found["module shop.cache ._sessions"]
    assert (names[first.head_type].qualname, first.head_count) == ("Session", 2 * MORE_SESSIONS)
    assert (points.loose_count, points.loose_bytes) == (0, 0)


def test_garbage_is_collected_when_it_is_asked_for(listener: Listener) -> None:
    assert listener.source.request(CollectRequest) == images.FIRST_ID
    listener.source.request(CollectRequest)
    first, second = listener.said()
    assert isinstance(first, Collected)
    assert isinstance(second, Collected)
    assert (first.id, first.collected > 0, second.collected) == (images.FIRST_ID, True, 0)
    with serving(listener.source.agent) as client:
        read_hello(client.payload(), TOKEN)
        client.ask(CollectRequest(7))
        assert client.message() == Collected(7, START_NS, 42_000_000, 0, 0)
