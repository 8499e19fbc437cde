"""The open snapshot as the core makes it, without an agent: what it answers about a planted heap, also to what is no
question, when there is no memory, no time, or nobody wants to know any more."""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import random
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heaptop.analysis.leaks.marks import retainer_words
from heaptop.protocol.codec import decode
from heaptop.protocol.framing import FrameReader
from heaptop.protocol.images import (
    AGES,
    CELL,
    GROUPS,
    KNOWN,
    LIVE,
    LONGEST_PIECE,
    LOSE,
    MAP,
    OBJECT,
    OBJECTS,
    PATHS,
    POINTS,
    RETAINERS,
    STACKS,
    UNREACHED,
    WASTE,
    Ages,
    Blocks,
    Cells,
    Groups,
    Image,
    ImageTypes,
    Known,
    Live,
    Losses,
    Object,
    Objects,
    Paths,
    Points,
    Question,
    Retainers,
    Selection,
    Waste,
)
from heaptop.protocol.messages import Failure, Message
from heaptop.protocol.registry import REPLIES
from tests.interpreters import Interpreter
from tests.support import native
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE, end

SECOND_NS: Final = 1_000_000_000
CANCELLED: Final = "cancelled"
TOO_MUCH: Final = "it would take more memory than it may"
SECRET: Final = "planted secret"
MAIN: Final = "__main__."
ALL: Final = 1 << 31
QUESTIONS: Final = range(GROUPS, WASTE + 1)
ANSWERS: Final = {
    GROUPS: Groups,
    PATHS: Paths,
    OBJECTS: Objects,
    OBJECT: Object,
    MAP: Cells,
    LOSE: Losses,
    RETAINERS: Retainers,
    STACKS: Blocks,
    LIVE: Live,
    KNOWN: Known,
    AGES: Ages,
    POINTS: Points,
    WASTE: Waste,
}
NUMBERS: Final = {KNOWN: 1, POINTS: 70}
M = TypeVar("M", bound=Message)


def messages(frames: bytes) -> list[Message]:
    found = [decode(payload, REPLIES) for payload in FrameReader().feed(frames)]
    return [message for message in found if message is not None]


class Exercise:
    """The target, and the image that it has open."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.types: dict[str, int] = {}
        self.image: Image
        self.places: dict[str, tuple[int, int]] = self("places")

    def __call__(self, name: str, argument: object = None) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, argument]).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the target has ended"
        return ast.literal_eval(line.decode())

    def take(self) -> list[Message]:
        taken = self("take")
        assert taken is not None, self("end")
        return messages(bytes.fromhex(taken))

    def open(self, keep_ns: int = 100 * SECOND_NS, memory: int = 0) -> None:
        options = {"id": 1, "image": 1, "keep_ns": keep_ns, "memory": memory, "gc_enabled": 1}
        begun = self("begin", options)
        assert isinstance(begun, int), begun
        *types, image = self.take()
        assert isinstance(image, Image)
        self.image = image
        names = [name for message in types if isinstance(message, ImageTypes) for name in message.names]
        self.types = {name.full: number for number, name in enumerate(names)}

    def close(self) -> None:
        assert self("end") == ("it was closed", True)

    def put(self, packed: bytes, *, cancel: bool = False) -> Message:
        assert self("ask_and_cancel" if cancel else "ask", packed.hex())
        (answer,) = self.take()
        return answer

    def raw(self, question: Question) -> bytes:
        """The answer's own bytes."""
        assert self("ask", question.pack(7).hex())
        return bytes.fromhex(self("take"))

    def ask(self, kind: type[M], question: Question) -> M:
        answer = self.put(question.pack(7))
        assert isinstance(answer, kind), answer
        assert getattr(answer, "id", 7) == 7
        return answer

    def refusal(self, question: Question) -> str:
        answer = self.ask(Failure, question)
        assert answer.request == 7
        return answer.text

    def at(self, *names: str) -> Selection:
        return Selection(addresses=tuple(self.places[name][0] for name in names))

    def of_type(self, name: str) -> tuple[int]:
        return (self.types[name],)

    def count(self, selection: Selection, **other: Any) -> int:
        return sum(row.count for row in self.ask(Groups, Question(GROUPS, selection, limit=ALL, **other)).rows)

    def live(self) -> list[bytes]:
        pieces, offset = [], 0
        while True:
            piece = self.ask(Live, Question(LIVE, offset=offset))
            assert len(piece.data) <= LONGEST_PIECE
            assert piece.next == 0 or piece.next > offset
            pieces.append(piece.data)
            offset = piece.next
            if not offset:
                return pieces

    def mark(self, before: Sequence[bytes] = ()) -> list[bytes]:
        """Of an image of its own, which knows the mark before."""
        self.open()
        self.tell(before)
        pieces = self.live()
        self.close()
        return pieces

    def tell(self, pieces: Sequence[bytes]) -> int:
        """Objects that were there at this mark."""
        return [0, *(self.ask(Known, Question(KNOWN, known=piece)).objects for piece in pieces)][-1]

    def ages(self, selection: Selection) -> dict[int, int]:
        """Objects by the number of marks that they have seen."""
        found: Counter[int] = Counter()
        for row in self.ask(Ages, Question(AGES, selection, limit=ALL)).rows:
            found[row.seen] += row.count
        return dict(found)


