"""Several processes at once: whose turn it is, tabs, the sum, who comes and goes, and the way out."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from heaptop.errors import AgentLost, AttachCancelled, PtraceDenied, TargetExited
from heaptop.protocol.messages import Decision
from heaptop.tui.keys.bindings import QUESTION, SEVERAL
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.screens.summed_screen import OF_ONE, SUMMED, SummedScreen
from heaptop.tui.screens.tab_screen import TabScreen
from heaptop.tui.state.session import AttachPhase
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.widgets.tabs_line import Tab, fitting_tabs
from tests.tui.several import WORKERS, Fleet, TabsStage, in_tabs
from tests.tui.support import LARGE, check_golden

pytestmark = pytest.mark.usefixtures("plain_environment")


def top(stage: TabsStage) -> str:
    """The line of tabs."""
    return stage.text.splitlines()[0]


async def unseen(stage: TabsStage, times: int) -> None:
    """Attach to all and count while another tab is shown: the sum's bands keep the order of the one drawing of them."""
    await stage.press("tab")
    await stage.attach_all(*WORKERS)
    await stage.count(*WORKERS, times=times)


def shown(stage: TabsStage) -> TabScreen:
    screen = stage.app.screen
    assert isinstance(screen, TabScreen)
    return screen


# -- the line of tabs, pure ------------------------------------------------------------------------------------


def test_names_go_first_and_then_figures_when_there_is_no_room() -> None:
    tabs = [Tab("all 2", "", "", ""), Tab("1201", "worker-of-the-shop", "8 MiB", "▲"), Tab("1203", "w2", "", "○")]
    _, wide, behind = fitting_tabs(tabs, 0, 80)
    assert [tab.text for tab in wide] == ["all 2", "1201 worker-of-the-s… 8 MiB ▲", "1203 w2 ○"]
    assert behind == 0
    _, narrow, behind = fitting_tabs(tabs, 0, 40)
    assert [tab.text for tab in narrow] == ["all 2", "1201 8 MiB ▲", "1203 ○"]
    assert behind == 0
    _, least, behind = fitting_tabs(tabs, 0, 30)
    assert [tab.text for tab in least] == ["all 2", "1201 ▲", "1203 ○"]
    assert behind == 0


@pytest.mark.parametrize("width", [12, 30, 80, 200])
@pytest.mark.parametrize("count", [1, 2, 9, 60])
def test_the_tab_that_is_shown_always_has_a_place(count: int, width: int) -> None:
    tabs = [Tab(str(1000 + number), "name", "10.0 MiB", "▲") for number in range(count)]
    for number in range(count):
        before, placed, behind = fitting_tabs(tabs, number, width)
        assert number in [tab.number for tab in placed]
        assert before + len(placed) + behind == count
        assert [tab.number for tab in placed] == list(range(before, before + len(placed)))
        drawn = sum(len(tab.text) + 3 for tab in placed) - 1 + 4 * bool(before) + 4 * bool(behind)
        assert drawn <= width or len(placed) == 1


# -- the keys' table -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "screen"), [((*SEVERAL, *LIVE), TabScreen), ((*SEVERAL, *SUMMED), SummedScreen)])
def test_every_key_has_an_action_and_no_key_has_two(table: tuple, screen: type) -> None:  # type: ignore[type-arg]
    names = [name for key in table for name in key.keys.split(",") if key.group != QUESTION]
    assert len(names) == len(set(names))
    for key in table:
        assert hasattr(screen, f"action_{key.action.partition('(')[0]}"), f"{key.shown} has no action"


def test_what_the_sum_has_not_are_actions() -> None:
    actions = {key.action.partition("(")[0] for key in LIVE}
    assert OF_ONE.keys() <= actions


async def test_names_that_are_all_the_same_are_left_out() -> None:
    async with in_tabs(LARGE, attach=False) as stage:
        assert "1203 w2" in top(stage)
        stage.tabs._places[:] = [
            replace(place, member=replace(place.member, name="shop")) for place in stage.tabs._places
        ]
        assert [tab.name for tab in stage.tabs.line] == [""] * 4


# -- whose turn it is ------------------------------------------------------------------------------------------


