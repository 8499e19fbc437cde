"""What samples become: snapshots by site, lifetimes by group, and the rows of a report."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaptop.analysis.bands.table import table
from heaptop.analysis.filters.attributes import Origin, band_key
from heaptop.analysis.filters.filters import EVERYTHING, Filter, origin_of, parse_filter
from heaptop.analysis.heap.history import History
from heaptop.analysis.lifetimes.live_groups import alive, live_blocks, volume_by_age
from heaptop.analysis.reports.sampled_report import REPORTS, report_json, report_rows
from heaptop.analysis.samples.block_lifetimes import Lives
from heaptop.analysis.samples.estimate import weight
from heaptop.analysis.samples.generations import DECADES, Cohorts, LifetimeBands, LiveSample
from heaptop.analysis.samples.live_blocks import Likeness, Sample
from heaptop.analysis.samples.moments import Moments
from heaptop.analysis.samples.producers import NO_SITE, Sites
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.samples.survival import bin_of
from heaptop.analysis.text.code_places import CodePlaces
from heaptop.errors import UsageError
from heaptop.protocol.messages import CensusRequest, Message, SamplerRequest, Samples, Tick, TickRequest
from heaptop.protocol.source import Event, Received
from tests.fakes.source import ALLOCATIONS, BYTES_PER_TICK, FakeAgent, FakeSource
from tests.unit.sample_cases import Program

CREATE, ORDERS, CACHE = "shop/views.py:88 create_session", "shop/views.py:131 list_orders", "shop/cache.py:30 Cache.get"


class Watched:
    """A fake target, sampled; and what heaptop makes of it."""

    def __init__(self) -> None:
        self.sampling, self.history = Sampling(), History()
        self.source = FakeSource()
        self.source.open(self._take)
        self.source.attach()
        self.source.sample(65_536, 128)
        self.source.tick(census=False)  # the answer comes behind the tick

    def _take(self, event: Event) -> None:
        if isinstance(event, Received):
            self.sampling.feed(event.message)
            self.history.feed(event.message)

    def names(self, key: str, where: str = "") -> list[str]:
        return [row.name for row in table(self.sampling.moments.records, key, parse_filter(where))]


@pytest.fixture
def watched() -> Watched:
    watched = Watched()
    watched.source.tick(6)
    return watched


def test_sampled_bands_are_grouped_by_producer_module_and_size(watched: Watched) -> None:
    assert watched.names("producer") == [NO_SITE, CREATE, ORDERS, CACHE]
    assert watched.names("producer-module") == [NO_SITE, "shop.views", "shop.cache"]
    assert set(watched.names("size")) == {NO_SITE, "33–256 bytes", "257–2048 bytes", "> 2048 bytes"}


@pytest.mark.parametrize(
    ("where", "types"),
    [
        ("site:create_session", {"shop.models.Session", "sqlalchemy.orm.state.InstanceState", "(unknown type)"}),
        ("site:*cache.py type:!x", set()),
        ("producer-module:shop.cache", {"(unknown type)"}),
        ("!site:views !site:*no?site*", {"(unknown type)"}),
        ("site:Cache.?et", {"(unknown type)"}),
    ],
)
def test_types_within_a_site(where: str, types: set[str], watched: Watched) -> None:
    assert set(watched.names("type", where)) == types


def test_what_was_allocated_is_what_the_fake_target_allocates(watched: Watched) -> None:
    """Nothing that create_session allocates is ever freed."""
    (row,) = table(watched.sampling.moments.records, "producer", parse_filter("site:create_session"))
    samples = sum(allocation.count for allocation in ALLOCATIONS if not allocation.life) * 6
    assert row.bytes == pytest.approx(samples * 65_536, rel=0.01)


def test_an_unchanged_cell_is_shared_and_an_empty_one_gone() -> None:
    program = Program()
    moments = Moments(program.samples)
    program.allocate(("main", "load:7"), 100, "Row")
    gone = program.allocate(("main", "parse:9"), 50)
    program.run()
    moments.take(1, sites_of(program))
    program.free(gone)
    program.run()
    moments.take(2, sites_of(program))
    first, second = moments.records
    assert [cell.bytes for cell in first.cells] == [100, 50]
    assert [cell.bytes for cell in second.cells] == [100]
    assert second.cells[0] is first.cells[0]


def sites_of(program: Program) -> Sites:
    return Sites(program.samples, CodePlaces((), ()))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3000), st.booleans()), max_size=40))
def test_moments_are_what_lives(steps: list[tuple[int, int, bool]]) -> None:
    """Whatever comes and goes, a snapshot has what lives by site, type and size class."""
    program = Program()
    sites, moments = sites_of(program), Moments(program.samples)
    live_blocks: dict[int, tuple[int, int]] = {}
    for place, size, free in steps:
        if free and live_blocks:
            number = next(iter(live_blocks))
            del live_blocks[number]
            program.free(number)
        else:
            number = program.allocate(("main", f"f{place}"), size)
            live_blocks[number] = (place, size)
        program.run()
        moments.take(program.clock, sites)
    if steps:
        cells = moments.records[-1].cells
        assert sum(cell.bytes for cell in cells) == sum(size for _, size in live_blocks.values())
        assert sum(cell.count for cell in cells) == len(live_blocks)
        assert all(cell.count for cell in cells)


def test_lifetimes_are_kept_by_type_site_and_size(watched: Watched) -> None:
    watched.source.tick(20)
    sampling = watched.sampling
    assert {kind for kind, _ in sampling.lives.groups()} == {"type", "site", "size"}  # type: ignore[misc]
    group = ("site", CACHE)
    survival = sampling.lives.survival(group, live_blocks(sampling, group))
    assert survival is not None
    before, after = survival.at(11 * BYTES_PER_TICK), survival.at(14 * BYTES_PER_TICK)
    assert before is not None
    assert before.object_survival == 1.0, "it frees after twelve ticks, and not before"
    assert after is None or after.object_survival < 0.01


@pytest.mark.parametrize(
    "group", [None, ("site", CREATE), ("site", CACHE), ("type", "shop.models.Session"), ("size", "> 2048")]
)
def test_the_living_that_are_alike_to_a_chart_are_counted(group: tuple[str, str] | None, watched: Watched) -> None:
    """And what is known to live longer than a bound is what the classes above it say."""
    watched.source.tick(20)
    sampling, bands = watched.sampling, watched.sampling.lifetime_bands
    each = [
        LiveSample(sampling.timeline.clock(one.birth), weight(one.size, one.interval))
        for one in sampling.samples.live_blocks()
        if group is None or group in sampling.groups(one.stack, one.type, one.size)
    ]
    alike = alive(sampling, group)
    assert len(alike) <= len(each) == sum(one.times for one in alike)
    chart = bands.chart(group, alike)
    assert chart is not None
    assert chart == bands.chart(group, each)
    for bound in DECADES:
        line = bands.longer(bound, group, alike)
        assert line is not None
        sizes, counts = line.totals(bands.moments)
        above = [band for band in chart.bands if band.fate != "lost" and band.low >= bound]
        for found, parts in ((sizes, [band.bytes for band in above]), (counts, [band.counts for band in above])):
            assert found == pytest.approx([*map(sum, zip(*parts, strict=True))], abs=9)
        assert line.area(bands.moments) / 65_536 == pytest.approx(sum(sizes), abs=bands.moments)


def test_a_switch_off_and_on_voids_what_lived(watched: Watched) -> None:
    lived = watched.sampling.samples.live_block_count
    watched.source.sample(0, 128)
    watched.source.tick()
    assert not watched.sampling.on
    watched.source.sample(8_192, 128)
    watched.source.tick(3)
    assert watched.sampling.on
    assert 0 < watched.sampling.samples.live_block_count < lived
    assert watched.sampling.timeline.latest == pytest.approx(9 * BYTES_PER_TICK, abs=2 * BYTES_PER_TICK)
    survival = watched.sampling.lives.survival(None, live_blocks(watched.sampling))
    assert survival is not None
    assert survival.censored >= lived


# -- reports ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", REPORTS)
def test_every_report_has_the_shape_of_a_census(by: str, watched: Watched) -> None:
    watched.source.tick(10)
    snapshot = watched.history.latest
    assert snapshot is not None
    rows = report_rows(by, watched.sampling, snapshot)
    assert rows
    document = report_json(
        by, rows, watched.sampling, snapshot, pid=1, python="3.12", where=EVERYTHING, seconds=10.0, top=2
    )
    assert (document["by"], document["shown"], document["of"]) == (by, 2, len(rows))
    assert {"pid", "python", "mode", "complete", "pause_ms", "duration_ms", "total", "rows", "sampled"} <= set(document)
    for row in document["rows"]:
        assert {"name", "count", "bytes", "low", "high", "samples"} <= set(row)
        assert row["low"] <= row["bytes"] <= row["high"]
    assert document["sampled"]["interval"] == 65_536


def test_a_report_of_what_a_filter_leaves(watched: Watched) -> None:
    snapshot = watched.history.latest
    assert snapshot is not None

    def names(by: str, where: str) -> list[str]:
        return [row.name for row in report_rows(by, watched.sampling, snapshot, parse_filter(where))]

    assert names("producer", "type:Session") == [CREATE]
    assert names("producer-module", "site:cache") == ["shop.cache"]
    assert names("producer", "size>2MB") == [CREATE]
    assert names("size", "site:Cache.get") == ["> 2048 B"]


# -- which figures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "where", "origin"),
    [
        ("type", "", Origin.CENSUS),
        ("type", "module:shop size>1MB", Origin.CENSUS),
        ("generation", "type:Session", Origin.CENSUS),
        ("producer", "", Origin.SAMPLES),
        ("type", "site:views", Origin.SAMPLES),
        ("producer-module", "type:Session", Origin.SAMPLES),
    ],
)
def test_where_figures_come_from(key: str, where: str, origin: Origin) -> None:
    assert origin_of(band_key(key), parse_filter(where)) is origin


@pytest.mark.parametrize(("key", "where"), [("generation", "site:views"), ("producer", "gen:2")])
def test_what_no_figures_know(key: str, where: str) -> None:
    with pytest.raises(UsageError, match="do not go together"):
        origin_of(band_key(key), parse_filter(where))


def test_a_filter_on_sites_is_written_as_it_is_read() -> None:
    where: Filter = parse_filter("producer:views !producer-module:shop")
    assert str(where) == "site:views !producer-module:shop"
    assert parse_filter(str(where)) == where


def test_an_empty_message_of_samples_changes_nothing() -> None:
    sampling = Sampling()
    sampling.feed(Samples(5, 0, b"", b""))
    assert sampling.samples.live_block_count == 0


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(-1, 1),
            st.sampled_from((16, 64, 3_000)),
            st.integers(0, 900),
            st.integers(0, 400),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_deaths_that_come_together_count_as_one_by_one(deaths: list[tuple[int, int, int, int, int]]) -> None:
    """(stack, type, size, birth, age): against what each death by itself is added as."""
    sampling = Sampling()
    program = Program(65_536, samples=sampling)
    for number in range(2):
        program.allocate(("main", f"make{number}"), 64, f"app.Kind{number}")
    program.run()
    plain, bands, cohorts = Lives(), LifetimeBands(), Cohorts()
    for each in (bands, sampling.lifetime_bands):
        for clock in range(0, 1_000, 100):
            each.census(clock, clock)
    said = []
    for number, (stack, kind, size, birth, age) in enumerate(deaths):
        sample = Sample(number, stack, kind, size, 65_536, birth, 1)
        one, groups = weight(size, 65_536), sampling.groups(sample.stack, sample.type, sample.size)
        said.append((Likeness(stack, kind, size, 65_536), one, birth, birth + age))
        plain.add_dead((None, *groups), bin_of(age), one)
        span = bands.died(birth, birth + age)
        if span is not None:
            bands.add(groups, span, one)
        cohorts.add_death(birth, birth + age, one.bytes // weight(1, 1).bytes)
    sampling.on_deaths(said)
    assert set(sampling.lives.groups()) == set(plain.groups())
    assert set(sampling.lifetime_bands.groups()) == set(bands.groups())
    for group in (None, *plain.groups()):
        assert sampling.lives.ended(group) == pytest.approx(plain.ended(group), abs=1)
        assert sampling.lifetime_bands.chart(group) == bands.chart(group)
    assert sampling.cohorts.matrix(1_400) == cohorts.matrix(1_400)


def prompt_and_late(requests: int) -> tuple[Sampling, Sampling, list[Message]]:
    """Two that are told the same, of which one works in at once; and what."""
    agent, prompt, late = FakeAgent(), Sampling(), Sampling()
    said = agent.answer(SamplerRequest(1, 65_536, 32))
    for number in range(2, requests + 1):
        agent.advance()
        said += agent.answer(TickRequest(number))
        said += agent.answer(CensusRequest(number)) if number % 3 == 0 else []
    for message in said:
        prompt.feed(message)
        prompt.work_in()
        late.feed(message)
    return prompt, late, said


READERS: dict[str, Callable[[SampledBlocks], object]] = {
    "living": lambda samples: sorted(samples.live_blocks()),
    "columns": lambda samples: samples.live_block_columns().places(lambda birth: birth, 0, samples.live_block_count),
    "blocks": lambda samples: sorted(map(repr, samples.blocks)),
    "tallies": lambda samples: sorted((one.stack, one.type, one.bin, one.live.bytes) for one in samples.tallies()),
    "tally count": lambda samples: samples.tally_count,
    "changes": lambda samples: sorted((one.stack, one.type, one.bin, *more) for one, *more in samples.changes()),
    "kept": lambda samples: [*samples.kept()],
    "living count": lambda samples: samples.live_block_count,
    "live bytes": lambda samples: samples.live_bytes,
}


@pytest.mark.parametrize(
    ("requests", "read"),
    # At a tick it is the moments that read what has changed, which they do once.
    [(41, read) for name, read in READERS.items() if name != "changes"] + [(42, read) for read in READERS.values()],
    ids=[f"tick {name}" for name in READERS if name != "changes"] + [f"census {name}" for name in READERS],
)
def test_what_was_told_is_worked_in_before_anybody_reads(
    requests: int, read: Callable[[SampledBlocks], object]
) -> None:
    """Births and deaths by a tick, types by a census."""
    prompt, late, _ = prompt_and_late(requests)
    assert late.samples._unapplied  # or this shows nothing
    assert read(late.samples) == read(prompt.samples)
    assert not late.samples._unapplied


@pytest.mark.parametrize("reads", [False, True])
def test_what_is_worked_in_late_comes_to_the_same(reads: bool) -> None:
    """Deaths and moments wait until somebody reads them, or the next samples come: also where somebody has read in
    between what else the same samples have changed."""
    prompt, late, said = prompt_and_late(41)
    assert late._pending  # or this shows nothing
    if reads:
        assert late.samples.live_block_count == prompt.samples.live_block_count
    assert late.moments.records[-1].time_ns == [one.time_ns for one in said if isinstance(one, Tick)][-1]
    assert [(one.time_ns, one.clock, one.cells) for one in late.moments.records] == [
        (one.time_ns, one.clock, one.cells) for one in prompt.moments.records
    ]
    assert set(late.lives.groups()) == set(prompt.lives.groups()) != set()
    for group in (None, *prompt.lives.groups()):
        assert late.lives.ended(group) == prompt.lives.ended(group)
        assert late.lifetime_bands.chart(group) == prompt.lifetime_bands.chart(group)
    assert volume_by_age(late) == volume_by_age(prompt)
