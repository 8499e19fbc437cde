"""View 3: what keeps objects alive, from types down to one object and back up; every key; what is partial or gone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from heaptop.analysis.snapshot.retaining import FreedIfDropped
from heaptop.protocol.images import (
    GROUPS,
    OBJECT,
    OBJECTS,
    PATHS,
    RETAINERS,
    STACKS,
    Place,
    Question,
    Retainers,
    Selection,
    Step,
    Unit,
)
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.state.messages import SubjectChosen
from heaptop.tui.state.snapshot_client import QuerySubject, SnapshotStage
from heaptop.tui.views.retainers.retainer_rows import named
from heaptop.tui.views.retainers.retainer_sheets import RetainerFacts, unit_sheet
from heaptop.tui.views.retainers.view import RetainersView
from tests.fakes.heap import PlantedImage
from tests.fakes.source import FakeSource
from tests.tui.sampled import column
from tests.tui.support import LARGE, SIZES, SMALL, Stage, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


@asynccontextmanager
async def on_retainers(
    size: tuple[int, int] = SMALL, *keys: str, ascii: bool = False, sampled: bool = False
) -> AsyncIterator[Stage]:
    """View 3 with an open snapshot, after some keys."""
    source = FakeSource()
    if sampled:
        source.sample(65536, 128)
    async with on_stage(size, censuses=4 if sampled else 1, source=source, ascii=ascii) as stage:
        stage.live.client.clock = lambda: 1_000.0  # for how long it has been frozen stands on the screen
        await stage.press("3")
        await quiet(stage)
        await press(stage, *keys)
        yield stage


async def quiet(stage: Stage) -> None:
    """Wait until everything that is asked has been answered and drawn."""

    def is_quiet() -> bool:
        return not stage.live.client.is_busy and not view(stage)._finder.answers.is_asking and not stage.live.draw_due

    await stage.until(is_quiet, "all is answered")


async def press(stage: Stage, *keys: str) -> None:
    for key in keys:
        await stage.press(key)
        await quiet(stage)


async def look_for(stage: Stage, where: str) -> None:
    """Type a filter and accept it."""
    await stage.press("slash")
    await stage.type(where)
    await press(stage, "enter")


def view(stage: Stage) -> RetainersView:
    return stage.live.query_one(RetainersView)


def asked(stage: Stage, what: int) -> list[Question]:
    """The questions of one sort, as the snapshot was asked them."""
    return [question for question in stage.source.agent.images.asked if question.what == what]


def lines(stage: Stage) -> list[str]:
    """The view's own lines, without blanks."""
    return [line.strip() for line in stage.text.splitlines()[4:-1]]


async def to_row(stage: Stage, text: str, key: str = "name") -> None:
    """Put the cursor on the first row with this text."""
    at = next((place for place, each in enumerate(column(stage, key)) if text in each), None)
    assert at is not None, f"no {text!r} in:\n{stage.text}"
    await press(stage, "home", *["j"] * at)


async def look_at(stage: Stage, address: int) -> None:
    """As another view has it looked at."""
    stage.live.post_message(SubjectChosen(QuerySubject("", address=address)))
    await stage.pilot.pause()
    await quiet(stage)


def title(stage: Stage) -> str:
    return view(stage).words[0]


SESSIONS = ("j", "j", "enter")
"""From the types to the tree of Session."""


# -- what the levels look like -------------------------------------------------------------------------------


async def test_by_type_path_retainer_set_and_kind() -> None:
    async with on_retainers() as stage:
        for by, heading, first in (
            ("type", "Type Kind Objects Own bytes Share Retained▼", "dict  "),
            ("tree", "What keeps it Objects Own bytes Share Frees", "▸ module shop.cache  "),
            ("sets of at most 3 retainers", "Retainers Objects Own bytes Share", "frame worker() local stream  "),
            ("kind", "Kind of root Objects Own bytes Share", "a name in a module, builtins or sys  "),
        ):
            assert title(stage) == f"Retainers by {by}"
            assert stage.lines(4)[0].split() == heading.split()
            assert stage.lines(5)[0].startswith(first)
            await press(stage, "b")
        assert title(stage) == "Retainers by ≈ sampled site"
        assert "Allocations are not sampled: press r." in stage.text
        await press(stage, "b")
        assert title(stage) == "Retainers by type", "without a mark nothing is new"


@pytest.mark.parametrize("size", SIZES)
async def test_from_a_type_down_to_an_object(size: tuple[int, int]) -> None:
    async with on_retainers(size, *SESSIONS, sampled=True) as stage:
        check_golden("retainers-tree-{size}", stage.app)
        await press(stage, "j", "j", "enter")
        assert "along module shop.cache ._sessions [*]" in stage.lines(2)[0]
        assert column(stage, "name")[0] == "shop.models.Session 0x7f3a1c807530"
        assert column(stage, "retained")[0] == "970 B"
        await press(stage, "enter")
        if size == SMALL:
            check_golden("retainers-object-80x24", stage.app)
        assert "Path from the root, 3 steps" in stage.text