async def test_processes_are_attached_to_one_after_the_other() -> None:
    async with in_tabs(attach=False) as stage:
        first = await stage.begun(1201)
        first.attach()
        await stage.until(lambda: stage.tabs.live == 1, "it is attached")
        assert list(stage.fleet.sources) == [1201], "without a census yet"
        assert "0 of 3 counted" in stage.text
        await stage.press("tab", "tab")
        assert "Process 1203 waits for its turn" in stage.text
        await stage.count(1201)
        second = await stage.begun(1203)
        second.attach()
        second.say(Decision(1, "stop", "", 900_000_000, 100_000_000))
        await stage.begun(1207)  # nobody waits for what a person has to decide
        await stage.until(lambda: "1203 w2 ?" in top(stage), "the tab says that it asks")


async def test_one_that_cannot_be_attached_to_says_why_and_is_left_out() -> None:
    fleet = Fleet(refused={1203: PtraceDenied("Process 1203 belongs to lina.", fix="Run heaptop as root.")})
    async with in_tabs(fleet=fleet) as stage:
        await stage.until(lambda: "2 of 3 processes" in stage.text, "it is said")
        await stage.until(lambda: "sum of 2 censuses" in stage.text, "the others are added up")
        assert "1203 w2 ×" in top(stage)
        await stage.press("tab", "tab")
        assert "belongs to lina" in stage.text
        assert "Run heaptop as root." in stage.text
        await stage.press("question_mark")
        assert "1203 is not in the sum: Process 1203 belongs to lina." in stage.text


async def test_a_turn_can_be_given_up() -> None:
    async with in_tabs(attach=False) as stage:
        await stage.begun(1201)
        await stage.press("tab", "escape")
        await stage.until(lambda: "Nothing of heaptop runs in the process" in stage.text, "it says so")
        assert stage.fleet.sources[1201].cancelled
        await stage.begun(1203)


# -- the sum ---------------------------------------------------------------------------------------------------


async def test_the_sum_is_that_of_all_processes() -> None:
    async with in_tabs(attach=False) as stage:
        await unseen(stage, 12)
        await stage.press("shift+tab")
        latest = stage.summed.session.history.latest
        assert latest is not None
        each = [screen.session.history.latest for screen in stage.tabs.screens[1:]]
        assert latest.total.bytes == sum(snapshot.total.bytes for snapshot in each if snapshot is not None)
        await stage.settled()
        check_golden("several-sum-80x24", stage.app)


async def test_names_have_room_beside_the_largest_on_any_width() -> None:
    async with in_tabs((180, 30)) as stage:
        await stage.count(*WORKERS, times=2)
        await stage.press("slash")
        await stage.type("type:Session")
        await stage.press("enter")
        for width in (180, 150, 120, 100, 80):
            await stage.pilot.resize_terminal(width, 30)
            await stage.settled()
            assert "models.Session" in stage.text, width
            assert stage.line("Bytes▼").endswith("Largest in"), width


async def test_the_sum_without_colours_and_in_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_tabs(ascii=True) as stage:
        await stage.count(*WORKERS)
        assert stage.text.isascii()
        assert re.fullmatch(r" all 3( \| 12\d\d w\d [\d.]+ MiB [v^])+", top(stage)), "arrows are letters"
    monkeypatch.setenv("NO_COLOR", "1")
    async with in_tabs(theme=None) as stage:
        await stage.count(*WORKERS, times=6)
        assert any(set("░▒▓") & set(line) for line in stage.lines(5, 13)), "bands that touch differ by their shade"


async def test_the_sum_by_module_and_filtered() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS)
        seen = []
        for _ in range(3):
            seen.append(shown(stage).view.words[0])
            await stage.press("b")
        assert seen == ["Bands by type", "Bands by module", "Bands by generation"]
        await stage.press("slash")
        await stage.type("type:Session")
        await stage.press("enter")
        assert " filtered" in stage.text.splitlines()[3]
        sessions = {
            screen.session.target.pid: sum(
                cell.bytes for cell in screen.session.history.records[-1].cells if cell.type.qualname == "Session"
            )
            for screen in stage.tabs.screens[1:]
        }
        [row] = [line for line in stage.text.splitlines() if "models.Session" in line]
        assert row.split()[-3] == str(max(sessions, key=sessions.__getitem__))
        await stage.press("slash")
        await stage.type(" site:views")
        assert "Only census figures can be summed." in stage.text


