"""What the pytest plugin and the IPython extension write, how the helper process is let in, and how it ends."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import heaptop
from heaptop import api
from heaptop.analysis.leaks.hunting import AT_LEAST
from heaptop.errors import HeaptopError, UsageError
from heaptop.inside import client, helper, notebook
from heaptop.inside.client import Found, Helper, HelperFailed, LeftObjects, allow_tracer
from heaptop.inside.notebook import HeapMagics, Left
from heaptop.inside.report import HeapReport
from heaptop.inside.rounds import RoundsPlan, failure, notice
from heaptop.protocol.findings import UNREACHED
from tests.support.processes import eventually

SESSIONS = LeftObjects(
    "leak",
    "app.Session",
    50,
    500_000,
    "app/views.py:88 create_session",
    "all held by module app.cache → ._sessions (dict)",
    (10, 20, 30, 40, 50, 60),
    "it grew in every interval",
)
HELD = "all held by module app → .cache (dict)"
FILLING = LeftObjects("unclear", "app.Entry", 500, 900_000, "", HELD, (-1,) * 6, "it fills")


def found(*places: LeftObjects) -> Found:
    return Found(550, 1_400_000, places)


def test_what_stays_in_each_round_is_compared_with_the_limit() -> None:
    assert failure(found(SESSIONS, FILLING), RoundsPlan.of(limit=100_000)) == ""
    assert failure(found(SESSIONS, FILLING), RoundsPlan.of(limit="99 kB")) == (
        "each of 5 rounds left ≥97.7 KiB behind; the limit is 96.7 KiB a round\n"
        "  1. app.Session: ≥10 objects, ≥97.7 KiB a round including everything new there\n"
        "     allocated at app/views.py:88 create_session\n"
        "     all held by module app.cache → ._sessions (dict)\n"
        "     it grew in every interval; at each check: 10, 20, 30, 40, 50, 60"
    )


def test_a_line_that_only_allocated_what_is_new_with_the_objects_is_only_near() -> None:
    near = replace(SESSIONS, site_is_own=False)
    assert "allocated near app/views.py:88 create_session (indirect samples)" in failure(found(near), RoundsPlan.of())
    assert repr(Left(found(near))).endswith("near app/views.py:88 create_session")


def test_what_is_not_proven_is_listed_and_fails_nothing() -> None:
    assert failure(found(FILLING), RoundsPlan.of(limit=0)) == ""
    assert "app.Entry" in notice(found(FILLING), RoundsPlan.of(limit=100_000))
    assert "at each check: ?, ?" in notice(found(FILLING), RoundsPlan.of(limit=100_000))
    assert notice(found(FILLING), RoundsPlan.of(limit=200_000)) == ""


@pytest.mark.parametrize("wrong", [{"rounds": 2}, {"rounds": "5"}, {"warmup": 0}, {"limit": "64 apples"}])
def test_a_marker_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RoundsPlan.of(**wrong)


def left(size: int, **others: Any) -> dict[str, Any]:
    return {"count": 10, "bytes": size, "type": "", "type_bytes": 0, "seconds": 0.1, "pause": 0.002, **others}


def test_the_report_has_the_largest_first_and_the_sum_of_the_others() -> None:
    report = HeapReport()
    for number in range(25):
        report.add(f"test_{number}", left(1024 * number))
    report.add("test_\x1b[31m", left(1 << 20, type="app.Session", type_bytes=1 << 19))
    report.add("test_lost", {"refusal": "it was killed"})
    lines = list(report.lines())
    assert lines[0] == "1 test not counted: it was killed"
    assert lines[2].split() == ["+1.00", "MiB", "+10", "app.Session", "+512", "KiB", "test_", "[31m"]
    assert lines[3].split() == ["+24.0", "KiB", "+10", "test_24"]
    assert lines[22].split() == ["+15.0", "KiB", "+60", "6", "other", "tests"]
    assert lines[23] == "half of all tests left 12.5 KiB or less: pytest keeps its report of each test"
    assert lines[24] == (
        "counted 26 times in 2.6 s: 100 ms a test, with a full collection; longest pause of a census 2 ms"
    )


def test_a_report_of_nothing_says_so() -> None:
    assert list(HeapReport().lines()) == ["nothing was counted"]


def test_a_table_has_what_is_large_and_no_markup_of_the_programs_own() -> None:
    evil = LeftObjects("unclear", "<b>", 1, 2048, "<ipython-input-3-4fcea4c9956c>:2 <module>", "held by <x>", (), "")
    small = LeftObjects("unclear", "small", 1, 900, "", "", (), "")
    table = Left(found(SESSIONS, evil, small))
    assert repr(table).splitlines()[1:] == [
        "type         count      bytes  held by                               allocated at",
        "app.Session    ≥50   ≥488 KiB  module app.cache → ._sessions (dict)  app/views.py:88 create_session",
        "<b>             ≥1  ≥2.00 KiB  <x>                                   In [3], line 2",
    ]
    assert repr(Left(found(evil), number=3)).endswith("this cell, line 2")
    page = table._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "small" not in page


@pytest.mark.parametrize(("scope", "allowed"), [("1\n", True), ("0\n", False), ("2\n", False), ("", False)])
def test_exactly_the_helper_may_trace_where_yama_asks_for_it(tmp_path: Path, scope: str, allowed: bool) -> None:
    calls: list[tuple[int, int]] = []

    def prctl(option: int, pid: ctypes.c_ulong, *_: int) -> int:
        calls.append((option, pid.value))
        return 0

    file = tmp_path / "ptrace_scope"
    file.write_text(scope)
    assert allow_tracer(os.getpid(), file, prctl) is allowed
    assert allow_tracer(0, file, prctl) is allowed
    assert calls == ([(0x59616D61, os.getpid()), (0x59616D61, 0)] if allowed else [])
    assert not allow_tracer(1, tmp_path / "missing", prctl)


def census(size: int, *, estimated: bool = False, cut: str = "") -> api.CensusTable:
    rows = (api.CensusRow("app.Session", size // 100, size, 0, 0),)
    mode = "python" if estimated else "clone"
    return api.CensusTable(0, mode, estimated, not cut, cut, 0.002, 0.1, size // 100, size, "type", "", rows)


def counting(monkeypatch: pytest.MonkeyPatch, *tables: api.CensusTable) -> helper.Commands:
    """The helper's commands, attached to a process whose censuses are these."""
    process = SimpleNamespace(census=iter(tables).__next__)
    monkeypatch.setattr(api, "attach", lambda *_, **__: contextlib.nullcontext(process))
    commands = helper.Commands(4711, contextlib.ExitStack())
    commands.attach()
    return commands


