"""View 5: the map by type, generation, kind and age; every key and the mouse; what is asked of the snapshot."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual import events

from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.snapshot.heap_map import MapWindow
from heaptop.analysis.text.units import format_bytes
from heaptop.errors import UsageError
from heaptop.protocol.images import GROUPS, MAP, OBJECT, Question, Selection
from heaptop.protocol.messages import TypeName
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.heap_map_picture import FREE, GUTTER, paint
from heaptop.tui.charts.palette import DARK
from heaptop.tui.views.heap_map.heap_map_marks import ALL
from heaptop.tui.views.heap_map.view import HeapMapView
from heaptop.tui.views.retainers.view import RetainersView
from heaptop.tui.widgets.heap_map import HeapMap
from tests.fakes.graph import Planted, PlantedHeap
from tests.fakes.shop import shop
from tests.fakes.source import FakeSource
from tests.tui.sampled import on_sampled_stage
from tests.tui.support import LARGE, SIZES, SMALL, Stage, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")

SESSIONS = 0x7F3A_1C40_0030
"""Somewhere among what the shop's sessions hold."""


@asynccontextmanager
async def on_map(
    size: tuple[int, int] = SMALL, *, ascii: bool = False, source: FakeSource | None = None
) -> AsyncIterator[Stage]:
    async with on_stage(size, censuses=3, ascii=ascii, source=source) as stage:
        stage.live.client.clock = lambda: 0.0  # the age of the snapshot is on the screen
        await stage.press("5")
        await stage.until(lambda: view(stage)._answers.groups, "the map is there")
        await stage.settled()
        yield stage


def view(stage: Stage) -> HeapMapView:
    return stage.live.query_one(HeapMapView)


def window(stage: Stage) -> MapWindow:
    found = stage.live.query_one(HeapMap).window
    assert found is not None
    return found


async def calm(stage: Stage) -> None:
    """Wait until all that is asked was answered, and is drawn."""
    client, answers = stage.live.client, view(stage)._answers
    await stage.until(
        lambda: not stage.live.draw_due and not (client.is_open and answers.is_asking), "all is answered"
    )


async def go(stage: Stage, address: int) -> None:
    """Put the cursor on an address."""
    stage.live.query_one(HeapMap).move_to(window(stage).layout.place(address))
    await calm(stage)


def asked(stage: Stage, what: int) -> list[Question]:
    return [question for question in stage.source.agent.images.asked if question.what == what]


# -- what is shown -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_by_type_generation_kind_and_age(size: tuple[int, int]) -> None:
    async with on_map(size) as stage:
        check_golden("heap_map-type-{size}", stage.app)
        for state, names in (
            ("generation", ["untracked", "gen 2", "gen 0", "gen 1"]),
            ("kind", ["modules", "frames", "held by C", "garbage"]),
            ("age", []),
        ):
            await stage.press("b")
            await calm(stage)
            assert f"Heap map by {state}" in stage.text
            entries = view(stage)._figures.sums(stage.live.client, window(stage))[1]
            assert [entry.name for entry in entries if (entry.share or 0) > 0.01] == names
            assert [name for name in names if not re.search(rf"[A-J]  {name} ", stage.text)] == [], "the legend has it"
            assert ("no mark yet: m sets one" in stage.text) == (state == "age")
        await stage.press("b")
        await calm(stage)
        assert "Heap map by leak" in stage.text
        await stage.press("b")
        await calm(stage)
        assert "Heap map by type" in stage.text


@pytest.mark.parametrize("size", SIZES)
async def test_the_object_under_the_cursor(size: tuple[int, int]) -> None:
    async with on_map(size) as stage:
        await go(stage, SESSIONS)
        await stage.press("z", "z", "enter")
        await calm(stage)
        assert "› float 0x7f3a1c400030 " in " ".join(stage.lines(2)[0].split()) + " "
        for name, says in (
            ("type", "float at 0x7f3a1c400030"),
            ("size", "24 B, retains 24 B · untracked"),
            ("site", "not sampled"),
            ("root", "module shop.billing"),
        ):
            assert f" {name:<8}  {says}" in stage.text


