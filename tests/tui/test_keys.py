"""Every key of the binding table does what the table says, and the footer and the help say what it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from textual import events

from heaptop.analysis.bands.table import SORTS
from heaptop.analysis.filters.attributes import BAND_KEYS
from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.errors import AgentLost, AttachCancelled, TargetExited
from heaptop.protocol.messages import Decision, Row
from heaptop.tui.keys.bindings import PICKER, QUESTION, Key, grouped
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.screens.picker import PickerScreen
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.widgets.footer import hints
from heaptop.tui.widgets.help_screen import HelpScreen, halves
from tests.fakes.source import FakeAgent, FakeSource
from tests.tui.support import LARGE, SMALL, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


# -- the table itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "screen"), [(LIVE, LiveScreen), (PICKER, PickerScreen)])
def test_every_key_has_an_action_and_no_key_has_two(table: tuple, screen: type) -> None:  # type: ignore[type-arg]
    asked = [name for key in table for name in key.keys.split(",") if key.group == QUESTION]
    others = [name for key in table for name in key.keys.split(",") if key.group != QUESTION]
    assert len(asked) == len(set(asked))
    assert len(others) == len(set(others))
    for key in table:
        assert hasattr(screen, f"action_{key.action.partition('(')[0]}"), f"{key.shown} has no action"


@pytest.mark.parametrize("table", [LIVE, PICKER])
@pytest.mark.parametrize("width", [80, 200])
def test_footer_fits_and_always_says_help_and_quit(table: tuple, width: int) -> None:  # type: ignore[type-arg]
    shown = hints(table, width)
    assert len(" " + "  ".join(f"{keys} {word}" for keys, word, _ in shown)) <= width
    assert [word for _, word, _ in shown][-2:] == ["help", "quit"]


def test_footer_names_the_views_and_their_variants_on_a_small_screen() -> None:
    words = {word: shown for shown, word, _ in hints(LIVE, 80)}
    numbers = [key.keys for key in LIVE if key.action.startswith("view(")]
    assert numbers == [str(view.NUMBER % 10) for view in VIEWS.values()]
    assert words["views"] == "0-9"
    assert {"group": "b", "layout": "v", "filter": "/", "open": "Enter", "why": "w"}.items() <= words.items()


def test_footer_draws_keys_of_one_word_together() -> None:
    def keys(numbers: str) -> list[Key]:
        return [Key(number, number, f"view('{number}')", "", "Views", "view", "next_view(1)") for number in numbers]

    assert hints(keys("123456789"), 80) == [("1-9", "view", "next_view(1)")]
    assert hints(keys("1267"), 80) == [("1-2,6-7", "view", "next_view(1)")]
    assert hints(keys("1234567890"), 80) == [("0-9", "view", "next_view(1)")]
    assert hints(keys("12"), 80) == [("1 2", "view", "next_view(1)")], "no view 12"


async def test_a_click_on_the_views_goes_on_to_the_next() -> None:
    async with on_stage() as stage:
        await stage.pilot.click("Footer", offset=(3, 0))
        assert stage.live.view.NAME == "producers"


async def test_a_large_screen_names_all_views_above_the_keys() -> None:
    async with on_stage(LARGE) as stage:
        names, keys = stage.lines(-2)
        assert names.strip().split("  ") == [f"{view.NUMBER % 10} {view.TITLE}" for view in VIEWS.values()]
        assert keys.startswith(" b group")
        await stage.pilot.click("Footer", offset=(names.index("Leaks"), 0))
        assert stage.live.view.NAME == "leaks"
        await stage.pilot.resize_terminal(*SMALL)
        assert stage.lines(-2)[1].startswith(" 0-9 views  ")


def test_footer_keeps_help_and_quit_on_any_width() -> None:
    assert [word for _, word, _ in hints(LIVE, 10)] == ["help", "quit"]


def test_help_has_every_key_once() -> None:
    left, right = halves(grouped(LIVE))
    listed = [key for keys in (*left.values(), *right.values()) for key in keys]
    assert listed == list(LIVE)


# -- what they do --------------------------------------------------------------------------------------------


async def test_b_goes_round_the_band_keys() -> None:
    async with on_stage() as stage:
        seen = []
        for _ in range(len(BAND_KEYS) + 1):  # but for interpreter, where there is one; and lifetime
            seen.append(stage.bands.words[0].removeprefix("Bands by "))
            await stage.press("b")
        samples = [f"{key}, not sampled" for key in ("producer", "producer-module", "size", "lifetime")]
        assert seen == ["type", "module", "generation", *samples, "retainer", "kind", "type"]


async def test_b_goes_to_interpreters_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    count_one = FakeAgent._rows

    def count_two(agent: FakeAgent, step: int, native: bool) -> Iterator[Row]:
        for row in count_one(agent, step, native):
            yield from (replace(row, interpreter=0), replace(row, interpreter=1))

    monkeypatch.setattr(FakeAgent, "_rows", count_two)
    async with on_stage() as stage:
        await stage.press("b", "b", "b")
        assert stage.bands.words[0] == "Bands by interpreter"
        assert stage.bands.list.row_key == "interpreter 0 (main)"
        await stage.press("enter")
        assert stage.bands.words[0] == "Bands by type  ›  interpreter:=0"


async def test_b_leaves_out_what_does_not_go_with_the_filter() -> None:
    async with on_stage() as stage:
        for where, keys in (("site:views", "type module producer"), ("gen:2", "type module generation type")):
            stage.bands.set_where(parse_filter(where))
            for key in keys.split():
                assert stage.bands.words[0].split("  ")[0].removesuffix(", not sampled").endswith(f"by {key}")
                await stage.press("b")
            stage.bands.set_where(EVERYTHING)
            while not stage.bands.words[0].endswith("by type"):
                await stage.press("b")


async def test_numbers_and_brackets_choose_the_view() -> None:
    async with on_stage() as stage:
        names = list(VIEWS)
        for key, name in [
            ("right_square_bracket", names[1]), ("left_square_bracket", names[0]), ("left_square_bracket", names[-1]),
            *((str(view.NUMBER % 10), name) for name, view in VIEWS.items()),
        ]:  # fmt: skip
            await stage.press(key)
            assert name == stage.live.view.NAME
            assert stage.live.view.display


async def test_bands_of_what_is_sampled() -> None:
    """By producer, and by how long blocks will have lived; in a filter too, where what goes together is said."""
    async with on_stage(LARGE) as stage:
        stage.source.sample(65_536, 128)
        await stage.ticks(30)
        for _ in range(3):
            await stage.press("b")
        assert stage.bands.words[0] == "Bands by ≈ sampled producer"
        assert "shop/views.py:88 create_session" in stage.text
        assert "(no site)" in stage.text
        await stage.press("slash")
        await stage.type("lifetime>10MB")
        await stage.press("enter")
        assert "lifetime > 10 MB allocated" in stage.text
        assert "create_session" in stage.text
        assert "Cache.get" in stage.text, "it lives for twelve ticks of 2 MB"
        assert "list_orders" not in stage.text, "it lives for four at most"
        await stage.press("slash")
        await stage.type(" gen:2")
        assert "do not go together" in stage.text
        await stage.press("escape")
        await stage.press("escape")
        for _ in range(3):
            await stage.press("b")
        assert stage.bands.words[0] == "Bands by ≈ sampled lifetime"
        assert "alive, 10–100 MB" in stage.text
        assert "1–10 MB" in stage.text


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_r_goes_round_the_rates_and_says_so(size: tuple[int, int]) -> None:
    """From off to the rate that it had; the others in turn; then off again."""
    source = FakeSource()
    source.sample(32 << 10, 128)
    async with on_stage(size, source=source) as stage:
        assert "sampling 1/32 KiB" in stage.text
        for interval, target in ((8, 0), (64, 200), (512, 0), (64, 0), (0, 0), (64, 0), (8, 0)):
            await stage.press("r")
            assert stage.source.sampling[-1] == (interval << 10, 128)
            assert stage.source.targets[-1] == target
            assert "requested" in stage.text
            await stage.ticks(1)
            shown = r"\d+/s" if target else f"1/{interval} KiB" if interval else "off"
            assert re.search(f"sampling {shown}", stage.text)
            rate = "200 samples/s" if target else f"one sample per {interval} KiB"
            assert (f"sampling rate: {rate}" if interval else "sampling is off") in stage.text.splitlines()[2]


async def test_r_begins_where_most_begin() -> None:
    async with on_stage() as stage:
        await stage.press("r")
        assert stage.source.sampling[-1] == (64 << 10, 128)
        assert stage.source.targets[-1] == 200


async def test_an_interval_that_follows_the_program_is_shown_with_the_samples_and_reported_once() -> None:
    source = FakeSource()
    source.sample(64 << 10, 128, target=200)
    async with on_stage(LARGE, source=source) as stage:
        await stage.ticks(3)
        assert re.search(r"sampling \d+/s  1/64 KiB ", stage.text)
        state = stage.live.session.sampling.state
        assert state is not None
        stage.source.say(replace(state, interval=8 << 10, intervals=(*state.intervals, 8 << 10)))
        await stage.ticks(1)
        assert re.search(r"sampling \d+/s  1/8 KiB ", stage.text)
        assert "one sample in" not in stage.text
        assert "sampling rate" not in stage.text.splitlines()[2]


async def test_depth_of_stacks_and_what_it_came_to() -> None:
    async with on_stage() as stage:
        await stage.press("R")
        assert not stage.source.sampling
        assert "sampling is off (key r)" in stage.text
        await stage.press("r")
        await stage.ticks(1)
        for depth, words in ((512, "512 frames"), (1, "1 frame"), (16, "16 frames")):
            await stage.press("R")
            assert stage.source.sampling[-1] == (64 << 10, depth)
            await stage.ticks(1)
            assert f"stacks now have at most {words}" in stage.text


async def test_a_notice_goes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_stage() as stage:
        await stage.press("r")
        await stage.ticks(1)
        assert "sampling rate:" in stage.text
        monkeypatch.setattr(stage.live.state.status, "until", 0.0)
        await stage.ticks(1)
        assert "sampling rate:" not in stage.text
        assert "row 1 of 20" in stage.text


async def test_each_cursor_key_moves_to_its_line() -> None:
    async with on_stage() as stage:
        table = stage.bands.table
        last = table.row_count - 1
        for key, line in [
            ("j", 1), ("down", 2), ("k", 1), ("up", 0), ("up", 0), ("G", last), ("j", last),
            ("home", 0), ("end", last), ("pageup", last - table.page_rows + 1), ("pagedown", last),
        ]:  # fmt: skip
            await stage.press(key)
            assert table.cursor == line, f"after {key}"
        assert f"row {last + 1} of {last + 1}" in stage.text
        await stage.press("g")
        assert table.cursor == last, "one g is not enough"
        await stage.press("g")
        assert table.cursor == 0


async def test_long_names_move_under_h_and_l() -> None:
    async with on_stage() as stage:
        await stage.press("G")
        assert "…" in stage.text.splitlines()[-2]
        before = stage.text
        await stage.press("h")
        moved = stage.text
        assert moved != before
        await stage.press("h", "h", "h", "h", "h", "h")
        assert "sqlalchemy" in stage.text, "the beginning can be reached"
        await stage.press("l", "l", "l", "l", "l", "l", "l", "l", "l")
        assert "no more on this side" in stage.text
        assert stage.bands.table._shift == 0, "the end again, however often the key was pressed"
        await stage.press("k", "j")
        assert stage.text == before
        await stage.press("left")
        assert stage.text == moved
        await stage.press("right")
        assert stage.text == before


async def test_keys_choose_the_column_and_the_direction_of_sorting() -> None:
    async with on_stage(LARGE) as stage:

        def names() -> list[str]:
            sheet = stage.bands.table.sheet
            assert sheet is not None
            return [row.name for row in sheet.rows]

        by_bytes = names()
        await stage.press("i")
        assert names() == by_bytes[::-1]
        await stage.press("less_than_sign", "less_than_sign")
        assert names() == sorted(by_bytes), "names read downwards"
        assert "Type▲" in stage.text
        await stage.press("greater_than_sign")
        assert "Objects▼" in stage.text
        assert names()[0] == "str"
        for _ in range(len(SORTS)):
            await stage.press("greater_than_sign")
        assert "Objects▼" in stage.text, "the columns go round"


async def test_f_follows_the_row_and_without_it_the_line_stays() -> None:
    async with on_stage(censuses=2) as stage:
        table = stage.bands.table

        async def to(name: str) -> None:
            await stage.press("g", "g")
            while table.row_key != name:
                await stage.press("j")

        await to("shop.models.Session")
        line = table.cursor
        await stage.press("f")
        assert "following" in stage.text
        await stage.ticks(20)
        assert table.row_key == "shop.models.Session"
        assert table.cursor < line, "the leak has climbed"
        await stage.press("f")
        assert "following" not in stage.text
        line = table.cursor
        await stage.press("i")
        assert table.cursor == line
        assert table.row_key != "shop.models.Session"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("before", "key", "words"),
    [
        ("", "minus", "no other view was shown yet"),
        ("", "v", "no other layout here"),
        ("2 enter", "b", "no other grouping here"),
        ("2 enter", "less_than_sign", "these rows cannot be sorted"),
        ("2 v", "i", "key b sorts the tree"),
        ("2 v v", "f", "the icicle has no rows to follow"),
        ("5", "f", "the heap map has no rows to follow"),
        ("5", "greater_than_sign", "the heap map has no columns to sort by"),
        ("", "k", "this is the first · row 1 of 20"),
        ("", "home", "this is the first"),
        ("G", "pagedown", "this is the last · row 20 of 20"),
        ("", "l", "no more on this side"),
        ("8 b b", "j", "no rows"),
        ("", "escape", "nothing to go back to"),
        ("", "x", "no snapshot is open"),
    ],
)
async def test_a_key_that_does_nothing_says_why(before: str, key: str, words: str) -> None:
    source = FakeSource()
    source.sample(64 << 10, 128)
    async with on_stage(source=source) as stage:
        await stage.press(*before.split())
        await stage.settled()
        assert words not in stage.text
        await stage.press(key)
        await stage.until(lambda: words in stage.text, f"it says: {words}")
        await stage.press("right_square_bracket")
        assert words not in stage.text, "in another view it is of no use"


@pytest.mark.parametrize("key", ["c", "m", "M", "d", "o", "r"])
async def test_a_key_that_needs_a_process_says_that_it_is_gone(key: str) -> None:
    async with on_stage() as stage:
        stage.source.end(TargetExited("Process 4242 ended."))
        await stage.until(lambda: "exited" in stage.text, "the screen says exited")
        await stage.press(key)
        await stage.until(lambda: "the process exited" in stage.text, "it says so")
        assert not stage.source.census_requests


async def test_c_asks_for_a_census() -> None:
    async with on_stage() as stage:
        await stage.press("c", "c")
        assert stage.source.census_requests == 2


async def test_space_holds_the_display_and_counts_what_waits() -> None:
    async with on_stage() as stage:
        before = stage.text.splitlines()[2:]
        await stage.press("space")
        assert "paused" in stage.text
        await stage.ticks(2)
        assert "2 waiting" in stage.text
        assert stage.text.splitlines()[2:] == before
        assert stage.live.session.censuses == 26, "collection goes on"
        await stage.press("b")
        assert "by module" in stage.text, "what is held can be looked at in another way"
        await stage.press("b", "b", "space")
        assert "paused" not in stage.text
        assert stage.text.splitlines()[2:] != before


async def test_w_inside_a_type_asks_about_that_type() -> None:
    async with on_stage() as stage:
        await stage.press("enter")
        assert stage.bands._level.key == "generation"
        await stage.press("w")
        await stage.pilot.pause()
        assert stage.live.view.NAME == "retainers"
        assert stage.live.view.words[0].endswith("›  dict")


async def test_that_no_snapshot_can_be_made_is_said_where_it_is_asked() -> None:
    source = FakeSource()
    source.agent.images.refusal = "there is too little memory"
    async with on_stage(source=source) as stage:
        await stage.press("o")
        await stage.until(lambda: "no snapshot: there is too little memory" in stage.text, "it is said")


KEYS_OF_VIEWS = ("b", "v", "w", "m", "o", "d", "t", "r", "c", "3", "slash", "colon", "enter", "greater_than_sign", "s")


async def test_while_something_is_asked_keys_do_nothing_to_what_is_behind_it() -> None:
    async with on_stage() as stage:
        before = stage.text
        await stage.press("V")
        asking, question = stage.app.screen, stage.text
        for key in KEYS_OF_VIEWS:
            await stage.press(key)
            assert stage.app.screen is asking, f"{key} opens nothing"
            assert stage.text == question, key
        assert not stage.live.client.values
        await stage.press("escape")
        assert not stage.live.client.values, "Esc is no"
        assert stage.text == before
        await stage.press("V", "y")
        assert stage.live.client.values


async def test_what_is_asked_waits_for_a_palette_that_is_open_and_is_not_answered_by_it() -> None:
    async with on_stage() as stage:
        await stage.press("colon")
        stage.source.say(Decision(1, "stop", "no core", 300_000_000, 100_000_000))
        await stage.until(lambda: stage.live.state.questions, "it is known")
        await stage.type("yes")
        assert "Yes" not in stage.text
        assert "Pause process 4242" not in stage.text
        await stage.press("enter", "escape", "escape")
        await stage.until(lambda: "Pause process 4242" in stage.text, "it is asked")
        assert stage.source.decisions == []


async def test_the_screen_goes_on_beneath_a_question() -> None:
    async with on_stage(LARGE) as stage:
        await stage.press("V")
        before = stage.text
        await stage.ticks(3)
        await stage.until(lambda: stage.text != before, "figures move")
        assert "Show values of process 4242?" in stage.text


async def test_what_is_asked_no_longer_is_taken_away_also_from_beneath_the_help() -> None:
    async with on_stage() as stage:
        stage.source.say(Decision(1, "stop", "no core", 300_000_000, 100_000_000))
        await stage.until(lambda: "Pause process 4242" in stage.text, "it is asked")
        await stage.press("question_mark")
        stage.source.end(TargetExited("Process 4242 ended with exit code 1."))
        await stage.until(lambda: not stage.live.state.questions, "the process has ended")
        await stage.press("escape")
        await stage.until(lambda: stage.app.screen is stage.live, "it is taken away")
        assert "Pause process" not in stage.text


async def test_a_question_of_the_process_does_not_take_the_place_of_one_that_is_being_read() -> None:
    async with on_stage() as stage:
        await stage.press("V")
        stage.source.say(Decision(1, "stop", "no core", 300_000_000, 100_000_000))
        await stage.until(lambda: len(stage.live.state.questions) == 2, "both are asked")
        await stage.press("y")
        assert stage.source.decisions == []
        await stage.until(lambda: "Pause process 4242" in stage.text, "the other one follows")
        assert stage.live.client.values


async def test_enter_looks_into_a_band_and_escape_comes_back() -> None:
    async with on_stage() as stage:
        view = stage.bands
        await stage.press("b", "enter")
        assert view.words[0] == "Bands by type  ›  module:=builtins"
        assert "shop" not in stage.text.split("Type", 1)[1]
        await stage.press("enter")
        assert view.words[0] == "Bands by generation  ›  module:=builtins  ›  type:=dict"
        await stage.press("enter")
        await stage.until(lambda: "nothing more" in stage.text, "it says that this is the innermost level")
        for words in (
            "Bands by type  ›  module:=builtins",
            "Bands by module",
            "Bands by module",
        ):
            await stage.press("escape")
            assert view.words[0] == words
        assert stage.app.is_running, "Esc never quits"


async def test_escape_drops_a_filter_while_typing_and_after() -> None:
    async with on_stage() as stage:
        for last in ("escape", "enter"):
            await stage.press("slash")
            await stage.type("shop")
            assert stage.bands.where
            await stage.press(last)
        assert str(stage.bands.where) == "type:shop"
        await stage.press("escape")
        assert not stage.bands.where


async def test_keys_are_text_while_a_filter_is_typed() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("qb1")
        assert str(stage.bands.where) == "type:qb1"
        assert "Nothing matches type:qb1." in stage.text
        await stage.press("down")
        assert stage.app.is_running


async def test_text_typed_before_the_filter_is_open_is_text() -> None:
    async with on_stage() as stage:
        for character in "/sqr":  # as a terminal hands over what was typed while the screen was busy
            stage.app.post_message(events.Key("slash" if character == "/" else character, character))
        await stage.until(lambda: stage.bands.where, "there is a filter")
        await stage.settled()
        assert str(stage.bands.where) == "type:sqr"
        assert stage.app.is_running


async def test_a_wrong_filter_is_not_accepted_and_what_is_right_of_it_stays() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("size>1MB x:y")
        await stage.press("enter")
        assert "× Unknown field 'x'." in stage.text
        assert str(stage.bands.where) == "size>1MB", "and not type:x, which it was on the way"
        await stage.press("backspace", "backspace", "backspace", "backspace", "enter")
        assert "Unknown field" not in stage.text
        assert str(stage.bands.where) == "size>1MB"


async def test_question_mark_opens_the_help_and_closes_it() -> None:
    async with on_stage(SMALL) as stage:
        for close in ("question_mark", "escape", "q"):
            await stage.press("question_mark")
            assert isinstance(stage.app.screen, HelpScreen)
            await stage.press("j", "k")
            await stage.press(close)
            assert isinstance(stage.app.screen, LiveScreen), f"{close} closes the help and nothing else"


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
async def test_palette_has_the_keys(key: str) -> None:
    async with on_stage(LARGE) as stage:
        await stage.press(key)
        await stage.until(lambda: "Group by type" in stage.text, "the palette is filled")
        await stage.type("reverse")
        await stage.until(lambda: "Group by type" not in stage.text, "the palette is searched")
        await stage.press("enter")
        await stage.until(lambda: "Bytes▲" in stage.text, "the command was carried out")


async def test_a_theme_is_chosen_in_the_palette() -> None:
    async with on_stage(LARGE) as stage:
        before = stage.text
        await stage.press("colon")
        await stage.type("colour-blind")
        await stage.until(lambda: "Okabe" in stage.text, "the palette is searched")
        await stage.press("enter")
        await stage.until(lambda: stage.app.theme == "heaptop-colour-blind", "the theme is used")
        await stage.until(lambda: isinstance(stage.app.screen, LiveScreen), "the palette is closed")
        assert stage.text == before
        colours = {s.style.bgcolor.name for s in stage.app.screen._compositor.render_strips()[10] if s.style.bgcolor}
        assert colours & set(stage.app.look.palette.bands)


# -- leaving -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_quit_detaches_first(key: str) -> None:
    async with on_stage() as stage:
        await stage.press(key)
        await stage.until(lambda: not stage.app.is_running, "the app ends")
        assert stage.source.closed
    assert stage.app.return_value is None


async def test_ctrl_c_quits_while_a_filter_is_typed() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("shop")
        await stage.press("ctrl+c")
        await stage.until(lambda: stage.source.closed, "the source is closed")


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit_while_waiting_cancels(key: str) -> None:
    async with on_stage(attach=False) as stage:
        stage.source.wait("waiting for the interpreter", 1)
        await stage.press(key)
        await stage.until(lambda: stage.source.closed, "the source is closed")
        assert stage.source.cancelled
    assert isinstance(stage.app.return_value, AttachCancelled)


async def test_escape_while_waiting_cancels_and_does_not_quit() -> None:
    async with on_stage(attach=False) as stage:
        stage.source.wait("waiting for the interpreter", 1)
        await stage.press("escape")
        await stage.until(lambda: "Nothing of heaptop runs in the process" in stage.text, "it says so")
        assert stage.app.is_running
        await stage.press("q")
        await stage.until(lambda: stage.source.closed, "the source is closed")
    assert isinstance(stage.app.return_value, AttachCancelled)


async def test_the_way_the_target_ended_is_what_the_app_returns() -> None:
    async with on_stage() as stage:
        stage.source.end(TargetExited("Process 4242 ended with exit code 1."))
        await stage.until(lambda: "exited" in stage.text, "the screen says exited")
        await stage.press("j", "b", "slash")
        await stage.type("shop")
        await stage.press("enter", "q")
        await stage.until(lambda: stage.source.closed, "the source is closed")
    assert isinstance(stage.app.return_value, TargetExited)


async def test_a_lost_agent_is_told_in_full_and_then_its_data_can_be_browsed() -> None:
    async with on_stage() as stage:
        stage.source.end(AgentLost("The agent in process 4242 closed the connection."))
        await stage.until(lambda: "closed the connection" in stage.text, "the error is told")
        assert "agent lost" in stage.text
        assert "Esc shows what was received" in stage.text
        await stage.press("escape")
        assert "shop.models.Session" in stage.text
        await stage.press("j")
        assert stage.bands.table.cursor == 1