def test_a_census_is_compared_with_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = counting(monkeypatch, census(1000), census(3000))
    assert commands.count()["bytes"] == 0
    assert commands.count() == {"count": 20, "bytes": 2000, "type": "app.Session", "type_bytes": 2000, "pause": 0.002}


@pytest.mark.parametrize(
    ("doubtful", "reason"),
    [
        (census(3000, estimated=True), "The census is estimated"),
        (census(3000, cut="some rows are missing"), "The census is partial: some rows are missing"),
    ],
)
def test_a_census_that_is_estimated_or_partial_is_no_figure_of_a_test(
    monkeypatch: pytest.MonkeyPatch, doubtful: api.CensusTable, reason: str
) -> None:
    commands = counting(monkeypatch, census(1000), doubtful)
    commands.count()
    with pytest.raises(HeaptopError, match=reason):
        commands.count()


def test_what_a_hunt_could_not_look_at_is_passed_on() -> None:
    findings = api.Findings(0, (), "unclear", 5, 500, (), (), (), (AT_LEAST, "one thing was not checked"))
    answer = json.loads(json.dumps(helper._found(findings)))
    assert client._found(answer) == Found(5, 500, (), ("one thing was not checked",)), "≥ says the other"


def test_what_could_not_be_looked_at_is_written_below_what_was_found() -> None:
    doubtful = Found(550, 1_400_000, (SESSIONS,), ("one thing was not checked",))
    plan = RoundsPlan.of(limit=0)
    assert failure(doubtful, plan).splitlines()[-1] == "  note: one thing was not checked"
    assert notice(doubtful, plan) == "  note: one thing was not checked", "what passes may be what was not checked"
    assert repr(Left(doubtful)).splitlines()[-1] == "note: one thing was not checked"
    assert "<p>note: one thing was not checked</p>" in Left(doubtful)._repr_html_()


