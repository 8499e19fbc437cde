"""Rows for a screen say what the tables of producers and chains say; and a display that is held stands still."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.callers.producer_table import TREND, ProducerTables, RecentMoments, older_at
from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.samples.moments import SiteCell, SiteRecord, older_cell
from heaptop.analysis.samples.producers import NO_SITE, Sites, producers
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.text.code_places import CodePlaces
from heaptop.errors import UsageError
from heaptop.protocol.messages import TypeName
from tests.unit.leak_table import chains
from tests.unit.oracles import stacks_of
from tests.unit.sample_cases import Program

frames = st.sampled_from(
    ["/srv/app.py make:3", "/srv/app.py make:4", "/srv/shop/views.py show:8", "/usr/lib/python3.11/json.py load:1"]
)
blocks = st.lists(
    st.tuples(st.lists(frames, max_size=7).map(tuple), st.integers(1, 3000), st.booleans(), st.sampled_from("XY")),
    max_size=30,
)


def tables(samples: SampledBlocks) -> ProducerTables:
    return ProducerTables(samples, Sites(samples, CodePlaces(("/srv",), ("/usr",))))


def run(given_blocks: list[tuple[tuple[str, ...], int, bool, str]], program: Program | None = None) -> SampledBlocks:
    program = program or Program(512)
    for stack, size, dies, kind in given_blocks:
        number = program.allocate(stack, size, kind)
        if dies:
            program.free(number)
    return program.run()


@given(blocks)
def test_rows_are_those_of_the_table_of_producers(given_blocks: list[tuple[tuple[str, ...], int, bool, str]]) -> None:
    samples = run(given_blocks)
    made = tables(samples)
    for key in ("site", "module"):
        want = {row.name: row.live for row in producers(samples, made.sites, key)}
        tallies = made.tallies(samples, EVERYTHING)
        groups = made.groups(tallies, key)
        assert {group.name: group.live for group in groups if group.live.samples} == want
        for column in ("allocated", "freed"):
            of_chains = sum(chain.figure(column) for chain in made.groups(tallies, "chain"))
            assert sum(group.figure(column) for group in groups) == of_chains, "of what died too"
        for group in groups:
            if not group.live.samples:
                assert group.figure("freed") == group.figure("allocated") > 0
                continue
            stacks = stacks_of(samples, made.sites, key, group.name)
            found = [(one.stack, one.live) for one in made.stacks(group) if one.live.samples]
            found.sort(key=lambda one: (-one[1].bytes, one[0]))  # of two that keep as much, what they allocated decides
            assert found == [(one.stack, one.live) for one in stacks]
            assert group.figure("live") <= group.figure("allocated")
            assert group.figure("samples") == group.live.samples
            assert sum(group.classes) == pytest.approx(1)


@given(blocks)
def test_chains_are_those_of_the_leak_table(given_blocks: list[tuple[tuple[str, ...], int, bool, str]]) -> None:
    samples = run(given_blocks)
    made = tables(samples)
    groups = made.groups(made.tallies(samples, EVERYTHING), "chain")
    found = [
        (group.live.bytes, group.live.low, group.live.high, (group.figure("freed") + (1 << 15)) >> 16)
        for group in groups
    ]
    want = [(row.kept.bytes, row.kept.low, row.kept.high, row.freed.bytes) for row in chains(samples, everything=True)]
    assert sorted(found) == sorted(want)


def test_a_filter_restricts_what_is_counted() -> None:
    samples = run(
        [(("/srv/app.py make:3",), 600, False, "X"), (("/srv/shop/views.py show:8",), 900, False, "Y")], Program()
    )
    made = tables(samples)

    def names(text: str) -> list[str]:
        tallies = made.tallies(samples, parse_filter(text))
        return [group.name for group in made.groups(tallies, "site")]

    assert names("site:views") == ["shop/views.py:8 show"]
    assert names("!producer-module:shop") == ["app.py:3 make"]
    assert names("type:X") == names("size<800") == ["app.py:3 make"]
    assert names("type:X site:views") == []
    with pytest.raises(UsageError, match="do not go together"):
        made.tallies(samples, parse_filter("gen:2"))


def test_structure_is_made_anew_when_stacks_come() -> None:
    program = Program()
    samples = run([(("/srv/app.py make:3",), 600, False, "X")], program)
    made = tables(samples)
    assert made.paths() is made.paths(), "not without need"
    before = made.paths()
    run([(("/srv/app.py make:3", "/srv/shop/views.py show:8"), 600, False, "X")], program)
    assert made.paths() is not before
    rows = made.callees(made.amounts(made.paths(), made.tallies(samples, EVERYTHING)))
    assert {row.name: row.live.bytes for row in rows} == {"make (app.py)": 1200, "show (shop/views.py)": 600}
    assert {row.name: row.figure("direct") >> 16 for row in rows} == {"make (app.py)": 600, "show (shop/views.py)": 600}


def test_functions_that_call_each_other_are_named_as_one() -> None:
    samples = run([(("/srv/app.py f:3", "/srv/app.py g:4", "/srv/app.py f:3"), 600, False, "X")])
    made = tables(samples)
    (name,) = made.paths(merged=True).members
    assert made.function(name, made.paths(merged=True).members[name]) == "f (app.py) + 1 in a cycle with it"
    assert made.around(1, above=False).functions[1:] == [name], "also when looked at from another of them"


def test_what_is_held_does_not_change() -> None:
    program = Program()
    number = program.allocate(("/srv/app.py make:3",), 600)
    samples = program.run()
    held = samples.freeze()
    program.free(number)
    program.allocate(("/srv/app.py make:4",), 50)
    program.run()
    made = tables(samples)
    for which, want in ((held, {"app.py:3 make": 600}), (samples, {"app.py:3 make": 0, "app.py:4 make": 50})):
        groups = made.groups(made.tallies(which, EVERYTHING), "site")
        assert {group.name: group.live.bytes for group in groups} == want


def moment(time: int, **sites: int) -> SiteRecord:
    kind = TypeName("app", "X")
    return SiteRecord(time, time, tuple(SiteCell(kind, site, "app", 0, 1, size) for site, size in sites.items()))


def test_a_trend_is_of_the_last_moments() -> None:
    moments = [moment(time, a=time, **({"b": 5} if time > 30 else {})) for time in range(40)]
    past = RecentMoments()
    trend = past.trend(moments, "site", EVERYTHING)
    assert trend("a") == tuple(range(40 - TREND, 40))
    assert trend("b")[-1] == 5
    assert trend("b")[0] == trend("none")[0] == 0
    assert past.trend(moments, "module", EVERYTHING)("app")[-1] == 39 + 5
    assert past.trend(moments, "site", parse_filter("site:b"))("a") == (0,) * TREND


def test_what_is_older_is_as_unsure_as_its_moment_says() -> None:
    samples = run([(("/srv/app.py make:3",), 100, False, "X")] * 50)
    cell = older_cell(NO_SITE, 10_000_000)
    older = older_at(samples, [SiteRecord(0, 0, (cell,), error=1_000)])
    assert older is not None
    assert (older.live.low, older.live.high) == (9_999_000, 10_001_000)
    assert older.figure("count") == -1, "objects are no blocks"
    assert older_at(samples, [moment(1, a=1)]) is None
    assert older_at(samples, []) is None


def test_a_function_of_whose_blocks_all_died_is_a_row() -> None:
    samples = run([(("/srv/app.py make:3",), 600, True, "X")])
    made = tables(samples)
    (row,) = made.callees(made.amounts(made.paths(), made.tallies(samples, EVERYTHING)))
    assert (row.name, row.weight) == ("make (app.py)", 0)
    assert row.figure("allocated") == row.figure("freed") > 0
