"""``heaptop census``: what it prints, and that it leaves in order however it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heaptop.__main__ import main
from heaptop.dumps.format import MAGIC
from heaptop.errors import (
    AgentLost,
    InterpreterBusy,
    NotADump,
    PauseTooLong,
    ProtocolError,
    SamplerRefused,
    TargetExited,
)
from heaptop.protocol.messages import CodeName, Decision, Failure, Pauses, Row
from heaptop.protocol.source import Behind, Deliver, Ended, Forecast, Received, Waiting, never_behind
from tests.fakes import source as fake_source
from tests.fakes.source import FakeSource
from tests.support.doors import ATTACHED, SEEN, TYPES, Doors, ScriptedSource, census


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> Doors:
    return Doors(monkeypatch)


def counted(**changes: Any) -> ScriptedSource:
    return ScriptedSource((Waiting("looking for symbols", 0.1), ATTACHED, Received(TYPES), Received(census(**changes))))


def test_a_file_that_is_called_as_the_process_is_not_meant(
    doors: Doors, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a folder that others can write to, one may have been put there."""
    monkeypatch.chdir(tmp_path)
    Path("4711").write_bytes(MAGIC)
    doors.source = counted()
    assert main(["census", "4711", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pid"] == 4711
    assert main(["census", "./4711", "--json"]) == NotADump.exit_code


def test_the_document_of_a_census_is_all_that_is_printed(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = counted()
    assert main(["census", "4711", "--json", "--wait", "3"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    document = json.loads(said.out)
    assert {key: document[key] for key in ("pid", "python", "mode", "complete", "pause_ms", "duration_ms")} == {
        "pid": 4711,
        "python": "3.12.1",
        "mode": "python",
        "complete": True,
        "pause_ms": 3.0,
        "duration_ms": 50.0,
    }
    assert document["total"] == {"count": 100, "bytes": 10_000, "hidden_bytes": None}
    assert document["filtered"] == {"rows": 0, "count": 0, "bytes": 0}
    assert {row["hidden_bytes"] for row in document["rows"]} == {None}
    assert [(row["name"], row["count"], row["bytes"]) for row in document["rows"]] == [
        ("dict", 30, 6_000),
        ("str", 60, 3_000),
        ("shop.models.Session", 10, 1_000),
    ]
    kind, pid, options = doors.calls[0]
    assert (kind, pid, options.wait) == ("attach", 4711, 3.0)
    assert doors.source.asked == ["open", "close"]


@pytest.mark.parametrize(
    ("by", "names"),
    [("module", ["builtins", "shop.models"]), ("generation", ["gen 2", "untracked", "gen 0"])],
)
def test_a_census_is_grouped_by_the_attribute_asked_for(
    by: str, names: list[str], doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    doors.source = counted()
    assert main(["census", "4711", "--json", "--by", by]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]] == names


def test_what_the_core_adds_is_told(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    rows = (Row(0, 2, 10, 1_000, 320, 10), Row(1, 2, 30, 6_000), Row(2, -1, 60, 3_000))
    doors.source = counted(rows=rows, mode="stop", mode_reason="no clone could be made", sizeof_guessed=10)
    assert main(["census", "4711", "--mode", "clone", "--pause-budget", "250"]) == 0
    text = capsys.readouterr().out
    assert "≈1000 B" in text
    assert "≈9.77 KiB  100.0 %  total" in text
    assert "≈2.93" not in text, "no str is guessed"
    doors.source = counted(rows=rows, mode="clone", sizeof_guessed=10)
    assert main(["census", "4711", "--top", "1"]) == 0
    assert "≈3.91 KiB   40.0 %  (2 more)" in capsys.readouterr().out
    assert "mode stop" in text
    assert "no better mode: no clone could be made" in text
    assert "not included: 320 B of attributes stored without a dict, which sys.getsizeof leaves out" in text
    assert "approximate" not in text
    assert (doors.calls[0][2].mode, doors.calls[0][2].pause_budget) == ("clone", 0.25)


@pytest.mark.parametrize(("mode", "reason"), [("clone", ""), ("stop", "only 3 MiB of memory are free")])
def test_a_pause_above_the_budget_is_refused_with_the_flag_to_type(
    mode: str, reason: str, doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    decision = Decision(3, mode, reason, 412_000_000, 100_000_000)
    doors.source = ScriptedSource((ATTACHED, Forecast(5 << 30, 4 << 30, 0, 412_000_000), Received(decision)))
    assert main(["census", "4711", "--json"]) == PauseTooLong.exit_code
    said = capsys.readouterr()
    assert said.out == ""
    assert "412 ms" in said.err
    assert "--pause-budget 619" in said.err
    assert "--mode python" in said.err
    assert reason in said.err
    assert doors.source.asked == ["open", "close"]


def test_what_could_not_be_taken_out_is_said(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    class Leaving(ScriptedSource):
        def close(self, timeout: float = 5.0) -> None:
            super().close(timeout)
            self.deliver(Ended(None, "another tool's hook lies over heaptop's"))

        def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
            self.deliver = deliver
            super().open(deliver, behind)

    doors.source = Leaving(counted().events)
    assert main(["census", "4711", "--json"]) == 0
    said = capsys.readouterr()
    assert "heaptop: process 4711 continues, but not all of heaptop could be removed" in said.err
    assert json.loads(said.out)["pid"] == 4711


def test_top_cuts_rows_and_not_the_total(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = counted()
    assert main(["census", "4711", "--json", "--top", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in document["rows"]] == ["dict"]
    assert document["total"]["bytes"] == 10_000


def test_the_table_ends_with_other_rows_and_the_total(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = counted()
    assert main(["census", "4711", "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=5) for line in lines[1:5]] == [
        ["30", "5.86", "KiB", "60.0", "%", "dict"],
        ["60", "2.93", "KiB", "30.0", "%", "str"],
        ["10", "1000", "B", "10.0", "%", "(1 more)"],
        ["100", "9.77", "KiB", "100.0", "%", "total"],
    ]
    assert "python shop.py (pid 4711, Python 3.12.1)" in lines
    text = "\n".join(lines)
    assert "mode python, longest pause 3 ms, took 50 ms and 25 ms of CPU" in text
    assert "estimated:" in text
    assert "partial" not in text


def test_the_longest_pause_in_the_text_is_that_of_the_document(
    doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    for pauses, words in (
        (Pauses(start_ns=4_000_000), "longest pause 5 ms (attach 5 ms, census 3 ms)"),
        (Pauses(start_ns=1_000_000), "longest pause 3 ms (attach 2 ms, census 3 ms)"),
    ):
        doors.source = counted(pauses=pauses)
        assert main(["census", "4711"]) == 0
        assert words in capsys.readouterr().out


def test_every_row_is_there_with_top_0(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = counted()
    assert main(["census", "4711", "--top", "0"]) == 0
    out = capsys.readouterr().out
    assert "shop.models.Session" in out
    assert "more)" not in out


def test_what_the_figures_lack_is_said(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = counted(complete=False, cut="the time limit", sizeof_guessed=1_234, mode="clone")
    assert main(["census", "4711", "--where", "module:shop"]) == 0
    out = capsys.readouterr().out
    assert "partial: the time limit\n" in out
    assert "1,234 objects have a __sizeof__" in out
    assert "only module:shop: 2 rows, 8.79 KiB filtered out\n" in out
    assert "approximate" not in out
    assert "dict" not in out


def test_what_objects_own_natively_is_reported(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = counted(mode="clone", owned=3 << 20, mapped=1 << 20, at_least=1_234)
    assert main(["census", "4711"]) == 0
    out = capsys.readouterr().out
    assert "included: 3.00 MiB that objects own natively, beyond sys.getsizeof, 1.00 MiB of it mapped\n" in out
    assert "1,234 objects own memory of a C library, and its size is unknown: at least what is shown (≈)\n" in out
    assert main(["census", "4711", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [document[key] for key in ("owned_bytes", "mapped_bytes", "at_least")] == [3 << 20, 1 << 20, 1_234]


def test_a_census_without_objects_has_a_total_of_zero(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = counted(rows=())
    assert main(["census", "4711"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["0", "0", "B", "total"]


@pytest.mark.parametrize("wrong", [["--where", "colour:red"], ["--by", "colour"]], ids=" ".join)
def test_a_wrong_filter_or_key_is_said_before_anything_is_touched(
    wrong: list[str], doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["census", "4711", *wrong, "--json"]) == 2
    assert capsys.readouterr().out == ""
    assert doors.calls == []


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize(
    ("events", "code"),
    [
        ((Ended(InterpreterBusy("Busy.")),), InterpreterBusy.exit_code),
        ((ATTACHED, Ended(TargetExited("Gone."))), TargetExited.exit_code),
        ((ATTACHED, Ended(None)), AgentLost.exit_code),
        ((ATTACHED, Received(Failure(1, "out of memory"))), AgentLost.exit_code),
        ((ATTACHED, Received(census(rows=(Row(9, 0, 1, 1),)))), ProtocolError.exit_code),
    ],
    ids=["busy", "exited", "left", "failed", "nonsense"],
)
def test_an_error_leaves_in_order(
    events: tuple[Any, ...], code: int, as_json: list[str], doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    doors.source = ScriptedSource(events)
    assert main(["census", "4711", *as_json]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("heaptop: ")
    assert doors.source.asked == ["open", "close"]


def test_ctrl_c_takes_the_attach_back(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(self: object, text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("heaptop.cli.terminal.ProgressLine.show", interrupt)
    doors.source = ScriptedSource((Waiting("waiting for the interpreter", 1.2), *SEEN))
    assert main(["census", "4711"]) == 130
    assert doors.source.asked == ["open", "cancel", "close"]
    assert capsys.readouterr() == ("", "")


# -- by what samples know ---------------------------------------------------------------------------------------


class SampledDoors(Doors):
    """What is attached to is a fake agent that samples: a tick comes whenever a census is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.source = SampledSource()


class SampledSource(FakeSource):
    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver)
        self.attach()
        self.sample(65_536, 128)
        self.tick(8)

    def census_now(self) -> None:
        super().census_now()
        self.tick()


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> SampledDoors:
    return SampledDoors(monkeypatch)


SITE = "shop/views.py:88 create_session"


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (["--by", "producer"], SITE),
        (["--by", "site"], SITE),
        (["--by", "producer-module", "--where", "site:views"], "shop.views"),
        (["--by", "handler"], "request create_session (shop/views.py)"),
        (["--by", "size", "--where", "type:Session"], "312 B"),
        (["--by", "lifetime"], "died, 1–10 MB"),
    ],
)
def test_by_what_samples_know(
    arguments: list[str],
    first: str,
    sampled: SampledDoors,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dispatcher = CodeName("/usr/lib/python3/site-packages/flask/app.py", "Flask.dispatch_request", 800)
    monkeypatch.setattr(fake_source, "CODES", (dispatcher, *fake_source.CODES[1:]))
    assert main(["census", "4711", *arguments, "--for", "0.01", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    names = [row["name"] for row in document["rows"] if row["samples"]]
    assert names[0] == first
    assert document["sampled"]["interval"] == 65_536
    assert document["total"]["bytes"] > 10_000_000
    options = sampled.calls[0][2]
    assert (options.sample_interval, options.interval) == (65_536, 86_400.0)
    sampled.source = SampledSource()
    assert main(["census", "4711", *arguments, "--for", "0.01", "--top", "2"]) == 0
    text = capsys.readouterr().out
    assert "95 % INTERVAL" in text
    assert "sampled for 0.01 s: sampling interval 64 KiB, " in text
    assert "not sampled: memory that C code takes from malloc or PyMem_RawMalloc" in text
    assert "estimated: sites of list, dict, tuple, float" in text


def test_what_was_said_meanwhile_is_taken_before_the_count(
    sampled: SampledDoors, capsys: pytest.CaptureFixture[str]
) -> None:
    """However short the time."""
    assert main(["census", "4711", "--by", "producer", "--for", "0.000001", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert next(row for row in rows if row["samples"])["name"] == SITE


def test_what_is_older_has_a_row_and_no_count(sampled: SampledDoors, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["census", "4711", "--by", "producer", "--for", "0.01", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["(no site)"]["count"] is None
    assert rows["(no site)"]["bytes"] > 1_000_000


def test_in_the_table_what_is_estimated_is_marked(sampled: SampledDoors, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["census", "4711", "--by", "size", "--for", "0.01"]) == 0
    lines = capsys.readouterr().out.splitlines()
    session = next(line for line in lines if line.endswith("312 B")).split("  ")
    allocated, freed, blocks, lives = [cell.strip() for cell in session if cell.strip()][:4]
    assert allocated.startswith("≈")
    assert freed == "no samples", "not 0: small blocks may have been missed"
    assert blocks.startswith("≈")
    assert lives.startswith("≈")
    sampled.source = SampledSource()
    assert main(["census", "4711", "--by", "producer", "--for", "0.01"]) == 0
    older = next(line for line in capsys.readouterr().out.splitlines() if line.endswith("(no site)"))
    assert older.lstrip().startswith("≈"), "its bytes, and no blocks before them"


@pytest.mark.parametrize("by", ["producer", "producer-module"])
def test_in_the_table_what_has_no_producer_stands_last(
    by: str, sampled: SampledDoors, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["census", "4711", "--by", by, "--for", "0.01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["name"] == "(no site)", "the largest comes first"
    sampled.source = SampledSource()
    assert main(["census", "4711", "--by", by, "--for", "0.01"]) == 0
    text = capsys.readouterr().out
    assert text.split("\n\n")[0].splitlines()[-1].endswith("(no site)")
    sampled.source = SampledSource()
    assert main(["census", "4711", "--by", by, "--for", "0.01", "--top", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "shop" in lines[1]
    assert lines[2].endswith("(no site)"), "it is not left out: it is often most of the heap"


def test_user_code_may_lie_anywhere(sampled: SampledDoors, capsys: pytest.CaptureFixture[str]) -> None:
    path = "/usr/lib/python3/site-packages/sqlalchemy"
    assert main(["census", "4711", "--by", "producer", "--for", "0.01", "--json", "--user-code", path]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]]
    assert "sqlalchemy/orm/state.py:77 InstanceState.__init__" in names


def test_a_target_that_cannot_be_sampled(sampled: SampledDoors, capsys: pytest.CaptureFixture[str]) -> None:
    sampled.source.agent.sampler_text = "the self-check says no"
    assert main(["census", "4711", "--by", "producer", "--for", "0.01"]) == SamplerRefused.exit_code
    said = capsys.readouterr()
    assert said.out == ""
    assert "cannot be sampled: the self-check says no." in said.err
    assert "`heaptop census 4242`" in said.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--by", "type", "--for", "5"], "--for goes with --by producer"),
        (["--rate", "8KiB"], "--rate goes with --by producer"),
        (["--by", "module", "--depth", "3"], "--depth goes with --by producer"),
        (["--user-code", "/x", "--exact-sites"], "--user-code and --exact-sites go with --by producer"),
        (["--memory", "--rate", "64KiB"], "--memory samples nothing"),
        (["--by", "nope"], "type, module, generation, interpreter, producer, producer-module, handler, size, lifetime"),
        (["--by", "size", "--rate", "off"], "--rate off takes none"),
        (["--by", "size", "--rate", "off"], "Leave `--rate off` out: `heaptop census 4711 --by size`"),
        (["--by", "size", "--mode", "python"], "Leave `--mode python` out"),
        (["--by", "size", "--mode", "python"], "but --mode python does not load it"),
        (["--by", "lifetime", "--where", "Session"], "Samples by lifetime have no type"),
        (["--by", "producer", "--where", "gen:2"], "have no generation"),
        (["--by", "lifetime", "--where", "lifetime>10MB"], "have no lifetime"),
        (["--by", "module", "--where", "site:t"], "have no site"),
        (["--by", "type", "--where", "lifetime>1s"], "have no lifetime"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_touched(
    arguments: list[str], says: str, sampled: SampledDoors, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["census", "4711", *arguments]) == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert sampled.calls == []


def test_a_plain_census_samples_nothing(doors: Doors) -> None:
    doors.source = counted()
    assert main(["census", "4711"]) == 0
    assert doors.calls[0][2].sample_interval == 0
