"""A recording on the screen: the same views, a time cursor, a word where only a process could do what a key would."""

from __future__ import annotations

import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from heaptop.analysis.text.units import format_bytes
from heaptop.errors import ProtocolError
from heaptop.protocol.messages import Census, CensusRequest, Row
from heaptop.protocol.source import Event, Player, Received
from heaptop.recordings import blocks
from heaptop.recordings.reader import Recording
from heaptop.recordings.replay import ReplaySource
from heaptop.tui.app import make_app
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.screens.replay import LACKING, ReplayScreen
from heaptop.tui.state.control.replay_state import ReplayState
from heaptop.tui.views import LIVE
from heaptop.tui.widgets.help_screen import keys_here
from heaptop.tui.widgets.recording_line import LEFT, RecordingLine
from tests.fakes.source import SECOND, START_NS, FakeAgent, FakeSource
from tests.support.recorded import STEP_NS, written
from tests.tui.sampled import column
from tests.tui.support import LARGE, SMALL, Stage, check_golden

pytestmark = pytest.mark.usefixtures("plain_environment", "utc", "short_segments")
TICKS = 40
LAST = TICKS - 2
"""Minutes from the first moment, which the second tick is, to the last."""


@pytest.fixture
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few ticks make several."""
    monkeypatch.setattr(blocks, "SEGMENT_BLOCKS", 15)
    monkeypatch.setattr(blocks, "SEGMENT_SECONDS", 10**6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "night.heaptop", TICKS)


class Watched(Stage):
    """A stage whose source is a player."""

    @property
    def screen(self) -> ReplayScreen:
        assert isinstance(self.live, ReplayScreen)
        return self.live

    @property
    def minutes(self) -> float:
        """Where the cursor stands, from the beginning on."""
        shown = self.screen.session.shown
        return (shown.time_ns - shown.first_ns) / STEP_NS if shown is not None else -1.0

    async def at(self, minutes: float) -> None:
        """Wait until that moment is drawn."""
        screen = self.screen

        def drawn() -> bool:
            shown = screen.session.shown
            display = screen.state.display
            return self.minutes == minutes and display.shown is shown and bool(display.records)

        await self.until(drawn, f"minute {minutes} is shown")


@asynccontextmanager
async def opened(path: Path, size: tuple[int, int] = SMALL, at: int | None = None) -> AsyncIterator[Watched]:
    player = ReplaySource(Recording.open(path))
    if at is not None:
        player.seek(at)
    app = make_app(player, theme="dark")
    try:
        async with app.run_test(size=size) as pilot:
            stage = Watched(app, player, pilot)  # type: ignore[arg-type]  # which has no fake source to drive
            await stage.until(lambda: any(isinstance(s, ReplayScreen) for s in app.screen_stack), "the screen is there")
            yield stage
    finally:
        player.close()


def without_bands(text: str) -> list[str]:
    """Header and table of view 1."""
    lines = text.splitlines()
    table = next(place for place, line in enumerate(lines) if "Objects" in line)
    return [*lines[:3], *(line[3:] for line in lines[table:])]


async def test_it_opens_at_its_end(path: Path) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        assert "recording · 15:45:40 of 15:07–15:45" in stage.text
        check_golden("recording-80x24", stage.app)


async def test_keys_go_from_moment_to_moment_and_by_tenths(path: Path) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.press("comma")
        await stage.at(LAST - 1)
        await stage.press("comma", "comma", "comma")
        await stage.at(LAST - 4)
        await stage.press("full_stop")
        await stage.at(LAST - 3)
        await stage.press("left_parenthesis")
        await stage.at(31)  # the last moment up to 31.2
        await stage.press("right_parenthesis")
        await stage.at(35)  # from where the cursor was sent to
        await stage.press(*["left_parenthesis"] * 12)
        await stage.at(0)
        await stage.press("comma")
        assert "this is the beginning of the recording" in stage.text
        await stage.press(*["right_parenthesis"] * 12, "full_stop")
        await stage.at(LAST)
        assert "this is the end of the recording" in stage.text


MIB = 1 << 20
LINE = slice(-5, -3)
"""The two lines above the names of the views and the footer."""


@pytest.fixture
def jumping(tmp_path: Path) -> Path:
    """One that jumps at minutes 9 and 29."""
    return written(tmp_path / "jumping.heaptop", TICKS, jumps={10: 30 * MIB, 30: 60 * MIB})


async def test_the_whole_recording_stays_visible_wherever_the_cursor_stands(jumping: Path) -> None:
    async with opened(jumping, LARGE) as stage:
        await stage.at(LAST)
        # Both jumps and the legend, which is there before all of the recording was read.
        await stage.until(lambda: stage.text.split("\n")[LINE][1].count("▲") == 3, "the jumps are marked")
        heap, marks = stage.text.split("\n")[LINE]
        assert heap.startswith(" heap")
        assert (marks.split()[0], marks.split()[-1]) == ("15:07", "15:45")
        lowest = format_bytes(min(size for _, size in stage.screen.state.heap))
        assert f"(lowest {lowest}, ▲ jump, │ here)" in marks
        assert [heap[marks.index("▲") - 1], heap[-12]] == ["▁", "█"]
        await stage.press(*["left_parenthesis"] * 12)
        await stage.at(0)
        heap, after = stage.text.split("\n")[LINE]
        assert after == marks
        assert heap.index("│") == LEFT, "the cursor shows without colour too"


async def test_n_goes_from_jump_to_jump(jumping: Path) -> None:
    async with opened(jumping) as stage:
        await stage.at(LAST)
        await stage.until(lambda: stage.screen.state.jumps, "jumps are known")
        await stage.press("N")
        await stage.at(30)  # the first minute that shows it
        assert "jump 2 of 2: live heap +54.3 MiB within 1m" in stage.text
        await stage.press("N")
        await stage.at(10)
        await stage.press("N")
        assert "no jump before this moment, 1 after" in stage.text
        await stage.press("n")
        await stage.at(30)
        await stage.press("n")
        assert "no jump after this moment, 1 before" in stage.text


def held_back(monkeypatch: pytest.MonkeyPatch, name: str, calls: int = 0) -> threading.Event:
    """What lets a player continue that waits in a method, from the call of that number on."""
    may_go_on, method, seen = threading.Event(), getattr(ReplaySource, name), itertools.count()

    def wait(*args: object) -> None:
        if next(seen) >= calls:
            may_go_on.wait(60)
        method(*args)

    monkeypatch.setattr(ReplaySource, name, wait)
    return may_go_on


@asynccontextmanager
async def key_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Watched, threading.Event]]:
    """The player, with key N typed while the recording is read, which goes on when the event is set."""
    may_go_on = held_back(monkeypatch, "_tell_course")
    async with opened(path) as stage:
        try:
            await stage.until(lambda: stage.screen.session.shown is not None, "its end is shown")
            await stage.press("N")
            await stage.until(lambda: "this key takes effect afterwards" in stage.text, "the key is kept")
            yield stage, may_go_on
        finally:
            may_go_on.set()


async def test_keys_that_are_typed_while_the_recording_is_read_take_effect_then(
    jumping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with key_kept(jumping, monkeypatch) as (stage, may_go_on):
        may_go_on.set()
        await stage.until(lambda: "jump 2 of 2" in stage.text, "the last jump is shown")


async def test_a_view_that_is_opened_while_a_moment_is_read_shows_the_moment_before(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = held_back(monkeypatch, "_show", 1)
    async with opened(path) as stage:
        try:
            await stage.at(LAST)
            await stage.press("left_parenthesis", "2")
            await stage.until(lambda: "shop/cache.py:30" in stage.text, "its rows are there")
            assert stage.minutes == LAST
        finally:
            may_go_on.set()
        await stage.until(lambda: stage.minutes != LAST, "the other moment comes")


async def test_the_wait_for_a_recording_names_the_file_and_no_attach(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = held_back(monkeypatch, "_show")
    async with opened(path, LARGE) as stage:
        try:
            await stage.until(lambda: f"Recording {path}"[:60] in stage.text, "the file is named")
            assert "ttaching" not in stage.text
            assert "○ reading" in stage.text
        finally:
            may_go_on.set()
        await stage.at(LAST)


async def test_at_a_jump_change_is_from_the_moment_before_it(tmp_path: Path) -> None:
    """Half a minute after the census before: what was allocated early in that time is in view 2's Change."""
    path = written(tmp_path / "a.heaptop", 180, step_ns=SECOND, jumps={3: 60 * MIB}, bursts={65: 60 * MIB}, every=30)
    async with opened(path, LARGE) as stage:
        await stage.until(lambda: stage.screen.state.jumps, "jumps are known")
        await stage.press("2", "N")
        await stage.until(lambda: "jump 1 of 1" in stage.text, "it is there")
        moment = START_NS + 92 * SECOND  # a census is recorded with the tick that follows it
        await stage.until(lambda: stage.screen.state.display.now_ns == moment, "it is drawn")
        change = dict(zip(column(stage, "name"), column(stage, "change"), strict=True))
        assert change["shop/app.py:14 main"] == "+60.0 MiB"