async def test_rows_of_retainers_have_ascii_signs() -> None:
    async with on_retainers(SMALL, "j", "j", "b", "enter", "t", ascii=True) as stage:
        assert stage.text.isascii()
        assert stage.lines(5)[0].startswith("- * module shop.cache "), "an open row that is tagged"
        assert stage.lines(7)[0].startswith("  + ._sessions  dict "), "a closed one"


async def test_open_rows_have_a_sign_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_retainers(LARGE, *SESSIONS) as stage:
        assert "▾ module shop.cache" in stage.text


async def test_the_cursor_stays_where_it_was_on_the_way_back() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "j", "enter", "j", "enter") as stage:
        assert title(stage).split("  ›  ")[-1].startswith("shop.models.Session 0x7f3a")
        for where, cursor in ((", objects  ›", 1), ("by tree  ›  shop.models.Session", 2), ("by type", 2)):
            await press(stage, "escape")
            assert where in title(stage)
            assert stage.live.view.table.cursor == cursor  # type: ignore[attr-defined]
        assert not view(stage).back(), "Esc never quits"


# -- the tree ------------------------------------------------------------------------------------------------


async def test_enter_folds_and_unfolds() -> None:
    async with on_retainers(SMALL, *SESSIONS) as stage:
        assert column(stage, "name") == ["▾ module shop.cache", "  ▾ ._sessions  dict", "      [*]  Session"]
        await press(stage, "j", "enter")
        assert column(stage, "name") == ["▾ module shop.cache", "  ▸ ._sessions  dict"]
        await press(stage, "k", "enter", "enter")
        assert column(stage, "name") == ["▾ module shop.cache", "  ▾ ._sessions  dict", "      [*]  Session"], "one way"


async def test_what_a_step_frees_is_asked_only_of_what_is_seen() -> None:
    async with on_retainers(SMALL, *SESSIONS) as stage:
        assert column(stage, "frees") == ["102 KiB", "66.4 KiB", ""], "of several objects it is not one figure"


async def test_a_sum_that_may_count_twice_says_so() -> None:
    async with on_retainers(SMALL, "enter") as stage:
        rows = dict(zip(column(stage, "name"), column(stage, "retained"), strict=True))
        assert rows["▾ module shop.cache"] == "≤170 KiB", "dicts that keep dicts"
        assert rows["  held by C  dict"] == "16.8 KiB"


async def test_v_shows_paths_as_a_list() -> None:
    async with on_retainers(SMALL, "enter", "v") as stage:
        names = column(stage, "name")
        assert names[0] == "module shop.cache .__dict__  dict"
        await press(stage, "enter")
        assert title(stage) == "Retainers, objects  ›  dict  ›  along module shop.cache .__dict__"
        await press(stage, "escape", "v")
        assert column(stage, "name")[0] == "▾ module shop.cache"


async def test_the_tree_is_sorted_by_each_figure() -> None:
    async with on_retainers(SMALL, "enter") as stage:
        for sort in ("count", "bytes", "retained"):
            await press(stage, "greater_than_sign")
            sheet = stage.live.view.table.sheet  # type: ignore[attr-defined]
            assert sheet.sort == sort
            top = [row.node.amount(sort) for row in sheet.rows if row.depth == 0]
            assert top == sorted(top, reverse=True)
        await press(stage, "i")
        top = [row.node.amount("retained") for row in view(stage)._rows if row.depth == 0]
        assert top == sorted(top)


async def test_more_paths_are_asked_for() -> None:
    async with on_retainers(SMALL, "b", "G") as stage:
        everything = asked(stage, PATHS)[-1].limit
        assert "other paths" not in stage.text
        view(stage)._levels[-1] = replace(view(stage)._level, paths=5)
        view(stage)._again()
        await press(stage, "G")
        assert "other paths: Enter shows" in stage.text
        await press(stage, "enter")
        assert asked(stage, PATHS)[-1].limit > everything
        assert "other paths" not in stage.text


# -- retainer sets -------------------------------------------------------------------------------------------


async def test_r_changes_how_many_retainers_are_told_apart() -> None:
    async with on_retainers(SMALL, "b", "b") as stage:
        assert "MANY: more than 3 retainers each" in stage.text
        seen = []
        for _ in range(5):
            seen.append(asked(stage, RETAINERS)[-1].number)
            await press(stage, "R")
        assert seen == [3, 5, 8, 1, 2]
        assert "sets of at most 3" in title(stage)
        await press(stage, "R", "R")
        assert "MANY" not in stage.text


async def test_thousands_of_sets_are_asked_for() -> None:
    async with on_retainers(SMALL, "b", "b") as stage:
        question = asked(stage, RETAINERS)[-1]
        assert (question.offset, question.limit) == (0, 5_000)


async def test_r_changes_no_depth_of_stacks_where_there_are_no_sets() -> None:
    async with on_retainers(SMALL) as stage:
        await press(stage, "R")
        assert "key R changes N where retainer sets are shown" in stage.text
        assert view(stage)._finder.number == 3


