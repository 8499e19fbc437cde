"""View 7: sizes and classes, the sites of a size; and every key."""

from __future__ import annotations

from types import ModuleType

import pytest

from heaptop.analysis.samples.estimate import Estimate
from heaptop.errors import TargetExited
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.views.gc import view as gc
from heaptop.tui.views.sizes import view as sizes
from heaptop.tui.views.sizes.view import bar_text, error_text
from tests.tui.sampled import column, on_sampled_stage
from tests.tui.support import LARGE, SIZES, SMALL, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.mark.parametrize("size", SIZES)
async def test_by_size_and_by_class(size: tuple[int, int]) -> None:
    async with on_sampled_stage(size, "7") as stage:
        check_golden("sizes-size-{size}", stage.app)
        classes = stage.lines(3, 9)
        await stage.press("b")
        assert "by ≈ sampled block class" in stage.lines(2)[0]
        assert [text.strip() for text in column(stage, "name")] == ["257–2048 B", "33–256 B", "> 2048 B", "1–32 B"]
        assert stage.lines(3, 9) == classes
        await stage.press("b")
        assert "by ≈ sampled block size" in stage.text


@pytest.mark.parametrize("size", SIZES)
async def test_v_shows_numbers_of_blocks(size: tuple[int, int]) -> None:
    async with on_sampled_stage(size, "7") as stage:
        in_bytes = stage.text
        await stage.press("v")
        assert "by ≈ sampled block size, in blocks" in stage.lines(2)[0]
        assert not any("B" in text for key in ("allocated", "freed", "kept", "error") for text in column(stage, key))
        kept = [int(text.strip("≈").replace(",", "")) for text in column(stage, "kept")]
        shares = [float(text.strip("%")) for text in column(stage, "share")]
        assert shares == pytest.approx([100 * one / sum(kept) for one in kept], abs=0.06)
        await stage.press("v")
        assert stage.text == in_bytes


@pytest.mark.parametrize("size", SIZES)
async def test_enter_shows_who_allocates_a_size(size: tuple[int, int]) -> None:
    async with on_sampled_stage(size, "7") as stage:
        before = stage.text
        kept = column(stage, "kept")[0]
        await stage.press("enter")
        assert "Sizes by ≈ sampled site  ›  312 B" in stage.lines(2)[0]
        assert column(stage, "kept") == [kept], "one site has all of them"
        assert "no samples" not in stage.text.splitlines()[4], "of other sizes nothing is said"
        assert "small" not in stage.text
        assert not stage.live.view.action_drill(), "there is nothing more inside"
        await stage.press("escape")
        assert stage.text == before


async def test_w_asks_about_who_allocates_a_size() -> None:
    async with on_sampled_stage(SMALL, "7") as stage:
        await stage.press("w")
        assert "press Enter first: w works on a site" in stage.text
        await stage.press("b", "j", "enter")
        site = column(stage, "name")[0]
        await stage.press("w")
        assert stage.live.view.words[0] == f"Retainers by tree  ›  {site}"
        await stage.until(lambda: "objects were sampled, of about" in " ".join(stage.text.split()), "it is answered")
        await stage.press("escape")
        assert stage.live.view.NAME == "sizes"


async def test_enter_on_a_class() -> None:
    async with on_sampled_stage(SMALL, "7") as stage:
        await stage.press("b", "j", "enter")
        assert "medium blocks" in stage.text
        assert len(column(stage, "name")) > 1


async def test_sizes_add_up_to_their_classes() -> None:
    async with on_sampled_stage(LARGE, "7") as stage:
        sheet = stage.live.view.table.sheet  # type: ignore[attr-defined]
        sizes = sum(row.allocated.bytes for row in sheet.rows)
        await stage.press("b")
        classes = sum(row.allocated.bytes for row in stage.live.view.table.sheet.rows)  # type: ignore[attr-defined]
        assert abs(sizes - classes) <= 4, "but for rounding"


