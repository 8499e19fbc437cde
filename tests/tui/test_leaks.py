"""View 4: from the first mark to the named culprit by keys; every new key; what is given up, fails, or is gone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import groupby

import pytest
from textual.widgets import Static

from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.leaks import hunting
from heaptop.errors import UsageError
from heaptop.protocol.findings import (
    BACKLOG,
    LEAK,
    NO_LEAK,
    UNCLEAR,
    UNREACHED,
    Findings,
    Growth,
    HandlerShare,
    Lint,
    MarkFacts,
)
from heaptop.protocol.images import KNOWN, MAP, MOST_MARKS, OBJECT, Question
from heaptop.protocol.messages import Collected, Failure
from heaptop.protocol.source import Event
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.screens import live
from heaptop.tui.state.hunting_words import bars, compared_words, comparisons, interval_words, rate_words
from heaptop.tui.state.snapshot_client import SnapshotStage
from heaptop.tui.views.heap_map.view import HeapMapView
from heaptop.tui.views.leaks import hunting_sheets
from heaptop.tui.views.leaks.view import LeaksView
from heaptop.tui.views.retainers.view import RetainersView
from tests.fakes.shop import growing_shop
from tests.fakes.source import FakeSource
from tests.support.recorded import findings
from tests.tui.sampled import column
from tests.tui.support import LARGE, SIZES, SMALL, Stage, check_golden, on_stage
from tests.unit.hunting_cases import SUSPECT

pytestmark = pytest.mark.usefixtures("plain_environment")


@asynccontextmanager
async def on_leaks(size: tuple[int, int] = SMALL, *keys: str, ascii: bool = False) -> AsyncIterator[Stage]:
    """View 4 of a shop that leaks sessions, after some keys; ``+`` is five seconds."""
    source = FakeSource()
    source.agent.images.plant = growing_shop
    source.sample(65536, 128)
    async with on_stage(size, censuses=2, source=source, ascii=ascii) as stage:
        stage.live.client.clock = lambda: 1_000.0
        await press(stage, "4", *keys)
        yield stage


async def quiet(stage: Stage) -> None:
    """Wait until everything that is asked has been answered and drawn."""

    def is_quiet() -> bool:
        return not (stage.live.hunting.is_busy or stage.live.client.is_busy or stage.live.draw_due)

    await stage.until(is_quiet, "all is answered")


async def press(stage: Stage, *keys: str) -> None:
    for key in keys:
        if key == "+":
            await stage.ticks(5)
        else:
            await stage.press(key)
        await quiet(stage)


TWO = ("m", "+", "m")
THREE = (*TWO, "+", "m")
"""Marks."""


def view(stage: Stage) -> LeaksView:
    return stage.live.query_one(LeaksView)


def check(golden: str, stage: Stage) -> None:
    """With no outcome of a key on the screen: how long one stands there is the machine's."""
    stage.live.state.status.until = 0.0
    stage.live.redraw_words()
    check_golden(golden, stage.app)


def notice(stage: Stage) -> str:
    return stage.live.state.status.text


def title(stage: Stage) -> str:
    return stage.live.view.words[0]


def marks(stage: Stage) -> list[str]:
    return [mark.name for mark in stage.live.hunting.marks]


async def test_the_queries_of_a_mark_wait_for_no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_leaks(SMALL) as stage:
        monkeypatch.setattr(live, "DRAW_SECONDS", 3600.0)
        await stage.press("m")
        await stage.until(lambda: marks(stage) == ["A"] and not stage.live.hunting.is_busy, "the mark is set")
        assert stage.live.client.answered > 3


# -- what is on the screen -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_from_the_first_mark_to_the_suspect_in_full(size: tuple[int, int]) -> None:
    async with on_leaks(size) as stage:
        assert "Press m to mark what is there now" in stage.lines(4)[0]
        await press(stage, "m", "+")
        assert "Leaks: growth by censuses since A, 5 s ago" in stage.lines(2)[0]
        assert stage.lines(3)[0] == " run your workload, then press m (check and mark) or d (check only)"
        assert "shop.models.Session" in column(stage, "name"), "censuses alone tell what grows"
        await press(stage, "m")
        assert "unclear" in stage.text.splitlines()[2], "one stretch alone is called no leak"
        await press(stage, "+", "m")
        check("leaks-suspects-{size}", stage)
        await press(stage, "enter")
        if size == SMALL:
            check("leaks-suspect-80x24", stage)
        assert "Leaks: leak · suspect" in stage.lines(2)[0]
        assert marks(stage) == ["A", "B", "C"]