async def test_cells_of_the_map_are_letters_in_ascii() -> None:
    async with on_map(ascii=True) as stage:
        await go(stage, SESSIONS)
        assert stage.text.isascii()
        letters = {letter for line in stage.lines(4, -9) for letter in line[14:]}
        assert letters <= set("ABCDEFGHIJ~| "), "cells are letters of the legend"
        assert sum(">" in line[:14] for line in stage.lines(4, -9)) == 1, "the line of the cursor"


async def test_cells_have_letters_and_the_cursor_a_sign_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_map() as stage:
        letters = {letter for line in stage.text.splitlines()[4:-9] for letter in line[14:]}
        assert letters <= set("ABCDEFGHIJ~│ ")
        cursor = [run for row in stage.live.query_one(HeapMap)._rows for run in row if run.fg == -4]
        assert len(cursor) == 1, "the cursor is told by more than colour"


async def test_the_legend_marks_types_that_have_no_cell() -> None:
    def plant(image: int) -> PlantedHeap:
        """An object whose bytes are elsewhere: at its address is room for 16 of them, and the cell has another one."""
        heap = shop(image)
        largest = max(heap.objects, key=lambda each: each.size)
        mapped = Planted(largest.address - 16, TypeName("app", "Mapped"), largest.size)
        return replace(heap, objects=(*heap.objects, mapped))

    source = FakeSource()
    source.agent.images.plant = plant
    async with on_map(LARGE, source=source) as stage:
        figures, client = view(stage)._figures, stage.live.client
        await calm(stage)
        _, entries = figures.sums(client, window(stage))
        assert [entry.name for entry in entries if not entry.drawn] == ["app.Mapped"]
        assert "app.Mapped (no cell)" in stage.text
        assert stage.text.count("(no cell)") == 1


async def test_the_legend_adds_up_to_what_is_shown() -> None:
    async with on_map(LARGE) as stage:
        _, entries = view(stage)._figures.sums(stage.live.client, window(stage))
        assert sum(entry.share for entry in entries) == pytest.approx(1)
        groups = view(stage)._answers.groups
        assert groups is not None
        assert stage.live.client.image is not None
        assert sum(row.bytes for row in groups[1].rows) == stage.live.client.image.bytes


async def test_colours_stay_while_zooming() -> None:
    async with on_map() as stage:
        before = dict(view(stage)._slots.slots)
        await go(stage, SESSIONS)
        await stage.press("z", "z", "z")
        await calm(stage)
        now = view(stage)._slots.slots
        assert {name: now[name] for name in before} == before


# -- moving --------------------------------------------------------------------------------------------------


async def test_the_keys_of_the_cursor() -> None:
    async with on_map() as stage:
        await stage.press("z", "z", "z")
        await calm(stage)
        width, last = window(stage).width, window(stage).layout.count - 1
        for keys, wanted in (
            ("j", width), ("down", 2 * width), ("k", width), ("up", 0), ("l", 1), ("right", 2), ("h", 1), ("left", 0),
            ("left", 0), ("pagedown", window(stage).room), ("pageup", 0), ("G", last), ("j", last), ("home", 0),
            ("end", last), ("g g", 0),
        ):  # fmt: skip
            await stage.press(*keys.split())
            assert window(stage).cursor == wanted, keys
            assert window(stage).top <= window(stage).cursor < window(stage).end


async def test_z_zooms_and_esc_shows_all_again() -> None:
    async with on_map() as stage:
        await go(stage, SESSIONS)
        whole = window(stage)
        await stage.press("z", "z")
        assert window(stage).layout.cell == whole.layout.cell // 4
        assert f"{whole.layout.cell // 4} B a cell" in stage.text
        await stage.press("Z")
        assert window(stage).layout.cell == whole.layout.cell // 2
        await stage.press("z", "escape")
        assert (window(stage).layout.cell, window(stage).cursor) == (whole.layout.cell, whole.cursor)
        await calm(stage)
        await stage.press("Z")
        assert "the heap map cannot zoom out further" in stage.text


