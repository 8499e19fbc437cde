"""What attach does with several processes: who they are, what is refused, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from heaptop.__main__ import main
from heaptop.errors import HeaptopError, ProcessNotFound, PtraceDenied, TargetExited
from heaptop.injector import processes
from heaptop.injector.processes import PythonProcess, described, family
from heaptop.protocol.source import Ended
from heaptop.tui.screens.several import Several
from tests.support.doors import SEEN, Doors, FakeCheck, FakeDiagnosis, FakeOptions, ScriptedSource
from tests.support.processes import eventually

MASTER = PythonProcess(100, "web", "3.12", 1_000, ("gunicorn: master [shop]",), 1.0)
WORKERS = [PythonProcess(pid, "web", "3.12", 1_000, ("python", "w.py"), 2.0, parent=100) for pid in (101, 102)]
OTHER = PythonProcess(200, "web", "3.12", 1_000, ("python", "x.py"), 2.0)


class Prefork:
    """A server whose processes the commands see, with those that cannot be attached to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there = [MASTER, *WORKERS, OTHER]
        self.refused: dict[int, HeaptopError] = {}
        self.attached: list[tuple[int, FakeOptions]] = []
        self.ended: HeaptopError | None = None
        self.doors = Doors(monkeypatch)
        self.doors.api.__dict__["attach_source"] = self.attach
        monkeypatch.setattr(processes, "python_processes", lambda: self.there)
        monkeypatch.setattr(processes, "_parent", lambda pid: 100 if pid in (101, 102, 103) else 1)

    def attach(self, pid: int, options: FakeOptions) -> ScriptedSource:
        if pid in self.refused:
            raise self.refused[pid]
        self.attached.append((pid, options))
        return ScriptedSource((*SEEN, Ended(self.ended)))

    @property
    def several(self) -> Several:
        found: Any = self.doors.apps[0].options["several"]
        assert isinstance(found, Several)
        return found


@pytest.fixture
def prefork(monkeypatch: pytest.MonkeyPatch) -> Prefork:
    return Prefork(monkeypatch)


def pids(several: Several) -> list[int]:
    return [member.source.target.pid for member in several.members]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [(["100", "--children"], [100, 101, 102]), (["101", "200", "101"], [101, 200]), (["w.py", "100"], None)],
)
def test_who_is_attached_to(
    argv: Sequence[str], expected: list[int] | None, prefork: Prefork, capsys: pytest.CaptureFixture[str]
) -> None:
    if expected is None:
        assert main(["attach", *argv]) == 11
        assert "matches 2 Python processes" in capsys.readouterr().err
        assert prefork.doors.apps == []
        return
    assert main(["attach", *argv]) == 0
    assert pids(prefork.several) == expected
    assert all(member.asked for member in prefork.several.members)


def test_one_process_alone_is_shown_as_ever(prefork: Prefork) -> None:
    assert main(["attach", "200"]) == 0
    assert "several" not in prefork.doors.apps[0].options


def test_the_share_is_that_of_all_together(prefork: Prefork) -> None:
    assert main(["attach", "100", "--children", "--share", "6"]) == 0
    assert {options.max_share for _, options in prefork.attached} == {0.02}


def test_one_that_is_refused_is_told_in_its_tab(prefork: Prefork) -> None:
    prefork.refused = {101: PtraceDenied("It is not yours.")}
    assert main(["attach", "100", "--children"]) == 0
    assert pids(prefork.several) == [100, 101, 102]


def test_where_all_are_refused_the_first_says_why(prefork: Prefork, capsys: pytest.CaptureFixture[str]) -> None:
    prefork.refused = {pid: PtraceDenied(f"{pid} is not yours.") for pid in (100, 101, 102)}
    assert main(["attach", "100", "--children"]) == PtraceDenied.exit_code
    assert "100 is not yours." in capsys.readouterr().err
    assert prefork.doors.apps == []


def test_a_pid_that_is_not_there(prefork: Prefork, capsys: pytest.CaptureFixture[str]) -> None:
    prefork.refused = {999: ProcessNotFound("There is no process 999.")}
    assert main(["attach", "999", "--children"]) == ProcessNotFound.exit_code
    assert "There is no process 999." in capsys.readouterr().err


