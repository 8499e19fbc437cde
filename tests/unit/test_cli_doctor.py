"""``heaptop doctor`` and ``heaptop detach``: what is printed, where, and the exit code."""

from __future__ import annotations

import json

import pytest

from heaptop.__main__ import main
from heaptop.errors import PtraceDenied
from tests.support.doors import Doors, FakeCheck, FakeDiagnosis

CHECKS = (
    FakeCheck("kernel", True, "6.1"),
    FakeCheck("ptrace_scope", None, "1: only children", "sudo sysctl kernel.yama.ptrace_scope=0"),
    FakeCheck("tracer", False, "gdb", "kill 12"),
)


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> Doors:
    return Doors(monkeypatch)


def test_every_check_is_a_line_in_words(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.diagnosis = FakeDiagnosis(CHECKS, PtraceDenied("Not you."))
    assert main(["doctor", "12"]) == PtraceDenied.exit_code
    said = capsys.readouterr()
    assert said.err == ""
    lines = [line.split(maxsplit=2) for line in said.out.splitlines()]
    assert lines[:5] == [
        ["ok", "kernel", "6.1"],
        ["?", "ptrace_scope", "1: only children"],
        ["sudo", "sysctl", "kernel.yama.ptrace_scope=0"],
        ["no", "tracer", "gdb"],
        ["kill", "12"],
    ]
    assert "heaptop cannot attach." in said.out
    assert PtraceDenied("Not you.").help_text in said.out


def test_where_all_is_well_the_doctor_says_that_heaptop_can_attach(
    doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    doors.diagnosis = FakeDiagnosis(CHECKS[:1])
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("\nheaptop can attach.\n")


def test_json_is_one_document(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.diagnosis = FakeDiagnosis(CHECKS, PtraceDenied("Not you."))
    assert main(["doctor", "12", "--json"]) == PtraceDenied.exit_code
    said = capsys.readouterr()
    assert json.loads(said.out) == {"attachable": False}
    assert said.err == ""


def test_detach_says_what_was_done(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.api.__dict__["remove_agent"] = lambda pid: f"The agent in process {pid} has gone."
    assert main(["detach", "12"]) == 0
    assert capsys.readouterr() == ("", "heaptop: The agent in process 12 has gone.\n")
