"""What is said once the screen is gone: how each process was left, to people alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from heaptop.__main__ import main
from heaptop.cli import detach_report
from heaptop.cli.detach_report import DetachOutcome, outcome_lines
from heaptop.errors import AgentLost, HeaptopError, TargetExited
from heaptop.injector.inspect import process
from heaptop.injector.rss import own
from heaptop.protocol.source import Ended
from tests.support.doors import SEEN, TARGET, Doors, ScriptedSource

GONE = Ended(None, gone=True)


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> Doors:
    return Doors(monkeypatch)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[int, int | None]:
    """What stays in a process by its pid."""
    sizes: dict[int, int | None] = {4711: 400 << 10, 4712: 200 << 10}
    monkeypatch.setattr(own, "kept", sizes.get)
    monkeypatch.setattr(process, "rss_bytes", {4711: 40 << 20, 4712: 30 << 20}.get)
    return sizes


def parting(
    ended: Ended | None = GONE, pid: int = 4711, seconds: float = 12.34, rss_before: int | None = None
) -> DetachOutcome:
    return DetachOutcome(replace(TARGET, pid=pid), seconds, ended, rss_before)


def test_a_process_that_was_left_in_order() -> None:
    done, stays = outcome_lines([parting()])
    assert done == (
        "detached from 4711 (shop) after 12.3 s: hooks and descriptors are removed, the agent's thread has ended"
    )
    assert stays.startswith(
        "until 4711 exits, this stays mapped: 400 KiB of heaptop's code and data, which the next attach reuses"
    )


@pytest.mark.parametrize(("size", "lines", "word"), [(0, 2, "code"), (None, 1, "stays")])
def test_what_is_not_there_or_not_known_is_not_said(
    size: int | None, lines: int, word: str, kept: dict[int, int | None]
) -> None:
    kept[4711] = size
    said = outcome_lines([parting()])
    assert len(said) == lines
    assert word not in "".join(said[1:])


def test_what_was_not_removed_is_not_said_to_be() -> None:
    """Another line says what it is."""
    done = outcome_lines([parting(Ended(None, "a hook of another tool", gone=True))])[0]
    assert done == "detached from 4711 (shop) after 12.3 s: the agent's thread has ended"


def test_several_are_summed() -> None:
    done, stays = outcome_lines([parting(), parting(pid=4712, seconds=70.0)])
    assert done.startswith("detached from 2 processes (4711, 4712) after 1m 10s: ")
    assert "600 KiB" in stays
    assert "until they exit" in stays
    many = [parting(pid=pid) for pid in range(1, 10)]
    assert "from 9 processes (1, 2, 3, 4, 5, 6 and 3 more) after" in outcome_lines(many)[0]


def test_how_much_there_was_before_bounds_what_stays() -> None:
    one, other = parting(rss_before=32 << 20), parting(pid=4712, rss_before=30 << 20)
    assert outcome_lines([one])[-1].endswith(
        "; RSS was 32.0 MiB before the attach, and is 40.0 MiB now, including what the program did meanwhile"
    )
    both = outcome_lines([one, other])[-1]
    assert "; RSS was 62.0 MiB before the attach, and is 70.0 MiB now, including what the programs" in both
    assert "RSS" not in outcome_lines([one, parting(pid=4712)])[-1], "of one it is not known"


@pytest.mark.parametrize("ended", [None, Ended(None)], ids=["it still goes on", "no goodbye"])
def test_a_detach_that_was_not_seen_is_not_claimed(ended: Ended | None) -> None:
    (said,) = outcome_lines([parting(ended)])
    assert said.startswith("no answer from 4711 (shop): it is unknown whether everything was removed.")
    assert "`heaptop detach 4711`" in said


def test_a_process_that_has_ended() -> None:
    (said,) = outcome_lines([parting(Ended(TargetExited("Process 4711 ended at 13:05:02.")))])
    assert said == "Process 4711 ended at 13:05:02, 12.3 s after the attach"
    assert outcome_lines([parting(Ended(TargetExited("It ended.", status=3)))]) == [], "`run` says so"


@pytest.mark.parametrize("error", [AgentLost("The agent has exited."), HeaptopError("A bug.")])
def test_a_failure_is_told_once(error: HeaptopError) -> None:
    """By the command that ends with it; of several, that ends well if one was seen."""
    assert outcome_lines([parting(Ended(error))]) == []
    assert outcome_lines([parting(), parting(Ended(error), 4712)])[-1] == f"4712 (shop): {error.message}"


def test_a_program_of_ones_own_is_no_place_where_anything_stays() -> None:
    (said,) = outcome_lines([parting()], "it was a sample")
    assert said.endswith("the agent's thread has ended; it was a sample")


@pytest.mark.parametrize("read", [True, False], ids=["a person reads", "stdout is a file"])
@pytest.mark.parametrize("command", [["attach", "4711"], ["run", "prog.py"]], ids=" ".join)
def test_only_a_person_is_told(
    *,
    command: list[str],
    read: bool,
    doors: Doors,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(detach_report, "has_reader", lambda: read)
    doors.source = ScriptedSource((*SEEN, GONE))
    assert main(command) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("detached from 4711 (shop) after") == read


def test_what_was_never_entered_was_not_left(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(detach_report, "has_reader", lambda: True)
    doors.source = ScriptedSource((Ended(None),))
    assert main(["attach", "4711"]) == 0
    assert capsys.readouterr().err == ""


def test_output_that_a_program_reads() -> None:
    """pytest's own is none of a terminal."""
    assert not detach_report.has_reader()