@contextlib.contextmanager
def exercising(interpreter: Interpreter, target: str = "image_exercise.py") -> Iterator[Exercise]:
    for companion in ("core_breaks.py", "sampling_agent.py", "image_exercise.py"):
        interpreter.place(TARGETS / companion)
    command = interpreter.command([interpreter.place(TARGETS / target), interpreter.place(native.core())])
    process = subprocess.Popen(
        list(map(str, command)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield Exercise(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        end(process)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def exercise(interpreter: Interpreter) -> Iterator[Exercise]:
    with exercising(interpreter) as made:
        yield made


@pytest.fixture
def opened(exercise: Exercise) -> Iterator[Exercise]:
    exercise.open()
    yield exercise
    exercise.close()


# -- what is answered ---------------------------------------------------------------------------------------


def check_groups(opened: Exercise) -> None:
    image = opened.image
    groups = opened.ask(Groups, Question(GROUPS, limit=ALL))
    assert groups.complete
    assert sum(row.count for row in groups.rows) == image.objects == sum(kind.objects for kind in image.kinds)
    assert sum(row.bytes for row in groups.rows) == image.bytes == sum(kind.bytes for kind in image.kinds)
    assert [row.retained for row in groups.rows] == sorted((row.retained for row in groups.rows), reverse=True)
    few = opened.ask(Groups, Question(GROUPS, limit=3))
    assert (few.rows, few.complete) == (groups.rows[:3], False)
    assert opened.ask(Groups, Question(GROUPS, limit=0)).rows == ()
    for kind in image.kinds:
        assert opened.count(Selection(kinds=(kind.kind,))) == kind.objects
    (sessions,) = opened.ask(Groups, Question(GROUPS, Selection(types=opened.of_type(MAIN + "Session")))).rows
    assert sessions.count == 100
    assert sessions.retained >= 100 * 3 * 100
    chain = opened.ask(Objects, Question(OBJECTS, opened.at("CHAIN"))).rows[0]
    links = Selection(types=(chain.type,), below=(chain.address,))
    (row,) = opened.ask(Groups, Question(GROUPS, links)).rows  # each is in the figure of the one above it
    assert (row.count, row.retained) == (9_999, chain.retained - chain.size)


def check_objects(opened: Exercise) -> None:
    parcels = Selection(types=opened.of_type(MAIN + "Parcel"))
    everything = opened.ask(Objects, Question(OBJECTS, parcels, limit=5000))
    assert everything.total == len(everything.rows) == len({row.address for row in everything.rows}) == 1000
    pages = [opened.ask(Objects, Question(OBJECTS, parcels, offset=i, limit=300)).rows for i in range(0, 1500, 300)]
    assert [row for page in pages for row in page] == list(everything.rows)
    largest = opened.ask(Objects, Question(OBJECTS, limit=2000)).rows
    assert [row.retained for row in largest] == sorted((row.retained for row in largest), reverse=True)
    assert all(row.retained >= row.size for row in largest)
    far = opened.ask(Objects, Question(OBJECTS, offset=opened.image.objects - 5, limit=100))
    assert len(far.rows) == 5
    assert opened.ask(Objects, Question(OBJECTS, offset=ALL, limit=ALL)).rows == ()
    (first,) = opened.ask(Objects, Question(OBJECTS, opened.at("FIRST"))).rows
    assert (first.size, first.length) == (opened.places["FIRST"][1], 2)


def check_one_object(opened: Exercise) -> None:
    found = opened.ask(Object, Question(OBJECT, opened.at("SHARED")))
    assert [link.address for link in found.referrers] == sorted(opened.places[name][0] for name in ("FIRST", "SECOND"))
    assert (found.referrer_count, found.referent_count, found.surplus) == (2, 1, 0)
    assert found.path[0].label == f"module {MAIN[:-1]}"
    records = [opened.ask(Object, Question(OBJECT, opened.at("RECORDS"), limit=7, offset=i)) for i in (50_000, 50_005)]
    assert {(each.referent_count, len(each.referents), each.referrers) for each in records} == {(60_000, 7, ())}
    assert records[0].referents[5:] == records[1].referents[:2]
    assert opened.refusal(Question(OBJECT)) == "more than one object is meant"
    assert opened.refusal(Question(OBJECT, Selection(addresses=(8,)))) == "there is no such object in the image"


def check_paths(opened: Exercise) -> None:
    sessions = Selection(types=opened.of_type(MAIN + "Session"))
    paths = opened.ask(Paths, Question(PATHS, sessions, limit=5))
    assert (paths.count, paths.other_groups, paths.complete) == (100, 0, True)
    (group,) = paths.groups
    assert [step.label for step in group.steps] == ["module __main__", ".SESSIONS", "[*]"]
    assert opened.count(Selection(path=(group.key,))) == 100
    assert opened.count(Selection(path=(group.key + 1,))) == 0
    (links,) = (
        each
        for each in opened.ask(Paths, Question(PATHS, opened.at("CHAIN"))).groups
        if each.steps[1].label == ".CHAIN"
    )
    assert links.count == 1
    deep = opened.ask(Paths, Question(PATHS, Selection(below=opened.at("CHAIN").addresses), limit=10))
    assert deep.count == 9_999
    assert len(deep.groups) < 5
    assert deep.groups[-1].steps[-1].repeated
    few = opened.ask(Paths, Question(PATHS, limit=2))
    assert len(few.groups) == 2
    assert few.other_groups > 10


def check_losses(opened: Exercise) -> None:
    sizes = {name: size for name, (_, size) in opened.places.items()}
    one, other = (opened.places[name][0] for name in ("FIRST", "SECOND"))
    lost = opened.ask(Losses, Question(LOSE, opened.at("FIRST", "SECOND")))
    assert lost.complete
    alone = {address: (objects, size) for address, objects, size in lost.alone}
    assert alone.keys() == {one, other}
    assert alone[one][0] == alone[other][0] == 3
    assert alone[other][1] - alone[one][1] == 1000
    shared = opened.ask(Object, Question(OBJECT, opened.at("SHARED"))).row
    assert (shared.size, lost.objects) == (sizes["SHARED"], 8)
    assert lost.bytes == alone[one][1] + alone[other][1] + shared.retained
    assert opened.count(Selection(below=(one,))) == 2
    assert opened.ask(Losses, Question(LOSE, Selection(addresses=(8,)))).objects == 0
    many = opened.ask(Losses, Question(LOSE, Selection(types=opened.of_type(MAIN + "Session"))))
    assert (many.complete, len(many.alone)) == (False, 64)


def check_retainers(opened: Exercise) -> None:
    shared = opened.at("SHARED")
    found = opened.ask(Retainers, Question(RETAINERS, shared))
    assert sorted(unit.label for unit in found.units) == ["module __main__ .FIRST", "module __main__ .SECOND"]
    (row,) = found.rows
    assert (row.count, row.many, len(row.units)) == (1, False, 2)
    (few,) = opened.ask(Retainers, Question(RETAINERS, shared, number=1)).rows
    assert (few.many, few.units) == (True, ())
    first = opened.places["FIRST"][0]
    without = opened.ask(Retainers, Question(RETAINERS, shared, excluded=(first,)))
    assert {unit.label for unit in without.units} == {"module __main__", "module __main__ .SECOND"}
    (module,) = opened.ask(Retainers, Question(RETAINERS, shared, modules=True)).units
    assert module.label == "module __main__"
    handled = Selection(types=opened.of_type(MAIN + "Handled"))
    found = opened.ask(Retainers, Question(RETAINERS, handled))
    (row,) = found.rows
    (unit,) = found.units
    assert (row.count, row.many, unit.several) == (30, False, True), "closures that read alike are one retainer"
    assert unit.label == "module __main__ .HANDLERS [*] closure of __main__.handler_of: kept"
    asked = Selection(handled.types, retainers=(unit.address,))
    assert opened.count(asked) == 30
    assert opened.count(asked, excluded=(unit.address,)) == 0
    for modules in (False, True):  # a unit's objects are those of all sets that it is in
        parcels = Selection(types=opened.of_type("bytes"))
        sets = opened.ask(Retainers, Question(RETAINERS, parcels, number=16, limit=5000, modules=modules))
        assert sets.complete
        assert sets.other_count == 0
        assert sum(row.count for row in sets.rows) == opened.count(parcels)
        many = sum(row.count for row in sets.rows if row.many)
        for place, unit in [(i, each) for i, each in enumerate(sets.units) if each.address][:12]:
            told = sum(row.count for row in sets.rows if place in row.units)
            narrowed = Selection(types=parcels.types, retainers=(unit.address,))
            assert told <= opened.count(narrowed, modules=modules) <= told + many
        units = Selection(types=parcels.types, retainers=tuple(each.address for each in sets.units))
        assert opened.count(units, modules=modules) >= sum(row.count for row in sets.rows if not row.many) // 2
    assert opened.count(Selection(addresses=shared.addresses, retainers=(first,))) == 1
    assert opened.count(Selection(addresses=shared.addresses, retainers=(first,)), excluded=(first,)) == 0
    assert opened.count(Selection(retainers=(8, 0))) == 0


def check_map(opened: Exercise) -> None:
    whole = opened.ask(Cells, Question(MAP))
    assert whole.complete
    assert whole.cells == b""
    assert [each.low for each in whole.extents if each.bytes == 0] == []
    largest = max(whole.extents, key=lambda each: each.bytes)
    for cells in (1, 7, 1000):
        found = opened.ask(Cells, Question(MAP, limit=cells, low=largest.low, high=largest.high))
        records = list(CELL.iter_unpack(found.cells))
        assert len(records) == cells
        assert sum(size for size, *_ in records) == largest.bytes
        assert all(taken <= 1000 for _, _, taken, _, _ in records)
    parcels = Selection(types=opened.of_type(MAIN + "Parcel"))
    only = opened.ask(Cells, Question(MAP, parcels, limit=50, low=0, high=1 << 47))
    kinds = {kind for size, kind, *_ in CELL.iter_unpack(only.cells) if size}
    assert kinds == {*parcels.types}


def test_every_answer_agrees_with_a_plain_walk_of_the_heap(opened: Exercise) -> None:
    check_groups(opened)
    check_objects(opened)
    check_one_object(opened)
    check_paths(opened)
    check_losses(opened)
    check_retainers(opened)
    check_map(opened)


def by_beginning(paths: Paths) -> Counter[tuple[str, int]]:
    """Bytes by retainer and type."""
    found: Counter[tuple[str, int]] = Counter()
    for group in paths.groups:
        found[retainer_words(group.steps), group.steps[-1].type] += group.bytes
    return found


@pytest.mark.parametrize("seen", [(), (0,)], ids=["everything", "a part"])
def test_beginnings_of_paths_have_what_the_paths_have(exercise: Exercise, seen: tuple[int, ...]) -> None:
    """Less is examined, and nothing is lost: not behind a chain, in attributes, below items of items."""
    exercise("nest", 500)
    exercise.open()
    exercise.tell([written(parsed(piece)[::2]) for piece in exercise.live()])
    types = tuple(exercise.types[name] for name in (MAIN + "Parcel", MAIN + "Session", "bytearray", "set"))
    selection = Selection(types, seen=seen)
    whole = exercise.ask(Paths, Question(PATHS, selection, limit=2000))
    begun = exercise.ask(Paths, Question(PATHS, selection, limit=2000, beginnings=True))
    assert (begun.count, begun.bytes, begun.other_groups) == (whole.count, whole.bytes, whole.other_groups)
    assert whole.other_groups == 0
    assert whole.count > 500
    assert sum(group.count for group in begun.groups) == begun.count
    assert sum(group.bytes for group in begun.groups) == begun.bytes
    assert [group.bytes for group in begun.groups] == sorted((group.bytes for group in begun.groups), reverse=True)
    assert {group.retained for group in begun.groups} == {0}
    assert len(begun.groups) < len(whole.groups)
    assert by_beginning(begun) == by_beginning(whole)
    exercise.close()


def addresses(exercise: Exercise, selection: Selection) -> list[int]:
    """Of up to 1,000 of these objects. What they retain may change from image to image: the program runs."""
    return sorted(row.address for row in exercise.ask(Objects, Question(OBJECTS, selection, limit=1000)).rows)


@pytest.mark.sample(2)
def test_a_path_means_the_same_objects_whether_or_not_this_image_has_reported_it(exercise: Exercise) -> None:
    """An image that has reported a path finds its objects from the root down, another one among all objects."""
    exercise("nest", 500)
    exercise.open()
    everything = exercise.ask(Paths, Question(PATHS, limit=2000)).groups
    sessions = exercise.ask(Paths, Question(PATHS, Selection(types=exercise.of_type(MAIN + "Session")))).groups
    chosen = {group.key: group.count for group in (*everything[:40], *everything[-40:], *sessions)}
    assert max(chosen.values()) > 500
    several = Selection(path=(*chosen, 12345))
    paths = [Selection(path=(key,)) for key in chosen]
    reported = [exercise.count(path) for path in paths]
    places = [addresses(exercise, path) for path in paths]
    assert reported == list(chosen.values())
    assert exercise.count(several) == sum(chosen.values())
    exercise.close()
    exercise.open()
    assert [exercise.count(path) for path in paths[:20]] == reported[:20]
    assert [addresses(exercise, path) for path in paths[:20]] == places[:20]
    assert exercise.count(several) == sum(chosen.values())
    exercise.close()


def test_paths_and_points_of_a_few_objects_are_those_that_all_of_them_have(opened: Exercise) -> None:
    """Few are examined one by one, many in the order in which they were reached."""
    many = opened.ask(Paths, Question(PATHS, limit=2000))
    ones = [group for group in many.groups if group.count == 1 and group.steps]
    assert len(ones) > 50
    for group in ones[:50]:
        (alone,) = opened.ask(Paths, Question(PATHS, Selection(addresses=(group.example,)))).groups
        assert (alone.key, alone.kind, alone.bytes, alone.retained) == (
            group.key,
            group.kind,
            group.bytes,
            group.retained,
        )
        assert [step.label for step in alone.steps] == [step.label for step in group.steps]
    chain = opened.at("CHAIN").addresses
    deep = opened.ask(Paths, Question(PATHS, Selection(below=chain)))
    assert deep.count == 9_999
    assert opened.count(Selection(path=tuple(group.key for group in deep.groups), below=chain)) == 9_999
    records = opened.ask(Object, Question(OBJECT, opened.at("RECORDS"))).row
    held = Selection(below=(records.address,))
    (point,) = opened.ask(Points, Question(POINTS, held, number=70)).points
    assert (point.address, point.count) == (records.address, opened.count(held))


def test_objects_below_others_are_those_that_they_dominate(opened: Exercise) -> None:
    """One below another counts itself; what is below none of them, and the uppermost themselves, do not."""
    (link,) = opened.at("CHAIN").addresses
    chain = []
    for _ in range(5):
        chain.append(link)
        row = opened.ask(Object, Question(OBJECT, Selection(addresses=(link,)), limit=10))
        (link,) = (each.address for each in row.referents if each.type == row.row.type)
    below = {
        address: {
            row.address
            for row in opened.ask(Objects, Question(OBJECTS, Selection(below=(address,)), limit=10_000)).rows
        }
        for address in chain
    }
    for above, under in itertools.pairwise(chain):
        assert below[above] == below[under] | {under}
    both = opened.ask(Objects, Question(OBJECTS, Selection(below=(chain[0], chain[3])), limit=10_000))
    assert {row.address for row in both.rows} == below[chain[0]]
    assert opened.count(Selection(below=(chain[3],), addresses=(chain[3], chain[4]))) == 1


# -- what was there before ----------------------------------------------------------------------------------


def test_what_is_new_since_another_one(exercise: Exercise) -> None:
    exercise("many", 400_000)
    exercise.open()
    pieces = exercise.live()
    assert len(pieces) > 1
    assert exercise.count(Selection(seen=(0,))) == exercise.image.objects  # nothing was told
    assert exercise.tell(pieces) == exercise.image.objects
    assert exercise.count(Selection(seen=(0,))) == 0
    part = exercise.tell(pieces[:1])  # forgets the others
    assert 0 < part < exercise.image.objects
    assert exercise.count(Selection(seen=(0,))) == exercise.image.objects - part
    assert exercise.tell(pieces[1:]) == exercise.image.objects
    old = {
        row.address
        for row in exercise.ask(
            Objects, Question(OBJECTS, Selection(types=exercise.of_type(MAIN + "Parcel")), limit=5000)
        ).rows
    }
    before = exercise.image.objects
    exercise.close()
    exercise("add", 5000)
    exercise.open()
    assert before - 500 < exercise.tell(pieces) <= before
    exercise("many", 0)
    new = Selection(types=exercise.of_type(MAIN + "Parcel"), seen=(0,))
    rows = exercise.ask(Objects, Question(OBJECTS, new, limit=10_000)).rows
    assert 4900 < len(rows) <= 5000  # a place may have been used before
    assert not old & {row.address for row in rows}
    exercise.close()


def test_how_many_marks_each_object_has_seen(exercise: Exercise) -> None:
    """As addresses and types say: births, deaths, and others of the type in places of the dead."""
    marks: list[list[bytes]] = [[]]
    there = []
    for added, dropped in ((3000, 0), (2000, 1000), (1500, 500)):
        exercise("add", added)
        exercise("drop", dropped)
        marks.append(exercise.mark(marks[-1]))
        there.append(set(exercise("parcels")))
    exercise("add", 1000)
    exercise("drop", 700)
    exercise("replace", 0)
    parcels, expected = exercise("parcels"), {}
    for address in parcels:
        expected[address] = next((i for i in range(3) if address not in there[2 - i]), 3)
    exercise.open()
    of_type = Selection(types=exercise.of_type(MAIN + "Parcel"))
    assert exercise.ages(of_type) == {0: len(parcels)}
    known = exercise.tell(marks[-1])
    assert known == exercise.image.objects - exercise.count(Selection(seen=(0,)))
    assert exercise.ages(of_type) == dict(Counter(expected.values()))
    for number in range(4):
        rows = exercise.ask(Objects, Question(OBJECTS, Selection(of_type.types, seen=(number,)), limit=9000)).rows
        assert {row.address for row in rows} == {address for address, seen in expected.items() if seen == number}
    assert exercise.count(Selection(seen=(0, 3))) == sum(exercise.count(Selection(seen=(each,))) for each in (0, 3))
    assert exercise.count(Selection(seen=(4, 2**40))) == 0
    check_ages(exercise)
    exercise.tell(marks[1])
    assert set(exercise.ages(Selection())) == {0, 1}  # the first piece forgets all
    exercise.close()


def check_ages(exercise: Exercise) -> None:
    everything = exercise.ask(Ages, Question(AGES, limit=ALL))
    assert everything.complete
    assert [row.bytes for row in everything.rows] == sorted((row.bytes for row in everything.rows), reverse=True)
    for row in everything.rows[:20]:
        (*groups,) = exercise.ask(Groups, Question(GROUPS, Selection((row.type,), seen=(row.seen,)), limit=ALL)).rows
        assert (row.count, row.bytes) == (sum(each.count for each in groups), sum(each.bytes for each in groups))
    few = exercise.ask(Ages, Question(AGES, limit=2))
    assert (few.rows, few.complete) == (everything.rows[:2], False)


def test_another_type_in_the_same_place_is_new(exercise: Exercise) -> None:
    first = exercise.mark()
    same = [exercise("replace", 0), exercise("replace", 1)]
    assert min(same) > 500
    second = exercise.mark(first)
    exercise("replace", 2)
    exercise.open()
    places = Selection(addresses=tuple(exercise("replaced")))
    exercise.tell(second)
    ages = exercise.ages(places)
    assert ages.get(1, 0) < 50  # of a type each, one in 256 of which hashes like the one before it
    assert ages.get(2, 0) < 10
    exercise.close()


def test_a_mark_begins_with_its_first_piece(opened: Exercise) -> None:
    (piece,), objects = opened.live(), opened.image.objects
    later = piece[:4] + bytes(4) + piece[8:]
    assert opened.refusal(Question(KNOWN, known=later)) == "the first piece of the mark is missing"
    assert opened.ages(Selection()) == {0: objects}
    assert opened.tell([piece]) == opened.tell([later]) == objects


# -- marks as bytes ---------------------------------------------------------------------------------------------

Record = tuple[int, int, int]
"""An address, the byte of its type, and how many marks it has seen."""
PLANE: Final = 40


def column(piece: bytes, at: int, count: int) -> tuple[bytes, int]:
    """A byte for each of ``count`` objects, and where it ends."""
    values, at = piece[at], at + 1
    if not values:
        return piece[at : at + count], at + count
    different, at = piece[at : at + values], at + values
    bits = (values - 1).bit_length()
    end = at + (bits * count + 7) // 8
    codes = int.from_bytes(piece[at:end], "little")
    return bytes(different[codes >> bits * i & (1 << bits) - 1] for i in range(count)), end


def column_of(values: bytes, chance: random.Random) -> bytes:
    """Such a column, in one of the ways to write it."""
    different = sorted(set(values))
    if len(different) > 16 or chance.random() < 0.2:
        return b"\0" + values
    bits = (len(different) - 1).bit_length()
    codes = sum(different.index(value) << bits * i for i, value in enumerate(values))
    return bytes([len(different), *different]) + codes.to_bytes((bits * len(values) + 7) // 8, "little")


def parsed(piece: bytes) -> list[Record]:
    """What a piece has, by its drawing in the core's answers_live.c."""
    assert piece[:4] == b"mark"
    at, place, records = 8, 0, []
    while at < len(piece):
        shift = 0
        while True:
            byte = piece[at]
            place, shift, at = place + ((byte & 127) << shift), shift + 7, at + 1
            if byte < 128:
                break
        bits, at = int.from_bytes(piece[at : at + 8], "little"), at + 8
        base = (place & (1 << PLANE) - 1) << 10 | place >> PLANE << 3
        addresses = [base + 16 * bit for bit in range(64) if bits >> bit & 1]
        types, at = column(piece, at, len(addresses))
        seen, at = column(piece, at, len(addresses))
        records += zip(addresses, types, seen, strict=True)
    return records


def written(records: Iterable[Record]) -> bytes:
    """The first piece, of these."""
    cells: dict[int, dict[int, tuple[int, int]]] = {}
    for address, type, seen in records:
        cells.setdefault((address >> 3 & 1) << PLANE | address >> 10, {})[address >> 4 & 63] = type, seen
    out, last, chance = bytearray(b"mark\1\0\0\0"), 0, random.Random(3)
    for place, cell in sorted(cells.items()):
        left, last = place - last, place
        while left >= 128:
            out.append(left & 127 | 128)
            left >>= 7
        out.append(left)
        out += sum(1 << bit for bit in cell).to_bytes(8, "little")
        for part in (0, 1):
            out += column_of(bytes(cell[bit][part] for bit in sorted(cell)), chance)
    return bytes(out)


def test_a_mark_has_all_objects_and_what_they_have_seen(opened: Exercise) -> None:
    first = [record for piece in opened.live() for record in parsed(piece)]
    assert len(first) == len({address for address, _, _ in first}) == opened.image.objects
    assert {seen for _, _, seen in first} == {0}
    rows = opened.ask(Objects, Question(OBJECTS, limit=ALL)).rows
    assert {row.address for row in rows} <= {address for address, _, _ in first}
    chance = random.Random(7)
    before = {address: chance.choice((0, 1, 9, 253, 254)) for address, _, _ in first}
    told = [(address, type, before[address]) for address, type, _ in first if before[address] != 9]
    for part in range(0, len(told), 20_000):
        piece = written(told[part : part + 20_000])
        opened.ask(Known, Question(KNOWN, known=piece if part == 0 else piece[:4] + bytes(4) + piece[8:]))
    later = [record for piece in opened.live() for record in parsed(piece)]
    seen = {0: 1, 1: 2, 9: 0, 253: 254, 254: 254}
    assert later == [(address, type, seen[before[address]]) for address, type, _ in first]


def test_a_mark_takes_two_bytes_an_object_at_most_where_ages_mix(opened: Exercise) -> None:
    """As many different ages as a hunt of ten minutes has marks, next to each other everywhere."""
    records, chance = [record for piece in opened.live() for record in parsed(piece)], random.Random(11)
    cells = Counter(address >> 10 for address, _, _ in records)
    dense = [each for each in records if cells[each[0] >> 10] >= 12]
    assert len(dense) > len(records) / 2
    told = [(address, type, chance.randrange(6)) for address, type, _ in dense]
    for part in range(0, len(told), 20_000):
        piece = written(told[part : part + 20_000])
        opened.ask(Known, Question(KNOWN, known=piece if part == 0 else piece[:4] + bytes(4) + piece[8:]))
    pieces = opened.live()
    assert len({seen for piece in pieces for _, _, seen in parsed(piece)}) == 7
    assert sum(map(len, pieces)) <= 2 * len(records)


def test_a_mark_of_another_heap_is_taken_for_what_it_says(opened: Exercise) -> None:
    """Whatever objects it has, at whatever addresses: the answer is that of a set."""
    here = {address: type for piece in opened.live() for address, type, _ in parsed(piece)}
    places = st.sampled_from(sorted(here)[::97]) | st.integers(0, (1 << 47) - 1).map(lambda each: each & ~7)
    records = st.tuples(places, st.booleans(), st.integers(0, 254))

    @given(st.lists(records, max_size=40, unique_by=lambda record: record[0]))
    @settings(max_examples=40, deadline=None)
    def check(chosen: list[tuple[int, bool, int]]) -> None:
        told = [(address, here.get(address, 5) ^ is_other, seen) for address, is_other, seen in chosen]
        there = [seen for address, type, seen in told if here.get(address) == type]
        assert opened.tell([written(told)]) == len(there)
        counted = Counter(min(seen + 1, 254) for seen in there)
        counted[0] += opened.image.objects - len(there)
        assert opened.ages(Selection()) == dict(counted)

    check()


def damaged(piece: bytes, chance: random.Random) -> bytes:
    cut = piece[: chance.randrange(len(piece))]
    flipped = bytearray(piece)
    for _ in range(chance.randrange(1, 5)):
        flipped[chance.randrange(len(flipped))] = chance.randrange(256)
    return chance.choice([cut, bytes(flipped), piece[:8] + chance.randbytes(chance.randrange(100))])


def test_a_damaged_mark_is_refused_or_taken_for_another(opened: Exercise) -> None:
    pieces, chance = opened.live(), random.Random(5)
    assert opened.refusal(Question(KNOWN)) == "the mark is damaged"
    told = opened.tell(pieces)
    assert opened.refusal(Question(KNOWN, known=pieces[0][:-1])) == "the mark is damaged"
    assert opened.image.objects - opened.count(Selection(seen=(0,))) == told  # as if that had not been
    for _ in range(100):
        answer = opened.put(Question(KNOWN, known=damaged(chance.choice(pieces), chance)).pack(7))
        assert isinstance(answer, (Known, Failure))
    assert opened.tell(pieces) == opened.image.objects


@given(st.binary(max_size=400))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_may_be_sent_as_a_mark(opened: Exercise, data: bytes) -> None:
    answer = opened.put(Question(KNOWN, known=b"mark\1\0\0\0" + data).pack(7))
    assert isinstance(answer, (Known, Failure))


# -- by whom it was allocated -------------------------------------------------------------------------------


def test_sampled_blocks_by_stack(exercise: Exercise) -> None:
    exercise.open()
    sentence = "allocations are not sampled, or the image is of the middle of a change"
    assert exercise.refusal(Question(STACKS)) == sentence
    assert exercise.refusal(Question(GROUPS, Selection(stacks=(1,)))) == sentence
    exercise.close()
    sites = exercise("sample")
    exercise.open()
    texts = exercise.of_type("bytes")
    for name, count, size in (("make_small", 500, 300), ("make_large", 70, 3000)):
        nodes = {node for each, listed in sites.items() if each in (name, "<listcomp>") for node in listed}
        blocks = exercise.ask(Blocks, Question(STACKS, Selection(types=texts), limit=ALL))
        assert blocks.complete
        (row,) = (each for each in blocks.rows if each.count == count and each.bytes // count in range(size, size + 64))
        assert row.stack in nodes
        assert exercise.count(Selection(types=texts, stacks=(row.stack,))) == count
        (one,) = exercise.ask(Objects, Question(OBJECTS, Selection(types=texts, stacks=(row.stack,)), limit=1)).rows
        assert one.stack == row.stack
    (first,) = exercise.ask(Blocks, Question(STACKS, limit=1)).rows
    everything = exercise.ask(Blocks, Question(STACKS, limit=ALL)).rows
    assert first == everything[0]
    assert [row.bytes for row in everything] == sorted((row.bytes for row in everything), reverse=True)
    assert exercise.ask(Blocks, Question(STACKS, Selection(addresses=(8,)))).rows == ()
    exercise.close()
    exercise("unsample")


@pytest.mark.parametrize(("name", "size"), [("bytearray", 5000), ("list", 5600), ("dict", 2400), ("set", 8192)])
def test_sampled_tables_and_buffers(exercise: Exercise, name: str, size: int) -> None:
    nodes = exercise("sample")["make_buffers"]
    exercise.open()
    selection = Selection(types=exercise.of_type(name))
    counts, sums = [], []
    for buffers in (False, True):
        blocks = exercise.ask(Blocks, Question(STACKS, selection, limit=ALL, buffers=buffers))
        rows = [row for row in blocks.rows if row.stack in nodes]
        counts.append(sum(row.count for row in rows))
        sums.append(sum(row.bytes for row in rows))
    exercise.close()
    exercise("unsample")
    assert counts[1] - counts[0] == 40 + (name == "list"), "what it kept them in has grown"
    assert 40 * size <= sums[1] - sums[0] < 80 * size


@pytest.mark.parametrize(
    ("name", "each"),
    [
        ("collections.deque", 8),
        ("collections.OrderedDict", 20),
        ("array.array", 1),
        ("_io.StringIO", 1),
        (MAIN + "Buffer", 1),
    ],
)
def test_blocks_of_c_types_have_the_stack_that_put_items_there(
    exercise: Exercise, name: str, each: int
) -> None:
    nodes = exercise("sample")["hold_in_c_types"]
    exercise.open()
    selection = Selection(types=exercise.of_type(name))
    counts = []
    for buffers in (False, True):
        blocks = exercise.ask(Blocks, Question(STACKS, selection, limit=ALL, buffers=buffers))
        counts.append(sum(row.count for row in blocks.rows if row.stack in nodes))
    exercise.close()
    exercise("unsample")
    assert counts[1] - counts[0] == 40 * each


def test_blocks_that_no_object_has_are_found_by_the_stack_that_allocated_them(exercise: Exercise) -> None:
    sites = exercise("sample")
    exercise.open()
    blocks = exercise.ask(Blocks, Question(UNREACHED, limit=ALL))
    found = {
        name: (sum(row.count for row in rows), sum(row.bytes for row in rows))
        for name, nodes in sites.items()
        if (rows := [row for row in blocks.rows if row.stack in nodes])
    }
    exercise.close()
    exercise("unsample")
    assert blocks.complete
    assert found["lose_references"][0] == 50
    assert 50 * 900 <= found["lose_references"][1] < 50 * 1100
    assert found["lose_blocks"] == (60, 60 * 700)
    holding = ("make_small", "make_large", "make_buffers", "hold_in_c_types", "fill_free_lists")
    held = sum(found[name][0] for name in holding if name in found)
    assert held < 5, f"objects have them, or they wait in free lists: {found}"


# -- what must not be told ----------------------------------------------------------------------------------


def test_values_are_shown_where_they_were_asked_for_and_of_exact_built_in_types_only(opened: Exercise) -> None:
    shown = {
        "str": f"'{SECRET}'",
        "int": "90000001",
        "bool": "True",
    }
    words = {
        "str": "14 characters",
        "int": "",
        "bool": "",
        "Text": "14 characters",
        "bytes": "14 bytes",
        "huge": "",
        "list": "2 items, the first: str",
        "tuple": "3 items, the first: str",
        "dict": "1 item, the first: str → list",
        "set": "1 item",
        "class": "__main__.Session",
        "function": "__main__.chain()",
    }
    for name, text in words.items():
        selection = opened.at(name)
        assert opened.ask(Object, Question(OBJECT, selection)).preview == text
        assert opened.ask(Object, Question(OBJECT, selection, values=True)).preview == shown.get(name, text)
        for what in set(QUESTIONS) - {KNOWN, STACKS}:
            assert SECRET.encode() not in opened.raw(Question(what, selection, number=NUMBERS.get(what, 3)))
    assert SECRET.encode() in opened.raw(Question(OBJECT, opened.at("str"), values=True))


# -- what is no question ------------------------------------------------------------------------------------


numbers = st.integers(0, 2**64 - 1) | st.integers(0, 10)
lists = st.lists(numbers, max_size=4)
questions = st.builds(
    lambda head, many, tail: (
        struct.pack("<IIIIIIQQQ", *head) + b"".join(struct.pack(f"<I{len(x)}Q", len(x), *x) for x in many) + tail
    ),
    st.tuples(
        st.sampled_from([*QUESTIONS]) | st.integers(0, 2**32 - 1),
        *[st.integers(0, 2**32 - 1) | st.integers(0, 8)] * 5,
        *[numbers] * 3,
    ),
    st.lists(st.just([]) | lists, min_size=9, max_size=9) | st.lists(lists, max_size=10),
    st.just(b"") | st.binary(max_size=20),
)


@pytest.mark.pythons("3.8", "3.11", "3.13")
def test_a_damaged_question_gets_an_answer_or_a_failure(interpreter: Interpreter) -> None:
    with exercising(interpreter) as exercise:
        exercise.open()
        places = [address for address, _ in exercise.places.values()]

        @settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
        @given(questions | st.binary(max_size=300), st.lists(st.sampled_from(places), max_size=2))
        def put(packed: bytes, addresses: list[int]) -> None:
            answer = exercise.put(packed)
            assert type(answer) in {Failure, *ANSWERS.values()}
            if isinstance(answer, Failure):
                assert answer.text
            for what in QUESTIONS:
                if what not in (STACKS, KNOWN):  # the image still answers what is one
                    only = Selection(addresses=tuple(addresses[:1] or places[:1]))
                    asked = Question(what, only, limit=3, number=NUMBERS.get(what, 3))
                    if packed[:4] == what.to_bytes(4, "little"):
                        exercise.ask(ANSWERS[what], asked)

        put()
        exercise.close()


@pytest.mark.pythons("3.12")
def test_a_question_longer_than_its_room(opened: Exercise) -> None:
    assert opened("ask", bytes((1 << 19) + 1).hex()) is False
    answer = opened.put(bytes(1 << 19))
    assert isinstance(answer, Failure)


# -- limits -------------------------------------------------------------------------------------------------


@pytest.mark.pythons("3.8", "3.12", "3.14")
def test_no_answer_takes_a_pass_over_the_whole_for_each_item(exercise: Exercise) -> None:
    """Of large dicts whose oldest entries are gone, and of what is nested deep: else its time would be over."""
    exercise("make", 150_000)
    exercise.open(keep_ns=15 * SECOND_NS)
    entries = Selection(types=exercise.of_type(MAIN + "Entry"))
    assert exercise.ask(Paths, Question(PATHS, entries)).count == 450_000
    found = exercise.ask(Retainers, Question(RETAINERS, entries, modules=True))
    assert [unit.label for unit in found.units] == ["module __main__"]
    assert sum(row.count for row in found.rows) == 450_000
    exercise.close()


@pytest.mark.pythons("3.8", "3.13")
def test_objects_far_from_each_other_are_found_by_their_numbers(exercise: Exercise) -> None:
    planted = exercise("make_far", 150)
    exercise.open()
    far = Selection(types=exercise.of_type(MAIN + "Far"))
    found = exercise.ask(Objects, Question(OBJECTS, far, limit=200))
    assert sorted(row.address for row in found.rows) == planted
    exercise.close()


@pytest.mark.pythons("3.12")
def test_one_that_nobody_has_seen_the_end_of_makes_room_for_the_next(opened: Exercise) -> None:
    options = {"id": 1, "image": 1, "keep_ns": 100 * SECOND_NS, "memory": 0, "gc_enabled": 1}
    assert opened("begin", options) == "there is an image already"
    opened("kill")
    opened("wait")
    opened.open()
    assert opened.count(Selection()) == opened.image.objects


@pytest.mark.pythons("3.8", "3.12")
def test_a_wait_ends_with_the_answer_or_its_time_and_leaves_the_interpreter_to_others(opened: Exercise) -> None:
    question = Question(GROUPS, limit=ALL).pack(7).hex()
    assert opened("may_wait") is False  # for what nobody asked
    assert opened("await_answer", question) == (True, 1)
    assert opened("may_wait") is True  # the answer is there
    opened.take()
    assert opened("wait_in_vain", question) == (True, True)
    opened.take()


def test_its_time_is_over(exercise: Exercise) -> None:
    exercise.open(keep_ns=SECOND_NS)
    assert exercise.count(Selection()) == exercise.image.objects
    exercise("wait")
    assert exercise("ask", Question(GROUPS).pack(7).hex()) is False
    assert exercise("end") == ("its time was over", True)
    assert exercise("end") == ("there is none", True)


def test_who_gives_a_question_up_is_told_so_and_may_ask_again(opened: Exercise) -> None:
    """Cancelled before it is looked at: nothing of it was done."""
    (piece, *_) = opened.live()
    for what in set(QUESTIONS) - {STACKS}:
        selection = opened.at("FIRST") if what == OBJECT else Selection()
        known = piece if what == KNOWN else b""
        question = Question(what, selection, number=NUMBERS.get(what, 3), known=known)
        assert opened.put(question.pack(7), cancel=True) == Failure(7, CANCELLED)
        assert isinstance(opened.put(question.pack(7)), ANSWERS[what])


def test_given_up_at_some_time(opened: Exercise) -> None:
    """It says that it is incomplete, where it is not."""
    whole = opened.ask(Groups, Question(GROUPS, limit=ALL))
    for what in (GROUPS, PATHS, MAP, RETAINERS, OBJECTS, AGES, POINTS, WASTE) * 3:
        assert opened("ask", Question(what, limit=100, number=NUMBERS.get(what, 3)).pack(7).hex())
        opened("look")
        opened("cancel")
        (answer,) = opened.take()
        assert answer == Failure(7, CANCELLED) or isinstance(answer, ANSWERS[what])
        if isinstance(answer, Groups) and answer.complete:
            assert answer.rows == whole.rows[:100]
    assert opened.ask(Groups, Question(GROUPS, limit=ALL)) == whole


def refused(exercise: Exercise, memory: int) -> bool:
    """Whether it does not get along with so much; what comes of it is right, or says why there is none."""
    options = {"id": 1, "image": 1, "keep_ns": 100 * SECOND_NS, "memory": memory, "gc_enabled": 1}
    assert isinstance(exercise("begin", options), int)
    taken = exercise("take")
    if taken is None:
        assert exercise("end") == (TOO_MUCH, False)
        return True
    *_, image = messages(bytes.fromhex(taken))
    assert isinstance(image, Image)
    assert image.memory <= memory
    assert exercise.count(Selection()) == image.objects
    exercise.close()
    return False


@pytest.mark.pythons("3.8", "3.11", "3.13")
def test_no_more_memory_than_it_may(exercise: Exercise) -> None:
    """In whatever phase it ends."""
    exercise.open()
    needed = exercise.image.memory
    exercise.close()
    assert refused(exercise, 1)
    tried = [refused(exercise, needed * tenth // 10) for tenth in range(1, 31, 2)]
    assert tried[:4] == [True] * 4
    assert not tried[-1]
    assert tried == sorted(tried, reverse=True)