async def test_what_is_of_one_process_says_so() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS)
        for view in VIEWS.values():
            if view.NUMBER not in (1, 2):
                await stage.press(str(view.NUMBER % 10))
                assert shown(stage).view.NAME == "bands"
                assert f"view {view.NUMBER} shows one process: press Tab" in stage.text
        for key in LIVE:
            action = key.action.partition("(")[0]
            if action in OF_ONE:
                await stage.press(key.keys.split(",")[0])
                assert f"{OF_ONE[action]}: press Tab" in stage.text
        assert not any(source.sampling for source in stage.fleet.sources.values())
        await stage.press("c")
        sources = stage.fleet.sources.values()
        await stage.until(lambda: [source.census_requests for source in sources] == [1, 1, 1], "each is asked for one")


async def test_tab_leads_to_the_view_that_the_sum_does_not_have() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS)
        await stage.press("4", "tab")
        await stage.until(lambda: shown(stage).view.NAME == "leaks", "view 4 of the first process")
        await stage.press("shift+tab")
        await stage.until(lambda: shown(stage) is stage.summed, "the sum")
        await stage.press("9", "j", "tab")
        await stage.until(lambda: shown(stage).view.NAME == "memory", "view 9 of a tab that was shown before")
        await stage.press("1", "shift+tab")
        await stage.until(lambda: shown(stage) is stage.summed, "the sum")
        await stage.press("4", "b", "tab")
        await stage.until(lambda: shown(stage) is not stage.summed, "the first process")
        assert shown(stage).view.NAME == "bands", "another key came between"


async def test_the_processes_are_a_table_beside_their_sum() -> None:
    async with in_tabs(LARGE) as stage:
        await stage.count(*WORKERS, times=4)
        stage.fleet.sources[1203].end(AgentLost("The agent has exited."))
        await stage.press("2")
        await stage.until(lambda: "AgentLost" in stage.text or "exited" in stage.text, "its end is shown")
        rows = [line.split() for line in stage.text.splitlines() if line.strip().startswith(tuple(map(str, WORKERS)))]
        assert sorted(int(row[0]) for row in rows) == list(WORKERS)
        sizes = [float(row[3]) for row in rows]
        assert sizes == sorted(sizes, reverse=True), "the largest first"
        assert {row[0]: " ".join(row[-3:]) for row in rows}["1203"] == "agent has exited."
        await stage.press("less_than_sign")
        first = next(line for line in stage.text.splitlines() if line.strip().startswith(("1201", "1203", "1207")))
        await stage.press("enter")
        await stage.until(lambda: f"pid {first.split()[0]}" in stage.text, "Enter shows the tab of the row")


async def test_brackets_go_between_the_views_of_the_sum() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS)
        await stage.press("right_square_bracket")
        assert shown(stage).view.NAME == "processes"
        await stage.press("slash", "x")
        assert "Processes cannot be filtered." in stage.text
        await stage.press("escape", "right_square_bracket")
        assert shown(stage).view.NAME == "bands"


async def test_the_sum_can_be_paused() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS, times=2)
        await stage.until(lambda: stage.summed.session.censuses == 3, "all sums are taken in")
        await stage.settled()
        await stage.press("space")
        before = stage.text.splitlines()[4:]
        await stage.count(*WORKERS, times=3)
        await stage.until(lambda: "paused · 3 waiting" in stage.text, "they are counted")
        assert stage.text.splitlines()[4:] == before
        stage.fleet.sources[1203].end(TargetExited("Process 1203 ended."))
        await stage.until(lambda: "2 of 3 processes" in stage.text, "it is said")
        assert stage.text.splitlines()[4:] == before, "what is said of the sum is of the one that is shown"
        await stage.press("space")
        assert "● live" in stage.text
        assert "1203 left at" in stage.text


# -- who comes and goes ----------------------------------------------------------------------------------------