async def test_v_takes_modules_for_units() -> None:
    async with on_retainers(SMALL, "b", "b", "v") as stage:
        assert asked(stage, RETAINERS)[-1].modules
        assert "3 modules" in title(stage)
        assert "module shop.cache" in column(stage, "name")
        assert not any("._sessions" in each for each in column(stage, "name"))


async def test_many_cannot_be_looked_into() -> None:
    async with on_retainers(SMALL, "b", "b") as stage:
        await to_row(stage, "MANY")
        await press(stage, "enter")
        assert "key R raises N" in stage.text
        assert "sets" in title(stage)


async def test_a_set_shows_what_dropping_each_member_frees() -> None:
    async with on_retainers(SMALL, "b", "b", "j", "j", "j", "enter") as stage:
        assert column(stage, "frees") == ["24.2 KiB", "2.22 KiB"]
        await press(stage, "enter")
        assert "what module shop.cache ._entries keeps" in title(stage)
        assert asked(stage, PATHS)[-1].selection.retainers == (view(stage)._levels[-2].units[0].address,)


def test_what_stands_for_several_is_no_one_object() -> None:
    several, one = Unit("module m .hooks [*] closure of f: x", 0, 16, several=True), Unit("module m .cache", 0, 32)
    assert named(several) == (several.label, 0)
    assert named(one) == (one.label, 32)
    drop = FreedIfDropped(3, 30, {16: (1, 10), 32: (2, 20)}, 0, complete=True)
    sheet = unit_sheet((several, one), drop, RetainerFacts(80, ChartStyle.of(DARK, ascii_only=False)))
    assert [sheet.draw(each)[2].text for each in sheet.rows] == ["", "20 B"]


async def test_a_set_of_one_is_looked_into_at_once() -> None:
    async with on_retainers(SMALL, "b", "b", "j", "enter") as stage:
        assert "what module shop.cache ._sessions keeps (alone or not)" in title(stage)
        assert column(stage, "count")[0] == "756", "573, and what others keep too"


async def test_e_leaves_a_retainer_out_and_takes_it_back() -> None:
    async with on_retainers(SMALL, "b", "b") as stage:
        before = stage.text
        await to_row(stage, "module shop.cache ._sessions")
        await press(stage, "e")
        assert len(asked(stage, RETAINERS)[-1].excluded) == 1
        names = column(stage, "name")
        assert names[-1] == "excluded: module shop.cache ._sessions"
        assert "module shop.cache ._sessions" not in names
        assert "excluded from retainer sets: module shop.cache ._sessions" in stage.text
        await press(stage, "G")
        assert not view(stage).action_drill()
        await press(stage, "e", "home")
        assert stage.text.splitlines()[4:] == before.splitlines()[4:]


async def test_a_step_of_the_tree_can_be_left_out() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "e", "escape", "b", "b") as stage:
        assert column(stage, "name")[-1] == "excluded: module shop.cache ._sessions"
        await press(stage, "home")
        await to_row(stage, "MANY")
        assert not view(stage).action_exclude()


# -- tags ----------------------------------------------------------------------------------------------------


async def test_what_two_caches_share() -> None:
    async with on_retainers(SMALL, "b", "b", "j", "j", "j", "enter", "t", "j", "t") as stage:
        assert column(stage, "name") == ["● module shop.cache ._entries", "● module shop.views .rendered"]
        assert "2 tagged: dropping both frees 44.5 KiB, 107 objects; 18.1 KiB of it shared" in stage.text
        await press(stage, "escape")
        assert "2 tagged" in stage.text, "on every level"
        await press(stage, "enter", "t")
        await press(stage, "j", "t")
        assert "tagged" not in stage.text


async def test_tagged_where_one_keeps_the_other() -> None:
    async with on_retainers(SMALL, *SESSIONS, "t", "j", "t") as stage:
        assert "one keeps another" in stage.text
        await press(stage, "j")
        assert not view(stage).action_tag(), "80 objects"


async def test_objects_are_tagged_by_their_type_and_address() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "j", "enter", "t", "j", "t", "j", "t", "j", "t") as stage:
        text = lines(stage)
        assert any(line.startswith("● 4 tagged: dropping all 4 frees") for line in text)
        assert "and 2 more" in text
        assert sum(line.startswith("● shop.models.Session 0x") for line in text) == 4


# -- one object ----------------------------------------------------------------------------------------------


async def test_enter_climbs_to_the_retainer() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "j", "enter", "enter") as stage:
        await to_row(stage, "[*]")
        assert not view(stage).action_drill(), "it is the object itself"
        await to_row(stage, "module shop.cache ._sessions")
        await press(stage, "enter")
        assert "dict 0x5581" in title(stage)
        await press(stage, "escape")
        assert "shop.models.Session 0x" in title(stage)


async def test_w_looks_at_the_object_of_a_step() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "w") as stage:
        assert "dict 0x5581" in title(stage)
        assert "80 items, the first: str → shop.models.Session" in stage.text
        assert "Referents: 160, the first 100" in stage.text


