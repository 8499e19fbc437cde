"""View 6: curves, groups, bands by lifetime, the picture by age; and every key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.lifetimes.lifetime_table import MARKS
from heaptop.analysis.samples.survival import MortalityPoint, Survival
from heaptop.errors import UsageError
from heaptop.tui.charts import heat
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.state import background
from heaptop.tui.views.lifetimes import view as lifetimes
from heaptop.tui.views.lifetimes.lifetime_pictures import _rate_at, draw_curves, mortality_at, round_ages
from heaptop.tui.views.lifetimes.view import KEYS, LifetimesView, check_filter
from tests.fakes.source import FakeSource
from tests.tui.sampled import column, on_sampled_stage
from tests.tui.support import LARGE, SIZES, SMALL, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.mark.parametrize("size", SIZES)
async def test_lifetimes_are_grouped_by_each_key(size: tuple[int, int]) -> None:
    async with on_sampled_stage(size) as stage:
        check_golden("lifetimes-type-{size}", stage.app)
        for key, title, first in (
            ("site", "by site · object survival", "shop/views.py:131 list_orders"),
            ("size", "by block size · object survival", "33–256"),
            ("lifetime", "over time, bands by lifetime", "lived 1–10 MB"),
            ("age", "over time, by age", "lived 1–10 MB"),
        ):
            await stage.press("b")
            assert stage.live.view.by == key
            assert stage.lines(2)[0].startswith(f" 6 Lifetimes {title} ")
            assert column(stage, "name")[0] == first
        if size == SMALL:
            check_golden("lifetimes-age-80x24", stage.app)
        await stage.press("b")
        assert stage.live.view.by == KEYS[0]


async def test_v_shows_another_curve() -> None:
    async with on_sampled_stage() as stage:
        survival = stage.lines(3, 13)
        for curve in ("object mortality per MB", "nursery mortality per MB"):
            await stage.press("v")
            assert f"Lifetimes by type · {curve} " in stage.lines(2)[0]
            assert "0.1╶┤" in "".join(stage.lines(3, 13)), "its axis is logarithmic"
        await stage.press("v")
        assert stage.lines(3, 13) == survival


async def test_the_curve_of_the_row_under_the_cursor() -> None:
    async with on_sampled_stage() as stage:
        before = stage.text
        await stage.press("G")
        line = next(line for line in stage.text.splitlines() if line.startswith(" B "))
        assert "InstanceState" in line
        assert line.split()[2] == "0", "none is dead"
        await stage.press("g", "g")
        assert stage.text == before


@pytest.mark.parametrize("size", SIZES)
async def test_the_curves_are_said_in_the_figures_of_the_table(size: tuple[int, int]) -> None:
    async with on_sampled_stage(size) as stage:
        for _ in range(3):
            said = next(line for line in stage.text.splitlines() if line.startswith(" B "))
            row = stage.live.view.table.cursor  # type: ignore[attr-defined]
            for key in ("name", "dead", "alive", "median", "at1000000", "at10000000", "at100000000"):
                assert column(stage, key)[row].rpartition(".")[2] in said
            await stage.press("j")


@pytest.mark.parametrize("presses", [1, 2])
async def test_a_mortality_is_said_at_three_ages_of_its_axis(presses: int) -> None:
    async with on_sampled_stage() as stage:
        await stage.press(*["v"] * presses)
        lines = stage.text.splitlines()
        heading = next(line for line in lines if line.startswith("     Curve"))
        whole = next(line for line in lines if line.startswith(" A   total"))
        assert heading.count(" at ") == 3
        assert len(whole.split()[5:]) >= 3
        assert [text for text in whole.split()[7:] if text != "-"], "one at least is known"


def test_a_mortality_between_two_points_is_as_it_is_drawn() -> None:
    points = [MortalityPoint(1e6, 1e-6, 0.0, 1.0), MortalityPoint(1e8, 1e-8, 0.0, 1.0)]
    assert mortality_at(points, 1e6) == 1e-6
    assert mortality_at(points, 1e8) == 1e-8
    assert mortality_at(points, 1e7) == pytest.approx(1e-7), "a straight line of both logarithms"
    assert mortality_at(points, 1e5) is None
    assert mortality_at(points, 1e9) is None
    assert mortality_at([], 1e6) is None
    assert mortality_at([*points, MortalityPoint(1e9, 0.0, 0.0, 0.0)], 5e8) is None, "it falls to nothing"


def test_nearly_nothing_is_said_to_be_that() -> None:
    falls = tuple(MortalityPoint(10.0**power, 10.0**-power, 0.0, 1.0) for power in (6, 9, 12))
    curve = Survival("bytes", (), falls, 1, 1)
    assert [_rate_at(curve, 1, age) for age in (1e6, 1e9, 1e11, 1e13)] == ["1", "0.001", "<0.0001", "-"]
    assert _rate_at(None, 1, 1e6) == "-"


@pytest.mark.parametrize(("last", "lowest"), [(9, "0.001"), (12, "≤0.0001")])
def test_a_mortality_that_is_drawn_higher_than_it_is_says_so(last: int, lowest: str) -> None:
    falls = tuple(MortalityPoint(10.0**power, 10.0**-power, 0.0, 1.0) for power in (6, last))
    rows = draw_curves([(0, Survival("bytes", (), falls, 1, 1))], 1, ChartStyle.of(DARK, ascii_only=False), 60, 14)
    axis = "".join(run.text for run in rows[-2])
    assert axis.split("╶└")[0] == lowest


@given(st.floats(1e3, 1e12), st.floats(0.0, 6.0))
def test_round_ages_lie_on_the_axis(first: float, decades: float) -> None:
    last = first * 10**decades
    points = tuple(MortalityPoint(age, 1e-6, 0.0, 1.0) for age in (first, last))
    ages = round_ages(Survival("bytes", (), points, 1, 1), 1)
    assert 1 <= len(ages) <= 3
    assert list(ages) == sorted(set(ages))
    assert all(str(age)[0] in "125" and set(str(age)[1:]) <= {"0"} for age in ages)
    assert all(age <= last * 1.001 for age in ages)
    assert round_ages(Survival("bytes", (), (), 1, 1), 1) == MARKS


async def test_the_shades_of_ages_are_said_in_bytes() -> None:
    async with on_sampled_stage() as stage:
        await stage.press("b", "b", "b", "b")
        line = next(line for line in stage.text.splitlines() if line.startswith(" shades up to: "))
        assert all(shade in line for shade in heat.SHADES.strip())
        assert len(line) < SMALL[0]


async def test_enter_shows_the_bands_of_a_row_and_esc_goes_back() -> None:
    async with on_sampled_stage() as stage:
        before = stage.text
        await stage.press("enter")
        assert "bands by lifetime  ›  str" in stage.text
        assert column(stage, "name") == ["lived 1–10 MB", "alive, < 1 MB", "alive, 1–10 MB"]
        assert " str: ≈768 KiB live now; most on average: lived 1–10 MB (≈96%)" in stage.text
        assert not stage.live.view.action_drill(), "there is nothing more inside"
        await stage.press("escape")
        assert stage.text == before


async def test_w_asks_about_a_type_or_a_site() -> None:
    async with on_sampled_stage() as stage:
        await stage.press("w")
        assert stage.live.view.words[0] == "Retainers by tree  ›  str"
        await stage.press("escape", "b")
        site = column(stage, "name")[0]
        await stage.press("w")
        assert stage.live.view.words[0] == f"Retainers by tree  ›  {site}"
        await stage.until(lambda: "objects were sampled, of about" in " ".join(stage.text.split()), "it is answered")
        await stage.press("escape", "b", "w")
        assert "retainers can be shown for a type or a sampled site" in stage.text, "not of a size"


async def test_every_grouping_of_lifetimes_is_ascii() -> None:
    async with on_sampled_stage(ascii=True) as stage:
        for _ in KEYS:
            assert stage.text.isascii()
            await stage.press("b")


async def test_curves_differ_by_more_than_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_sampled_stage() as stage:
        coloured = stage.text
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_sampled_stage() as stage:
        assert stage.text == coloured, "curves and their bands differ by letters and shades, not by colour alone"


async def test_lifetimes_are_sorted_by_each_column() -> None:
    async with on_sampled_stage(LARGE) as stage:
        by_dead = column(stage, "name")
        await stage.press("i")
        assert column(stage, "name")[-1] == by_dead[0]
        await stage.press("less_than_sign")
        assert column(stage, "name") == sorted(by_dead)
        await stage.press("greater_than_sign", "greater_than_sign", "greater_than_sign")
        assert "Median▼" in stage.text
        assert column(stage, "median")[0].startswith(">"), "who outlives all comes first"
        assert column(stage, "name")[-1] == "str"


async def test_a_filter_keeps_the_types_it_names() -> None:
    async with on_sampled_stage() as stage:
        await stage.press("slash")
        await stage.type("shop")
        await stage.press("enter")
        assert column(stage, "name") == ["shop.models.Session"]
        await stage.press("b")
        assert column(stage, "name") == ["shop.models.Session"], "what dies by site or size is not kept by type"
        await stage.press("escape")
        assert len(column(stage, "name")) == 6


async def test_a_filter_that_means_nothing_here_is_told_in_the_bar() -> None:
    async with on_sampled_stage() as stage:
        await stage.press("slash")
        await stage.type("site:views")
        assert "× Lifetimes by type have no site." in stage.text


@pytest.mark.parametrize(
    ("key", "text"),
    [("type", "gen:2"), ("type", "size>1MB"), ("site", "type:x"), ("size", "type:x"), ("lifetime", "site:x")],
)
def test_filters_that_are_not_kept(key: str, text: str) -> None:
    with pytest.raises(UsageError, match=r"^Lifetimes .* have no "):
        check_filter(key, parse_filter(text))


async def test_too_few_samples_say_nothing() -> None:
    async with on_sampled_stage(ticks=2) as stage:
        assert "× " not in stage.text
        await stage.press("G")
        assert column(stage, "median")[-1] == "too few"
        assert "too few samples for lifetimes" in stage.text


async def test_without_samples_it_says_why() -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("6")
        assert "Allocations are not sampled: press r." in stage.text
        await stage.press("r")
        await stage.ticks(6)
        assert " A   total" in stage.text
    source = FakeSource()
    source.agent.sampler_text = "another profiler holds the allocators"
    source.sample(65536, 128)
    async with on_stage(SMALL, source=source) as stage:
        await stage.press("6")
        assert "Allocations are not sampled: another profiler holds the allocators." in stage.text


async def test_paused_nothing_moves() -> None:
    async with on_sampled_stage() as stage:
        await stage.press("space")
        before = stage.text.splitlines()[2:]
        await stage.ticks(5)
        assert stage.text.splitlines()[2:] == before
        await stage.press("i", "i")
        assert stage.text.splitlines()[2:] == before


async def test_many_samples_are_worked_on_in_steps_and_their_age_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "SMALL", 0)
    monkeypatch.setattr(background, "REST", 1e9)
    async with on_sampled_stage() as stage:
        view = stage.live.query_one(LifetimesView)
        await stage.until(lambda: view._figures is not None, "the first figures are there")
        before = column(stage, "dead")
        await stage.ticks(3)
        assert "as of 3 s ago" in stage.text
        assert column(stage, "dead") == before


async def test_bands_without_samples_say_so_in_words_that_fit() -> None:
    async with on_sampled_stage(SMALL, "1") as stage:
        await stage.press(*"bbbbbb")
        await stage.settled()
        assert "by ≈ sampled lifetime" in stage.text
        assert "0 samples" in stage.text
        assert "no sampl" not in stage.text
