"""Questions to an open snapshot, as the clone reads them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.protocol.images import GROUPS, LOSE, PATHS, Question, Selection

numbers = st.lists(st.integers(0, (1 << 64) - 1), max_size=6).map(tuple)


def unpacked(data: bytes) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The head, and the lists behind it."""
    head, at = struct.unpack_from("<IIIIIIQQQ", data), 48
    lists = []
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        lists.append(struct.unpack_from(f"<{count}Q", data, at + 4))
        at += 4 + 8 * count
    return head, lists


def test_the_head() -> None:
    question = Question(PATHS, offset=7, limit=20, number=5, modules=True, values=True, low=4096, high=1 << 47)
    assert unpacked(question.pack(9)) == ((PATHS, 3, 7, 20, 5, 0, 9, 4096, 1 << 47), [()] * 7)
    assert unpacked(Question(GROUPS, values=True).pack(1))[0][1] == 2


@given(st.tuples(*[numbers] * 7))
def test_the_lists_in_their_order(lists: tuple[tuple[int, ...], ...]) -> None:
    question = Question(LOSE, Selection(*lists[:6]), excluded=lists[6])
    assert unpacked(question.pack(0))[1] == list(lists)


def test_too_many_addresses_are_refused() -> None:
    with pytest.raises(ValueError, match="room for 50000"):
        Question(LOSE, Selection(addresses=tuple(range(7000)))).pack(1)
