"""Questions to an open snapshot, as the clone reads them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.protocol.images import GROUPS, KNOWN, LONGEST_PIECE, LOSE, PATHS, STACKS, Question, Selection

numbers = st.lists(st.integers(0, (1 << 64) - 1), max_size=6).map(tuple)


def unpacked(data: bytes) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The head, and the nine lists behind it."""
    lists, _ = behind(data)
    return struct.unpack_from("<IIIIIIQQQ", data), lists


def behind(data: bytes) -> tuple[list[tuple[int, ...]], bytes]:
    """The nine lists, and what is behind them."""
    at, lists = 48, []
    for _ in range(9):
        (count,) = struct.unpack_from("<I", data, at)
        lists.append(struct.unpack_from(f"<{count}Q", data, at + 4))
        at += 4 + 8 * count
    return lists, data[at:]


def test_the_head_of_a_question_has_its_flags_and_numbers() -> None:
    question = Question(PATHS, offset=7, limit=20, number=5, modules=True, values=True, low=4096, high=1 << 47)
    assert unpacked(question.pack(9)) == ((PATHS, 3, 7, 20, 5, 0, 9, 4096, 1 << 47), [()] * 9)
    assert unpacked(Question(GROUPS, values=True).pack(1))[0][1] == 2
    assert unpacked(Question(STACKS, buffers=True).pack(1))[0][1] == 4


@given(st.tuples(*[numbers] * 9))
def test_the_lists_in_their_order(lists: tuple[tuple[int, ...], ...]) -> None:
    question = Question(LOSE, Selection(*lists[:6], retainers=lists[7], seen=lists[8]), excluded=lists[6])
    assert unpacked(question.pack(0))[1] == list(lists)


def test_what_is_known_stands_behind_the_lists() -> None:
    question = Question(KNOWN, Selection(addresses=(1, 2)), known=b"as another image gave it")
    assert behind(question.pack(0))[1] == b"as another image gave it"
    assert behind(Question(KNOWN).pack(0)) == ([()] * 9, b"")


def test_what_is_longer_than_the_agent_takes_is_refused() -> None:
    with pytest.raises(ValueError, match="the limit is 50000"):
        Question(LOSE, Selection(addresses=tuple(range(7000)))).pack(1)
    assert len(Question(KNOWN, known=bytes(LONGEST_PIECE)).pack(1)) < 1 << 19
    with pytest.raises(ValueError, match="the limit is 500000"):
        Question(KNOWN, known=bytes(LONGEST_PIECE + 1)).pack(1)
