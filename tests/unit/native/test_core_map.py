"""The heap map of an open snapshot: memory is where the target has it, no byte of it twice, and whose it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from heaptop.protocol.images import CELL, GROUPS, MAP, OBJECTS, Cells, Groups, Objects, Question, Selection
from tests.interpreters import Interpreter
from tests.unit.native.test_core_image import MAIN, Exercise, exercising

PAGE = 4096
LAST = 1 << 47


@pytest.fixture
def mapped(interpreter: Interpreter) -> Iterator[Exercise]:
    with exercising(interpreter, "map_blocks.py") as exercise:
        exercise.open()
        yield exercise
        exercise.close()


def cells(of: Exercise, low: int, high: int, limit: int, selection: Selection | None = None) -> list[tuple[int, ...]]:
    answer = of.ask(Cells, Question(MAP, selection or Selection(), limit=limit, low=low, high=high))
    assert (answer.low, answer.high) == (low, high)
    return list(CELL.iter_unpack(answer.cells))


def on_map(of: Exercise, selection: Selection) -> int:
    """Bytes."""
    return sum(size for size, *_ in cells(of, 0, LAST, 1000, selection))


def check_block(of: Exercise, name: str, address: int, at: int, size: int) -> None:
    begin, end = -(-at // PAGE) * PAGE, (at + size) // PAGE * PAGE
    for bytes, type, taken, _, _ in cells(of, begin, end, (end - begin) // PAGE):
        assert (bytes, type, taken) == (PAGE, of.types[name], 1000), name
    middle = (begin + end) // 2
    there = of.ask(Objects, Question(OBJECTS, low=middle, high=middle + 1))
    assert [row.address for row in there.rows] == [address], name


def check_things(of: Exercise) -> None:
    extents = of.ask(Cells, Question(MAP)).extents
    for name, (address, blocks) in of("blocks").items():
        for at, size in blocks:
            assert any(extent.low <= at and at + size <= extent.high for extent in extents), name
        at, size = blocks[-1]
        assert size > 10 * PAGE, name
        check_block(of, name, address, at, size)
        assert on_map(of, Selection(addresses=(address,))) == sum(size for _, size in blocks), name


def check_small_things(of: Exercise) -> None:
    """Values of attributes that are elsewhere (3.11, 3.12) are on the map too."""
    for name, addresses in of("alike").items():
        of_type = Selection(types=of.of_type(MAIN + name))
        (group,) = of.ask(Groups, Question(GROUPS, of_type)).rows
        assert (group.count, group.bytes) == (len(addresses), on_map(of, of_type))
        address = addresses[1000]
        there = of.ask(Objects, Question(OBJECTS, low=address, high=address + 1))
        assert [row.address for row in there.rows] == [address]
        assert there.total == 1


def test_a_byte_of_the_map_is_of_one_object(mapped: Exercise) -> None:
    extents = mapped.ask(Cells, Question(MAP)).extents
    assert [extent.low for extent in extents] == sorted(extent.low for extent in extents)
    for extent in extents:
        begin, end = extent.low // PAGE * PAGE, -(-extent.high // PAGE) * PAGE
        assert max(cells(mapped, begin, end, (end - begin) // PAGE))[0] <= PAGE, "a byte is of one object"
    assert 0.9 < sum(extent.bytes for extent in extents) / mapped.image.bytes <= 1
    check_things(mapped)
    check_small_things(mapped)
