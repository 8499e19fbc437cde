"""What tracemalloc says becomes exact figures of what lives, and nothing else; it replaces what it said before."""

from __future__ import annotations

import pytest

from heaptop.analysis.bands.series import SeriesCache
from heaptop.analysis.bands.table import table
from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.lifetimes.live_groups import live_blocks
from heaptop.analysis.samples.producers import producers
from heaptop.analysis.samples.sampling import Sampling
from heaptop.errors import ProtocolError
from heaptop.protocol.messages import (
    TRACED,
    TRACEMALLOC,
    Census,
    CodeName,
    Codes,
    Row,
    Sampler,
    StackNode,
    Stacks,
    Tick,
    Traced,
    TypeName,
    Types,
)

SECOND = 10**9
Traces = tuple[int, int, int, int, int]
FIRST: tuple[Traces, ...] = ((1, 0, 0, 10, 280), (2, 1, 3, 2, 6000), (0, 1, 1, 1, 60))


def state(*, on: bool = True, epoch: int = 1) -> Sampler:
    return Sampler(1, 0, on, int(on), 4, (1,) if on else (), epoch, means=TRACEMALLOC, path=("/srv",))


def traced(*rows: Traces, at: int = 1, **more: int) -> Traced:
    return Traced(at * SECOND, b"".join(TRACED.pack(*row) for row in rows), **more)


def census(count: int, size: int, at: int = 1) -> Census:
    return Census(1, at * SECOND, "python", True, "", (Row(0, 0, count, size),), 1, 1, 1, 1, 0)


@pytest.fixture
def sampling() -> Sampling:
    found = Sampling()
    found.feed(state())
    found.feed(Types(0, (TypeName("", "int"), TypeName("shop", "Session"))))
    found.feed(Codes(0, (CodeName("/srv/a.py", "", 7), CodeName("/srv/b.py", "", 9))))
    found.feed(Stacks(1, (StackNode(0, 0, 7), StackNode(1, 1, 9))))
    return found


def figures(sampling: Sampling) -> dict[str, tuple[int, int]]:
    rows = producers(sampling.samples, sampling.sites, "site")
    assert all(row.live.exact for row in rows)
    return {row.name: (row.live.count, row.live.bytes) for row in rows}


def test_figures_are_exact_and_replaced_by_the_next(sampling: Sampling) -> None:
    sampling.feed(traced(*FIRST, left_out=3, left_out_bytes=99))
    assert figures(sampling) == {
        "a.py:7": (10, 280),
        "b.py:9": (2, 6000),
        "(no Python frame)": (1, 60),
        "(other sites)": (3, 99),
    }
    assert sampling.samples.live_bytes == 280 + 6000 + 60 + 99
    sampling.feed(traced((2, 1, 3, 1, 3000), at=2))
    assert figures(sampling) == {"b.py:9": (1, 3000)}


def test_bands_have_what_was_traced_and_the_rest_of_the_census(sampling: Sampling) -> None:
    for at, rows, size in ((1, FIRST, 10_000), (2, FIRST[:1], 9_000)):
        sampling.feed(traced(*rows, at=at))
        sampling.feed(census(100, size, at))
        sampling.feed(Tick(at, at * SECOND, 1, 1, True, (0, 0, 0), 0, 1, 0))
    moments = sampling.moments.records
    assert [moment.time_ns for moment in moments] == [SECOND, 2 * SECOND], "one a census"
    rows = {row.name: row.bytes for row in table(moments, "producer", EVERYTHING, memo=SeriesCache())}
    assert rows == {"a.py:7": 280, "(no site)": 9_000 - 280}
    assert sum(cell.bytes for cell in moments[0].cells) == 10_000
    assert moments[0].cells[0] is moments[1].cells[0], "what did not change is the same object"


def test_figures_stay_when_it_is_off_and_begin_anew_with_the_next(sampling: Sampling) -> None:
    sampling.feed(traced(*FIRST))
    sampling.feed(state(on=False))
    assert figures(sampling)["a.py:7"] == (10, 280)
    assert sampling.samples.is_traced
    assert not sampling.follows
    sampling.feed(traced((2, 1, 3, 1, 3000)))  # what was under way comes after the answer
    sampling.feed(state(epoch=2))
    assert figures(sampling) == {}
    sampling.feed(traced((1, 0, 0, 1, 28)))
    assert figures(sampling) == {"a.py:7": (1, 28)}


def test_nothing_is_said_to_have_been_allocated_or_freed(sampling: Sampling) -> None:
    sampling.feed(traced(*FIRST))
    sampling.feed(traced())
    assert sampling.samples.tally_count == 0
    assert not live_blocks(sampling)
    assert sampling.timeline.latest == 0


@pytest.mark.parametrize(
    "row", [(3, 0, 0, 1, 28), (1, 2, 0, 1, 28), (1, 0, 4, 1, 28), (1, 0, 0, 0, 28), (1, 0, 0, 1, 1 << 60)]
)
def test_what_cannot_be_is_refused_and_nothing_taken(row: Traces, sampling: Sampling) -> None:
    sampling.feed(traced(*FIRST))
    before = figures(sampling)
    with pytest.raises(ProtocolError):
        sampling.feed(traced((1, 0, 0, 1, 28), row))
    assert figures(sampling) == before


def test_records_that_are_not_whole_are_refused(sampling: Sampling) -> None:
    with pytest.raises(ProtocolError):
        sampling.feed(Traced(0, b"x" * 27))