async def test_growth_by_each_key() -> None:
    async with on_leaks(SMALL, *THREE) as stage:
        for key, columns, largest in (
            ("type", "Type Objects Bytes▼ Now ≥Born ≈Survivors", "shop.models.Session"),
            ("module", "Module Objects Bytes▼ Now ≥Born ≈Survivors", "shop.models"),
            ("site", "Site ≈Blocks ≈Bytes▼ ±", "shop/views.py:88 create_session"),
            ("retainer", "Retainer Objects Bytes▼ ≥Born", "module shop.cache ._sessions"),
            ("lint", "Lint Before Now Threshold", "No lint: no known kind of harmful growth."),
            ("count", "Type Objects Bytes▼ Objects/s Now Trend", "bytes"),
            ("mark", "Compared Mark When Objects Bytes RSS Full GCs", "from      A "),
        ):
            await press(stage, "b")
            assert view(stage)._key == key
            heading, first = stage.lines(4, 6)
            assert heading.split() == columns.split()
            assert first.startswith(largest)
        await press(stage, "b")
        assert view(stage)._key == "suspect"


async def test_suspects_and_their_page_are_ascii() -> None:
    async with on_leaks(SMALL, *THREE, ascii=True) as stage:
        assert stage.text.isascii()
        assert "! L  Session" in stage.text
        await press(stage, "enter")
        assert "! LEAK  shop.models.Session" in stage.text
        assert stage.text.isascii()


async def test_verdicts_have_signs_and_letters_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_leaks(SMALL, *THREE) as stage:
        for sign in ("! L", "? U", "- N"):
            assert sign in stage.text, "verdicts have signs and letters"


async def test_lints_and_notes_are_told_in_full() -> None:
    async with on_leaks(SMALL, *TWO) as stage:
        found = stage.live.hunting.found
        assert found is not None
        lint = Lint("gc-off-cycles", "3,000 objects are garbage in cycles, and the collector is off", 0, 3000, 1000)
        notes = "at least", "the sampler was off until B", "something was not looked at"
        stage.source.say(replace(found.findings, lints=(lint,), notes=notes))
        await quiet(stage)
        assert "the sampler was off until B · 1 more note, press ?" in stage.text
        await press(stage, "b", "b", "b", "b", "b")
        assert "3,000 objects are garbage in cycles, and the collector is off." in stage.text
        await stage.press("question_mark")
        page = str(stage.app.screen.query_one(Static).content)
        assert "the sampler was off until B." in page
        assert "something was not looked at." in page


async def test_where_no_mark_can_be_set_it_is_said_in_place_of_the_advice() -> None:
    source = FakeSource()
    source.agent.images.refusal = "it needs a clone, and none is made"
    async with on_stage(SMALL, censuses=2, source=source) as stage:
        await press(stage, "4")
        assert "Press m to mark" in stage.text
        await stage.press("slash")
        await stage.type("foo")
        await press(stage, "enter")
        assert "Press m to mark" in stage.text, "nothing was looked at that could match"
        await press(stage, "m")
        assert "No mark was set: it needs a clone, and none is made." in stage.text
        assert "Press m to mark" not in stage.text
        source.agent.images.refusal = ""
        await press(stage, "m", "b")
        assert "marks" in title(stage)


# -- marks and looks -----------------------------------------------------------------------------------------


async def test_a_snapshot_is_open_for_the_first_mark_only_as_long_as_it_takes() -> None:
    async with on_leaks() as stage:
        await stage.press("1")
        await press(stage, "m")
        assert stage.live.client.stage is SnapshotStage.GONE
        assert "marked A: " in notice(stage)
        await press(stage, "+", "m")
        assert stage.live.client.is_open, "what was found can be looked into"
        assert notice(stage) == "marked B: unclear (key 4)"
        await press(stage, "4")
        assert column(stage, "name")[0] == "Session"
        await press(stage, "+", "m")
        assert notice(stage).startswith("marked C: ")
        assert "key 4" not in notice(stage), "it is this one"