async def test_block_sizes_are_sorted_and_filtered() -> None:
    async with on_sampled_stage(SMALL, "7") as stage:
        await stage.press("less_than_sign", "less_than_sign", "less_than_sign")
        assert column(stage, "name") == ["71 B", "232 B", "240 B", "312 B", "> 2048 B"]
        await stage.press("i")
        assert column(stage, "name")[0] == "> 2048 B"
        await stage.press("slash")
        await stage.type("type:Session")
        await stage.press("enter")
        assert column(stage, "name") == ["312 B"]
        await stage.press("enter")
        assert "type:Session" in stage.text
        await stage.press("escape", "escape")
        assert len(column(stage, "name")) == 5


async def test_a_generation_is_not_known() -> None:
    async with on_sampled_stage(SMALL, "7") as stage:
        await stage.press("slash")
        await stage.type("gen:2")
        assert "× Sizes have no generation." in stage.text


async def test_block_sizes_are_ascii_in_all_layouts() -> None:
    async with on_sampled_stage(SMALL, "7", ascii=True) as stage:
        for key in ("v", "b", "enter"):
            assert stage.text.isascii()
            await stage.press(key)
        assert stage.text.isascii()


async def test_classes_of_sizes_have_letters_and_shades(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_sampled_stage(SMALL, "7") as stage:
        assert all(letter in stage.text for letter in (" s small", " m medium", " l large", " x extra large"))
        assert "█" in stage.text
        assert "░" in stage.text


async def test_without_samples_it_says_why() -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("7")
        assert "Allocations are not sampled: press r." in stage.text


async def test_paused_nothing_moves() -> None:
    async with on_sampled_stage(SMALL, "7") as stage:
        await stage.press("space")
        before = stage.text.splitlines()[2:]
        await stage.ticks(5)
        await stage.press("v", "v", "enter", "escape")
        assert stage.text.splitlines()[2:] == before


@pytest.mark.parametrize(
    ("kept", "allocated", "bar"),
    [(0.5, 1.0, "█████░░░░░"), (0.04, 1.0, "▏░░░░░░░░░"), (0.0, 1.0, "░░░░░░░░░░"), (0.001, 0.002, "▏         ")],
)
def test_little_that_is_kept_is_drawn_thin(kept: float, allocated: float, bar: str) -> None:
    assert bar_text(kept, allocated, 10, ChartStyle.of(DARK, ascii_only=False)) == bar


def test_an_error_is_the_larger_half_of_the_interval() -> None:
    assert error_text(Estimate(4096, 4, 2048, 8192, 2)) == "±4.00 KiB", "the larger side"
    assert error_text(Estimate(4096, 4, 2048, 8192, 2), blocks=True) == "±4"
    assert error_text(Estimate(4096, 4, 4096, 4096, 2)) == ""


@pytest.mark.parametrize(("key", "view"), [("7", sizes), ("8", gc)])
async def test_of_a_target_that_has_ended_the_last_figures_are_shown(
    monkeypatch: pytest.MonkeyPatch, key: str, view: ModuleType
) -> None:
    """They rested when it ended, and nothing comes after that for which they would be made again."""
    monkeypatch.setattr(view, "SMALL", -1)
    async with on_sampled_stage(SMALL, key, ticks=4) as stage:
        shown = stage.live.view
        assert isinstance(shown, sizes.SizesView | gc.GcView)
        shown._made._rest = 10**9
        shown._made._due = float("-inf")
        await stage.ticks(1)
        await stage.ticks(3)
        assert "as of 3 s ago" in shown.words[1]
        stage.source.end(TargetExited("The process has ended."))
        await stage.until(lambda: "exited" in stage.text, "it has ended")
        assert "as of 3 s ago" in shown.words[1]
        shown._made._due = float("-inf")
        await stage.until(lambda: "as of" not in shown.words[1], "they have rested")