async def test_a_process_that_ends_disturbs_no_other_and_is_said() -> None:
    async with in_tabs(attach=False) as stage:
        await unseen(stage, 3)
        stage.fleet.sources[1203].end(TargetExited("Process 1203 ended at 02:13:00."))
        await stage.until(lambda: "†" in top(stage), "its tab says so")
        await stage.press("shift+tab")
        await stage.until(lambda: "1203 left at" in stage.text, "it is said")
        others = [stage.tabs.screens[at].session.history.records[-1].total.bytes for at in (1, 3)]
        assert stage.summed.session.history.records[-1].total.bytes == sum(others)
        assert "2 of 3 processes" in stage.text
        assert top(stage).count("†") == 1
        assert stage.lines(4)[0].endswith("sum of 2 censuses within 0.0 s · 1203 left at 4 s, with 33.1 MiB")
        await stage.count(1201, 1207)
        assert "1203 left at" in stage.text, "for as long as the sum is there"
        await stage.press("tab", "tab")
        assert "Process 1203 ended at 02:13:00." in stage.text
        assert shown(stage).session.phase is AttachPhase.EXITED


async def test_when_all_have_ended_the_last_sum_stays() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS, times=2)
        for pid in WORKERS:
            stage.fleet.sources[pid].end(TargetExited(f"Process {pid} ended."))
        await stage.until(lambda: "all ended" in stage.text, "it is said")
        await stage.until(lambda: stage.tabs.live == 0, "all have ended")
        assert "dict" in stage.text
        await stage.press("q")
        await stage.until(lambda: not stage.app.is_running, "the app ends")
    assert stage.app.return_value is None


async def test_a_new_process_has_a_tab_and_enter_attaches() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS)
        stage.fleet.come = [1301]
        stage.tabs.apply_changes(stage.fleet.look())
        await stage.until(lambda: "a new process" in stage.text, "it is told")
        await stage.until(lambda: "1301 ○" in top(stage), "it has a tab")
        assert "3 of 4 processes" in stage.text
        assert "without a census yet" not in stage.text
        await stage.press("shift+tab")
        assert "started later" in stage.text
        await stage.press("escape")
        assert 1301 not in stage.fleet.sources
        assert shown(stage).session.phase is AttachPhase.WAITING
        await stage.press("enter")
        (await stage.begun(1301)).attach()
        await stage.count(1301)
        await stage.press("tab")
        await stage.count(*WORKERS, 1301)
        await stage.until(lambda: "1301 joined at" in stage.text, "the rise is said")


async def test_a_new_process_that_ends_unasked_has_no_tab_any_more() -> None:
    async with in_tabs() as stage:
        stage.fleet.come = [1301, 1302]
        stage.tabs.apply_changes(stage.fleet.look())
        await stage.until(lambda: "2 new processes" in stage.text, "they are told")
        stage.fleet.gone = {1301}
        stage.tabs.apply_changes(stage.fleet.look())
        assert [screen.session.target.pid for screen in stage.tabs.screens[1:]] == [*WORKERS, 1302]


# -- tabs ------------------------------------------------------------------------------------------------------


async def test_a_tab_is_a_screen_of_its_own() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS, times=4)
        await stage.press("tab")
        assert "pid 1201" in stage.text
        assert stage.line("Bytes▼").split()[-1] == "Trend", "it is no sum"
        assert stage.lines(-1)[0].startswith(" 0-9 views  Tab process ")
        await stage.press("2")
        assert shown(stage).view.NAME == "producers"
        await stage.press("tab")
        assert "pid 1203" in stage.text
        assert shown(stage).view.NAME == "bands"
        await stage.press("shift+tab")
        assert shown(stage).view.NAME == "producers"
        await stage.press("tab", "tab", "tab")
        assert isinstance(shown(stage), SummedScreen)


async def test_a_tab_that_is_not_shown_goes_on_but_takes_no_graph_censuses() -> None:
    async with in_tabs() as stage:
        await stage.press("tab")
        while not shown(stage).view.words[0].endswith("by retainer"):
            await stage.press("b")
        hidden = shown(stage)
        graph = hidden.state.graph
        await stage.until(lambda: hidden.client.is_busy or hidden.client.is_open or graph.facts.kinds, "it looks")
        await stage.press("tab")
        await stage.count(*WORKERS, times=3)
        assert len(hidden.session.history.records) == 4
        assert not hidden.client.is_open


