"""Who allocated the objects of a snapshot: what sampled blocks stand for, and what no site is known of."""

from __future__ import annotations

from heaptop.analysis.samples.estimate import Sums
from heaptop.analysis.samples.producers import FORGOTTEN_NAME, NO_FRAME_NAME
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.kept_sites import SampledShare, sampled_of, site_rows
from heaptop.protocol.images import Blocks, StackBlocks
from tests.unit.sample_cases import Program, sampler


def sampled(*intervals: int) -> tuple[Sampling, int, int]:
    """Two stacks of which blocks live, each sampled at one of the rates, and the sampler's numbers of them."""
    program = Program(*intervals)
    for rate, name in enumerate(("create", "fill")):
        program.allocate(("main", name), 100, rate=rate)
    sampling = Sampling()
    sampling.feed(sampler(*intervals))
    for message in program.messages():
        sampling.feed(message)
    return sampling, program.stack("main", "create"), program.stack("main", "fill")


def test_what_blocks_stand_for_is_of_the_rate_they_were_sampled_at() -> None:
    sampling, create, fill = sampled(1 << 16, 1 << 13)
    rows = site_rows(Blocks(1, (StackBlocks(create, 3, 300), StackBlocks(fill, 2, 200))), sampling)
    expected = [Sums.of([(100, 1 << 16)] * 3), Sums.of([(100, 1 << 13)] * 2)]
    assert [row.count for row in rows] == [3, 2]
    assert [row.bytes for row in rows] == [each.rounded_bytes for each in expected]
    assert [row.stacks for row in rows] == [(create,), (fill,)]


def test_what_has_no_site_is_named_and_cannot_be_asked_about() -> None:
    sampling, create, fill = sampled(1, 1)
    marks_failure = fill + 1_000
    blocks = Blocks(1, (StackBlocks(create, 1, 100), StackBlocks(0, 1, 60), StackBlocks(marks_failure, 1, 40)))
    rows = {row.name: row for row in site_rows(blocks, sampling, 1_000)}
    assert rows[NO_FRAME_NAME].stacks == (0,)
    assert rows[FORGOTTEN_NAME].stacks == ()
    rest = rows["(no site); tables, buffers"]
    assert (rest.bytes, rest.count, rest.rest, rest.stacks) == (800, 0, True, ())
    assert not any(row.rest for row in site_rows(blocks, sampling, 200)), "nothing is beyond them"


def test_how_many_objects_some_sampled_ones_stand_for() -> None:
    sampling, create, fill = sampled(1 << 16, 1 << 13)
    found = sampled_of(Blocks(1, (StackBlocks(create, 3, 300), StackBlocks(fill, 2, 200))), sampling)
    expected = [Sums.of([(100, 1 << 16)] * 3).estimate().count, Sums.of([(100, 1 << 13)] * 2).estimate().count]
    assert found.count == 5
    assert abs(found.stands_for - sum(expected)) <= 1
    assert found.words == (
        f"Of this site 5 objects were sampled, of about {found.stands_for:,}. Only these can be shown: the others "
        "are unknown."
    )


def test_where_all_are_sampled_there_is_nothing_to_say() -> None:
    sampling, create, _ = sampled(1, 1)
    found = sampled_of(Blocks(1, (StackBlocks(create, 3, 300),)), sampling)
    assert (found, found.words) == (SampledShare(3, 3), "")
    assert SampledShare(1, 655).words.startswith("Of this site 1 object was sampled, of about 655. Only it can")