async def test_all_links_of_a_large_one() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "w", "G") as stage:
        before = len(column(stage, "name"))
        at = stage.live.view.table.cursor  # type: ignore[attr-defined]
        assert "60 more: Enter" in stage.text
        await press(stage, "enter")
        assert len(column(stage, "name")) == before - 1 + 60
        assert stage.live.view.table.cursor == at, "the cursor stays"  # type: ignore[attr-defined]


async def test_what_would_go_with_it() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "w") as stage:
        await to_row(stage, "What it alone keeps")
        await press(stage, "enter")
        assert "what dict 0x5581" in title(stage)
        assert column(stage, "name")[0] == "shop.models.Session"
        assert column(stage, "count")[0] == "68", "twelve are in a list too"
        await press(stage, "b")
        assert column(stage, "name")[:2] == ["▾ module shop.cache", "  ▾ ._sessions  dict"]


async def test_values_are_shown_only_with_leave() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "w") as stage:
        assert "tok-0000" not in stage.text
        assert not any(question.values for question in stage.source.agent.images.asked)
        await press(stage, "V", "y")
        assert "['tok-0000']" in stage.text
        assert asked(stage, OBJECT)[-1].values
        await press(stage, "V")
        assert "tok-0000" not in stage.text


async def test_a_question_takes_back_what_the_key_before_it_came_to() -> None:
    async with on_retainers(SMALL, "z") as stage:
        said = stage.live.state.status.text
        assert said
        assert said in stage.text
        await press(stage, "V")
        assert said not in stage.text


async def test_an_object_that_c_holds() -> None:
    async with on_retainers(SMALL, "b") as stage:
        await to_row(stage, "held by C")
        await press(stage, "w")
        assert "1 reference from outside the heap: C code may hold it" in stage.text
        assert "Several objects or a root keep it" in stage.text


async def test_another_views_object_is_looked_at() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j") as stage:
        address = view(stage)._rows[1].node.address
        await press(stage, "escape", "1")
        await look_at(stage, address)
        assert f"dict {address:#x}" in title(stage)
        assert stage.live.view is view(stage)


# -- what is asked from elsewhere ----------------------------------------------------------------------------


async def test_w_in_bands_shows_the_tree_of_a_type() -> None:
    async with on_stage(SMALL) as stage:
        await stage.until(lambda: "shop.models.Session" in stage.text, "there are bands")
        rows = column(stage, "name")
        await stage.press(*["j"] * rows.index("shop.models.Session"), "w")
        await quiet(stage)
        assert title(stage) == "Retainers by tree  ›  shop.models.Session"
        assert column(stage, "name")[0] == "▾ module shop.cache"
        await press(stage, "escape")
        assert title(stage) == "Retainers by type"


async def test_w_in_producers_shows_the_tree_of_a_site() -> None:
    async with on_retainers(SMALL, "2", sampled=True) as stage:
        await to_row(stage, "create_session")
        await press(stage, "w")
        assert title(stage) == "Retainers by tree  ›  shop/views.py:88 create_session"
        assert column(stage, "count")[0] == "100", "80 sessions, and what 20 of them have"


@pytest.mark.parametrize("size", SIZES)
async def test_of_a_site_it_is_said_that_only_sampled_objects_are_shown(size: tuple[int, int]) -> None:
    async with on_retainers(size, "2", sampled=True) as stage:
        await to_row(stage, "create_session")
        await press(stage, "w")
        said = " ".join(stage.text.split())
        assert re.search(r"Of this site 100 objects were sampled, of about [\d,.kM]+\. Only these can be shown:", said)
        assert "the others are unknown" in said
        await press(stage, "escape", "3")
        assert "were sampled, of about" not in stage.text, "of all there is it is not so"


async def test_w_elsewhere_asks_a_later_snapshot_wherever_one_was_in_the_one_before() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "j", "enter", "j", "j", "j", "1", "o") as stage:
        rows = column(stage, "name")
        await press(stage, "home", *["j"] * rows.index("dict"), "w")
        assert title(stage) == "Retainers by tree  ›  dict"
        assert "belonged to the previous snapshot" not in stage.text, "nobody asks for that"
        await press(stage, "escape")
        assert stage.live.view.NAME == "bands"
        await press(stage, "3")
        assert title(stage) == "Retainers by tree  ›  shop.models.Session", "of types there is the same in both"
        assert view(stage).list.cursor == 2
        await press(stage, "escape")
        assert title(stage) == "Retainers by type"


async def test_what_is_asked_from_elsewhere_lies_in_nothing_that_was_asked_before() -> None:
    async with on_retainers(SMALL, *SESSIONS, "1", "w") as stage:
        first = title(stage).rpartition("  ›  ")[2]
        await press(stage, "1", "j", "w")
        second = title(stage).rpartition("  ›  ")[2]
        assert first != second
        await press(stage, "1", "3")
        assert title(stage) == f"Retainers by tree  ›  {second}", "not in what was asked before, nor in Session"
        await press(stage, "escape")
        assert title(stage) == "Retainers by tree  ›  shop.models.Session", "where view 3 was left"