def test_what_is_estimated_of_memory_that_nothing_leads_to_is_marked_so() -> None:
    blocks = LeftObjects("unclear", UNREACHED, 3, 4096, "", "", (), "")
    assert "≈3  ≈4.00 KiB" in repr(Left(found(blocks)))


class Shell:
    """Runs the cell that a magic gives it, as IPython does: with what is called before and after each cell."""

    execution_count = 1

    def __init__(self) -> None:
        self.magics = HeapMagics(self)
        self.attached_after: list[bool] = []
        self.within: list[bool] = []

    def run_cell(self, text: str) -> None:
        self.magics.before_cell(SimpleNamespace(raw_cell=text))
        if text.startswith("%%heap\n"):
            self.magics.heap("", text.partition("\n")[2])
        self.within.append(FakeHelper.open > 0)
        self.magics.after_cell(None)
        self.attached_after.append(FakeHelper.open > 0)


class FakeHelper:
    open = 0

    def __init__(self) -> None:
        type(self).open += 1

    def attach(self) -> None: ...

    def begin(self, *, names: bool) -> None: ...

    def check(self, *, last: bool = False) -> Found | None:
        return found(SESSIONS) if last else None

    def close(self) -> None:
        type(self).open -= 1


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setattr(FakeHelper, "open", 0)
    monkeypatch.setattr(notebook, "Helper", FakeHelper)
    monkeypatch.setattr(notebook, "display", print)
    return Shell()


def test_a_cell_that_fails_above_the_magic_leaves_no_helper_attached(shell: Shell) -> None:
    shell.run_cell("1 / 0\n%heap")
    shell.run_cell("third = 3")
    assert shell.within == [True, False]
    assert shell.attached_after == [False, False]


def test_the_helper_stays_until_a_cell_within_the_magic_is_shown(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("%%heap\nfourth = 4")
    assert shell.attached_after == [True, False], "after the cell within, and after the cell itself"
    assert "app.Session" in capsys.readouterr().out


PIPE_SIGNAL = """
import os, signal
from heaptop.inside import client

client._LAUNCHER = "raise SystemExit#{path}{pid}"
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
helper = client.Helper()
os.waitid(os.P_PID, helper.pid, os.WEXITED | os.WNOWAIT)
try:
    helper.count()
except client.HelperFailed as error:
    print(error, flush=True)
"""
FORKED = """
import os, sys
from heaptop.inside import client

client.END = 100
helper = client.Helper()
if not os.fork():
    sys.stdin.read()
    os._exit(0)
helper.close()
print(helper._process.returncode, flush=True)
"""
ORPHANED = """
import os, sys
from heaptop.inside import client

client._LAUNCHER = {before!r} + client._LAUNCHER
helper = client.Helper()
helper.end()  # it serves, and waits for the next command
if not os.fork():
    sys.stdin.read()
    os._exit(0)
print(helper.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def running(script: str) -> subprocess.Popen[str]:
    """A program that has the helper, of which a forked child stays until its standard input ends."""
    environment = {"PATH": "/usr/bin", "PYTHONPATH": str(Path(heaptop.__file__).parents[1])}
    command = [sys.executable, "-c", script]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def test_a_helper_that_has_died_ends_no_program_by_sigpipe() -> None:
    with running(PIPE_SIGNAL) as program:
        said, _ = program.communicate()
    assert "helper process was lost" in said
    assert program.returncode == 0


def test_the_helper_exits_although_a_forked_process_lives() -> None:
    with running(FORKED) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "0\n", "it was not killed"


@pytest.mark.parametrize("before", ["", "import os; vars(os).pop('pidfd_open', None)\n"])
def test_the_helper_exits_with_its_parent_although_a_forked_process_lives(before: str) -> None:
    with running(ORPHANED.replace("{before!r}", repr(before))) as program:
        assert program.stdout is not None
        helper = int(program.stdout.readline())
        assert program.wait() == -9
        assert eventually(lambda: not is_running(helper))


def is_running(pid: int) -> bool:
    """Whether it is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_neither_end_stays_open_where_the_helper_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(sys, "executable", "/missing")
    with pytest.raises(HelperFailed, match="does not start"):
        Helper()
    assert os.listdir("/proc/self/fd") == before
