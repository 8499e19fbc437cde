"""The live screen under what reality does: bursts, threads, resizes, failed and partial censuses, odd messages."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import pytest
from rich.color import ColorSystem
from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Size

from heaptop.analysis.samples.producers import producers
from heaptop.errors import AgentLost, TargetExited
from heaptop.protocol.messages import Census, CensusRequest, Decision, Failure, Row, Tick, TickRequest
from heaptop.protocol.source import (
    Behind,
    Deliver,
    Ended,
    Event,
    Forecast,
    IntervalChanged,
    Received,
    Waiting,
    never_behind,
)
from heaptop.tui.app import make_app
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.state.session import MOST_AVERAGED
from heaptop.tui.terminal.shown_cells import ShownCells
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.widgets.help_screen import HelpScreen
from tests.fakes.source import SECOND, FakeAgent, FakeSource
from tests.tui.support import LARGE, SIZES, SMALL, Stage, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


async def test_a_thousand_events_at_once_are_few_drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = 0
    draw = LiveScreen._draw

    def counted(self: LiveScreen) -> None:
        nonlocal drawn
        drawn += 1
        draw(self)

    monkeypatch.setattr(LiveScreen, "_draw", counted)
    async with on_stage(censuses=1) as stage:
        before = drawn
        stage.source.tick(500)
        await stage.until(lambda: stage.live.session.censuses == 501, "every census was taken in")
        assert drawn - before <= 5
        assert "8m" in stage.text


async def test_events_come_from_another_thread() -> None:
    async with on_stage(censuses=1) as stage:
        thread = threading.Thread(target=lambda: [stage.source.tick() for _ in range(50)])
        thread.start()
        await stage.until(lambda: stage.live.session.censuses == 51, "every census was taken in")
        thread.join()
        assert "live" in stage.text


async def test_what_is_said_last_is_taken_after_what_was_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way out waits in a thread, and takes what the screen has not yet: the screen may be taking the rest."""
    async with on_stage(censuses=1) as stage:
        live, taken, in_middle = stage.live, list[object](), threading.Event()
        feed = live.session.feed

        def slow(event: Event) -> None:
            if threading.current_thread() is threading.main_thread():
                in_middle.set()
                last.join(0.3)
            taken.append(event)
            feed(event)

        monkeypatch.setattr(live.session, "feed", slow)
        said = Waiting("said before", 0.0), Ended(AgentLost("it is gone"))
        found: list[object] = []

        def leave() -> None:
            in_middle.wait(10)
            live.state.inbox.receive(said[1])
            found.append(live.detach_and_wait())

        last = threading.Thread(target=leave)
        last.start()
        live.state.inbox.receive(said[0])
        live._take_events()
        last.join(10)
        assert taken[:2] == [*said]
        assert found == [said[1].error]


@pytest.mark.parametrize("user_code", [[], ["/usr/lib/python3/site-packages/sqlalchemy"]])
async def test_user_code_may_lie_anywhere(user_code: list[str]) -> None:
    source = FakeSource()
    source.sample(65_536, 128)
    app = make_app(source, theme="dark", user_code=user_code)
    async with app.run_test():
        source.attach()
        source.tick(2)
        live = app._live
        assert live is not None
        live._take_events()
        sampling = live.session.sampling
        names = [row.name for row in producers(sampling.samples, sampling.sites, "site")]
        assert ("sqlalchemy/orm/state.py:77 InstanceState.__init__" in names) == bool(user_code)


class EagerSource(FakeSource):
    """Delivers everything from within open(), on the app's own thread."""

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver, behind)
        self.wait("looking", 0.0)
        self.attach()
        self.tick(3)
        self.end(TargetExited("Process 4242 ended with exit code 0."))


async def test_a_source_that_is_over_before_the_first_drawing() -> None:
    async with on_stage(attach=False, source=EagerSource()) as stage:
        await stage.until(lambda: "exited" in stage.text, "the end is shown")
        assert "ended with exit code 0" in stage.text
        assert "dict" in stage.text


