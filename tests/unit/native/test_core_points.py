"""Where what is new since a mark accumulates, of structures in which leaks collect: each grows in its turn, and the
first point is the one that a person would name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from heaptop.protocol.images import NO_TYPE, POINTS, AccumulationPoint, Points, Question, Selection
from tests.interpreters import Interpreter
from tests.unit.native.test_core_image import Exercise, exercising

PROGRAM: Final = "module __main__"
SEEN: Final = Selection(seen=(0,))
NEW: Final = 1000


@pytest.fixture
def planted(interpreter: Interpreter) -> Iterator[Exercise]:
    with exercising(interpreter, "points_planted.py") as made:
        yield made


def grown(planted: Exercise, name: str, count: int = NEW) -> Points:
    """Where it accumulates since a mark right before."""
    mark = planted.mark()
    planted("grow", [name, count])
    planted.open()
    planted.tell(mark)
    found = planted.ask(Points, Question(POINTS, SEEN, number=70))
    planted.close()
    assert found.complete
    assert found.count == found.loose_count + sum(point.count for point in found.points)
    assert found.bytes == found.loose_bytes + sum(point.bytes for point in found.points)
    assert [point.bytes for point in found.points] == sorted((each.bytes for each in found.points), reverse=True)
    return found


@dataclass(frozen=True)
class SeekDone:
    """A point in words."""

    path: str
    type: str
    heads: str
    count: int

    @classmethod
    def of(cls, point: AccumulationPoint, planted: Exercise) -> SeekDone:
        names = {number: name for name, number in planted.types.items()}
        path = " ".join(step.label for step in point.path).removeprefix(PROGRAM + " ")
        return cls(path, names[point.type], names[point.head_type], point.head_count)


# some places may have been of the same type before: then there are a few less
ONE: Final = {
    "dict": SeekDone("BY_NAME", "dict", "__main__.Session", NEW),
    "attribute": SeekDone("APP .jobs", "list", "__main__.Session", NEW),
    "class": SeekDone("Member .registry", "list", "__main__.Session", NEW),
    "closures": SeekDone("HANDLERS", "list", "function", NEW),
    "deque": SeekDone("QUEUE", "collections.deque", "list", NEW),
    "cache": SeekDone("page", "functools._lru_cache_wrapper", "str", NEW),
    "members": SeekDone("MEMBERS", "dict", "__main__.Member", NEW),
    "tasks": SeekDone("WAITED", "list", "_asyncio.Future", NEW),
    "tail": SeekDone("APP .head .below .below", "__main__.Node", "__main__.Node", 1),
    "linked": SeekDone("APP .names", "list", "dict", 1),
    "nested": SeekDone("APP .jobs [*] [*] [*]", "dict", "bytearray", NEW),
}


@pytest.mark.pythons("3.8", "3.13")
def test_the_point_is_what_a_person_would_name(planted: Exercise) -> None:
    for name, wanted in ONE.items():
        found = grown(planted, name)
        first = found.points[0]
        told = SeekDone.of(first, planted)
        assert told.path == "." + wanted.path, name
        assert (told.type, told.heads) == (wanted.type, wanted.heads), name
        assert wanted.count * 0.95 <= told.count <= wanted.count, name
        assert first.seen == (name != "nested")
        assert first.address == first.path[-1].address
        assert first.bytes >= 0.7 * found.bytes
        assert first.head_bytes <= first.bytes <= first.retained


@pytest.mark.pythons("3.12")
def test_several_points_chains_and_what_is_loose(planted: Exercise) -> None:
    two = [SeekDone.of(point, planted) for point in grown(planted, "two").points]
    assert {each.path for each in two} == {".APP .pages", ".APP .users"}
    (stack,) = grown(planted, "stack").points
    assert SeekDone.of(stack, planted) == SeekDone(".APP", "__main__.App", "__main__.Node", 1)
    threads = grown(planted, "threads", 4).points
    assert {" ".join(step.label for step in point.path) for point in threads} == {f"{PROGRAM} .LOCAL .kept of a thread"}
    assert len(threads) == 4
    loose = grown(planted, "cycles")
    assert loose.points == ()
    assert loose.loose_count >= 2 * NEW * 0.95


@pytest.mark.pythons("3.12")
def test_points_of_everything_and_of_nothing(planted: Exercise) -> None:
    planted.open()
    whole = planted.ask(Points, Question(POINTS, number=70))
    assert (whole.count, whole.bytes) == (planted.image.objects, planted.image.bytes)
    assert planted.ask(Points, Question(POINTS, SEEN, number=70)) == whole, "no mark was told: everything is new"
    few = planted.ask(Points, Question(POINTS, number=51, limit=0))
    assert (few.points, few.loose_bytes) == ((), whole.bytes)
    nothing = planted.ask(Points, Question(POINTS, Selection(addresses=(8,)), number=70))
    assert (nothing.points, nothing.count, nothing.bytes, nothing.complete) == ((), 0, 0, True)
    for number in (0, 3, 50, 101, 2**32 - 1):
        assert planted.refusal(Question(POINTS, number=number)) == "most of it is a share of 51 to 100 per cent"
    planted.close()


@pytest.mark.pythons("3.8", "3.12")
def test_a_frame_may_be_a_point(planted: Exercise) -> None:
    point = grown(planted, "frame", 100 * NEW).points[0]
    assert (point.type, point.address, point.size, point.retained, point.length) == (NO_TYPE, 0, 0, 0, -1)
    assert [(step.label.endswith("held_by_frame()"), step.address) for step in point.path] == [(True, 0)]
    assert (point.head_count, point.count >= 3) == (3, True)