async def test_a_click_moves_the_cursor_and_a_second_one_is_enter() -> None:
    async with on_map() as stage:
        await stage.pilot.click(HeapMap, offset=(20, 2))
        await calm(stage)
        whole = window(stage)
        assert whole.cursor == 4 * whole.width + 6, "two places to a line; the upper one"
        assert view(stage)._answers.wanted is None
        await stage.pilot.click(HeapMap, offset=(20, 2), times=2)
        await calm(stage)
        assert view(stage)._answers.wanted is not None, "a second click is Enter"
        await stage.pilot.click(HeapMap, offset=(3, 2))
        assert window(stage).cursor == whole.cursor, "addresses are no part of the map"
        await stage.pilot._post_mouse_events([wheel("Up")], HeapMap, offset=(30, 3), button=0)
        await calm(stage)
        assert window(stage).layout.cell == whole.layout.cell // 2
        assert window(stage).cursor - window(stage).top == 6 * whole.width + 16, "what was pointed at stays there"
        top = window(stage).top
        await stage.pilot._post_mouse_events([wheel("Up")], HeapMap, offset=(30, 3), button=0, shift=True)
        assert window(stage).top == max(top - window(stage).width, 0)
        await stage.pilot._post_mouse_events([wheel("Down")], HeapMap, offset=(30, 3), button=0)
        assert window(stage).layout.cell == whole.layout.cell


def wheel(direction: str) -> type:
    return getattr(events, f"MouseScroll{direction}")  # type: ignore[no-any-return]


# -- what is looked at ---------------------------------------------------------------------------------------


async def test_enter_looks_at_an_object_and_enter_again_explores_it() -> None:
    async with on_map() as stage:
        await go(stage, SESSIONS)
        await stage.press("enter")
        await calm(stage)
        address = view(stage)._answers.largest.rows[0].address  # type: ignore[union-attr]
        assert f"at {address:#x}" in stage.text
        await stage.press("j")
        assert f"at {address:#x}" not in stage.text, "the cursor stands elsewhere"
        await stage.press("k")
        assert f"at {address:#x}" in stage.text
        await stage.press("escape")
        assert f"at {address:#x}" not in stage.text
        await stage.press("enter")
        await calm(stage)
        assert f"at {address:#x}" in stage.text
        await stage.press("enter")
        await calm(stage)
        assert stage.live.view.NAME == RetainersView.NAME
        assert f"{address:#x}" in stage.text


async def test_values_are_asked_for_only_when_a_person_allowed_it() -> None:
    async with on_map() as stage:
        await go(stage, SESSIONS)
        await stage.press("enter")
        await calm(stage)
        assert [question.values for question in asked(stage, OBJECT)] == [False]
        await stage.press("V", "y")
        await calm(stage)
        assert [question.values for question in asked(stage, OBJECT)] == [False, True]
        await stage.press("V")
        await calm(stage)
        assert [question.values for question in asked(stage, OBJECT)] == [False, True, False]


async def test_the_map_says_who_allocated_a_sampled_object() -> None:
    sampled = next(each for each in shop(1).objects if each.stack)
    async with on_sampled_stage(SMALL, "5") as stage:
        await calm(stage)
        for _ in range(12):
            await stage.press("z")
        await go(stage, sampled.address)
        await stage.press("enter")
        await calm(stage)
        assert f"at {sampled.address:#x}" in stage.text
        sites = stage.live.session.sampling.sites
        assert f"{'site':<8}  {sites.name(sampled.stack, 'site')}" in stage.text


