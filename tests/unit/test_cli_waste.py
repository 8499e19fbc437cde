"""``heaptop waste``: what it prints, what it refuses, and that it leaves in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from heaptop.__main__ import main
from heaptop.cli import terminal
from heaptop.errors import (
    AgentLost,
    ImageLost,
    ImageRefused,
    PauseTooLong,
    TargetExited,
    UnresponsiveTarget,
    UsageError,
)
from heaptop.protocol.images import FIRST_ID, WASTE, Question
from heaptop.protocol.messages import Core, Failure, TypeName
from heaptop.protocol.source import HeapFile
from heaptop.watching import snapshot_watch
from tests.fakes.graph import Planted, PlantedHeap, Reference, Root
from tests.unit.test_cli_why import Frozen as FrozenOnly
from tests.unit.test_cli_why import (
    FrozenDoors,
    Said,
    Telling,
    complaint,
    dies,
    document,
    goes,
    long_pause,
    no_answer,
    refused,
    slices,
)

COMMAND = ["waste", "4711"]


class Frozen(FrozenOnly):
    """It measures its memory as soon as it is asked."""

    def memory_now(self) -> None:
        super().memory_now()
        self.tick()


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> FrozenDoors:
    found = FrozenDoors(monkeypatch)
    found.make = Frozen
    return found


def printed(arguments: list[str], capsys: Said) -> list[str]:
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out.splitlines()


def table(lines: list[str]) -> list[str]:
    """The rows."""
    head = next(n for n, line in enumerate(lines) if line.split() == ["SAVES", "OBJECTS", "WHAT", "TYPE", "HELD", "BY"])
    return lines[head + 1 : lines.index("", head)]


# -- what it prints -------------------------------------------------------------------------------------------


def test_the_document_of_waste_has_all_rows_and_their_sums(doors: FrozenDoors, capsys: Said) -> None:
    found = document(COMMAND, capsys)
    assert (found["pid"], found["complete"], found["where"]) == (doors.source.target.pid, True, "")
    rows, sorts = found["rows"], found["sorts"]
    assert found["shown"] == found["of"] == len(rows)
    assert found["other_rows"] == 0
    assert {row["sort"] for row in rows} == {each["sort"] for each in sorts} >= {"duplicate", "equal", "slots"}
    assert found["total"] == sum(row["own"] for row in rows) == sum(each["own"] for each in sorts)
    assert found["sum"] == sum(row["bytes"] for row in rows) >= found["total"]
    assert [row["bytes"] for row in rows] == sorted((row["bytes"] for row in rows), reverse=True)
    assert found["estimated"] is True
    (customers,) = [row for row in rows if row["type"] == "shop.models.Customer"]
    assert (customers["sort"], customers["holder"], customers["detail"]) == ("slots", "module shop.models", 2)
    assert "its 2 names" in customers["advice"]
    assert customers["path"][-1] == "shop.models.Customer"
    assert int(customers["example"], 16) > 0
    assert found["pause_ms"] > 0


def test_one_snapshot_is_made_and_asked_once(doors: FrozenDoors, capsys: Said) -> None:
    document(COMMAND, capsys)
    (kind, pid, options), source = doors.calls[0], doors.source
    assert (kind, pid, options.sample_interval, source.keeps) == ("attach", 4711, 0, [300.0])
    assert options.interval > 3_600, "one census and no more"
    assert [question.what for question in source.agent.images.asked] == [WASTE]
    assert source.closed


def test_the_text_of_waste_says_each_sentence_once(doors: FrozenDoors, capsys: Said) -> None:
    lines, found = printed(COMMAND, capsys), document(COMMAND, capsys)
    total = r"could be saved: ≈\S+ \w+ of \S+ \w+, each byte once( \(≈.* over all rows\))?(; free in arenas ≈.*)?"
    assert re.fullmatch(total, lines[0])
    rows = table(lines)
    assert len(rows) == min(found["of"], 20)
    for row, told in zip(rows, found["rows"], strict=False):
        assert row.strip().startswith("≈") is told["estimated"]
        assert row.endswith(f"{told['type'] or '-'}  {told['holder'] or '-'}") or told["holder"] in row
    assert any(line.startswith("duplicates: Keep one of each") for line in lines)
    assert len(lines) == len({*lines}) + lines.count("") - 1, "each sentence once"
    assert any(line.startswith("by kind of waste: ") for line in lines)
    assert "paused for" in lines[-1] or "paused for" in lines[-2]


def test_rows_beyond_the_limit_are_counted_and_in_the_total(doors: FrozenDoors, capsys: Said) -> None:
    found, short = document(COMMAND, capsys), document([*COMMAND, "--top", "2"], capsys)
    assert (len(short["rows"]), short["shown"], short["of"]) == (2, 2, found["of"])
    assert (short["total"], short["sorts"]) == (found["total"], found["sorts"])
    lines = printed([*COMMAND, "--top", "2"], capsys)
    assert len(table(lines)) == 2
    assert f"({found['of'] - 2} more rows; --top N shows more)" in lines
    assert not any("more row" in line for line in printed([*COMMAND, "--top", "0"], capsys))


def test_waste_is_counted_of_the_objects_asked_for(doors: FrozenDoors, capsys: Said) -> None:
    found = document([*COMMAND, "--where", "type:str"], capsys)
    assert found["where"] == "type:str"
    assert {row["type"] for row in found["rows"]} == {"str"}
    (question,) = doors.source.agent.images.asked
    assert len(question.selection.types) == 1
    assert "only type:str" in printed([*COMMAND, "--where", "type:str"], capsys)


def test_nothing_to_save_is_no_error(doors: FrozenDoors, capsys: Said) -> None:
    heap = PlantedHeap((Planted(0x100, TypeName("builtins", "module"), 72),), (Root("module", "module app", 0x100),))
    doors.make = lambda: Frozen(lambda _: heap)
    command = [*COMMAND, "--where", "type:module"]
    found = document(command, capsys)
    assert (found["total"], found["rows"], found["sorts"]) == (0, [], [])
    lines = printed(command, capsys)
    assert lines[0] == "could be saved: 0 B of 72 B, each byte once"
    assert not any("SAVES" in line or "by kind of waste" in line for line in lines)


def test_names_of_the_target_do_not_reach_the_terminal_as_they_are(doors: FrozenDoors, capsys: Said) -> None:
    evil = TypeName("app\x1b]52;c;QQ==\x07", "Row\x1b[2J\n")
    module = Planted(0x100, TypeName("builtins", "module"), 72, (Reference(".rows\x1b[2J", 0x200),))
    row = Planted(0x200, evil, 48, wastes=(("slots", 16, 2), ("spare", 8, 1)))
    heap = PlantedHeap((module, row), (Root("module", "module app\x9b2J", 0x100),))
    doors.make = lambda: Frozen(lambda _: heap)
    for arguments in (COMMAND, [*COMMAND, "--json"]):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert "Row" in out
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)


# -- what goes wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--mode", "python"], "--mode python cannot take"),
        (["--mode", "stop"], "--mode stop cannot take"),
        (["--where", "generation:2"], "Rows of waste have no generation."),
        (["--where", "retainer:shop"], "Rows of waste have no retainer."),
    ],
)
def test_a_wrong_command_line_touches_nothing(options: list[str], says: str, doors: FrozenDoors, capsys: Said) -> None:
    code, text = complaint([*COMMAND, *options], capsys)
    assert code == UsageError.exit_code
    assert says in text
    assert doors.calls == []


def test_a_type_that_the_heap_has_not(doors: FrozenDoors, capsys: Said) -> None:
    code, text = complaint([*COMMAND, "--where", "type:Nobody"], capsys)
    assert code == UsageError.exit_code
    assert "No type in the heap matches type:Nobody." in text
    assert doors.source.closed


@pytest.mark.parametrize(
    ("fate", "error", "says"),
    [
        (slices, ImageRefused, "could be made: heaptop has no native core for this machine."),
        (refused, ImageRefused, "could be made: it would take more memory than it may."),
        (long_pause, PauseTooLong, "`heaptop waste 4711 --pause-budget 619`"),
        (no_answer, ImageLost, "could not answer: no memory."),
        (goes, ImageLost, "was lost: its time was over."),
        (dies, TargetExited, "Process 4711 ended."),
    ],
)
def test_no_answer_is_an_error_that_says_why(
    fate: Callable[[Frozen], None], error: Any, says: str, doors: FrozenDoors, capsys: Said
) -> None:
    source = Frozen()
    doors.make = lambda: source
    fate(source)
    code, text = complaint(COMMAND, capsys)
    assert code == error.exit_code
    assert says in text
    assert source.closed


@pytest.mark.parametrize(
    ("message", "error", "says"),
    [
        (Core(3, "b", False, False, "libpython is not the one it says it is"), ImageRefused, "libpython is not"),
        (Failure(3, "out of memory in the target"), AgentLost, "Try again: `heaptop waste 4711`."),
    ],
)
def test_it_does_not_wait_for_a_count_that_cannot_help(
    message: Core | Failure, error: Any, says: str, doors: FrozenDoors, capsys: Said
) -> None:
    doors.make = lambda: Telling(message)
    code, text = complaint(COMMAND, capsys)
    assert code == error.exit_code
    assert says in text


class Silent(Frozen):
    """Never answers a question."""

    def ask(self, image: int, question: Question) -> int:
        return FIRST_ID + 1


def test_an_agent_that_does_not_answer_ends_the_command_in_time(doors: FrozenDoors, capsys: Said) -> None:
    doors.make = Silent
    code, text = complaint([*COMMAND, "--timeout", "0.2"], capsys)
    assert code == UnresponsiveTarget.exit_code
    assert "--timeout" in text
    assert doors.source.closed


class Unmeasured(Frozen):
    """Answers all but what memory is used for."""

    def memory_now(self) -> None:
        self.say(Failure(9, "mallinfo2 was not found"))


def test_waste_is_printed_where_the_allocators_report_nothing(
    doors: FrozenDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_watch, "MEMORY_SECONDS", 0.1)
    doors.make = Unmeasured
    found = document(COMMAND, capsys)
    assert found["total"] > 0
    assert "Arenas: their free memory is unknown." in found["notes"]
    assert doors.source.closed


class OfACopy(FrozenOnly):
    """A copy of a process, in which the allocators' own figures are not."""

    def __init__(self) -> None:
        super().__init__()
        self._target = replace(self._target, file=HeapFile("copy", "sizes", redacted=False, opaque=0))

    def memory_now(self) -> None:
        pass


def test_memory_use_that_a_file_does_not_have_is_not_waited_for(
    doors: FrozenDoors, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    waited: list[str] = []
    monkeypatch.setattr(terminal.ProgressLine, "show", lambda line, text: waited.append(text))
    monkeypatch.setattr(snapshot_watch, "MEMORY_SECONDS", 0.1)
    doors.make = OfACopy
    assert document(COMMAND, capsys)["rows"]
    assert not [text for text in waited if "memory use" in text]



def test_control_c_detaches(doors: FrozenDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Frozen()
    doors.make = lambda: source
    source.agent.images.progress, source.agent.images.hold = 2, True

    def show(self: object, text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal.ProgressLine, "show", show)
    assert main(COMMAND) == 130
    assert source.closed
    assert capsys.readouterr().out == ""