async def test_w_says_that_the_snapshot_is_not_of_now_in_view_3_alone() -> None:
    async with on_retainers(SMALL, "1") as stage:
        stage.live.client.clock = lambda: 1_100.0
        await press(stage, "w")
        assert "snapshot data; press o to refresh" in stage.text
        await press(stage, "1")
        assert "press o to refresh" not in stage.text


async def test_an_object_of_a_later_snapshot_is_looked_at() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j") as stage:
        address = view(stage)._rows[1].node.address
        await press(stage, "1", "o")
        await look_at(stage, address)
        assert f"dict {address:#x}" in title(stage)


async def test_what_o_and_x_do_is_said_where_no_snapshot_is_seen() -> None:
    async with on_stage(SMALL) as stage:
        await press(stage, "o")
        assert "taking a snapshot: views 3, 5 and 10 show it" in stage.text
        await press(stage, "x")
        assert "the snapshot is closed" in stage.text
        await press(stage, "x")
        assert "no snapshot is open" in stage.text


@pytest.mark.parametrize("key", ["w", "3", "5"])
async def test_a_snapshot_that_was_closed_is_followed_by_another_where_one_is_asked(key: str) -> None:
    async with on_retainers(SMALL, "j", "j", "x") as stage:
        assert "no snapshot: it was closed · rows are of 0 s ago · press o for another one" in stage.text
        assert "shop.models.Session" in stage.text
        stage.live.client.clock = lambda: 1_012.0
        await press(stage, "j", "k")
        assert "rows are of 12 s ago" in stage.text
        await press(stage, "1", "j", "j", key)
        assert stage.live.client.is_open
        assert "no snapshot" not in stage.text
        assert ("What keeps it" in stage.text) == (key == "w")


async def test_w_before_there_are_rows_says_what_is_missing() -> None:
    source = FakeSource()
    source.agent.images.hold = True
    async with on_stage(SMALL, censuses=1, source=source) as stage:
        await stage.press("3", "w")
        assert "no row to select yet: the snapshot is being built, w again then" in stage.text, "all of it is seen"
        assert stage.live.view.NAME == "retainers"
        source.agent.images.hold = False
        await stage.press("x")
        await stage.until(lambda: stage.live.client.stage is SnapshotStage.GONE, "it was cancelled")
        await stage.press("w")
        assert "no row to select yet: no snapshot is open" in stage.live.state.status.text
        assert "Press o to retry" in stage.live.state.status.text


async def test_w_on_a_type_is_enter() -> None:
    async with on_retainers(SMALL, "j", "j", "w") as stage:
        assert title(stage) == "Retainers by tree  ›  shop.models.Session"


# -- frames --------------------------------------------------------------------------------------------------