def test_a_recording_is_of_one_process(prefork: Prefork, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attach", "100", "--children", "--record", "x.heaptop"]) == 2
    assert "A recording has one process" in capsys.readouterr().err


def test_without_a_terminal_nothing_is_shown(
    prefork: Prefork, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("heaptop.cli.terminal.has_terminal", lambda: False)
    assert main(["attach", "100", "--children"]) == 2
    assert "needs a terminal" in capsys.readouterr().err
    assert prefork.doors.apps == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [(["999"], "There is no process 999."), (["100", "--record", "x"], "A recording has one process")],
)
def test_what_is_wrong_with_them_is_said_before_that(
    argv: list[str], said: str, prefork: Prefork, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("heaptop.cli.terminal.has_terminal", lambda: False)
    prefork.refused = {999: ProcessNotFound("There is no process 999.")}
    assert main(["attach", "--children", *argv]) != 0
    assert said in capsys.readouterr().err


def test_those_that_come_later_are_told_once_and_not_asked_for(prefork: Prefork) -> None:
    assert main(["attach", "100", "--children"]) == 0
    look = prefork.several.look
    assert look is not None
    assert list(look().new) == []
    prefork.there = [MASTER, *WORKERS[1:], OTHER, PythonProcess(103, "web", "3.12", 1, ("w",), 9.0, parent=100)]
    family_changes = look()
    assert [(member.source.target.pid, member.asked) for member in family_changes.new] == [(103, False)]
    assert family_changes.alive == {100, 102, 103}
    assert list(look().new) == []


@pytest.mark.parametrize(
    ("counted", "error", "code"),
    [(True, None, 0), (True, TargetExited("Gone."), 0), (False, TargetExited("Gone."), TargetExited.exit_code)],
)
def test_several_end_well_when_one_was_counted(
    counted: bool, error: HeaptopError | None, code: int, prefork: Prefork, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(app: Any) -> HeaptopError | None:
        for member in app.options["several"].members:
            if counted:
                member.source.counted = True
        return error

    monkeypatch.setattr("tests.support.doors.FakeApp.run", run)
    assert main(["attach", "100", "--children"]) == code


def test_the_picker_attaches_to_several_and_asks_the_doctor(prefork: Prefork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "processes_and_refusals", lambda: [(each, None) for each in prefork.there])
    seen: list[Several] = []

    def run(app: Any) -> None:
        picker = app.options["picker"]
        rows = picker.processes()
        assert [(row.pid, row.parent, row.created) for row in rows][:2] == [(100, 0, 1.0), (101, 100, 2.0)]
        seen.append(picker.several(rows[:3]))
        prefork.doors.diagnosis = FakeDiagnosis((FakeCheck("seccomp", False, "a filter", "--allow-seccomp"),))
        assert picker.diagnose(100) == "no  seccomp  a filter\n             --allow-seccomp\n\nheaptop can attach."

    monkeypatch.setattr("tests.support.doors.FakeApp.run", run)
    assert main([]) == 0
    assert pids(seen[0]) == [100, 101, 102]


def test_what_is_not_there_is_described_by_its_pid() -> None:
    [gone] = described([2**22 - 1])
    assert (gone.pid, gone.command) == (2**22 - 1, "")


def test_a_family_is_a_process_and_all_below_it() -> None:
    """By way of a shell, too."""
    code = "import subprocess, sys\nsubprocess.run(['sh', '-c', sys.argv[1]], stdin=0)"
    inner = f"{sys.executable} -c 'input()'; true"
    with subprocess.Popen([sys.executable, "-c", code, inner], stdin=subprocess.PIPE) as process:
        try:
            # Not the fork of the outer one, which will be the shell.
            assert eventually(lambda: [each.argv[-1] for each in family(process.pid)][1:] == ["input()"])
            outer, below = family(process.pid)
            assert (outer.pid, below.parent) == (process.pid, process.pid)
            assert [each.pid for each in family(below.pid)] == [below.pid]
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
