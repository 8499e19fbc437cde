"""The process picker: its list, its filter, and the way into a session and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from heaptop.errors import HeaptopError, ProcessNotFound, PtraceDenied
from heaptop.protocol.source import ProcessRow
from heaptop.protocol.testing import FakeSource
from heaptop.tui.app import make_app
from heaptop.tui.live import LiveScreen
from heaptop.tui.picker import Picker, PickerScreen, matching
from tests.tui.support import SIZES, SMALL, Stage, check_golden, on_stage

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


@asynccontextmanager
async def picking(size: tuple[int, int] = SMALL) -> AsyncIterator[tuple[Stage, Machine]]:
    machine = Machine()
    app = make_app(picker=Picker(machine.processes, machine.connect), theme="dark")
    async with app.run_test(size=size) as pilot:
        stage = Stage(app, FakeSource(), pilot)
        await stage.until(lambda: "4242" in stage.text, "the list is there")
        yield stage, machine


@pytest.mark.parametrize("size", SIZES)
async def test_list(size: tuple[int, int]) -> None:
    async with picking(size) as (stage, _):
        check_golden(f"picker-{size[0]}x{size[1]}", stage.app)


async def test_help_of_the_picker() -> None:
    async with picking() as (stage, _):
        await stage.press("question_mark")
        check_golden("picker-help-80x24", stage.app)


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
        await stage.until(lambda: "You cancelled it" in stage.text, "it says that it was cancelled")
        assert source.cancelled
        await stage.press("escape")
        assert isinstance(stage.app.screen, PickerScreen)


async def test_unattachable_and_vanished_processes_are_told_in_the_bar() -> None:
    async with picking() as (stage, machine):
        await stage.press("G", "enter")
        assert "66 cannot be attached to: Python 3.7" in stage.text
        await stage.press("g", "g", "j", "enter")
        assert "There is no process 5120." in stage.text
        assert machine.sources == []
        await stage.press("j")
        assert "There is no process" not in stage.text


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


def test_matching_wants_every_word_and_sorts_what_can_be_attached_to_first() -> None:
    assert [row.pid for row in matching(ROWS, "")] == [4242, 5120, 977, 66]
    assert [row.pid for row in matching(ROWS, "SHOP python")] == [4242, 5120]
    assert [row.pid for row in matching(ROWS, "needs root")] == [977]
    assert matching(ROWS, "shop nothing") == []