async def test_a_tab_that_nobody_looks_at_keeps_nothing_for_later() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS, times=5)
        unseen = [screen for screen in stage.tabs.screens if not screen.is_mounted]
        assert len(unseen) == len(WORKERS)
        assert [screen.message_queue_size for screen in unseen] == [0] * len(WORKERS)


async def test_a_click_on_a_tab_shows_it() -> None:
    async with in_tabs(LARGE) as stage:
        at = top(stage).index("1207")
        await stage.pilot.click("TabsLine", offset=(at, 0))
        await stage.until(lambda: "pid 1207" in stage.text, "it is shown")


async def test_what_one_process_asks_stays_with_its_tab() -> None:
    async with in_tabs(LARGE) as stage:
        await stage.press("tab", "V")
        assert f"Show values of process {WORKERS[0]}?" in stage.text
        await stage.press("tab")
        assert "Show values" not in stage.text
        assert shown(stage).session.target.pid == WORKERS[1]
        await stage.press("shift+tab")
        await stage.until(lambda: f"Show values of process {WORKERS[0]}?" in stage.text, "it is asked again")
        await stage.press("y")
        assert shown(stage).client.values
        assert "Show values" not in stage.text


async def test_tab_while_a_filter_is_typed_does_nothing() -> None:
    async with in_tabs() as stage:
        await stage.press("tab", "slash", "tab")
        assert "pid 1201" in stage.text


async def test_help_has_the_keys_and_what_the_marks_mean() -> None:
    async with in_tabs(LARGE) as stage:
        await stage.press("question_mark")
        assert "The sum over all attached processes" in stage.text
        assert "Largest in" in stage.text
        page = stage.summed.help_page
        assert {key.group for key in page.keys} > {"Several processes"}
        assert "† exited" in page.words


# -- the way out -----------------------------------------------------------------------------------------------


async def test_quit_leaves_all_of_them() -> None:
    async with in_tabs() as stage:
        await stage.press("tab", "q")
        await stage.until(lambda: not stage.app.is_running, "the app ends")
        assert all(source.closed for source in stage.fleet.sources.values())
    assert stage.app.return_value is None


async def test_while_heaptop_detaches_no_process_is_shown_as_exited() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS, times=2)
        stage.tabs.begin_leaving()
        for pid in WORKERS:
            stage.fleet.sources[pid].end(None)
        ended = (screen.session for screen in stage.tabs.screens[1:])
        await stage.until(lambda: all(session.phase is AttachPhase.ENDED for session in ended), "all are detached")
        await stage.pilot.pause()
        assert "left at" not in stage.text
        assert "†" not in top(stage)


async def test_quit_gives_up_those_that_wait() -> None:
    async with in_tabs(attach=False) as stage:
        waiting = await stage.begun(1201)
        await stage.press("q")
        await stage.until(lambda: not stage.app.is_running, "the app ends")
        assert waiting.cancelled
        assert list(stage.fleet.sources) == [1201], "no other has begun"
    assert isinstance(stage.app.return_value, AttachCancelled)


async def test_an_agent_that_is_lost_ends_its_tab_only() -> None:
    async with in_tabs() as stage:
        await stage.count(*WORKERS)
        stage.fleet.sources[1201].end(AgentLost("The agent has exited."))
        await stage.until(lambda: "2 of 3 processes" in stage.text, "it is said")
        await stage.count(1203, 1207)
        assert isinstance(stage.app.screen, LiveScreen)
        assert stage.tabs.live == 2


async def test_the_processes_say_over_how_long_they_changed() -> None:
    async with in_tabs(LARGE) as stage:
        await stage.press("2")
        assert "Change ≤" not in stage.line("Process"), "nothing has changed yet"
        await stage.count(*WORKERS, times=4)
        assert "Change 4s" in stage.line("Objects")
        await stage.count(WORKERS[0], times=3)
        assert "Change ≤7s" in stage.line("Objects")