async def test_a_view_of_the_snapshot_keeps_that_of_the_first_mark() -> None:
    async with on_leaks() as stage:
        await stage.press("3")
        await press(stage, "m")
        assert stage.live.client.is_open


async def test_what_memory_is_used_for_is_asked_with_each_moment() -> None:
    async with on_leaks() as stage:
        stage.source.agent.images.hold = True
        await stage.press("m")
        await stage.ticks(1)
        stage.source.go_on()
        await quiet(stage)
        await press(stage, "d")
        assert stage.source.memory_requests == 2
        (mark,) = stage.live.hunting._hunt.marks
        assert mark.around.memory is not None


async def test_d_looks_and_does_not_mark() -> None:
    async with on_leaks() as stage:
        await press(stage, "d")
        assert "no mark yet: press m" in notice(stage)
        assert stage.source.agent.images.number == 0
        await press(stage, "m", "+", "d")
        assert marks(stage) == ["A"]
        assert "from A to the check, 5 s" in stage.text
        assert stage.source.agent.images.number == 2


async def test_no_more_marks_than_a_snapshot_can_be_told() -> None:
    async with on_leaks(SMALL, "m") as stage:
        stage.live.hunting._hunt.marks *= MOST_MARKS
        await press(stage, "m")
        assert notice(stage) == f"there are {MOST_MARKS} marks already; d checks without another one"
        assert stage.source.agent.images.number == 1


async def test_a_mark_by_name_after_a_collection() -> None:
    async with on_leaks() as stage:
        await press(stage, "M")
        assert "mark name" in stage.text
        await press(stage, "escape", "M")
        assert marks(stage) == []
        await press(stage, *"warm", "enter")
        assert "Run a full collection in process 4242?" in stage.text
        await press(stage, "escape")
        assert marks(stage) == []
        assert "no mark was set" in stage.text
        said = collections(stage)
        await press(stage, "M", *"warm", "enter", "n")
        assert marks(stage) == ["warm"]
        assert (said, stage.live.hunting.marks[0].collected) == ([], False)
        await press(stage, "M", "enter", "y")
        assert marks(stage) == ["warm", "A"]
        assert stage.live.hunting.marks[1].collected
        assert len(said) == 1
        await press(stage, "M", *"qdm1", "escape")
        assert stage.app.is_running, "keys are text while a name is typed"


def collections(stage: Stage) -> list[Collected]:
    """All that are asked for from now on."""
    said: list[Collected] = []
    collect = stage.source.agent._collect

    def counted(request: int) -> Collected:
        said.append(collect(request))
        return said[-1]

    stage.source.agent._collect = counted  # type: ignore[method-assign]
    return said


# -- what is compared ----------------------------------------------------------------------------------------


async def test_v_goes_round_what_is_compared() -> None:
    async with on_leaks(SMALL, *TWO, "+", "d") as stage:
        number = stage.source.agent.images.number
        for words, new in (("from B to the check", "30"), ("born A to B, alive", "30"), ("from A to the check", "60")):
            await press(stage, "v")
            assert words in stage.text
            assert column(stage, "count")[0] == new
        assert stage.source.agent.images.number == number, "the snapshot that is open is asked again"
        await press(stage, "m", "v")
        assert notice(stage) == "what is new since B: d checks, m also marks"
        assert "press d to check what is new since B; key w shows it now" in stage.text, (
            "for as long as the rows do not"
        )
        await press(stage, "d")
        assert "from B to the check" in stage.text
        assert "press d for what" not in stage.text


async def test_a_look_under_way_keeps_what_it_compares() -> None:
    async with on_leaks(SMALL, *THREE, "+") as stage:
        hunting, client = stage.live.hunting, stage.live.client
        client.compare(0, 1)
        ask = stage.source.ask

        def ask_and_press(image: int, question: Question) -> int:
            if question.what == KNOWN:
                assert hunting.is_busy
                hunting.compare(2)
            return ask(image, question)

        stage.source.ask = ask_and_press  # type: ignore[method-assign]
        await press(stage, "d")
        stage.source.ask = ask  # type: ignore[method-assign]
        found = hunting.found
        assert found is not None
        assert (found.findings.marks[0].name, found.until) == ("A", "B")
        assert "born A to B, alive" in title(stage)
        assert client.seen == (0,), "C was sent too"
        hunting.compare(0)
        await quiet(stage)
        assert "from A to the check" in title(stage)