async def test_a_stack_that_was_not_said_yet() -> None:
    """The snapshot is newer than what was heard of the sampler."""
    sampled = next(each for each in shop(1).objects if each.stack)
    async with on_map() as stage:
        for _ in range(12):
            await stage.press("z")
        await go(stage, sampled.address)
        await stage.press("enter")
        await calm(stage)
        assert "its stack is not known yet" in stage.text


async def test_w_asks_what_keeps_it_alive() -> None:
    async with on_map() as stage:
        await go(stage, SESSIONS)
        subject = view(stage).subject
        assert subject is not None
        assert subject.address == 0
        await stage.press("enter")
        await calm(stage)
        looked = view(stage).subject
        assert looked is not None
        assert looked.address == view(stage)._answers.largest.rows[0].address  # type: ignore[union-attr]
        await stage.press("w")
        assert stage.live.view.NAME == RetainersView.NAME


async def test_a_gap_and_what_is_free() -> None:
    async with on_map(LARGE) as stage:
        layout = window(stage).layout
        gap = next(place for place in range(layout.count) if layout.bounds(place)[2])
        await go(stage, layout.address(gap))
        assert "no object, skipped" in stage.text
        await stage.press("enter")
        assert view(stage)._answers.wanted is None
        assert view(stage).subject is None
        known = view(stage)._answers.cells
        records = [known.get(Selection(), layout.cell, layout.address(place)) for place in range(layout.count)]
        free = next(place for place, record in enumerate(records) if record is not None and not record.bytes)
        await go(stage, layout.address(free))
        assert ": no object\n" in stage.text
        assert view(stage).subject is None


# -- filter, mark --------------------------------------------------------------------------------------------


async def test_a_filter_makes_the_rest_faint() -> None:
    async with on_map() as stage:
        await stage.press("slash")
        await stage.type("type:shop.models.Session")
        await stage.press("enter")
        await calm(stage)
        _, entries = view(stage)._figures.sums(stage.live.client, window(stage))
        assert [entry.name for entry in entries] == ["shop.models.Session"]
        assert len(asked(stage, MAP)[-1].selection.types) == 1
        types = []
        for passes in (True, False):
            layout, known = window(stage).layout, view(stage)._answers.cells
            selection = view(stage)._figures.selection(stage.live.client)
            assert selection is not None
            records = [known.get(selection, layout.cell, layout.address(place)) for place in range(layout.count)]
            place = next(place for place, each in enumerate(records) if each and bool(each.bytes) is passes)
            await go(stage, layout.address(place))
            await stage.press("enter")
            await calm(stage)
            types.append(view(stage)._answers.type_name(view(stage)._answers.largest.rows[0].type))  # type: ignore[union-attr]
        assert types[0] == "shop.models.Session", "of a cell that has one, what passes is looked at"
        assert types[1] != "shop.models.Session"
        await stage.press("escape", "escape")
        await calm(stage)
        assert "·" not in "".join(stage.text.splitlines()[4:-8])


@pytest.mark.parametrize(
    ("where", "kinds", "all_types"),
    [("kind:none", (5,), True), ("!kind:none", (0, 1, 2, 3, 4), True), ("dict kind:module", (0,), False)],
)
async def test_a_filter_by_kind(where: str, kinds: tuple[int, ...], all_types: bool) -> None:
    async with on_map() as stage:
        await stage.press("slash")
        await stage.type(where)
        await stage.press("enter")
        await calm(stage)
        selection = asked(stage, MAP)[-1].selection
        assert selection.kinds == kinds
        assert (selection.types == ()) is all_types
        client, shown = stage.live.client, window(stage)
        marker = view(stage)._figures.marker(client)
        hidden = marker.taken(shown, ALL) - marker.taken(shown, view(stage)._figures.selection(client) or ALL)
        assert hidden > 0
        assert f"· {format_bytes(hidden)} filtered out" in stage.text


