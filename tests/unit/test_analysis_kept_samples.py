"""Sampled blocks that some retainers keep: which stacks, how much of each, and what cannot be asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.callers.producer_table import ProducerTables, alive
from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.filters.kept_samples import MOST_ASKED, KeptSamples, matching, parts_of, retainer_term
from heaptop.analysis.samples.producers import Sites
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.stacks import FORGOTTEN, NO_FRAME
from heaptop.analysis.text.code_places import CodePlaces
from heaptop.errors import UsageError
from heaptop.protocol.images import KINDS, Blocks, StackBlocks, Unit
from tests.unit.sample_cases import Program

UNITS = (
    Unit("module app.cache ._sessions", 0, 0x10),
    Unit("frame worker()", 1, 0),
    Unit("frame worker() local cached", 1, 0x20),
    Unit("held by C .__mro__", KINDS.index("c"), 0x30),
)


def blocks(*rows: tuple[int, int]) -> Blocks:
    """(stack, bytes)."""
    return Blocks(1, tuple(StackBlocks(stack, 1, size) for stack, size in rows))


@pytest.mark.parametrize(
    ("where", "addresses"),
    [
        ("retainer:cache", (0x10, 0x20)),
        ("retainer:_sessions,local", (0x10, 0x20)),
        ("retainer:worker", (0x20,)),
        ("retainer:*sessions", (0x10,)),
        ("retainer:held?by?C", (0x30,)),
        ("type:dict retainer:mro", ()),
    ],
)
def test_which_retainers_are_asked_about(where: str, addresses: tuple[int, ...]) -> None:
    """By their names on the screen; a frame itself is no object."""
    term = retainer_term(parse_filter(where))
    assert term is not None
    assert matching(term, UNITS) == addresses


def test_a_question_has_room_for_so_many() -> None:
    term = retainer_term(parse_filter("retainer:x"))
    assert term is not None
    assert len(matching(term, [Unit("x", 0, number) for number in range(1, 2 * MOST_ASKED)])) == MOST_ASKED


def test_what_cannot_be_asked() -> None:
    assert retainer_term(parse_filter("type:dict !site:x")) is None
    for where in ("!retainer:cache", "retainer:cache retainer:worker"):
        with pytest.raises(UsageError, match="accept one retainer term"):
            retainer_term(parse_filter(where))
    with pytest.raises(UsageError, match="lifetime and retainer do not go together"):
        retainer_term(parse_filter("retainer:cache lifetime>1MB"))


def test_a_stacks_figures_are_shared_out() -> None:
    program = Program()
    create, cache = ("main", "create"), ("main", "cache")
    for _ in range(10):
        program.allocate(create, 300, "Session")
        program.allocate(create, 100, "Basket")
        program.allocate(cache, 50)
    gone = program.allocate(cache, 1000)
    program.free(gone)
    samples = program.run()
    part = KeptSamples(samples, {program.stack(*create): 0.5})
    assert part.only_live
    found = {samples.type_name(tally.type).full: tally.live for tally in part.tallies()}
    assert {name: (live.rounded_bytes, live.rounded_count) for name, live in found.items()} == {
        "app.Session": (1500, 5),
        "app.Basket": (500, 5),
    }
    tables = ProducerTables(samples, Sites(samples, CodePlaces((), (), ())))
    where = parse_filter("type:Basket retainer:cache")
    (row,) = tables.groups(tables.tallies(part, where.without("retainer")), "site")
    assert row.live.bytes == 500


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5_000)), min_size=1, max_size=40),
    st.integers(1, 3_000),
    st.dictionaries(st.sampled_from("abc"), st.floats(0.001, 1.0)),
)
def test_no_stack_has_more_than_it_has(allocated: list[tuple[str, int]], interval: int, kept: dict[str, float]) -> None:
    program = Program(interval)
    for name, size in allocated:
        program.allocate(("main", name), size)
    samples = program.run()
    parts = {program.stack("main", name): part for name, part in kept.items()}
    made = KeptSamples(samples.freeze(), parts)
    for stack, part in parts.items():
        whole = [tally for tally in samples.tallies() if tally.stack == stack]
        some = [tally for tally in made.tallies() if tally.stack == stack]
        assert abs(alive(some).bytes - part * alive(whole).bytes) <= 1 + len(some)
        if part == 1.0:
            assert alive(some) == alive(whole)
    assert {tally.stack for tally in made.tallies()} <= parts.keys()


# -- whose numbers ------------------------------------------------------------------------------------------


def test_stacks_go_by_our_numbers_whenever_the_sampler_began() -> None:
    """It numbers anew each time; what is equal has one number here."""
    program = Program()
    program.allocate(("main", "other"), 10)
    program.allocate(("main", "create"), 10)
    first = program.run().live_blocks()
    numbers = {samples_path(program.samples, one.stack): one.stack for one in first}
    program.stop()
    program.start()
    program.allocate(("main", "create"), 10)
    program.run()
    said = program.stack("main", "create")
    assert said != numbers["create"], "else this shows nothing"
    assert program.samples.stack_of(said) == numbers["create"]
    assert program.samples.reported_stacks({numbers["create"]}) == (said,)
    assert program.samples.reported_stacks({numbers["other"]}) == ()
    assert program.samples.freeze().reported_stacks({numbers["create"]}) == (said,)
    assert program.samples.stack_of(10_000) == FORGOTTEN
    assert program.samples.stack_of(0) == NO_FRAME
    kept, everything = blocks((said, 7), (said, 4), (10_000, 50), (0, 60)), blocks((said, 44), (10_000, 50))
    assert parts_of(kept, everything, program.samples.stack_of) == {numbers["create"]: 0.25}


def samples_path(samples: SampledBlocks, stack: int) -> str:
    """Its innermost function."""
    return samples.codes[samples.stacks.codes[stack]].function


def test_what_no_frame_allocated_is_shared_out_too() -> None:
    samples = Program().samples
    assert parts_of(blocks((0, 100)), blocks((0, 400)), samples.stack_of) == {NO_FRAME: 0.25}