async def test_any_two_marks_are_chosen_in_their_table() -> None:
    async with on_leaks(SMALL, *THREE, *["b"] * 7) as stage:
        client = stage.live.client
        assert column(stage, "compared") == ["from", "", ""]
        await press(stage, "j", "enter", "j", "t")
        assert (client.since, client.until) == (1, 2)
        assert column(stage, "compared") == ["", "from", "to"]
        await press(stage, "t", "k", "k", "t")
        assert (client.since, client.until) == (1, None)
        assert "choose a later mark" in stage.text


async def test_new_means_the_same_in_other_views() -> None:
    async with on_leaks(SMALL, *THREE, "v") as stage:
        await press(stage, "3", *["b"] * 5)
        assert "new since the mark 5 s ago, at least" in title(stage)
        assert column(stage, "count")[column(stage, "name").index("shop.models.Session")] == "30"
        await compare(stage, 0)
        assert "new since the mark 10 s ago, at least" in title(stage)
        assert column(stage, "count")[column(stage, "name").index("shop.models.Session")] == "60"
        await compare(stage, 0, 1)
        assert "since the mark 10 s ago, until 5 s ago, at least" in title(stage)
        assert column(stage, "count")[column(stage, "name").index("shop.models.Session")] == "30"


async def test_new_is_never_the_whole_heap() -> None:
    """Its snapshot knows all marks, whichever is compared with."""
    async with on_leaks(SMALL, *TWO, "v", "+", "m") as stage:
        stage.live.client.compare(0)
        assert stage.live.client.seen == (0, 1)
        await press(stage, "3", *["b"] * 5)
        assert "new since the mark 10 s ago, at least" in title(stage)
        assert column(stage, "count")[column(stage, "name").index("shop.models.Session")] == "60"
        await compare(stage, 1)
        assert column(stage, "count")[column(stage, "name").index("shop.models.Session")] == "30"


