"""The process picker: its list, its filter, and the way into a session and back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from heaptop.analysis.text.picker_list import ListedProcess
from heaptop.errors import HeaptopError, ProcessNotFound, PtraceDenied
from heaptop.protocol.source import ProcessRow
from heaptop.tui.app import make_app
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.screens.picker import Picker, PickerScreen, command_text, matching
from heaptop.tui.screens.several import Several
from heaptop.tui.screens.summed_screen import SummedScreen
from tests.fakes.source import FakeSource
from tests.tui.several import member
from tests.tui.support import SMALL, Stage, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")

ROWS = [
    ProcessRow(977, "root", "3.13.1", 21_000_000, "python3 /usr/bin/dispatcher --run", False, "needs root"),
    ProcessRow(4242, "shop", "3.11.7", 184_000_000, "python -m shop.server --port 8000", True),
    ProcessRow(5120, "shop", "3.12.4", 92_000_000, "python manage.py runserver", True),
    ProcessRow(66, "lina", "", 4_000_000, "python3.7 old.py", False, "Python 3.7"),
]


class Machine:
    """A list of processes that a test changes, and the sources that were made."""

    def __init__(self) -> None:
        self.rows = list(ROWS)
        self.listed = 0
        self.problem: HeaptopError | None = None
        self.sources: list[tuple[int, FakeSource]] = []
        self.joined: list[list[int]] = []
        """Which were to be shown together."""
        self.diagnosis: str | HeaptopError = "no  version  Python 3.7 is too old.\n\nheaptop cannot attach."

    def processes(self) -> list[ProcessRow]:
        self.listed += 1
        if self.problem is not None:
            raise self.problem
        return self.rows

    def connect(self, pid: int) -> FakeSource:
        if pid == 5120:
            raise ProcessNotFound("There is no process 5120.")
        self.sources.append((pid, FakeSource()))
        return self.sources[-1][1]

    def several(self, rows: Sequence[ProcessRow]) -> Several:
        self.joined.append([row.pid for row in rows])
        return Several("shop", [member(row.pid) for row in rows])

    def diagnose(self, pid: int) -> str:
        if isinstance(self.diagnosis, HeaptopError):
            raise self.diagnosis
        return f"of {pid}\n{self.diagnosis}"


@asynccontextmanager
async def picking(
    size: tuple[int, int] = SMALL, rows: Sequence[ProcessRow] = ROWS, *, ascii: bool = False, theme: str | None = "dark"
) -> AsyncIterator[tuple[Stage, Machine]]:
    machine = Machine()
    machine.rows = list(rows)
    picker = Picker(machine.processes, machine.connect, machine.several, machine.diagnose)
    app = make_app(picker=picker, theme=theme, ascii=ascii)
    async with app.run_test(size=size) as pilot:
        stage = Stage(app, FakeSource(), pilot)
        await stage.until(lambda: "4242" in stage.text, "the list is there")
        yield stage, machine


async def test_processes_that_can_be_attached_to_come_first_and_the_largest_of_them() -> None:
    async with picking() as (stage, _):
        assert stage.lines(0)[0].endswith("2 of 4 attachable")
        assert listed(stage) == ["4242", "5120", "977", "66"], "those that can be attached to first, the largest first"
        assert stage.line("4242").split()[1:6] == ["shop", "3.11.7", "175", "MiB", "measuring"]
        assert "measuring  python3 …/dispa… [needs r…" in stage.line(" 977 ")


async def test_help_of_the_picker() -> None:
    async with picking() as (stage, _):
        await stage.press("question_mark")
        assert "─ Processes: what is shown ─" in stage.lines(0)[0]
        assert "│  Enter attach, or show what prevents it" in stage.text
        assert "│ What the figures mean" in stage.text


async def test_filter_as_you_type_and_escape() -> None:
    async with picking() as (stage, _):
        await stage.press("slash")
        await stage.type("shop 3.12")
        assert "5120" in stage.text
        assert "4242" not in stage.text
        await stage.press("enter")
        assert "› shop 3.12" in " ".join(stage.text.split())
        await stage.press("escape")
        assert "4242" in stage.text
        await stage.press("escape")
        assert isinstance(stage.app.screen, PickerScreen), "Esc never quits"


async def test_list_is_read_again_and_the_cursor_stays_on_its_process() -> None:
    async with picking() as (stage, machine):
        await stage.press("j")
        screen = stage.app.screen
        assert isinstance(screen, PickerScreen)
        assert screen.table.row_key == "5120"
        machine.rows = [ProcessRow(1, "root", "3.11.2", 900_000_000, "python big.py", True), *ROWS]
        await stage.press("r")
        await stage.until(lambda: "big.py" in stage.text, "the new process is listed")
        assert screen.table.row_key == "5120"
        listed = machine.listed
        await stage.until(lambda: machine.listed > listed, "the list is read by itself")


async def test_a_list_that_fails_says_so_and_keeps_the_last_one() -> None:
    async with picking() as (stage, machine):
        machine.problem = HeaptopError("The processes cannot be read.")
        await stage.press("r")
        await stage.until(lambda: "cannot be read" in stage.text, "the problem is told")
        assert "4242" in stage.text


async def test_enter_attaches_and_the_way_back_after_a_failure() -> None:
    async with picking() as (stage, machine):
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, LiveScreen), "the live screen is there")
        [(pid, source)] = machine.sources
        assert pid == 4242
        source.end(PtraceDenied("Process 4242 belongs to shop."))
        await stage.until(lambda: "belongs to shop" in stage.text, "the error is shown")
        assert "Esc goes back to the list" in stage.text
        await stage.press("escape")
        assert isinstance(stage.app.screen, PickerScreen)
        await stage.until(lambda: source.closed, "the source is closed")


async def test_escape_gives_up_a_waiting_attach() -> None:
    async with picking() as (stage, machine):
        await stage.press("enter")
        await stage.until(lambda: machine.sources, "a source was made")
        source = machine.sources[0][1]
        source.wait("waiting for the interpreter", 3)
        await stage.press("escape")
        await stage.until(lambda: "Nothing of heaptop runs in the process" in stage.text, "it says so")
        assert source.cancelled
        await stage.press("escape")
        assert isinstance(stage.app.screen, PickerScreen)


async def test_a_process_that_vanished_is_told_in_the_bar() -> None:
    async with picking() as (stage, machine):
        await stage.press("j", "enter")
        assert "There is no process 5120." in stage.text
        assert machine.sources == []
        for rss in (200, 300):
            machine.rows[1] = replace(machine.rows[1], rss=rss << 20)
            await stage.press("r")
            await stage.until(lambda rss=rss: f"{rss} MiB" in stage.text, "the list is made anew")
        assert "There is no process 5120." in stage.text, "until the cursor moves"
        await stage.press("j")
        assert "There is no process" not in stage.text


async def test_what_cannot_be_attached_to_says_why_as_the_doctor_does() -> None:
    async with picking() as (stage, machine):
        await stage.press("G", "enter")
        await stage.until(lambda: "Python 3.7 is too old." in stage.text, "the doctor has looked")
        assert "of 66" in stage.text
        assert "─ heaptop doctor 66 ─" in stage.text
        await stage.press("escape")
        assert isinstance(stage.app.screen, PickerScreen)
        machine.diagnosis = ProcessNotFound("There is no process 66.")
        await stage.press("enter")
        await stage.until(lambda: "There is no process 66." in stage.text, "it says so")
        await stage.press("escape")
        assert machine.sources == []


async def test_a_long_diagnosis_scrolls() -> None:
    async with picking() as (stage, machine):
        machine.diagnosis = "\n".join(f"line {number}" for number in range(60))
        await stage.press("G", "enter")
        await stage.until(lambda: "line 5" in stage.text, "the doctor has looked")
        assert "line 30" not in stage.text
        await stage.press(*["pagedown"] * 6, *["j"] * 6)
        await stage.until(lambda: "line 59" in stage.text, "its end is there")
        await stage.press("pageup", "k")
        await stage.until(lambda: "line 59" not in stage.text, "it went back")


# -- groups and order ----------------------------------------------------------------------------------------

SERVER = [
    ProcessRow(1201, "web", "3.12", 60_000_000, "gunicorn: master [shop]", True),
    ProcessRow(1207, "web", "3.12", 140_000_000, "gunicorn: worker [shop]", True, parent=1201),
    ProcessRow(1203, "web", "3.12", 212_000_000, "gunicorn: worker [shop]", True, parent=1201),
    ProcessRow(1210, "web", "3.7", 9_000_000, "python3.7 report.py", False, "Python 3.7", parent=1203),
]
GROUPED = [*ROWS, *SERVER]


def listed(stage: Stage) -> list[str]:
    """The pids on the screen, from the top."""
    return [line.split()[0] for line in stage.text.splitlines()[2:] if line.split() and line.split()[0].isdecimal()]


async def test_children_stand_under_their_parent() -> None:
    async with picking(SMALL, GROUPED) as (stage, _):
        assert listed(stage) == ["1201", "1203", "1210", "1207", "4242", "5120", "977", "66"]
        check_golden("picker-grouped-80x24", stage.app)


async def test_groups_without_colours_and_in_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    async with picking(SMALL, GROUPED, ascii=True) as (stage, _):
        assert stage.text.isascii()
        assert "  | (2 pids, 211 MiB) gun" in stage.line("1203")
        assert "    ` python3.7 r~ [Python" in stage.line("1210")
    monkeypatch.setenv("NO_COLOR", "1")
    async with picking(SMALL, GROUPED, theme=None) as (stage, _):
        check_golden("picker-grouped-80x24", stage.app)


async def test_sort_keys_and_headings() -> None:
    async with picking(SMALL, GROUPED) as (stage, _):
        await stage.press("i")
        assert listed(stage) == ["5120", "4242", "1201", "1207", "1203", "1210", "66", "977"]
        await stage.press("less_than_sign", "less_than_sign", "less_than_sign")
        assert listed(stage) == ["1201", "1203", "1210", "1207", "4242", "5120", "66", "977"]
        await stage.pilot.click("VirtualTable", offset=(2, 0))
        assert listed(stage)[:3] == ["5120", "4242", "1201"]
        await stage.pilot.click("VirtualTable", offset=(33, 0))
        assert "RSS▼" in stage.text
        await stage.press("greater_than_sign")
        assert "Growth▼" in stage.text


async def test_growth_is_said_once_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr("heaptop.tui.screens.picker.monotonic", lambda: seconds[0])
    async with picking() as (stage, machine):
        assert "measuring  python -m shop.server" in stage.text
        seconds[0] = 30.0
        machine.rows = [replace(ROWS[1], rss=ROWS[1].rss + (6 << 20)), *ROWS[2:]]
        await stage.press("r")
        await stage.until(lambda: "+12.0 MiB/min  python -m shop.server" in stage.text, "the list is read again")
        assert "0/min  python manage.py" in stage.text


async def test_how_many_are_filtered_is_said() -> None:
    async with picking(SMALL, GROUPED) as (stage, _):
        await stage.press("slash")
        await stage.type("gunicorn")
        await stage.press("enter")
        assert "3 of 8, 5 filtered out · 3 attachable" in stage.text


async def test_a_attaches_to_a_process_and_all_below_it() -> None:
    async with picking(SMALL, GROUPED) as (stage, machine):
        await stage.press("a")
        await stage.until(lambda: isinstance(stage.app.screen, SummedScreen), "the sum is shown")
        assert machine.joined == [[1201, 1203, 1207]], "without the one that cannot be attached to"
        assert "all 3" in stage.text


async def test_a_says_where_there_is_nothing_below() -> None:
    async with picking(SMALL, GROUPED) as (stage, machine):
        await stage.press("G", "a")
        assert "66 has no Python processes below it" in stage.text
        assert machine.joined == []


async def test_quit_from_the_picker() -> None:
    async with picking() as (stage, _):
        await stage.press("q")
        await stage.until(lambda: not stage.app.is_running, "the app ends")
    assert stage.app.return_value is None


async def test_no_way_back_without_a_picker() -> None:
    async with on_stage(attach=False) as stage:
        stage.source.end(PtraceDenied("Process 4242 belongs to shop."))
        await stage.until(lambda: "belongs to shop" in stage.text, "the error is shown")
        assert "goes back" not in stage.text
        await stage.press("escape")
        assert stage.app.is_running, "Esc never quits"


def test_matching_wants_every_word() -> None:
    assert [row.pid for row in matching(ROWS, "")] == [977, 4242, 5120, 66]
    assert [row.pid for row in matching(ROWS, "SHOP python")] == [4242, 5120]
    assert [row.pid for row in matching(ROWS, "needs root")] == [977]
    assert matching(ROWS, "shop nothing") == []


@pytest.mark.parametrize("room", [24, 40, 100])
def test_a_reason_stands_behind_the_command_and_never_in_place_of_it(room: int) -> None:
    command, reason = "/usr/bin/python3 -m shop.worker --queue mails", "Another heaptop is there."
    row = ProcessRow(7, "lina", "3.12", 1, command, attachable=False, reason=reason)
    text = command_text(ListedProcess(row, None, 0, last=True, members=(row,)), room)
    assert text.startswith("python3 -m shop")
    assert " [Anoth" in text[:room]
