"""Figures made of samples are marked by ± or ≈; no samples is not shown as 0."""

from __future__ import annotations

import pytest

from heaptop.analysis.samples.estimate import Estimate
from heaptop.tui.charts.marks import SHORT_NONE, estimate_text, sure
from tests.tui.sampled import column, on_sampled_stage
from tests.tui.support import LARGE, SIZES, Stage

pytestmark = pytest.mark.usefixtures("plain_environment")

PLACES = {
    "2": {"live", "count", "share", "change", "allocated", "freed"},
    "2b": {"live", "count", "share", "direct", "allocated", "freed"},
    "2bb": {"live", "count", "share", "change", "allocated", "freed"},
    "2bbb": {"live", "count", "share", "allocated", "freed"},
    "2v": {"part", "live", "count", "allocated", "share"},
    "6": {"dead_bytes", "alive_bytes", "median", "time"},
    "6bbb": {"mean", "share", "peak", "now"},
    "6bbbb": {"mean", "share", "peak", "now"},
    "7": {"allocated", "freed", "kept", "others", "share"},
    "7v": {"allocated", "freed", "kept", "others", "share"},
    "7b": {"allocated", "freed", "kept", "others", "share"},
    "7enter": {"allocated", "freed", "kept", "others", "share"},
    "8": {"allocated"},
    "8bb": {"allocated"},
    "1bbb": {"count", "bytes", "share", "change"},
    "1bbbb": {"count", "bytes", "share", "change"},
    "1bbbbb": {"count", "bytes", "share", "change"},
    "1bbbbbb": {"count", "bytes", "share", "change"},
}
"""A view's key and those that follow it, and the columns of estimates there."""


async def go(stage: Stage, place: str) -> None:
    await stage.press(*(["enter"] if place[1:] == "enter" else place[1:]))


def marked(stage: Stage, key: str) -> bool:
    sheet = stage.live.view.table.sheet  # type: ignore[attr-defined]
    columns = {one.key: one for one in sheet.columns}
    if key not in columns or "≈" in columns[key].title:
        return True
    cells = [text for text in column(stage, key) if text not in ("0", SHORT_NONE)]
    figures = [text for text in cells if any(char.isdigit() for char in text)]
    spreads = column(stage, "error") if "error" in columns else []
    if key in ("live", "kept") and spreads and all(spreads):
        return True
    return all("≈" in text or text.startswith("±") for text in figures)


@pytest.mark.sample(3)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", PLACES)
async def test_every_estimate_is_marked(place: str, size: tuple[int, int]) -> None:
    async with on_sampled_stage(size, place[0], phases=True) as stage:
        await go(stage, place)
        bare = {key for key in PLACES[place] if not marked(stage, key)}
        assert not bare, stage.text


async def test_what_is_counted_is_not_marked() -> None:
    async with on_sampled_stage(LARGE, "1") as stage:
        for _ in range(3):
            assert not any("≈" in text for key in ("count", "change", "hidden") for text in _column(stage, key))
            await stage.press("b")


def _column(stage: Stage, key: str) -> list[str]:
    return column(stage, key) if key in {one.key for one in stage.live.view.table.sheet.columns} else []  # type: ignore[attr-defined]


async def test_estimates_in_the_legend_are_marked() -> None:
    async with on_sampled_stage(LARGE, "1") as stage:
        assert "≈" not in "\n".join(stage.text.splitlines()[3:])
        await stage.press("b", "b", "b")
        legend = [line for line in stage.text.splitlines() if "views.py:88" in line]
        assert len(legend) == 2
        assert "≈" in legend[0]


@pytest.mark.parametrize(
    ("place", "keys"), [("7b", "kept"), ("7b", "allocated"), ("2b", "direct"), ("2bbb", "freed"), ("6", "dead_bytes")]
)
async def test_a_figure_without_samples_is_not_zero(place: str, keys: str) -> None:
    async with on_sampled_stage(LARGE, place[0]) as stage:
        await go(stage, place)
        assert "no samples" in column(stage, keys)
        assert " 0 B" not in stage.text