async def test_at_a_jump_its_heap_is_shown_also_where_the_census_took_seconds(tmp_path: Path) -> None:
    path = written(tmp_path / "a.heaptop", 180, step_ns=SECOND, jumps={3: 60 * MIB}, every=30, late=4)
    async with opened(path, LARGE) as stage:
        await stage.until(lambda: stage.screen.state.jumps, "jumps are known")
        await stage.press("N")
        await stage.until(lambda: "jump 1 of 1" in stage.text, "it is there")
        moment = START_NS + 96 * SECOND  # counted at 91, in the file with the tick after 95
        await stage.until(lambda: stage.screen.state.display.now_ns == moment, "it is drawn")
        latest = stage.screen.session.history.latest
        assert latest is not None
        assert latest.time_ns == stage.screen.state.jumps[0].end_ns


async def test_a_click_or_a_drag_on_the_line_goes_there(path: Path) -> None:
    async with opened(path, at=0) as stage:
        await stage.at(0)
        await stage.until(lambda: stage.screen.state.heap, "the line is there")
        await stage.pilot.pause()
        line = stage.screen.query_one(RecordingLine)
        await stage.pilot.click(line, offset=(LEFT + line._width // 2, 0))
        await stage.until(lambda: 17 <= stage.minutes <= 20, "the middle is shown")
        await stage.pilot.mouse_down(line, offset=(LEFT + 10, 1))
        await stage.pilot.hover(line, offset=(LEFT + line._width - 1, 1))
        await stage.until(lambda: stage.minutes == LAST, "it follows the mouse")
        await stage.pilot.mouse_up(line, offset=(LEFT + line._width - 1, 1))
        await stage.pilot.hover(line, offset=(LEFT + 5, 1))
        await stage.pilot.pause(0.1)
        assert stage.minutes == LAST, "the button is up"


async def test_a_recording_without_jumps_says_so(path: Path) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.until(lambda: stage.screen.state.heap, "all of it is known")
        await stage.press("n")
        assert "this recording has no jumps" in stage.text


@pytest.mark.parametrize("minute", [0, 1, 14, 20, 33])
async def test_a_moment_is_shown_as_it_was_wherever_one_comes_from(path: Path, minute: int) -> None:
    with Recording.open(path) as recording:
        moment = recording.moments[minute]
    seen = []
    for at in (moment, None):
        async with opened(path, at=at) as stage:
            if at is None:
                await stage.at(LAST)
                for key in "1268":  # views that were looked at keep nothing of what they showed
                    await stage.press(key)
                stage.screen.seek(moment)
            await stage.at(minute)
            shown = []
            for key in "1268":
                await stage.press(key)
                await stage.settled()
                # bands keep their places and letters from moment to moment, so that the eye can follow them
                shown.append(stage.text if key != "1" else without_bands(stage.text))
            seen.append(shown)
    for alone, after in zip(*seen, strict=True):
        assert alone == after


async def test_only_the_moment_that_was_asked_for_is_drawn(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything drawn before it, and in the middle of it, would be drawn for nothing, and put it off."""
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.settled()
        drawn: list[bool] = []
        draw = LiveScreen._draw
        monkeypatch.setattr(LiveScreen, "_draw", lambda screen: (drawn.append(stage.screen.state.told), draw(screen)))
        await stage.press("left_parenthesis")
        await stage.at(34)
        assert drawn == [True]


async def test_the_moment_before_stays_whole_until_the_next_is_drawn(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Header and words too, also when a second ends in the middle of what is told, or a key is pressed."""
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.settled()
        of_one_moment: list[bool] = []
        words, take = LiveScreen._draw_words, ReplayState.feed

        def draw_words(screen: ReplayScreen) -> None:
            of_one_moment.append(screen.session.shown is screen.state.display.shown)
            words(screen)

        def take_and_interrupt(state: ReplayState, event: Event) -> None:
            take(state, event)
            stage.screen.second()
            stage.screen.act("mark")

        monkeypatch.setattr(LiveScreen, "_draw_words", draw_words)
        monkeypatch.setattr(ReplayState, "feed", take_and_interrupt)
        await stage.press("left_parenthesis")
        await stage.at(34)
        assert of_one_moment
        assert all(of_one_moment)
        assert LACKING["mark"] in stage.text


async def test_a_time_is_typed(path: Path) -> None:
    async with opened(path, LARGE) as stage:
        await stage.at(LAST)
        await stage.press("T")
        await stage.type("15:20")
        await stage.press("enter")
        await stage.at(12)
        assert "recording · 15:19:40 of 15:07–15:45" in stage.text
        await stage.press("T")
        await stage.type("q2x")
        await stage.press("enter")
        assert "'q2x' is not a time" in stage.text
        await stage.press("escape")
        assert stage.minutes == 12
        await stage.press("T")
        await stage.type("99h")
        await stage.press("enter")
        assert "is outside the recording, which covers from 15:07:40" in stage.text
        await stage.press("escape", "slash")
        await stage.type("shop")
        await stage.press("enter")
        assert "by type  ›  type:shop" in stage.text


async def test_hunts_are_shown_from_their_moment_on(path: Path) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.press("4")
        await stage.settled()
        assert "Leaks: leak · suspects from before <b> to l" in stage.lines(2)[0]
        assert stage.lines(2)[0].endswith("as of 20m 00s ago · row 1 of 1")
        assert stage.lines(4)[0].startswith(" 1  ! L  Session   3.10 MiB ")
        await stage.press("enter")
        await stage.settled()
        assert "1,240 objects" in stage.text
        await stage.press("escape", *["left_parenthesis"] * 8)
        await stage.at(7)
        assert "No leak hunt has reported anything" in stage.text


async def test_notes_of_a_recorded_hunt_are_pointed_out(path: Path) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.press("4")
        found = stage.screen.hunting.found
        assert found is not None
        said = {("at least",): "", ("at least", "off until b", "more"): "off until b · 1 more note, press ?"}
        for notes, words in said.items():
            stage.screen.hunting.found = replace(found, findings=replace(found.findings, notes=notes))
            stage.screen.redraw()
            assert stage.screen.view.note == words


async def test_of_the_middle_it_is_said_what_is_of_a_stretch_alone(path: Path) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.press("6")
        assert "lifetimes cover allocations from 15:36:40 on" in stage.text
        await stage.press("8")
        assert "collections and phases before 15:36:40" in stage.text
        await stage.press("2")
        assert "15:36:40" not in stage.text
        assert stage.lines(3)[0].startswith("Site "), "there is no such line between title and table"
        await stage.press("6", *["left_parenthesis"] * 10)
        await stage.at(0)
        assert "lifetimes cover" not in stage.text


async def test_what_needs_a_process_is_said_to_be_missing(path: Path) -> None:
    async with opened(path, LARGE) as stage:
        await stage.at(LAST)
        for key in LIVE:
            if key.action in LACKING:
                stage.screen.state.status.text = ""
                await stage.press(key.keys.split(",")[0])
                assert LACKING[key.action] in stage.text, key.shown


async def test_a_view_of_the_snapshot_says_that_there_is_none(path: Path) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.press("3")
        await stage.settled()
        assert stage.lines(3)[0] == " no snapshot: a recording has no object graph"
        assert "No snapshot is open: a recording has no object graph." in stage.text
        await stage.press("question_mark")
        assert "─ 3 Retainers: what it shows ─" in stage.lines(0)[0]
        assert not {key.action for key in keys_here(stage.screen.help_page)} & LACKING.keys()


async def test_q_ends_the_replay(path: Path) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.press("q")
        await stage.until(lambda: not stage.app.is_running, "the app has ended")
        assert stage.app.return_value is None


def words(stage: Stage) -> str:
    """What a dialog says, wherever its lines break."""
    return " ".join(stage.text.replace("│", " ").split())


@pytest.mark.parametrize("part", [0, 0.5, 1])
async def test_a_file_that_breaks_meanwhile_is_said(path: Path, part: float) -> None:
    """Cut, or written over in place."""
    size = path.stat().st_size
    async with opened(path) as stage:
        await stage.at(LAST)
        path.write_bytes(b"\0" * round(part * size))
        await stage.press(*["left_parenthesis"] * 3)
        await stage.until(lambda: "was changed while it was read" in words(stage), "the error is shown")
        assert "socket" not in stage.text
        assert "Attach" not in stage.text


async def test_a_file_that_is_replaced_meanwhile_is_read_on(path: Path) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        other = path.with_suffix(".other")
        other.write_bytes(b"\0" * path.stat().st_size)
        other.replace(path)
        await stage.press("left_parenthesis")
        await stage.at(34)


async def test_what_no_process_says_is_said_of_a_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)

        def events(*_: object) -> Iterator[Event]:
            raise ProtocolError("A block of the recording has the wrong length.")

        monkeypatch.setattr(Recording, "events", events)
        await stage.press("left_parenthesis")
        await stage.until(lambda: "is damaged or was made by hand" in words(stage), "the error is shown")
        assert "socket" not in stage.text


async def test_figures_that_do_not_fit_are_said_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages are well formed; what they say cannot be."""
    shown = Recording.events

    def events(recording: Recording, time_ns: int, since_ns: int | None = None) -> Iterator[Event]:
        yield from shown(recording, time_ns, since_ns)
        counted = next(said for said in FakeAgent().answer(CensusRequest(1)) if isinstance(said, Census))
        yield Received(replace(counted, rows=(*counted.rows, Row(4_000, 0, 1, 1))))

    async with opened(path) as stage:
        await stage.at(LAST)
        monkeypatch.setattr(Recording, "events", events)
        await stage.press("left_parenthesis")
        await stage.until(lambda: "is damaged or was made by hand" in words(stage), "the error is shown")
        assert path.name in words(stage).replace(" ", "")
        assert "socket" not in stage.text
        assert "Attach" not in stage.text


def test_a_player_is_told_from_a_process(path: Path) -> None:
    assert isinstance(ReplaySource(Recording.open(path)), Player)
    assert not isinstance(FakeSource(), Player)


async def test_a_view_is_drawn_also_where_textual_does_not_tell_its_size(path: Path) -> None:
    """Its compositor may meet the view before the layout that would send it a Resize; no tick follows that would mend
    it."""
    async with opened(path) as stage:
        screen = stage.screen
        await stage.at(LAST)
        screen.act("view", "producers")
        screen._compositor._full_map_invalidated = True
        assert screen.view in screen._compositor.full_map
        await stage.until(lambda: "views.py:131" in stage.text, "its rows are there")


@pytest.mark.parametrize(("key", "why"), [("m", "no process to mark"), ("v", "no marks to compare with")])
async def test_in_view_4_keys_that_need_a_process_say_so(path: Path, key: str, why: str) -> None:
    async with opened(path) as stage:
        await stage.at(LAST)
        await stage.press("4", key)
        assert why in stage.text


async def test_a_kept_key_does_not_take_away_from_a_moment_that_was_chosen_since(
    jumping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with key_kept(jumping, monkeypatch) as (stage, may_go_on):
        await stage.press("left_parenthesis")
        wanted = stage.screen._wanted
        may_go_on.set()
        await stage.until(lambda: stage.screen.state.is_whole and not stage.screen._typed, "all is read")
        assert wanted is not None
        assert stage.screen._wanted == wanted