@pytest.fixture
def frames_have_places(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = PlantedImage._steps

    def with_places(image: PlantedImage, node: int, values: bool) -> list[Step]:
        place = Place("/srv/shop/jobs/nightly.py", 31, "nightly")
        found = steps(image, node, values)
        return [replace(step, place=place) if step.label.startswith("frame worker()") else step for step in found]

    monkeypatch.setattr(PlantedImage, "_steps", with_places)


@pytest.mark.usefixtures("frames_have_places")
async def test_a_frame_says_where_it_is_and_in_full_below_the_table() -> None:
    async with on_retainers(SMALL, "b") as stage:
        await to_row(stage, "frame worker()")
        assert "▸ frame worker() local stream  generat…" in stage.text, "where it is has no room, and stands below"
        assert " the call is now at /srv/shop/jobs/nightly.py:31, thread nightly" in stage.text
        await press(stage, "home")
        assert "the call is now at" not in stage.text
        await look_for(stage, "retainer:worker")
        assert column(stage, "name"), "it is found by its name, wherever it is"
        await press(stage, "v")
        assert column(stage, "name")[0].startswith("frame worker() local")


# -- filter and sort -----------------------------------------------------------------------------------------


async def test_types_are_filtered_by_name_kind_and_figures() -> None:
    async with on_retainers(SMALL) as stage:
        await look_for(stage, "kind:frame retained>17kB")
        assert column(stage, "name") == ["generator", "bytearray", "list"]
        await press(stage, "G", "enter")
        assert "›  kind:frame" in title(stage), "of the objects inside it holds too"
        assert column(stage, "name") == ["  frame worker() local rows  list"]
        await press(stage, "escape", "escape")
        assert len(column(stage, "name")) > 20


async def test_where_the_filter_leaves_nothing_there_is_nothing_to_enter() -> None:
    async with on_retainers(SMALL) as stage:
        await look_for(stage, "type:nobody")
        await press(stage, "enter")
        assert "no rows" in stage.text


async def test_paths_and_objects_are_filtered_by_the_snapshot() -> None:
    async with on_retainers(SMALL, "b") as stage:
        await look_for(stage, "module:shop.models !Customer")
        await press(stage, "j")
        asked_of = asked(stage, PATHS)[-1].selection
        names = {stage.live.client.types[type].full for type in asked_of.types}
        assert names == {
            "shop.models.Order",
            "shop.models.Session",
            "shop.models.Basket.Line",
            "shop.models.Revision",
        }
        await press(stage, "escape")
        await look_for(stage, "nobody")
        assert "This snapshot has no such objects." in stage.text


async def test_what_some_retainers_keep() -> None:
    async with on_retainers(SMALL) as stage:
        everything = column(stage, "name")
        await look_for(stage, "retainer:_sessions kind:module")
        kept = set(column(stage, "name"))
        assert "shop.models.Session" in kept
        assert "generator" in everything
        assert "generator" not in kept
        answers = view(stage)._finder.answers._known.values()
        known = [unit for answer in answers if isinstance(answer, Retainers) for unit in answer.units]
        units = {unit.address for unit in known if "_sessions" in unit.label}
        assert units
        assert set(asked(stage, GROUPS)[-1].selection.retainers) == units
        await to_row(stage, "shop.models.Session")
        await press(stage, "enter")
        assert "  ›  retainer:_sessions kind:module  ›  " in title(stage), "of the objects inside it holds too"
        assert set(asked(stage, PATHS)[-1].selection.retainers) == units
        await press(stage, "j", "j", "enter")
        assert set(asked(stage, OBJECTS)[-1].selection.retainers) == units
        await press(stage, "escape", "escape", "b", "b", "b")
        assert title(stage) == "Retainers by kind  ›  retainer:_sessions kind:module"
        assert len(column(stage, "name")) == 1
        await press(stage, "escape")
        await look_for(stage, "retainer:nobody")
        assert "No retainer in this snapshot fits retainer:nobody." in stage.text


async def test_retainer_sets_with_some_retainer() -> None:
    async with on_retainers(SMALL, "b", "b") as stage:
        await look_for(stage, "retainer:_entries !retainer:_bykey")
        names = column(stage, "name")
        assert names
        assert all("._entries" in name for name in names)
        await press(stage, "escape")
        await look_for(stage, "retainer:nobody")
        assert "Nothing matches the filter." in stage.text
        await press(stage, "escape")
        await look_for(stage, "!retainer:_entries")
        assert not any("._entries" in name for name in column(stage, "name"))
        await press(stage, "b")
        assert title(stage) == "Retainers by kind", "what something does not keep is known of sets alone"


async def test_what_one_retainer_keeps_is_asked_for_no_other() -> None:
    async with on_retainers(SMALL, "b", "b") as stage:
        await look_for(stage, "retainer:_sessions")
        at = next(n for n, row in enumerate(view(stage)._rows) if len(row.units) == 1)
        await press(stage, "home", *["j"] * at, "enter")
        keeps = "what module shop.cache ._sessions keeps (alone or not)"
        assert title(stage) == f"Retainers by tree  ›  retainer:_sessions  ›  {keeps}"
        await stage.press("slash")
        await stage.type("retainer:_entries")
        assert "× One retainer is chosen already." in stage.text
        await press(stage, "escape", "b")
        await look_for(stage, "retainer:+")
        assert column(stage, "name")
        assert all("+" in name for name in column(stage, "name"))


async def test_what_is_not_known_is_refused() -> None:
    async with on_retainers(SMALL) as stage:
        for keys, text, says in (
            ((), "gen:2", "Types have no generation."),
            (("b",), "size>1MB", "Paths have no size."),
            (("b",), "retained>1MB", "Retainer sets have no retained."),
            (("b", "b", "b", *SESSIONS, "j", "j", "enter"), "lifetime>1MB", "Objects have no lifetime."),
            (("enter",), "dict", "Objects have no type."),
            ((), "retainer:x", "Objects have no retainer."),
        ):
            await press(stage, *keys)
            await stage.press("slash")
            await stage.type(text)
            assert f"× {says}" in stage.text
            await press(stage, "escape")


async def test_a_filter_goes_where_it_means_something() -> None:
    async with on_retainers(SMALL) as stage:
        await look_for(stage, "retained>1kB")
        await press(stage, "b")
        assert title(stage) == "Retainers by tree"
        await look_for(stage, "kind:c")
        await press(stage, "b", "b")
        assert title(stage) == "Retainers by kind  ›  kind:c"
        assert len(column(stage, "name")) == 1


async def test_retainers_are_sorted_by_size_both_ways() -> None:
    async with on_retainers(SMALL, "less_than_sign", "less_than_sign") as stage:
        sizes = [row.bytes for row in view(stage)._rows]
        assert sizes == sorted(sizes, reverse=True)
        await press(stage, "i")
        assert [row.bytes for row in view(stage)._rows] == sorted(sizes)
        await press(stage, "b", "b", "b", "greater_than_sign")
        assert [row.bytes for row in view(stage)._rows] == sorted(
            (row.bytes for row in view(stage)._rows), reverse=True
        )


# -- by kind -------------------------------------------------------------------------------------------------


async def test_garbage_says_how_many_cycles() -> None:
    async with on_retainers(LARGE, "b", "b", "b") as stage:
        assert "garbage: 6 cycles, gc on" in stage.text
        await to_row(stage, "garbage")
        await press(stage, "enter")
        assert title(stage) == "Retainers by tree  ›  kind none"
        assert column(stage, "name")[0] == "▾ held by nothing  Parser"
        await press(stage, "b")
        assert title(stage) == "Retainers by sets of at most 3 retainers  ›  kind none"
        assert column(stage, "name") == ["held by nothing ×6"]
        await press(stage, "b", "b", "b")
        assert title(stage) == "Retainers by type  ›  kind none"


# -- by site -------------------------------------------------------------------------------------------------

BY_SITE = ("b", "b", "b", "b")


async def test_retainers_by_site_take_one_question() -> None:
    async with on_retainers(SMALL, *BY_SITE, sampled=True) as stage:
        assert len(asked(stage, STACKS)) == 1, "one question"
        assert asked(stage, STACKS)[0].selection == Selection()
        assert stage.lines(4)[0].split() == ["Allocated", "at", "Sampled", "≈", "bytes▼", "Share"]
        assert column(stage, "name")[0] == "shop/views.py:88 create_session"
        assert column(stage, "count") == ["100", "42", "1"]


@pytest.mark.parametrize("key", ["enter", "w"])
async def test_what_keeps_the_objects_of_a_site(key: str) -> None:
    async with on_retainers(SMALL, *BY_SITE, sampled=True) as stage:
        await to_row(stage, "shop/views.py:88 create_session")
        await press(stage, key)
        assert title(stage) == "Retainers by tree  ›  shop/views.py:88 create_session"
        assert set(asked(stage, PATHS)[-1].selection.stacks) == {2, 6}, "its own, and a library's that it called"
        assert column(stage, "count")[0] == "100"
        await press(stage, "b", "b", "b", "b")
        assert "by tree  ›" in title(stage), "of one site there is one row"


async def test_who_allocated_the_objects_of_a_type() -> None:
    async with on_retainers(SMALL, *SESSIONS, "b", "b", "b", sampled=True) as stage:
        assert title(stage) == "Retainers by ≈ sampled site  ›  shop.models.Session"
        assert column(stage, "name") == ["shop/views.py:88 create_session"], "the rest is of everything alone"
        assert column(stage, "count") == ["80"]
        await press(stage, "enter")
        selection = asked(stage, PATHS)[-1].selection
        assert (len(selection.types), selection.stacks) == (1, (2,))


async def test_sites_are_filtered_by_the_snapshot() -> None:
    async with on_retainers(SMALL, *BY_SITE, sampled=True) as stage:
        await look_for(stage, "retainer:_sessions type:Session")
        assert column(stage, "name") == ["shop/views.py:88 create_session"]
        assert column(stage, "count") == ["80"]
        await press(stage, "escape")
        await look_for(stage, "type:generator")
        assert "None of these objects was sampled." in stage.text


async def test_a_snapshot_from_before_the_sampling_knows_no_sites() -> None:
    async with on_retainers(SMALL, *BY_SITE) as stage:
        stage.source.sample(65536, 128)
        await stage.ticks(2)
        await quiet(stage)
        assert "Sampling began after this snapshot. Press o to take a later one." in stage.text
        assert not asked(stage, STACKS)
        await press(stage, "o")
        await quiet(stage)
        assert any("create_session" in name for name in column(stage, "name"))


# -- the mark ------------------------------------------------------------------------------------------------


async def test_what_is_new_since_the_mark() -> None:
    async with on_retainers(SMALL, "m", "b", "b", "b", "b", "b") as stage:
        assert "This snapshot is the mark itself. Press o to take a later one." in stage.text
        await stage.ticks(2)
        await press(stage, "o")
        await stage.until(lambda: "asking" not in stage.text and "Session" in stage.text, "what is new is known")
        await quiet(stage)
        stage.live.state.status.until = 0.0
        await press(stage, "home")
        assert "at least" in title(stage)
        assert column(stage, "count")[column(stage, "name").index("shop.models.Session")] == "12"
        await press(stage, "enter")
        assert column(stage, "name") == ["▾ module shop.cache", "  ▾ ._sessions  dict", "      [*]  Session"]


# -- another snapshot, and none ------------------------------------------------------------------------------


async def test_a_later_snapshot_is_asked_the_same() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "enter", "j", "o") as stage:
        assert column(stage, "name") == ["▾ module shop.cache", "  ▸ ._sessions  dict"], "folded as it was"
        assert column(stage, "count") == ["92", "92"]
        assert stage.live.view.table.cursor == 1  # type: ignore[attr-defined]