def figures_of(stage: Stage, name: str, *columns: str) -> list[str]:
    row = column(stage, "name").index(name)
    return [column(stage, key)[row] for key in columns]


async def test_what_has_no_site_has_no_number_of_blocks_and_no_change_and_is_never_exact() -> None:
    """It is what estimates leave of a census: what it grows by may be their error."""
    async with on_sampled_stage(LARGE, "2") as stage:
        older = next(line for line in stage.text.splitlines() if line.startswith("(no site)"))
        assert "exact" not in older
        assert figures_of(stage, "(no site)", "count", "change") == ["", ""]
        await stage.press("1", "b", "b", "b")
        assert figures_of(stage, "(no site)", "count", "change") == ["", ""]


async def test_the_mark_of_free_lists_is_another_one() -> None:
    async with on_sampled_stage(LARGE, "2") as stage:
        live = dict(zip(column(stage, "name"), column(stage, "live"), strict=True))
        assert live["shop/views.py:131 list_orders"].startswith("?"), "dicts among them are handed on"
        assert not live["shop/cache.py:30 Cache.get"].startswith(("?", "≈"))
        assert any("?" in one.names and "free lists" in one.text for one in stage.live.view.EXPLAINS)
        await stage.press("b")
        live = dict(zip(column(stage, "name"), column(stage, "live"), strict=True))
        assert live["JSONDecoder.decode (json/decoder.py)"].startswith("?")
        assert live["list_orders (shop/views.py)"].startswith("?"), "with what it calls"
        assert not live["create_session (shop/views.py)"].startswith("?")


async def test_the_mark_of_free_lists_in_tree_and_icicle() -> None:
    async with on_sampled_stage(LARGE, "2") as stage:
        await stage.press("b")
        table = dict(zip(column(stage, "name"), column(stage, "live"), strict=True))
        await stage.press("v")
        for _ in range(3):  # all lines open
            for line in range(len(column(stage, "name"))):
                if "▸" in column(stage, "name")[line]:
                    stage.live.view.table.move_to(line)
                    await stage.press("enter")
                    break
        rows = zip(column(stage, "name"), column(stage, "live"), strict=True)
        tree = {name.strip(" ▾▸"): live for name, live in rows}
        assert tree["list_orders (shop/views.py)"] == table["list_orders (shop/views.py)"]
        assert tree["list_orders (shop/views.py)"].startswith("?")
        assert tree["create_session (shop/views.py)"] == table["create_session (shop/views.py)"]
        assert sum("(self)" in name for name in column(stage, "name")) > 1
        await stage.press("v", "j", "j")
        assert "›create_session" in stage.text
        assert "live ≈" in stage.text
        await stage.press("l")
        assert "›list_orders" in stage.text
        assert "live ?" in stage.text


def test_a_figure_is_marked_unless_it_is_exact() -> None:
    assert estimate_text(Estimate(2048, 4, 1024, 4096, 2)) == "≈2.00 KiB"
    assert estimate_text(Estimate(2048, 4, 1024, 4096, 2), blocks=True) == "≈4"
    assert estimate_text(Estimate(1 << 20, 1, 1 << 20, 1 << 20, 1)) == "1.00 MiB"
    assert estimate_text(Estimate(0, 0, 0, 0, 0)) == "no samples"
    assert estimate_text(Estimate(500, 0, 400, 600, 0)) == "≈500 B", "a difference, of no samples"
    assert estimate_text(Estimate(500, 0, 500, 500, 0)) == "≈500 B"
    assert not sure(Estimate(500, 0, 500, 500, 0))


async def test_what_has_no_site_is_said_to_be_estimated_and_stands_where_its_bytes_put_it() -> None:
    async with on_sampled_stage(LARGE, "1") as stage:
        await stage.press("b", "b", "b")
        names = column(stage, "name")
        assert names[0] == "(no site)", "it has most bytes"
        assert column(stage, "bytes")[0].startswith("≈")
        assert not any(change.startswith("±") for change in column(stage, "change"))
        await stage.press("i")
        assert column(stage, "name") == names[::-1]
