"""Where the native core cannot be used, key r asks whether tracemalloc may be switched on; only y does it."""

from __future__ import annotations

import pytest

from tests.fakes.source import FakeAgent, FakeSource
from tests.tui.sampled import column
from tests.tui.support import LARGE, SIZES, SMALL, Stage, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")

QUESTION = "Switch tracemalloc on in process 4242?"


def coreless() -> FakeSource:
    agent = FakeAgent()
    agent.sampler_text, agent.offer = "the self-check says no", True
    source = FakeSource(agent)
    source.sample(65_536, 128)  # as an attach does
    return source


def words(stage: Stage) -> str:
    """Of the question; what is beneath it goes on beside its lines."""
    lines = [line.partition("│  ")[2].partition("  │")[0] for line in stage.text.splitlines()]
    return " ".join(" ".join(lines).split())


async def asked(stage: Stage) -> None:
    """Up to the question. Nothing was switched on so far."""
    await stage.ticks(2)
    assert stage.source.tracing == [False]
    assert "not sampled" in stage.text
    await stage.press("r")
    assert QUESTION in stage.text
    assert stage.source.tracing == [False]


@pytest.mark.parametrize("size", SIZES)
async def test_it_is_asked_with_what_it_costs(size: tuple[int, int]) -> None:
    async with on_stage(size, source=coreless()) as stage:
        await asked(stage)
        said = words(stage)
        assert "The native core is not loaded: the self-check says no." in said
        assert "2.6 to 5.7 times its CPU time" in said
        assert "even if the program called tracemalloc.start() meanwhile" in said
        assert "tracemalloc has no lifetimes, no block sizes and no freed memory." in said
        assert "y switch it on;" in said
        assert "q detach and quit" in said
        await stage.press("enter", "space", "r", "b", "colon")
        assert QUESTION in stage.text
        assert stage.source.tracing == [False], "keys that mean something else answer nothing"
        await stage.press("escape")
        assert QUESTION not in stage.text
        assert stage.source.tracing == [False]


async def test_n_leaves_the_tracer_off() -> None:
    async with on_stage(SMALL, source=coreless()) as stage:
        await asked(stage)
        await stage.press("n")
        assert QUESTION not in stage.text
        await stage.ticks(2)
        await stage.press("y")
        assert stage.source.tracing == [False]


async def test_y_switches_it_on_and_r_off() -> None:
    async with on_stage(LARGE, source=coreless()) as stage:
        await asked(stage)
        await stage.press("y")
        assert QUESTION not in stage.text
        assert stage.source.tracing == [False, True]
        await stage.ticks(3)
        assert "tracemalloc on" in stage.text
        await stage.press("2")
        assert "shop/views.py:88" in stage.text
        assert "by traced site" in stage.text
        for key, view in (("6", "lifetimes"), ("7", "sizes")):
            await stage.press(key)
            assert "tracemalloc has no" in " ".join(stage.text.replace("│", " ").split()), view
        await stage.press("R")
        assert stage.source.tracing == [False, True]
        await stage.press("r")
        assert stage.source.sampling[-1][0] == 0
        assert stage.source.tracing == [False, True, False]
        await stage.ticks(1)
        assert "tracemalloc on" not in stage.text
        await stage.press("r")
        assert QUESTION in stage.text


async def test_what_it_cannot_tell_is_blank_and_not_nothing() -> None:
    async with on_stage(LARGE, source=coreless()) as stage:
        await asked(stage)
        await stage.press("y")
        await stage.ticks(3)
        await stage.press("2")
        for title in ("Alloc'd", "Freed", "Samples", "95 %", "±"):
            assert title not in stage.text
        row = next(line for line in stage.text.splitlines() if "shop/views.py:88" in line)
        assert "≈" not in row
        await stage.press("v")
        assert "Alloc'd" not in stage.text
        await stage.press("v")
        await stage.until(lambda: "everything 46.0 KiB" in stage.text, "the icicle is made, in slices")


async def test_bands_by_producer_are_exact() -> None:
    async with on_stage(LARGE, source=coreless()) as stage:
        await asked(stage)
        await stage.press("y")
        await stage.ticks(3)
        await stage.press("b", "b", "b")
        assert "by traced producer" in stage.text
        row = next(line for line in stage.text.splitlines() if line.startswith(" ") and "shop/views.py:88" in line)
        assert "≈" not in row
        assert "(no site)" in stage.text


async def test_no_question_where_tracemalloc_cannot_be() -> None:
    source = coreless()
    source.agent.offer = False
    async with on_stage(SMALL, source=source) as stage:
        await stage.ticks(2)
        await stage.press("r")
        assert QUESTION not in stage.text
        assert stage.source.tracing == [False, False]


async def test_views_are_used_as_ever() -> None:
    async with on_stage(LARGE, source=coreless()) as stage:
        await asked(stage)
        await stage.press("y")
        await stage.ticks(3)
        await stage.press("2", "down", "enter")
        assert "Stack 1 of 2" in stage.text
        assert "freed" not in stage.text
        heading = next(line for line in stage.text.splitlines() if "Stack 1 of 2" in line)
        assert heading.rstrip().endswith(" objects")
        assert "≈" not in heading
        assert "exact" not in heading, "as everywhere there"
        await stage.press("escape", "b")
        direct = dict(zip(column(stage, "name"), column(stage, "direct"), strict=True))
        assert "0" in direct.values(), "an exact nothing"
        assert "no samples" not in stage.text
        await stage.press("b", "b", "b", "b", "enter")
        await stage.press("escape", "space")
        held = next(line for line in stage.text.splitlines() if "shop/views.py:88" in line)
        await stage.ticks(2)
        assert held in stage.text
        await stage.press("space")
        assert held not in stage.text
        await stage.press(*"/site:views", "enter")
        assert "shop/views.py:88" in stage.text
        assert "(before" not in stage.text
        await stage.press("1")
        for _ in range(8):
            await stage.press("b")
            await stage.ticks(1)
        await stage.press("v", "v", "8", "6", "b", "7", "b")
        await stage.ticks(1)
        assert stage.live.session.error is None