async def test_new_since_the_first_of_many_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than are compared with."""
    monkeypatch.setattr(hunting, "_MOST_COMPARED", 4)
    async with on_leaks(SMALL, *["m"] * 6, "+", "d") as stage:
        assert stage.live.client.seen == tuple(range(6))
        await press(stage, "3", *["b"] * 5)
        for since, until, new in ((0, None, 180), (1, None, 150), (0, 1, 30), (4, None, 60), (1, 3, 60)):
            await compare(stage, since, until)
            sessions = column(stage, "name").index("shop.models.Session")
            assert column(stage, "count")[sessions] == str(new), (since, until)


async def compare(stage: Stage, since: int, until: int | None = None) -> None:
    stage.live.client.compare(since, until)
    stage.live.redraw()
    await stage.until(lambda: not stage.live.query_one(RetainersView)._finder.answers.is_asking, "it is answered")
    await quiet(stage)


# -- from suspects into the snapshot -------------------------------------------------------------------------


async def test_from_the_suspect_to_its_holder_and_back() -> None:
    async with on_leaks(SMALL, *THREE, "enter") as stage:
        found = stage.live.hunting.found
        assert found is not None
        suspect = found.findings.suspects[0]
        for down, address in ((0, suspect.point), (1, suspect.example)):
            await press(stage, *["j"] * down, "enter")
            assert stage.live.view.NAME == "retainers"
            assert stage.live.query_one(RetainersView)._level.address == address
            await press(stage, "escape")
            assert "Leaks: leak · suspect" in stage.text, "back to where one came from"
        await press(stage, "j", "enter")
        assert "4 Leaks › 3 Retainers new" in stage.text
        await press(stage, "escape", "escape")
        assert "suspects from A to C" in stage.text
        assert view(stage).table.cursor == 0


async def test_why_of_suspects_and_of_what_grew() -> None:
    async with on_leaks(SMALL, *THREE) as stage:
        subject = view(stage).subject
        assert subject is not None
        assert (subject.types, subject.new) == (("shop.models.Session",), True)
        await press(stage, "w")
        assert stage.live.view.NAME == "retainers"
        await press(stage, "escape", "b", "b")
        of_module = view(stage).subject
        assert of_module is not None
        assert "shop.models.Session" in of_module.types
        assert all(name.startswith("shop.models.") for name in of_module.types)
        await press(stage, "b")
        of_site = view(stage).subject
        assert of_site is not None
        assert of_site.stacks
        await press(stage, "b", "w")
        assert stage.live.view.NAME == "leaks"
        assert "retainers can be shown for a type" in notice(stage)


async def test_findings_outlive_their_snapshot() -> None:
    async with on_leaks(SMALL, *THREE) as stage:
        stage.source.end_image("it was killed")
        await press(stage, "+", "enter")
        assert "as of 5 s ago" in stage.text
        assert "the snapshot with these objects is closed" in stage.text
        assert "the dict that holds them" not in stage.text
        asked = len(stage.source.agent.images.asked)
        await press(stage, "j")
        assert len(stage.source.agent.images.asked) == asked


async def test_newer_findings_wait_behind_a_suspect() -> None:
    async with on_leaks(SMALL, *TWO, "enter", "+", "m") as stage:
        assert "? UNCLEAR" in stage.text, "the one that is read stays"
        assert "newer results: Esc" in view(stage).words[1]
        await press(stage, "escape")
        assert "suspects from A to C" in stage.text


async def test_a_held_display_keeps_what_was_found() -> None:
    async with on_leaks(SMALL, *TWO, "space", "+", "m") as stage:
        assert "suspects from A to B" in stage.text
        assert "marked C: 1 leak" in notice(stage)
        await press(stage, "space")
        assert "suspects from A to C" in stage.text


# -- what does not come to its end ---------------------------------------------------------------------------


async def test_x_gives_a_look_up_and_what_was_found_stays() -> None:
    async with on_leaks(SMALL, *TWO, "+") as stage:
        stage.source.agent.images.hold = True
        await stage.press("m")
        await stage.until(lambda: "mark C: cloning the process" in stage.text, "it says what it does")
        await stage.press("o")
        assert "the hunt has a snapshot open" in notice(stage)
        await stage.press("d")
        assert "a check is running" in notice(stage)
        stage.source.go_on()
        stage.source.agent.images.hold = True
        await stage.until(lambda: stage.live.client.is_open, "questions are put")
        await stage.press("x")
        await quiet(stage)
        assert notice(stage) == "no mark: it was cancelled"
        assert marks(stage) == ["A", "B"]
        assert "suspects from A to B" in stage.text
        stage.source.agent.images.hold = False
        await press(stage, "m")
        assert marks(stage) == ["A", "B", "C"]


async def test_how_far_a_look_is_never_goes_back() -> None:
    async with on_leaks(SMALL, *TWO, "+") as stage:
        hunting, feed, said = stage.live.hunting, stage.live.hunting.feed, list[str]()

        def feed_and_note(event: Event) -> None:
            feed(event)
            if hunting.is_busy:
                said.append(hunting.words.removeprefix("mark C: ").partition(" · ")[0])

        hunting.feed = feed_and_note  # type: ignore[method-assign]
        stage.source.agent.images.progress = 1
        await press(stage, "m")
    said = [words for words, _ in groupby(said)]
    first = re.compile(r"comparing with the mark, query 1 of about (\d+)")
    asking, total = next((at, int(match[1])) for at, words in enumerate(said) if (match := first.fullmatch(words)))
    assert said[:asking] in (["walking the heap, 50 %"], ["cloning the process", "walking the heap, 50 %"])
    assert len(said) > asking + 20
    numbers = range(1, len(said) - asking + 1)
    assert total > 20, "as many as the check before took"
    of = f" of about {total}"
    assert said[asking:] == [
        f"comparing with the mark, query {number}{of if number <= total else ''}" for number in numbers
    ]


@pytest.mark.parametrize("key", ["m", "d"])
async def test_a_snapshot_that_cannot_be_built(key: str) -> None:
    async with on_leaks(SMALL, "m", "+") as stage:
        stage.source.agent.images.refusal = "there was no memory for it"
        await press(stage, key)
        assert notice(stage).endswith(": there was no memory for it")
        assert marks(stage) == ["A"]


async def test_a_collection_that_is_refused_is_no_mark() -> None:
    async with on_leaks() as stage:
        stage.source.request = lambda _: 7  # type: ignore[method-assign]
        await stage.press("M", "enter", "y")
        stage.source.say(Failure(6, "a census failed"))
        await stage.ticks(1)
        assert stage.live.hunting.is_busy
        stage.source.say(Failure(7, "this agent cannot have garbage collected"))
        await quiet(stage)
        assert notice(stage) == "no mark: this agent cannot have garbage collected"


async def test_the_session_ends_while_garbage_is_collected() -> None:
    async with on_leaks() as stage:
        stage.source.request = lambda _: 7  # type: ignore[method-assign]
        await stage.press("M", "enter", "y")
        await stage.until(lambda: "collecting garbage: all threads are paused" in stage.text, "it says so")
        stage.source.end()
        await quiet(stage)
        assert notice(stage) == "no mark: the session has ended"


# -- the filter ----------------------------------------------------------------------------------------------


async def test_filters_of_suspects_and_growth() -> None:
    async with on_leaks(LARGE, *THREE) as stage:
        for where, names in (
            ("type:Session", ["shop.models.Session"]),
            ("module:billing", ["shop.billing.Quote"]),
            ("site:create_session", ["shop.models.Session"]),
            ("retainer:_previews", ["shop.views.Preview"]),
            ("!type:Session retainer:quotes", ["shop.billing.Quote"]),
            ("type:nobody", []),
        ):
            view(stage).set_where(parse_filter(where))
            assert column(stage, "name") == names, where
            hidden = 3 - len(names)
            assert view(stage).filtered == f"{hidden} row{'s' * (hidden != 1)} filtered out"
        with pytest.raises(UsageError, match="Suspects have no size"):
            view(stage).set_where(parse_filter("size>1MB"))
        view(stage).set_where(parse_filter("module:models"))
        await press(stage, "b")
        assert all(name.startswith("shop.models.") for name in column(stage, "name")), "it goes on where it is known"
        await press(stage, "b", "b")
        assert not view(stage).where, "and is dropped where it is not"
        view(stage).set_where(parse_filter("site:views"))
        assert all("views.py" in name for name in column(stage, "name"))


async def test_suspects_are_sorted_by_each_column() -> None:
    async with on_leaks(LARGE, *THREE) as stage:
        assert column(stage, "rank") == ["1", "2", "3"]
        await press(stage, "i")
        assert column(stage, "rank") == ["3", "2", "1"]
        await press(stage, "greater_than_sign")
        assert column(stage, "name") == sorted(column(stage, "name"))
        await press(stage, "b", "i")
        assert column(stage, "name")[-1] == "shop.models.Session"


# -- what was found elsewhere --------------------------------------------------------------------------------


async def test_findings_that_are_told_are_shown() -> None:
    """As a recording tells them."""
    facts = MarkFacts("dusk", 0, 10, 1000), MarkFacts("dawn", 60_000_000_000, 20, 2000)
    async with on_leaks() as stage:
        stage.source.say(Findings(60_000_000_000, facts, NO_LEAK, 10, 1000, (), (Growth("type", ()),), ()))
        await quiet(stage)
        assert "Leaks: no leak · suspects from dusk to dawn, 60 s" in stage.text
        assert "No suspects: nothing new looks suspicious." in stage.text


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_backlog_and_what_another_heaptop_calls_it(size: tuple[int, int]) -> None:
    facts = MarkFacts("dusk", 0, 10, 1000), MarkFacts("dawn", 60_000_000_000, 20, 2000)
    why = "a queue.Queue grows by 92/s, its consumer takes 40/s"
    behind = replace(SUSPECT, verdict=BACKLOG, evidence=(why,))
    later = replace(SUSPECT, verdict="sand", type="app.models.Grain")
    async with on_leaks(size) as stage:
        stage.source.say(Findings(60_000_000_000, facts, BACKLOG, 10, 1000, (behind, later), (), ()))
        await quiet(stage)
        assert "Leaks: backlog · suspects" in stage.text
        assert ("+ backlog" if size == LARGE else "+ B ") in stage.text
        assert "+ BACKLOG  app.models.Session" in stage.text
        assert why in stage.text
        assert "make the consumer faster, or give the queue a maxsize" in stage.text
        assert ("? sand" if size == LARGE else "? S ") in stage.text


async def test_what_is_found_is_given_to_be_recorded() -> None:
    noted: list[Findings] = []
    async with on_leaks(SMALL, "m") as stage:
        for name, does in (("note", noted.append), ("begin_recording", noted.append), ("end_recording", noted.clear)):
            setattr(stage.source, name, does)
        await press(stage, "m")
        assert [each.verdict for each in noted] == [UNCLEAR]


# -- the heap map --------------------------------------------------------------------------------------------


async def on_leak_colours(stage: Stage) -> HeapMapView:
    await press(stage, "5", "b", "b", "b", "b")
    await stage.until(lambda: not stage.live.query_one(HeapMapView)._answers.is_asking, "it is answered")
    await quiet(stage)
    return stage.live.query_one(HeapMapView)


@pytest.mark.parametrize("ascii", [False, True])
async def test_what_leaks_on_the_heap_map(ascii: bool) -> None:
    async with on_leaks(SMALL, *THREE, ascii=ascii) as stage:
        shown = await on_leak_colours(stage)
        assert stage.text.isascii() is ascii
        assert "suspects collect 3 cells" in stage.text
        found, window = stage.live.hunting.found, shown.table.window
        assert found is not None
        assert window is not None
        first = found.findings.suspects[0]
        shown.table.move_to(window.layout.place(first.point))
        await press(stage, "j", "k")
        assert f"1 ! {LEAK}: 60 Session in the dict at {first.point:#x}" in stage.text
        await press(stage, "enter")
        assert stage.live.query_one(RetainersView)._level.address == first.point
        questions: list[Question] = stage.source.agent.images.asked
        assert any(each.what == MAP and each.selection.seen == (0, 1) for each in questions)
        assert any(each.what == OBJECT and each.selection.addresses == (first.point,) for each in questions)


async def test_the_heap_map_without_a_mark_and_of_the_mark_itself() -> None:
    async with on_leaks() as stage:
        await press(stage, "3")
        await on_leak_colours(stage)
        assert "no mark yet" in stage.text
        await press(stage, "m")
        await quiet(stage)
        assert stage.live.query_one(HeapMapView)._figures.suspects == []
        assert "no mark yet" not in stage.text


# -- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "drawn", "digits"),
    [
        ((2, 2, 2, 3), "▆▆▆█", "6669"),
        ((0, 0, 0, 9), "···█", "0009"),
        ((1000, 1), "█▁", "91"),
        ((), "", ""),
        ((0, 0), "··", "00"),
    ],
)
def test_survivors_are_drawn_as_bars_or_digits(values: tuple[int, ...], drawn: str, digits: str) -> None:
    assert bars(values, 8) == drawn
    assert bars(values, 8, ascii_only=True) == digits


def test_only_the_last_stretches_have_room() -> None:
    assert bars((8, 1, 8), 2) == "…█"
    assert bars((8, 1, 8), 2, ascii_only=True) == "~9"
    assert bars((8, 1, 8), 3) == "█▁█"
    facts = [MarkFacts(name, 0, 0, 0) for name in "ABCDEFGHI"]
    assert interval_words(facts[:3], (4, 5)) == "A–B 4, B–C ≥5"
    assert interval_words(facts, range(8)).startswith("…, C–D 2, ")


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (0.0, "0"),
        (0.00005, "0.2/h"),
        (-0.05, "-3.0/min"),
        (0.42, "0.42/s"),
        (21.3, "21/s"),
        (-3.0, "-3/s"),
        (1234.0, "1,234/s"),
    ],
)
def test_a_rate_has_the_unit_that_reads_best(rate: float, words: str) -> None:
    assert rate_words(rate) == words


def test_each_mark_is_compared_with_now_and_with_the_next() -> None:
    assert comparisons(0) == []
    assert comparisons(1) == [(0, None)]
    assert comparisons(3) == [(0, None), (1, None), (2, None), (0, 1), (1, 2)]
    facts = [MarkFacts(name, 0, 0, 0) for name in "AB"]
    assert compared_words(facts, 0, 1) == "from A to B"
    assert compared_words(facts, 1, None) == "since B"
    assert compared_words((), 0, None) == ""


@pytest.mark.parametrize(("own", "mark", "at"), [(True, "", "at"), (False, "≈", "near")])
def test_a_site_that_is_known_of_what_is_beside_them_alone_says_so(own: bool, mark: str, at: str) -> None:
    found = findings(1)
    suspect = replace(found.suspects[0], site_is_own=own)
    facts = hunting_sheets.SuspectFacts(LARGE[0], ChartStyle.of(DARK, ascii_only=False), "bytes")
    row = hunting_sheets.suspect_sheet((), facts).draw((1, suspect))
    assert f"{mark}{suspect.site}" in [piece.text for piece in row]
    brief = [line.text for line in hunting_sheets.brief_lines(suspect, 200, least=True, is_recorded=False)]
    indirect = "" if own else "indirect: "
    assert f"  Allocated {at:<5}{suspect.site} ({indirect}40 samples)" in brief
    page = hunting_sheets.page_lines(suspect, found, 200, facts.look, (), "", least=True, is_recorded=False)
    assert [line.text for line in page if line.key == "stack"] == [
        f"Allocated {at}: 100% of {'what was sampled of them' if own else 'indirect samples'}, 40 samples"
    ]


def test_the_card_names_the_handlers_of_a_suspect() -> None:
    one, other = HandlerShare("request login (shop/views.py)", 0.75), HandlerShare("thread work (shop/jobs.py)", 0.25)
    for handlers, said in (
        ((), []),
        ((replace(one, share=1.0),), ["  Handler        request login (shop/views.py)"]),
        ((one, other), ["  Handler        ≈75% request login (shop/views.py), 25% thread work (shop/jobs.py)"]),
    ):
        suspect = replace(SUSPECT, handlers=handlers)
        lines = [line.text for line in hunting_sheets.brief_lines(suspect, 200, least=True, is_recorded=False)]
        assert [line for line in lines if line.startswith("  Handler")] == said


def test_blocks_that_no_object_has_are_estimates_without_a_path() -> None:
    suspect = replace(SUSPECT, type=UNREACHED, path=(), point=0, retainer="no live object", holding="")
    brief = [line.text for line in hunting_sheets.brief_lines(suspect, 200, least=True, is_recorded=False)]
    assert "  New            ≈1,240 blocks, ≈3.10 MiB" in brief
    assert not any("every path" in line for line in brief)
    facts = hunting_sheets.SuspectFacts(LARGE[0], ChartStyle.of(DARK, ascii_only=False), "bytes")
    sheet = hunting_sheets.suspect_sheet([(1, suspect)], facts)
    assert {"≈1,240", "≈3.10 MiB"} <= {cell.text for cell in sheet.draw((1, suspect))}


def held_by(holding: str, path: tuple[str, ...] = SUSPECT.path) -> str:
    """What the card says of it at 80 columns."""
    suspect = replace(SUSPECT, holding=holding, path=path)
    lines = hunting_sheets.brief_lines(suspect, 80, least=True, is_recorded=False)
    return " ".join(line.text.strip() for line in lines if line.key.lower().startswith(("held by", "reached from")))


def test_the_card_names_root_and_container_of_a_long_path() -> None:
    steps = [f".attribute_of_step_{number}" for number in range(12)]
    text = held_by(" → ".join(["held by module app", *steps, "._queue (collections.deque)"]))
    assert text.startswith("Held by        module app → … → .attribute_of_step_")
    assert text.endswith(" → .attribute_of_step_11 → ._queue (collections.deque)")
    short = "all held by module app → .a → ._rows (dict)"
    assert held_by(short) == "Held by        module app → .a → ._rows (dict)", "all of it has room"


@pytest.mark.parametrize(
    ("path", "container"),
    [
        (("module app", ".shop", "[*]", "._log", "list[*]", "app.Event"), "; nearest container: ._log (list)"),
        (("module app", ".shop", ".first", ".next", "app.Event"), "; nearest container: .next"),
        (
            ("module app", "._active", "dict[*]", ".log", ".by_user", "dict[*]", "list[*]", "app.Event"),
            "; nearest container: .by_user dict[*] (list)",
        ),
        (("module app", "dict[*]", "list[*]", "app.Event"), "; nearest container: dict[*] (list)"),
        (("module app", ".shop", ".seen", ".keys", "(a key)", "str"), "; nearest container: .keys"),
        (("module app", ".shop", ".tasks", "{*}", "app.Event"), "; nearest container: .tasks"),
        (("module app", "(a key)", "str"), ""),
        (("module app", ".shop", "dict[*]", "app.Event"), ""),
        (("module app", "app.Event"), ""),
        ((), ""),
    ],
)
def test_the_card_names_the_container_that_is_nearest_where_paths_alone_are_known(
    path: tuple[str, ...], container: str
) -> None:
    text = held_by("≥60 of them reached from module app → .shop", path)
    assert text == f"Reached from   module app → .shop{container} (≥60 of them)"