async def test_levels_of_addresses_go_with_their_snapshot() -> None:
    async with on_retainers(SMALL, *SESSIONS, "j", "j", "enter", "enter", "t", "o") as stage:
        assert title(stage) == "Retainers by tree  ›  shop.models.Session"
        assert "belonged to the previous snapshot" in stage.text
        assert "tagged" not in stage.text
        assert column(stage, "count") == ["92", "92", "92"]
        await press(stage, "j")
        assert "belonged to the previous snapshot" not in stage.text


async def test_what_is_left_out_is_found_again_in_a_later_snapshot() -> None:
    async with on_retainers(SMALL, "b", "b") as stage:
        await to_row(stage, "module shop.cache ._sessions")
        await press(stage, "e", "o", "home")
        assert column(stage, "name")[-1] == "excluded: module shop.cache ._sessions"
        assert "module shop.cache ._sessions" not in column(stage, "name")
        assert len(asked(stage, RETAINERS)[-1].excluded) == 1


async def test_a_snapshot_that_goes_while_a_question_is_out() -> None:
    async with on_retainers(SMALL, "j", "j") as stage:
        stage.source.agent.images.hold = True
        await stage.press("enter")
        await stage.until(lambda: "asking…" in stage.text, "it is asked")
        assert "Asking the snapshot…" in stage.text
        stage.source.end_image("the clone was killed")
        await quiet(stage)
        assert "No snapshot is open: the clone was killed. Press o for another one." in stage.text
        await press(stage, "escape")
        assert "shop.models.Session" in stage.text, "what was answered stays"
        stage.source.agent.images.hold = False
        await press(stage, "enter", "o")
        assert column(stage, "count") == ["92", "92", "92"]


