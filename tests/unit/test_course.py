"""The line of a whole recording: columns and times belong together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heaptop.tui.charts.course import column_of, heights, time_of

spans = st.tuples(st.integers(0, 10**12), st.integers(1, 10**14)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(spans, st.integers(1, 300), st.floats(0, 1))
def test_a_time_is_in_the_column_that_leads_to_it(span: tuple[int, int], width: int, part: float) -> None:
    first, last = span
    time = first + int((last - first) * part)
    column = column_of(time, first, last, width)
    assert 0 <= column < width
    assert time <= time_of(column, first, last, width) <= last
    if column:
        assert time >= time_of(column - 1, first, last, width)


def test_the_ends_are_in_the_outer_columns() -> None:
    assert column_of(100, 100, 200, 50) == 0
    assert column_of(200, 100, 200, 50) == 49
    assert time_of(49, 100, 200, 50) == time_of(1000, 100, 200, 50) == 200
    assert column_of(100, 100, 100, 50) == 0, "of one moment"


def test_a_column_is_as_high_as_the_heap_was_at_its_end() -> None:
    assert heights([(0, 5), (5, 9), (10, 7)], 0, 10, 5) == [5, 5, 9, 9, 7]
    assert heights([(6, 5)], 0, 10, 5) == [5, 5, 5], "nothing is known before"
    assert heights([], 0, 10, 5) == []