async def test_a_target_that_exits_before_anything_was_seen_is_told_in_full() -> None:
    async with on_stage(attach=False) as stage:
        stage.source.end(TargetExited("Process 4242 ended with exited with code 3."))
        await stage.until(lambda: "exited with code 3" in stage.text, "the error is told")
        assert "heaptop ps" in stage.text


@pytest.mark.parametrize("size", SIZES)
async def test_resizing_keeps_everything_usable(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        original = stage.text
        for width, height in [(120, 30), (60, 16), (200, 50), (30, 10), (12, 5), (1, 1), size]:
            await stage.pilot.resize_terminal(width, height)
            await stage.pilot.pause()
            lines = stage.text.splitlines()
            assert len(lines) == height
            assert all(len(line) <= width for line in lines), f"a line is too long at {width}x{height}"
            assert stage.app.screen.size == Size(width, height)
            await stage.press("j", "b")
        while "by type" not in stage.text:
            await stage.press("b")
        await stage.press("g", "g")

        # Letters may be others: on the way there was room for more bands. The figures are the same.
        rows = slice(-9, -1)
        assert "row 1 of 20" in stage.text
        assert [line[5:] for line in stage.text.splitlines()[rows]] == [
            line[5:] for line in original.splitlines()[rows]
        ]


def say_census(stage: Stage, **changes: object) -> None:
    """Let the source deliver its next census, changed."""
    stage.source.agent.advance(SECOND)
    for message in stage.source.agent.answer(CensusRequest(99)):
        stage.source.say(replace(message, **changes) if isinstance(message, Census) else message)


async def test_partial_and_failed_censuses_are_admitted() -> None:
    async with on_stage(LARGE, censuses=3) as stage:
        say_census(stage, complete=False, cut="stopped after 30 s", sizeof_guessed=1234)
        await stage.until(lambda: stage.live.session.censuses == 4, "the census was taken in")
        assert "*partial*  stopped after 30 s" in stage.text
        assert "*estimated*  1,234 sizes guessed" in stage.text
        assert "heap ≈" in stage.text
        stage.source.say(Failure(100, "out of memory"))
        await stage.until(lambda: "census failed: out of memory" in stage.text, "the failure is told")
        await stage.ticks(1)
        assert "census failed" not in stage.text, "the next one succeeded"


async def test_exact_censuses_are_not_marked() -> None:
    async with on_stage(LARGE, censuses=1) as stage:
        say_census(stage, complete=True, cut="", sizeof_guessed=0, mode="clone")
        await stage.until(lambda: stage.live.session.censuses == 2, "the census was taken in")
        assert "approximate" not in stage.text
        assert "≈" not in stage.text


async def test_why_not_in_a_better_mode_is_on_the_screen() -> None:
    async with on_stage(SMALL, censuses=1) as stage:
        say_census(stage, mode="stop", mode_reason="no clone could be made: Operation not permitted")
        await stage.until(lambda: "stop mode: no clone could be made" in stage.text, "the reason is told")
        assert "mode stop" in stage.text
        assert "row 1 of 19 · stop mode" in stage.text


@pytest.mark.parametrize(("key", "accept"), [("y", True), ("n", False)])
async def test_a_long_pause_is_asked_about(key: str, accept: bool) -> None:
    async with on_stage(SMALL, censuses=0) as stage:
        stage.source.announce(Forecast(6 << 30, 5 << 30, 1 << 30, 130_000_000))
        await stage.until(lambda: "predicted pause 130 ms" in stage.text, "what is expected is told")
        stage.source.say(Decision(1, "clone", "", 130_000_000, 100_000_000))
        await stage.until(lambda: "Pause process 4242 for 130 ms?" in stage.text, "it is asked")
        assert "RSS 6.00 GiB, 1.00 GiB of it in huge pages" in stage.text
        await stage.press("enter", "escape")
        assert "Pause process" in stage.text
        assert "answer with y or n" in stage.text
        assert stage.source.decisions == [], "keys that mean something else answer nothing"
        await stage.press(key)
        assert stage.source.decisions == [accept]
        assert "Pause process" not in stage.text
        await stage.ticks(1)
        assert "predicted pause" not in stage.text


async def test_another_pause_is_a_key_where_there_is_one() -> None:
    async with on_stage(SMALL, censuses=0) as stage:
        for stop_ns, words in ((0, " y allow  n decline  ? help"), (40_000_000, " y allow  s stop  n decline")):
            stage.source.say(Decision(1, "clone", "", 130_000_000, 100_000_000, stop_ns))
            await stage.until(lambda: "Pause process 4242 for 130 ms?" in stage.text, "it is asked")
            assert stage.lines(-1)[0].startswith(words)
            await stage.press("s")
            if not stop_ns:
                assert stage.source.decisions == []
                await stage.press("y")
        assert stage.source.decisions == [True, True]
        assert stage.source.stops == [False, True]


async def test_a_question_that_is_not_on_the_screen_yet_is_not_answered() -> None:
    async with on_stage(SMALL, censuses=2) as stage:
        stage.live.session.decision = Decision(1, "stop", "", 2_000_000_000, 100_000_000)
        await stage.press("y")
        assert stage.source.decisions == []


async def test_a_reason_longer_than_the_screen_is_whole_on_the_help_page() -> None:
    reason = "the native core could not be loaded: libc.so.6: version `GLIBC_2.14' not found (required by it)"
    async with on_stage(SMALL, censuses=1) as stage:
        say_census(stage, mode="python", mode_reason=reason, complete=False, cut="types were too many")
        await stage.until(lambda: "python mode: the native core" in stage.text, "the reason is told")
        assert "not found" not in stage.text
        await stage.press("question_mark")
        assert isinstance(stage.app.screen, HelpScreen)
        words = " ".join(stage.app.screen.text.plain.split())
        assert f"Census in python mode: {reason}." in words
        assert "The last census is partial: types were too many." in words


async def test_a_stretched_interval_is_told() -> None:
    async with on_stage(LARGE, censuses=2) as stage:
        assert "every 1 s" in stage.text
        stage.source.announce(IntervalChanged(14.2, 1.0))
        await stage.until(lambda: "throttled to 14 s" in stage.text, "it is told")
        stage.source.announce(IntervalChanged(1.0, 1.0))
        await stage.until(lambda: "every 1 s " in stage.text, "and that it is over")


async def test_hidden_bytes_and_guesses_have_their_place() -> None:
    source = FakeSource()
    source.agent.mode = "clone"
    async with on_stage(LARGE, censuses=5, source=source) as stage:
        assert "Attributes" in stage.text
        assert "≈844 KiB" in stage.text, "every Warmup's size is a guess"


async def test_a_census_that_contradicts_itself_ends_the_session_with_its_error() -> None:
    async with on_stage(censuses=2) as stage:
        census = next(m for m in FakeAgent().answer(CensusRequest(7)) if isinstance(m, Census))
        stage.source.say(replace(census, rows=(Row(9999, 0, 1, 1),)))
        await stage.until(lambda: "9999" in stage.text, "the error is told")
        assert "Protocol error" in stage.text
        await stage.press("escape")
        assert "dict" in stage.text


async def test_a_heap_without_objects() -> None:
    async with on_stage(censuses=1) as stage:
        census = next(m for m in FakeAgent().answer(CensusRequest(7)) if isinstance(m, Census))
        stage.source.say(replace(census, rows=(), time_ns=census.time_ns + 9 * SECOND))
        await stage.until(lambda: stage.live.session.censuses == 2, "the census was taken in")
        await stage.press("j", "k", "enter", "G", "i", "f", "b")
        assert "heap ≈0 B" in stage.text


async def test_a_click_chooses_a_row_or_sorts_and_two_open_it() -> None:
    async with on_stage(LARGE) as stage:
        table = stage.bands.table
        await stage.pilot.click(table, offset=(10, 3))
        assert table.cursor == 2
        heading = next(line for line in stage.text.splitlines() if "Objects" in line)
        await stage.pilot.click(table, offset=(heading.index("Objects"), 0))
        await stage.pilot.pause()
        assert "Objects▼" in stage.text
        await stage.pilot.click(table, offset=(10, 2), times=2)
        await stage.until(lambda: "by generation" in stage.text, "a second click looks into the row")
        footer = stage.text.splitlines()[-1]
        await stage.pilot.click(offset=(footer.index("group"), LARGE[1] - 1))
        await stage.until(lambda: "by generation" not in stage.text, "a click on the footer presses its key")


async def test_what_a_stop_was_is_said() -> None:
    async with on_stage() as stage:
        await stage.press("ctrl+z")
        assert "no shell can resume heaptop here" in stage.text, "there is no terminal at all"
        before = stage.text
        stage.live.session.clock = lambda: 1e9
        stage.live.resumed(75.0)
        await stage.settled()
        assert "heaptop was suspended for 1m 15s: no census was taken meanwhile" in stage.text
        assert stage.live.session.silence == 0, "nothing was asked for"
        await stage.press("ctrl+l")
        assert stage.text.splitlines()[3:-1] == before.splitlines()[3:-1]


async def test_a_tick_sends_a_small_part_of_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_stage(LARGE, censuses=40) as stage:
        size, shown, sent = Size(*LARGE), ShownCells(), 0
        partial = Compositor.render_partial_update
        everything = shown.update(stage.app.screen._compositor.render_full_update(), size, ColorSystem.TRUECOLOR)

        def counted(self: Compositor) -> ChopsUpdate | None:
            nonlocal sent
            update = partial(self)
            sent += len(shown.update(update, size, ColorSystem.TRUECOLOR).encode()) if update is not None else 0
            return update

        monkeypatch.setattr(Compositor, "render_partial_update", counted)
        await stage.ticks(1)
        monkeypatch.undo()
        assert sent, "a tick changes the screen"
        assert sent < len(everything.encode()) / 3, "figures and one column of the chart, not the chart"


async def test_what_the_agent_used_is_a_part_of_a_core_over_the_last_ten_seconds() -> None:
    async with on_stage(censuses=0) as stage:
        (first,) = (each for each in stage.source.agent.answer(TickRequest(1)) if isinstance(each, Tick))
        shares: list[float | None] = []
        for milliseconds, used in ((0, 0), (10, 5), (1000, 20), (2000, 60), (12000, 160), (12500, 30), (13500, 40)):
            time_ns = first.time_ns + milliseconds * 10**6
            stage.live.session.feed(Received(replace(first, time_ns=time_ns, agent_cpu_ns=used * 10**6)))
            shares.append(stage.live.session.cpu_share)
        assert shares == [None, None, 0.02, 0.03, 0.01, 0.01, 0.01], "of a hundredth of a second nothing is said"


async def test_ticks_without_end_are_not_kept() -> None:
    """The target says when they were: a nanosecond apart."""
    async with on_stage(censuses=0) as stage:
        (first,) = (each for each in stage.source.agent.answer(TickRequest(1)) if isinstance(each, Tick))
        for later in range(10 * MOST_AVERAGED):
            stage.live.session.feed(Received(replace(first, time_ns=first.time_ns + later)))
        assert len(stage.live.session.averaged) == MOST_AVERAGED


async def test_what_was_drawn_is_not_kept() -> None:
    """Textual remembers of a widget which parts of it were to be drawn."""
    async with on_stage(censuses=2) as stage:
        await stage.ticks(8)
        widgets = [*stage.live.query("*")]
        await stage.until(lambda: all(len(each._dirty_regions) <= 1 for each in widgets), "no widget keeps more")


def test_views_are_registered_under_their_names_and_have_keys() -> None:
    actions = {key.action for key in LIVE}
    for name, view in VIEWS.items():
        assert name == view.NAME
        assert f"view('{name}')" in actions
        assert view.HELP
        assert view.OFFERS


def test_an_app_needs_something_to_show() -> None:
    with pytest.raises(ValueError, match="a source or a picker"):
        make_app(None)


@pytest.mark.parametrize("size", SIZES)
async def test_ascii_is_ascii_in_every_state(size: tuple[int, int]) -> None:
    async with on_stage(size, ascii=True, attach=False) as stage:
        stage.source.wait("waiting for the interpreter", 2)
        await stage.until(lambda: "2 s" in stage.text, "the wait is shown")
        seen = [("waiting", stage.text)]
        stage.source.attach()
        await stage.ticks(5)
        for keys in (["slash", "s", "colon"], ["escape"], ["question_mark"], ["escape"], ["space"], ["b", "enter"]):
            await stage.press(*keys)
            seen.append((" ".join(keys), stage.text))
        await stage.press("colon")
        await stage.until(lambda: "key 1" in stage.text, "the palette is shown")
        seen.append(("palette", stage.text))
        await stage.press("escape")
        stage.source.end(AgentLost("The agent’s socket — closed."))
        await stage.until(lambda: "Agent lost" in stage.text, "the error is told")
        seen.append(("error", stage.text))
        for state, text in seen:
            assert text.isascii(), f"{state} is not ASCII: {[c for c in text if not c.isascii()]}"


async def test_no_color_has_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_stage(SMALL) as stage:
        assert _colours(stage) == set()


async def test_ansi_theme_uses_the_terminals_colours_only() -> None:
    async with on_stage(SMALL, theme="ansi") as stage:
        colours = _colours(stage)
        assert colours
        assert not [name for name in colours if name.startswith("#")]


def _colours(stage: Stage) -> set[str]:
    """The colours that reach the terminal, but for its own default."""
    found = set()
    for widget in stage.app.screen.walk_children(with_self=False):
        for strip in widget.render_lines(widget.size.region) if widget.display and widget.size else ():
            for segment in strip:
                style = segment.style
                found |= {c.name for c in (style.color, style.bgcolor) if c is not None} if style else set()
    return found - {"default"}


async def test_a_one_shot_timer_always_goes_off() -> None:
    """Textual drops one that it comes to later than it was to go off, as it may on a busy machine."""
    async with on_stage() as stage:
        gone_off: list[str] = []
        for owner in (stage.app, stage.live, stage.live.view):
            owner.set_timer(1e-9, lambda owner=owner: gone_off.append(type(owner).__name__))  # type: ignore[misc]
        await stage.until(lambda: len(gone_off) == 3, "all have gone off")


@pytest.mark.parametrize("size", SIZES)
async def test_sampling_of_another_users_process_changes_only_after_yes(size: tuple[int, int]) -> None:
    source = FakeSource()
    source._target = replace(source.target, is_others=True)
    async with on_stage(size, source=source, censuses=2) as stage:
        asked = len(source.sampling)
        await stage.press("r")
        await stage.until(lambda: "Change sampling in process 4242 of user shop?" in stage.text, "it is asked")
        await stage.press("n")
        await stage.until(lambda: "sampling stays as it is" in stage.text, "what no came to is said")
        assert len(source.sampling) == asked
        await stage.press("r")
        await stage.until(lambda: "y   change to 200 samples/s" in stage.text, "it says what yes does")
        await stage.press("y")
        await stage.until(lambda: len(source.sampling) == asked + 1, "it was requested")
        await stage.press("r")
        await stage.until(lambda: len(source.sampling) == asked + 2, "yes holds for the session")


@pytest.mark.parametrize(("target", "shown"), [(200, r"sampling \d+/s"), (0, "sampling 1/64 KiB")])
async def test_a_narrow_header_has_what_is_fixed_samples_a_second_or_the_interval(target: int, shown: str) -> None:
    source = FakeSource()
    source.sample(64 << 10, 128, target=target)
    async with on_stage(SMALL, censuses=4, source=source) as stage:
        assert re.search(rf"  {shown}  mode python$", stage.lines(1)[0])