async def test_a_filter_by_retainer() -> None:
    async with on_map() as stage:
        await stage.press("slash")
        await stage.type("retainer:_sessions")
        await stage.press("enter")
        await calm(stage)
        units = view(stage)._answers.retainers.units  # type: ignore[union-attr]
        named = {unit.address for unit in units if "_sessions" in unit.label and unit.address}
        assert named
        assert set(asked(stage, MAP)[-1].selection.retainers) == named
        held = {entry.name for entry in view(stage)._figures.sums(stage.live.client, window(stage))[1]}
        assert "shop.models.Session" in held
        with pytest.raises(UsageError, match="Cells accept one retainer term"):
            view(stage).set_where(parse_filter("!retainer:x"))


async def test_nothing_passes_and_what_is_not_known() -> None:
    async with on_map() as stage:
        before = len(stage.source.agent.images.asked)
        view(stage).set_where(parse_filter("type:nobody"))
        await calm(stage)
        assert len(stage.source.agent.images.asked) == before
        assert view(stage)._figures.sums(stage.live.client, window(stage))[1] == []
        assert not set("▀█▄") & set("".join(stage.text.splitlines()[6:-8])), "all is faint"
        await stage.press("escape", "slash")
        await stage.type("gen:2")
        assert "× Cells have no generation." in stage.text


async def test_what_is_new_since_the_mark() -> None:
    async with on_map(LARGE) as stage:
        await stage.press("b", "b", "b")
        assert "no mark yet" in stage.text
        await stage.press("m")
        await stage.until(lambda: stage.live.client.mark, "it is marked")
        await stage.press("o")
        await stage.until(lambda: any(question.selection.seen for question in asked(stage, MAP)), "it is asked")
        await calm(stage)
        stage.live.state.status.until = 0.0
        stage.live.redraw_words()
        assert "no mark yet" not in stage.text
        _, entries = view(stage)._figures.sums(stage.live.client, window(stage))
        image = stage.live.client.image
        assert image is not None
        assert entries[0].share > 0
        assert sum(entry.share for entry in entries) == pytest.approx(1)


async def test_a_mark_that_cannot_be_told() -> None:
    async with on_map(LARGE) as stage:
        await stage.press("m")
        await stage.until(lambda: stage.live.client.mark, "it is marked")
        await stage.press("o")
        await stage.until(lambda: len(asked(stage, GROUPS)) == 3, "the new map is there")
        await calm(stage)
        stage.source.agent.images.failure = "there was no memory for the question"
        await stage.press("b", "b", "b")
        await calm(stage)
        stage.live.state.status.until = 0.0
        stage.live.redraw_words()
        assert "comparing with the mark failed" in stage.text
        assert "asking…" not in stage.text


# -- what is asked -------------------------------------------------------------------------------------------


async def test_only_cells_on_the_screen_are_asked_for_and_only_once() -> None:
    async with on_map() as stage:
        count = len(asked(stage, MAP))
        await stage.press("z", "z", "z")
        await calm(stage)
        low, high = window(stage).range
        new = asked(stage, MAP)[count:]
        assert all(question.limit <= window(stage).room for question in new)
        now = [
            question
            for question in new
            if (question.high - question.low) // question.limit == window(stage).layout.cell
        ]
        assert sum(question.high - question.low for question in now) == sum(
            end - begin for _, begin, end in window(stage).layout.pieces(window(stage).top, window(stage).end)
        )
        assert all(low <= question.low < question.high <= high for question in now)
        count = len(asked(stage, MAP))
        await stage.press("pagedown", "pageup", "b", "b", "b", "b")
        await calm(stage)
        page = asked(stage, MAP)[count:]
        assert all(question.low >= high for question in page), "the page after it, and nothing again"


async def test_while_it_is_asked_the_picture_stays() -> None:
    async with on_map() as stage:
        stage.source.agent.images.hold = True
        await stage.press("z")
        assert "asking…" in stage.text
        rows = stage.text.splitlines()[4:15]
        assert sum(row.count("█") + row.count("▀") for row in rows) > 100, "as much as is known of the larger cells"
        assert "% taken" not in stage.text, "a larger cell stands for several: no figures of it"
        stage.source.go_on()
        await stage.until(lambda: not view(stage)._answers.is_asking, "it is answered")
        await calm(stage)
        assert "asking…" not in stage.text
        assert "% taken" in stage.text