async def test_an_answer_that_is_given_up_is_partial() -> None:
    async with on_retainers(SMALL, "j", "j") as stage:
        stage.source.agent.images.hold = True
        await stage.press("enter")
        await stage.until(lambda: "asking…" in stage.text, "it is asked")
        await stage.press("x")
        await stage.until(lambda: "partial" in stage.text, "it is partial")
        stage.source.go_on()
        await quiet(stage)
        await press(stage, "escape", "enter")
        assert "partial" not in stage.text, "asked again"


async def test_a_question_that_fails() -> None:
    async with on_retainers(SMALL, "j", "j") as stage:
        stage.source.agent.images.failure = "there was no memory for the question"
        await press(stage, "enter")
        assert "The snapshot did not answer: there was no memory for the question." in stage.text
        await press(stage, "escape", "enter")
        assert "▾ module shop.cache" in stage.text


async def test_a_question_that_nobody_waits_for_is_given_up() -> None:
    async with on_retainers(SMALL, "j", "j") as stage:
        stage.source.agent.images.hold = True
        await stage.press("enter")
        await stage.until(lambda: "asking…" in stage.text, "it is asked")
        await stage.press("escape")
        await quiet(stage)
        assert not stage.live.client.is_busy
        assert title(stage) == "Retainers by type"


async def test_without_a_snapshot_the_view_says_why() -> None:
    source = FakeSource()
    source.agent.images.refusal = "a clone cannot be made here"
    async with on_stage(SMALL, source=source) as stage:
        await stage.press("3")
        await quiet(stage)
        assert "No snapshot is open: a clone cannot be made here. Press o to retry." in stage.text
        await press(stage, "b", "b", "b", "v", "t", "e", "enter", "R", "escape")
        assert "a clone cannot be made here" in stage.text


async def test_while_it_is_being_built() -> None:
    source = FakeSource()
    source.agent.images.hold = True
    async with on_stage(SMALL, source=source) as stage:
        await stage.press("3")
        await stage.until(lambda: "The snapshot is being built." in stage.text, "it is being built")
        source.go_on()
        await quiet(stage)
        assert "shop.models.Session" in stage.text


# -- long lists ----------------------------------------------------------------------------------------------


async def test_objects_are_asked_for_page_by_page() -> None:
    async with on_retainers(SMALL) as stage:
        await to_row(stage, "str")
        await press(stage, "enter")
        view(stage)._go(replace(view(stage)._level, what="objects", title="all texts", image=1))
        await quiet(stage)

        def offsets() -> list[int]:
            return [q.offset for q in stage.source.agent.images.asked if q.what == 3 and q.limit == 200]

        assert offsets() == [0]
        assert "row 1 of 663" in stage.text
        await press(stage, "G")
        assert sorted(set(offsets())) == [0, 600], "and not what is between"
        assert "…" not in column_of_last(stage)
        await press(stage, "pageup", "enter")
        assert "  ›  str 0x" in title(stage)


def column_of_last(stage: Stage) -> str:
    sheet: Any = stage.live.view.table.sheet  # type: ignore[attr-defined]
    return str(sheet.draw(sheet.rows[-1])[0].text)


async def test_beside_a_wide_table_is_the_object_of_the_row() -> None:
    async with on_retainers(LARGE, *SESSIONS, "j", "j", "enter", sampled=True) as stage:
        first = stage.text
        assert "allocated at shop/views.py:88 create_session" in first
        await press(stage, "j")
        assert stage.text != first
        address = view(stage)._rows[1].address
        assert f"shop.models.Session at {address:#x}" in stage.text


async def test_paused_the_snapshot_can_be_explored() -> None:
    async with on_retainers(SMALL, "space", *SESSIONS) as stage:
        before = stage.text.splitlines()[4:]
        await stage.ticks(3)
        assert stage.text.splitlines()[4:] == before
        await press(stage, "j", "j", "enter")
        assert "  ›  along" in title(stage)
