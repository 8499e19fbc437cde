"""Every figure under every attribute of a filter: restricted, or refused. And what lifetime>… leaves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.bands.bands import bands
from heaptop.analysis.callers.producer_table import ProducerTables
from heaptop.analysis.filters.attributes import BAND_KEYS, Origin, band_key
from heaptop.analysis.filters.filters import EVERYTHING, Filter, origin_of, parse_filter
from heaptop.analysis.filters.selection import selected, tally_filter
from heaptop.analysis.lifetimes import eventual
from heaptop.analysis.reports.sampled_report import REPORTS, report_rows
from heaptop.analysis.samples.clock import LifetimeBound, Timeline
from heaptop.analysis.samples.estimate import Sums, weight
from heaptop.analysis.samples.long_lived import LongLived
from heaptop.analysis.samples.producers import NO_SITE, live_total
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sizes import bin_of
from heaptop.errors import UsageError
from heaptop.protocol.messages import TRACEMALLOC, Sampler
from tests.unit.sample_cases import Program
from tests.unit.test_analysis_sampling import CACHE, CREATE, Watched

TICKS = 30
TERMS = {
    "type": "type:Session",
    "module": "module:shop.models",
    "generation": "generation:2",
    "site": "site:create_session",
    "producer-module": "producer-module:shop.cache",
    "size": "size>9MB",
    "count": "count>20000",
    "lifetime": "lifetime>10MB",
}
"""Of each attribute a term that lets something through, and not everything."""

APART = {
    *((eventual.KEY, name) for name in TERMS),
    *((key, "generation") for key in ("producer", "producer-module", "size")),
    *((key, name) for key in ("generation", "interpreter") for name in ("site", "producer-module", "lifetime")),
    *((key, "lifetime") for key in ("module", "producer-module")),
}
"""Bands and attributes that no figures know both of."""
FROZEN = {"retainer": "retainer:cache", "kind": "kind:module"}
"""What only frozen objects know. Bands of those: test_analysis_graph_history."""


@pytest.fixture(scope="module")
def watched() -> Watched:
    watched = Watched()
    for _ in range(TICKS):
        watched.source.tick()
    return watched


def figures(watched: Watched, by: str, where: Filter) -> int:
    """The bytes of a report."""
    snapshot = watched.history.latest
    assert snapshot is not None
    older = {NO_SITE}
    return sum(row.live.bytes for row in report_rows(by, watched.sampling, snapshot, where) if row.name not in older)


@pytest.mark.parametrize("term", [*TERMS.values(), *FROZEN.values()], ids=[*TERMS, *FROZEN])
@pytest.mark.parametrize("by", REPORTS)
def test_a_report_is_restricted_or_refuses(by: str, term: str, watched: Watched) -> None:
    where = parse_filter(term)
    if by == "lifetime" or term in ("generation:2", *FROZEN.values()):
        with pytest.raises(UsageError, match="have no"):
            figures(watched, by, where)
        return
    assert 0 < figures(watched, by, where) < figures(watched, by, EVERYTHING)


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("key", [*(key for key in BAND_KEYS if key not in FROZEN), eventual.KEY])
def test_bands_are_restricted_or_refuse(key: str, term: str, watched: Watched) -> None:
    where = parse_filter(term)
    if (key, term.partition(":")[0].partition(">")[0]) in APART:
        with pytest.raises(UsageError, match="do not go together"):
            band_bytes(watched, key, where, where)
        return
    some, whole = (band_bytes(watched, key, one, where) for one in (where, EVERYTHING))
    assert 0 < some < whole


def band_bytes(watched: Watched, key: str, where: Filter, asked: Filter) -> int:
    """At the last moment; of the figures that know of what is asked for."""
    sampling = watched.sampling
    if eventual.is_eventual(key, where):
        if where.lifetime is None:
            chart = eventual.by_lifetime(sampling)
        else:
            chart = eventual.restricted(sampling, key, where, eventual.longer_than(where.lifetime, sampling), 100)
    elif asked.lifetime is not None or origin_of(band_key(key), asked) is Origin.SAMPLES:
        chart = bands(sampling.moments.records, key, where, 100)
    else:
        chart = bands(watched.history.records, key, where, 100)
    return chart.totals[-1].bytes


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
def test_tables_are_restricted_or_refuse(term: str, watched: Watched) -> None:
    """Of views 2 and 7."""
    where, sampling = parse_filter(term), watched.sampling
    try:
        samples = selected(sampling, where)
        tallies = ProducerTables(sampling.samples, sampling.sites).tallies(samples, where)
    except UsageError:
        assert term == "generation:2"
        return
    fits = tally_filter(samples, sampling.sites, where)
    assert tallies == [tally for tally in samples.tallies() if fits is None or fits(tally)]
    some, whole = (sum(tally.live.bytes for tally in made) for made in (tallies, sampling.samples.tallies()))
    assert 0 < some < whole


def test_samples_that_are_not_restricted_are_not_said_to_be(watched: Watched) -> None:
    sampling, where = watched.sampling, parse_filter("lifetime>10MB")
    with pytest.raises(UsageError, match="have no lifetime"):
        tally_filter(sampling.samples, sampling.sites, where)
    other = selected(sampling, parse_filter("lifetime>1MB"))
    with pytest.raises(UsageError, match="have no lifetime"):
        tally_filter(other, sampling.sites, where)


def test_by_producer_what_lives_long(watched: Watched) -> None:
    """create_session frees nothing; the cache frees after twelve ticks."""
    snapshot = watched.history.latest
    assert snapshot is not None
    rows = report_rows("producer", watched.sampling, snapshot, parse_filter("lifetime>20MB"))
    assert [row.name for row in rows] == [CREATE, CACHE]
    (create, _) = rows
    assert create.more["allocated_bytes"] is create.more["freed_low"] is None, "of the dead only sums are kept"
    assert report_rows("producer", watched.sampling, snapshot, parse_filter("lifetime>25MB"))[0].name == CREATE
    assert not report_rows("producer", watched.sampling, snapshot, parse_filter("lifetime>60MB"))
    (sizes, *_) = report_rows("size", watched.sampling, snapshot, parse_filter("lifetime>20MB"))
    assert sizes.more["freed_bytes"] is None


def test_flow_has_its_interval(watched: Watched) -> None:
    snapshot = watched.history.latest
    assert snapshot is not None
    for by in ("producer", "producer-module", "size"):
        rows = [row for row in report_rows(by, watched.sampling, snapshot) if row.live.samples]
        assert rows
        for row in rows:
            more = row.more
            assert more["allocated_low"] <= more["allocated_bytes"] <= more["allocated_high"]
            assert more["freed_low"] <= more["freed_bytes"] <= more["freed_high"]
            assert more["allocated_bytes"] == pytest.approx(row.live.bytes + more["freed_bytes"], abs=2)


@given(
    st.lists(
        st.tuples(st.sampled_from(["f:1", "g:2"]), st.integers(1, 3000), st.sampled_from("XY"), st.booleans()),
        max_size=30,
    ),
    st.integers(0, 40_000),
)
def test_what_is_older_than_a_bound(blocks: list[tuple[str, int, str, bool]], bound: int) -> None:
    program = Program()
    alive = []
    for place, size, kind, dies in blocks:
        number = program.allocate(("main", place), size, kind)
        if dies:
            program.free(number)
        else:
            alive.append((program.stack("main", place), kind, size, program.clock))
    samples = program.run()
    timeline = Timeline()
    timeline.add(program.clock, 1)
    for made in (samples, samples.freeze()):
        old = LongLived(made, timeline, LifetimeBound(bound, None))
        expected = Counter(
            (stack, kind, bin_of(size)) for stack, kind, size, birth in alive if program.clock - birth > bound
        )
        found = {(one.stack, samples.types[one.type].qualname, one.bin): one.live.samples for one in old.tallies()}
        assert found == expected
        assert live_total(old).bytes == sum(size for _, _, size, birth in alive if program.clock - birth > bound)
        assert all(not one.freed.samples and not one.lost.samples for one in old.tallies())
        assert old.only_live
        assert old.tally_count == len(found)


def test_a_bound_in_time_goes_by_when_blocks_were_born(watched: Watched) -> None:
    """A tick a second: what was born in the last ten is younger."""
    sampling = watched.sampling
    old = live_total(selected(sampling, parse_filter("lifetime>10s"))).bytes
    same = live_total(selected(sampling, parse_filter("lifetime>20MB"))).bytes
    assert old == pytest.approx(same, rel=0.1)
    assert not live_total(selected(sampling, parse_filter("lifetime>10min"))).bytes


def test_a_held_display_keeps_its_own_ages() -> None:
    watched = Watched()
    for _ in range(12):
        watched.source.tick()
    where = parse_filter("lifetime>10MB")
    held = watched.sampling.samples.freeze()
    then = live_total(selected(watched.sampling, where, held))
    for _ in range(6):
        watched.source.tick()
    assert live_total(selected(watched.sampling, where, held)) == then
    watched.source.sample(0, 128)
    watched.source.tick()
    watched.source.sample(65_536, 128)
    watched.source.tick()
    assert live_total(selected(watched.sampling, where, held)) == then
    assert live_total(selected(watched.sampling, where)).bytes == 0


def test_traces_know_no_lifetime(watched: Watched) -> None:
    watched = Watched()
    watched.sampling.feed(Sampler(9, 1, False, 0, 1, (), 1))
    watched.sampling.feed(Sampler(9, 1, True, 1, 1, (1,), 2, means=TRACEMALLOC))
    with pytest.raises(UsageError, match="Traces have no lifetime"):
        selected(watched.sampling, parse_filter("lifetime>10MB"))


def test_work_is_done_in_steps() -> None:
    program = Program()
    for _ in range(20_000):
        program.allocate(("main",), 10)
    made = LongLived(program.run(), Timeline(), LifetimeBound(10, None))
    assert len([*made.work()]) >= 5
    (tally,) = made.tallies()
    assert tally.live == sums(19_998)
    assert not [*made.work()], "it is done once"


def sums(blocks: int) -> Sums:
    out = Sums()
    for _ in range(blocks):
        out.add(weight(10, 1))
    return out


def test_of_nothing_nothing_is_old() -> None:
    assert not [*LongLived(SampledBlocks(), Timeline(), LifetimeBound(None, 5)).tallies()]