async def test_what_is_given_up_is_partial_and_not_asked_again() -> None:
    async with on_map() as stage:
        stage.source.agent.images.hold = True
        await stage.press("z")
        await stage.settled()
        await stage.press("x")
        await calm(stage)
        stage.source.agent.images.hold = False
        assert "partial · " in stage.text
        count = len(stage.source.agent.images.asked)
        await stage.press("j", "k")
        await calm(stage)
        assert len(stage.source.agent.images.asked) == count


async def test_a_question_that_fails_is_said() -> None:
    async with on_map() as stage:
        stage.source.agent.images.failure = "there was no memory for the question"
        await stage.press("enter")
        await calm(stage)
        assert "there was no memory for the question" in stage.text
        await stage.press("enter")
        await calm(stage)
        assert "there was no memory" not in stage.text
        assert "site  " in stage.text


# -- the snapshot --------------------------------------------------------------------------------------------


async def test_the_picture_stays_when_the_snapshot_is_gone() -> None:
    async with on_map() as stage:
        rows = stage.text.splitlines()[4:17]
        stage.source.end_image("it was killed")
        await stage.until(lambda: "it was killed" in stage.text, "it is said")
        assert stage.text.splitlines()[4:17] == rows
        count = len(stage.source.agent.images.asked)
        await stage.press("z", "enter", "b", "j")
        await calm(stage)
        assert "unknown" in stage.text
        assert len(stage.source.agent.images.asked) == count


async def test_a_new_snapshot_is_seen_from_where_the_last_one_was() -> None:
    async with on_map() as stage:
        await go(stage, SESSIONS)
        await stage.press("z", "z")
        await calm(stage)
        before = window(stage)
        stage.source.agent.images.hold = True
        await stage.press("o")
        assert window(stage) == before, "the old one stays until there is another"
        assert "shop.models" in "".join(view(stage)._answers.type_name(id) for id in range(9))
        stage.source.go_on()
        await stage.until(lambda: stage.live.client.image and view(stage)._answers.groups, "the map is there")
        await calm(stage)
        now = window(stage)
        assert (now.layout.cell, now.focus) == (before.layout.cell, before.focus)
        assert now.layout.extents != before.layout.extents, "more has leaked"


async def test_groups_are_asked_for_only_where_they_are_shown() -> None:
    async with on_map() as stage:
        await stage.press("b")
        await calm(stage)
        count = len(asked(stage, GROUPS))
        await stage.press("z")
        await calm(stage)
        assert len(asked(stage, GROUPS)) == count
        await stage.press("b")
        await calm(stage)
        assert len(asked(stage, GROUPS)) == count + 1


async def test_without_a_snapshot_it_says_why() -> None:
    source = FakeSource()
    source.agent.images.refusal = "there is too little memory"
    async with on_stage(SMALL, censuses=1, source=source) as stage:
        await stage.press("5")
        await calm(stage)
        assert "no snapshot: there is too little memory" in stage.text
        await stage.press("j", "z", "enter", "b", "w", "escape", "G")
        assert stage.live.view.words == ("Heap map by generation", "")


def test_long_stretches_of_one_colour_have_its_letter() -> None:
    marks = [0] * 4 + [1] * 5 + [FREE] + [2] * 60
    rows = paint([*marks, *marks], [0], 69, GUTTER + len(marks), 1, ChartStyle.of(DARK, ascii_only=False))
    text = "".join(run.text for run in rows[0])[-len(marks) :]
    assert text[:10] == "██████B██ "
    assert text[10:].count("C") == 3
    assert {run.bg for row in rows for run in row if run.text == "B"} == {1}
