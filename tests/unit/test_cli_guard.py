"""``heaptop guard`` over a fake agent: what it writes when a trigger fires, what it leaves out, and how it ends."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from heaptop.__main__ import main
from heaptop.dumps.format import END
from heaptop.dumps.reader import HeapDump
from heaptop.errors import AgentLost, HeaptopError, SaveFailed, TargetExited, UsageError
from heaptop.fleet import guarding, reports
from heaptop.fleet.alerts import LINES, LONGEST_LINE
from heaptop.fleet.triggers import RssTrend
from heaptop.injector.session.forecast import MemoryLimit
from heaptop.recordings.reader import Recording
from tests.unit.test_cli_leaks import Growing, LeakDoors, little

MIB = 1 << 20
Said = pytest.CaptureFixture[str]


class Guarded(Growing):
    """A census comes when one is asked for."""

    def census_now(self) -> None:
        super().census_now()
        self.tick()


class Process:
    """The guarded process as /proc shows it, and what happens at each reading of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, doors: LeakDoors) -> None:
        self.doors = doors
        self.rss = 400 * MIB
        self.limit = MemoryLimit(500 * MIB, "memory.max of /app", 100 * MIB, 0.0)
        self.readings = 0
        self.at_reading: Callable[[int], None] = lambda number: None
        monkeypatch.setattr(guarding, "rss_bytes", lambda pid: self.rss)
        monkeypatch.setattr(guarding, "memory_limit", self._limit)
        monkeypatch.setattr(guarding, "TURN", 0.001)

    def _limit(self, pid: int) -> MemoryLimit:
        self.readings += 1
        self.at_reading(self.readings)
        return self.limit

    def ends_at(self, reading: int) -> None:
        """The process ends then."""

        def end(number: int) -> None:
            if number == reading:
                self.doors.source.end(TargetExited("Process 4711 ended at 02:13:00."))

        self.at_reading = end


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    doors = LeakDoors(monkeypatch)
    doors.make = Guarded
    return Process(monkeypatch, doors)


def guard(folder: Path, *arguments: str, when: str = "rss > 300MB") -> int:
    return main(["guard", "4711", "--when", when, "--dir", str(folder), "--at-most", "1", "--for", "0.05", *arguments])


def written(folder: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def test_a_trigger_writes_a_report_as_json_and_as_text(process: Process, tmp_path: Path, capsys: Said) -> None:
    assert guard(tmp_path / "reports", when="rss > 70% of limit") == 0
    (report,) = written(tmp_path / "reports")
    assert report["trigger"] == "rss > 70% of limit"
    assert report["readings"]["limit_of"] == "memory.max of /app"
    assert "shop.models.Session" in [row["name"] for row in report["grown"]]
    assert report["census"]["rows"]
    assert report["allocated_at"]
    (text,) = (tmp_path / "reports").glob("*.txt")
    assert "RSS 400 MiB, 80 % of 500 MiB (memory.max of /app), 100 MiB left" in text.read_text()
    said = capsys.readouterr()
    assert said.out == ""
    assert "rss > 70% of limit: RSS 400 MiB" in said.err
    assert "ended: fired 1 time, as often as allowed" in said.err
    assert process.doors.source.closed


def test_a_report_is_for_its_owner_alone(process: Process, tmp_path: Path) -> None:
    assert guard(tmp_path / "reports", "--do", "record") == 0
    assert (tmp_path / "reports").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "reports").iterdir()} == {0o600}


def test_the_report_is_there_before_anything_is_asked_of_the_process(process: Process, tmp_path: Path) -> None:
    """The limit may be a moment away."""
    found: list[Any] = []

    class Asked(Guarded):
        def census_now(self) -> None:
            found.extend(written(tmp_path / "reports"))
            super().census_now()

    process.doors.make = Asked
    assert guard(tmp_path / "reports") == 0
    assert [report["census"] is not None for report in found] == [True]


def test_a_census_that_does_not_come_is_not_waited_for_long(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarding, "CENSUS_SECONDS", 0.05)
    process.doors.make = Growing
    assert guard(tmp_path / "reports") == 0
    (report,) = written(tmp_path / "reports")
    assert "no newer census" in report["notes"][0]
    assert report["census"] is not None
    assert report["census_age_seconds"] >= 0


def test_the_age_of_a_census_is_that_at_the_trigger_however_long_the_report_takes(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a process that was stopped meanwhile too: its own clock says nothing of that."""
    monkeypatch.setattr(guarding, "CENSUS_SECONDS", 0.5)
    first: list[Any] = []

    class Silent(Growing):
        def census_now(self) -> None:
            first.extend(written(tmp_path / "reports"))

    process.doors.make = Silent
    assert guard(tmp_path / "reports") == 0
    (last,) = written(tmp_path / "reports")
    assert first[0]["notes"] != last["notes"], "it was written again"
    assert first[0]["census_age_seconds"] == last["census_age_seconds"]


def test_a_hunt_puts_its_findings_into_the_report(process: Process, tmp_path: Path, capsys: Said) -> None:
    assert guard(tmp_path / "reports", "--do", "hunt") == 0
    (report,) = written(tmp_path / "reports")
    assert report["leaks"]["verdict"] == "leak"
    suspect = report["leaks"]["suspects"][0]
    assert suspect["type"] == "shop.Cart"
    assert suspect["site"]
    assert suspect["sentence"] in next((tmp_path / "reports").glob("*.txt")).read_text()
    assert suspect["sentence"] in capsys.readouterr().err


def test_without_samples_the_report_says_that_sites_are_missing(process: Process, tmp_path: Path) -> None:
    process.doors.make = lambda: Guarded(interval=0)
    assert guard(tmp_path / "reports") == 0
    (report,) = written(tmp_path / "reports")
    assert report["allocated_at"] == []
    assert "no allocation sites: allocations are not sampled" in report["notes"]


def test_a_verdict_is_a_trigger_and_its_report_has_the_hunt(process: Process, tmp_path: Path) -> None:
    # The fake's time passes with each turn of the guard, and so unevenly from mark to mark: growth must outrun that.
    process.doors.make = lambda: Guarded(lambda number: little(min(number * number, 400)))
    assert guard(tmp_path / "reports", when="verdict = leak every 1s") == 0
    (report,) = written(tmp_path / "reports")
    assert report["trigger"] == "verdict = leak every 1s"
    assert report["leaks"]["verdict"] == "leak"


@pytest.mark.parametrize("do", ["report", "hunt"])
def test_a_trigger_fires_while_a_hunt_for_a_verdict_goes_on(process: Process, tmp_path: Path, do: str) -> None:
    """The limit does not wait for the hunt's end; where the report is to have a hunt, it has this one."""
    process.rss = 100 * MIB

    def grow(number: int) -> None:
        if "image" in process.doors.source.done:
            process.rss = 400 * MIB

    process.at_reading = grow
    seconds = "60" if do == "report" else "2"
    arguments = ("--when", "verdict = leak every 1s", "--do", do, "--for", seconds)
    assert guard(tmp_path / "reports", *arguments) == 0
    (report,) = written(tmp_path / "reports")
    assert report["trigger"] == "rss > 300MB"
    assert (report["leaks"] is not None) == (do == "hunt")
    assert process.doors.source.done.count("image") == (4 if do == "hunt" else 1)


def test_a_verdict_within_the_cooldown_fires_nothing(process: Process, tmp_path: Path, capsys: Said) -> None:
    process.rss = 100 * MIB
    last: list[int] = []

    def go_on(number: int) -> None:
        images = process.doors.source.done.count("image")
        process.rss = 400 * MIB if images else process.rss
        last.extend([number] * (images == 4))
        if last and number == last[0] + 3:
            process.doors.source.end(TargetExited("Process 4711 ended."))

    process.at_reading = go_on
    arguments = ("--when", "verdict = leak every 1s", "--at-most", "5", "--cooldown", "1h", "--for", "1")
    assert guard(tmp_path / "reports", *arguments) == 0
    assert [report["trigger"] for report in written(tmp_path / "reports")] == ["rss > 300MB"]
    assert "leak hunt: " in capsys.readouterr().err


def test_what_is_refused_is_in_the_report(process: Process, tmp_path: Path) -> None:
    source = Guarded()
    source.agent.images.refusal = "refused, so that the program does not run out of memory"
    process.doors.make = lambda: source
    assert guard(tmp_path / "reports", "--do", "hunt") == 0
    (report,) = written(tmp_path / "reports")
    assert report["leaks"] is None
    assert "the report is from what was known" in report["notes"][0]
    assert "does not run out of memory" in report["notes"][0]


def test_a_snapshot_that_comes_too_late_is_closed_and_its_failure_ends_nothing(
    process: Process, tmp_path: Path
) -> None:
    """The process was stopped meanwhile. What is made for nobody holds memory that it may be short of."""
    source = Guarded()
    source.agent.images.hold = True
    process.doors.make = lambda: source
    process.ends_at(4)
    arguments = ("--do", "hunt", "--timeout", "0.3", "--at-most", "2", "--cooldown", "1h")
    assert guard(tmp_path / "reports", *arguments) == 0
    (report,) = written(tmp_path / "reports")
    assert "did not take a census within 0.3 s" in report["notes"][0]
    assert source.done == ["memory", "image", "close"]
    assert process.readings == 4, "it went on"
    assert not source.agent.images.is_open


def test_a_long_pause_is_declined_and_nobody_is_asked(process: Process, tmp_path: Path) -> None:
    class Paused(Guarded):
        def decide(self, accept: bool, stop: bool = False) -> None:
            super().decide(accept, stop)
            self.agent.pause_ns, self.agent.mode = 0, "python"
            self.tick()

    source = Paused()
    source.agent.pause_ns = 412_000_000
    process.doors.make = lambda: source
    assert guard(tmp_path / "reports", "--do", "hunt") == 0
    (report,) = written(tmp_path / "reports")
    assert source.decisions == [False]
    assert "no snapshot: a snapshot would pause it for 412 ms" in report["notes"]
    assert report["census"]["mode"] == "python"
    assert report["leaks"] is None
    assert "image" not in source.done


def test_near_the_limit_there_is_no_hunt(process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not end before the process does."""
    monkeypatch.setattr(RssTrend, "seconds_until", lambda trend, left: 9.0 if left == 100 * MIB else None)
    assert guard(tmp_path / "reports", "--do", "hunt", "--for", "30") == 0
    (report,) = written(tmp_path / "reports")
    assert "the memory limit is expected in about 9 s" in report["notes"][0]
    assert "image" not in process.doors.source.done


# -- heap dumps ----------------------------------------------------------------------------------------------


def dumps(folder: Path) -> list[Path]:
    return [*folder.glob("*.heapdump")]


def test_a_heap_dump_without_contents_is_beside_the_report_that_names_it(
    process: Process, tmp_path: Path, capsys: Said
) -> None:
    assert guard(tmp_path / "reports", "--do", "dump,record") == 0
    (report,), (path,) = written(tmp_path / "reports"), dumps(tmp_path / "reports")
    assert report["dump"] == path.name == report["recording"].replace(".heaptop", ".heapdump")
    assert path.stat().st_mode & 0o777 == 0o600
    with HeapDump(str(path)) as dump:
        assert (dump.info.values, dump.info.sampled > 0) == ("sizes", True)
        assert [*dump._blocks()][-1][0].kind == END
    (text,) = (tmp_path / "reports").glob("*.txt")
    assert f"heap dump: {path.name}" in text.read_text()
    assert f"heap dump {path}" in capsys.readouterr().err
    assert process.doors.source.done[-1] == "close", "the clone's memory is free again at once"


def test_a_heap_dump_comes_before_the_hunt_and_after_the_report_was_sent(process: Process, tmp_path: Path) -> None:
    copy = tmp_path / "copy.py"
    copy.write_text(f"import sys; open({str(tmp_path / 'sent')!r}, 'a').write(sys.stdin.read() + '\\0')")
    assert guard(tmp_path / "reports", "--do", "dump,hunt", "--command", f"{sys.executable} {copy}") == 0
    sent = [json.loads(text) for text in (tmp_path / "sent").read_text().split("\0") if text]
    found = [(report["dump"] is not None, report["leaks"] is not None) for report in sent]
    assert found == [(False, False), (True, False), (True, True)]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(1.0, "the memory limit is expected in about 1 s"), (None, "out of memory")]
)
def test_where_a_heap_dump_has_no_time_or_memory_the_report_says_so(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None, expected: str
) -> None:
    source = Guarded()
    source.agent.images.refusal = "refused, so that the program does not run out of memory"
    process.doors.make = lambda: source
    monkeypatch.setattr(RssTrend, "seconds_until", lambda trend, left: seconds)
    assert guard(tmp_path / "reports", "--do", "dump") == 0
    (report,) = written(tmp_path / "reports")
    (note,) = [note for note in report["notes"] if note.startswith("no heap dump: ")]
    assert expected in note
    assert (report["dump"], dumps(tmp_path / "reports")) == (None, [])


def test_a_heap_dump_that_the_disk_has_no_room_for_is_removed_and_the_guard_goes_on(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "DUMP_PART", 10_000)
    process.ends_at(8)
    assert guard(tmp_path / "reports", "--do", "dump", "--at-most", "2", "--cooldown", "1h") == 0
    (report,) = written(tmp_path / "reports")
    assert any("no heap dump" in note and "is too little" in note for note in report["notes"])
    assert (report["dump"], dumps(tmp_path / "reports")) == (None, [])
    assert process.readings == 8, "it went on"


def test_a_process_that_ends_during_a_heap_dump_leaves_a_report_and_no_file(process: Process, tmp_path: Path) -> None:
    source = Guarded()
    source.before_image = lambda image: source.end(TargetExited("Process 4711 ended."))
    process.doors.make = lambda: source
    assert guard(tmp_path / "reports", "--do", "dump") == 0
    (report,) = written(tmp_path / "reports")
    assert any("no heap dump: the process exited" in note for note in report["notes"])
    assert (report["dump"], dumps(tmp_path / "reports")) == (None, [])


def test_the_recording_so_far_is_kept_beside_the_report(process: Process, tmp_path: Path) -> None:
    assert guard(tmp_path / "reports", "--do", "record") == 0
    (report,) = written(tmp_path / "reports")
    with Recording.open(tmp_path / "reports" / report["recording"]) as recording:
        assert not recording.damage
        assert recording.moments
    assert not list((tmp_path / "reports").glob(f"*{reports.RING}")), "the one that went on is of no use to anybody"


def test_the_end_of_the_process_ends_the_guard_and_leaves_the_recording(
    process: Process, tmp_path: Path, capsys: Said
) -> None:
    process.ends_at(3)
    assert guard(tmp_path / "reports", "--do", "record", when="rss > 1TB") == 0
    (ring,) = (tmp_path / "reports").iterdir()
    with Recording.open(ring) as recording:
        assert not recording.damage
        assert recording.moments
    said = capsys.readouterr().err
    assert f"its last minutes are in {ring}" in said
    assert "ended: Process 4711 ended at 02:13:00" in said


def test_an_agent_that_is_lost_is_an_error_and_leaves_the_recording(process: Process, tmp_path: Path) -> None:
    process.at_reading = lambda number: (
        process.doors.source.end(AgentLost("The agent is gone.")) if number == 3 else None
    )
    assert guard(tmp_path / "reports", "--do", "record", when="rss > 1TB") == AgentLost.exit_code
    (ring,) = (tmp_path / "reports").iterdir()
    with Recording.open(ring) as recording:
        assert recording.moments


def test_what_a_hunt_has_found_before_the_process_ends_is_in_the_report(process: Process, tmp_path: Path) -> None:
    source = Guarded()
    source.before_image = lambda image: source.end(TargetExited("Process 4711 ended.")) if image == 4 else None
    process.doors.make = lambda: source
    assert guard(tmp_path / "reports", "--do", "hunt") == 0
    (report,) = written(tmp_path / "reports")
    assert len(report["leaks"]["marks"]) == 3
    assert any("ended early" in note for note in report["notes"])


def test_after_a_firing_nothing_fires_for_the_cooldown(process: Process, tmp_path: Path) -> None:
    process.ends_at(20)
    assert guard(tmp_path / "reports", "--at-most", "5", "--cooldown", "1h") == 0
    assert len(written(tmp_path / "reports")) == 1
    process.readings = 0
    process.ends_at(4)
    assert guard(tmp_path / "more", "--at-most", "5", "--cooldown", "0.001s") == 0
    assert len(written(tmp_path / "more")) > 1


def test_a_clock_that_jumps_fires_nothing_and_loses_no_report(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a day, back and forth, at each reading of the process."""
    began, hours = time.time(), [0]
    monkeypatch.setattr(time, "time", lambda: began + 3600 * hours[0])

    def jump(number: int) -> None:
        hours[0] = -24 if number % 2 else 24
        process.rss = 400 * MIB if number in (10, 20, 30) else 100 * MIB

    process.at_reading = jump
    assert guard(tmp_path / "reports", "--at-most", "3", "--cooldown", "0.001s", "--when", "every 1h") == 0
    found = written(tmp_path / "reports")
    assert [report["trigger"] for report in found] == 3 * ["rss > 300MB"]
    assert all(report["census"] and abs(report["census_age_seconds"]) < 3600 for report in found)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_signal_ends_it_well(number: signal.Signals, process: Process, tmp_path: Path, capsys: Said) -> None:
    process.at_reading = lambda reading: signal.raise_signal(number) if reading == 3 else None
    assert guard(tmp_path / "reports", "--do", "record", when="rss > 1TB") == 0
    assert "ended: you stopped it" in capsys.readouterr().err
    assert not list((tmp_path / "reports").iterdir())
    assert process.doors.source.closed


@pytest.mark.parametrize("error", [TargetExited("Process 4711 ended."), AgentLost("The agent is gone.")])
def test_a_process_that_ends_right_after_the_trigger_is_reported_with_its_recording(
    error: HeaptopError, process: Process, tmp_path: Path
) -> None:
    """The kernel ends it for want of memory while a newer census is waited for."""

    class Killed(Guarded):
        def census_now(self) -> None:
            self.end(error)

    process.doors.make = Killed
    copy = tmp_path / "copy"
    code = guard(tmp_path / "reports", "--do", "record", "--command", f"cp /dev/stdin '{copy}'")
    assert code == (0 if isinstance(error, TargetExited) else error.exit_code)
    (report,) = written(tmp_path / "reports")
    assert json.loads(copy.read_text()) == report
    with Recording.open(tmp_path / "reports" / report["recording"]) as recording:
        assert recording.moments


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_signal_right_after_the_trigger_leaves_report_and_recording(
    number: signal.Signals, process: Process, tmp_path: Path, capsys: Said
) -> None:
    class Interrupted(Growing):
        def census_now(self) -> None:
            signal.raise_signal(number)

    process.doors.make = Interrupted
    copy = tmp_path / "copy"
    assert guard(tmp_path / "reports", "--do", "record", "--command", f"cp /dev/stdin '{copy}'") == 0
    (report,) = written(tmp_path / "reports")
    assert json.loads(copy.read_text()) == report
    assert (tmp_path / "reports" / report["recording"]).stat().st_size
    said = capsys.readouterr().err
    assert f"its last minutes are in {tmp_path / 'reports' / report['recording']}" in said
    assert "ended: you stopped it" in said


def test_a_disk_that_is_full_ends_neither_the_guard_nor_its_command(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("heaptop.files.write", full)
    assert guard(tmp_path / "reports") == 0
    said = capsys.readouterr().err
    assert "cannot be written: No space left on device" in said
    assert "ended: fired 1 time" in said


@pytest.mark.parametrize("is_stopped", [True, False])
def test_its_end_waits_for_what_is_being_sent_and_less_long_where_it_is_stopped(
    is_stopped: bool, process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sends SIGTERM kills some seconds later; a process that has exited leaves time for its report. heaptop is out
    of the process by then."""
    waited: list[tuple[float, bool]] = []

    def close(sender: object, seconds: float) -> None:
        waited.append((seconds, process.doors.source.closed))

    monkeypatch.setattr(guarding.Sender, "close", close)
    process.ends_at(3)
    if is_stopped:
        process.at_reading = lambda reading: signal.raise_signal(signal.SIGTERM) if reading == 3 else None
    assert guard(tmp_path / "reports", when="rss > 1TB") == 0
    assert waited == [(5 if is_stopped else 60, True)]


def test_a_folder_that_is_removed_does_not_end_the_guard(process: Process, tmp_path: Path, capsys: Said) -> None:
    def remove(number: int) -> None:
        if (tmp_path / "reports").exists():
            shutil.rmtree(tmp_path / "reports")

    process.at_reading = remove
    assert guard(tmp_path / "reports", "--do", "record") == 0
    said = capsys.readouterr().err
    assert "cannot be written: No such file or directory" in said
    assert "ended: fired 1 time" in said


def test_each_report_goes_to_the_command(process: Process, tmp_path: Path, capsys: Said) -> None:
    copy = tmp_path / "copy"
    assert guard(tmp_path / "reports", "--command", f"cp /dev/stdin '{copy}'") == 0
    (report,) = written(tmp_path / "reports")
    assert json.loads(copy.read_text()) == report
    assert "command cp: exit code 0" in capsys.readouterr().err


def test_a_report_has_no_argument_of_the_program(process: Process, tmp_path: Path) -> None:
    """They hold passwords."""
    assert guard(tmp_path / "reports", "--do", "hunt") == 0
    for path in (tmp_path / "reports").iterdir():
        assert process.doors.source.target.command not in path.read_text()


@pytest.mark.parametrize(
    "wrong",
    [
        ["--when", "heap > 3"],
        ["--do", "dance"],
        ["--quota", "1MB"],
        ["--cooldown", "soon"],
        ["--at-most", "0"],
        ["--webhook", "file:///etc/passwd"],
        ["--webhook", "ftp://host/x"],
        ["--webhook", "http://user:secret@host/"],
        ["--webhook", "http://host:port/"],
        ["--do", "alertmanager"],
        ["--alertmanager", "http://127.0.0.1:9093"],
        ["--do", "alertmanager", "--alertmanager", "ftp://127.0.0.1"],
        ["--command", ""],
        ["--command", "'"],
        ["--when", "verdict = leak", "--mode", "python"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_touches_nothing(wrong: list[str], process: Process, tmp_path: Path) -> None:
    try:
        code: Any = guard(tmp_path / "reports", *wrong)
    except SystemExit as left:
        code = left.code
    assert code == UsageError.exit_code
    assert process.doors.calls == []
    assert not (tmp_path / "reports").exists()


def test_an_alert_is_bounded_in_labels_and_length(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, bytes]] = []

    def post(url: str, content: bytes, what: str) -> str:
        sent.append((url, content))
        return what

    monkeypatch.setattr(guarding, "post", post)
    process.limit = MemoryLimit(500 * MIB, "memory.max of /" + "a\n" * 5000, 100 * MIB, 0.0)
    arguments = ("--do", "alertmanager", "--alertmanager", "http://127.0.0.1:9093/", "--cooldown", "1h")
    assert guard(tmp_path / "reports", *arguments) == 0
    ((url, content),) = sent
    assert url == "http://127.0.0.1:9093/api/v2/alerts"
    (alert,) = json.loads(content)
    assert alert["labels"].keys() == {"alertname", "severity", "instance", "pid", "trigger"}
    assert max(map(len, alert["labels"].values())) <= 160
    assert max(map(len, alert["annotations"].values())) <= LINES * (LONGEST_LINE + 1)
    begin, end = (datetime.fromisoformat(alert[key]) for key in ("startsAt", "endsAt"))
    assert (end - begin).total_seconds() == 3600
    assert Path(alert["annotations"]["report"]).is_file()


def test_a_folder_that_others_can_write_to_is_refused(process: Process, tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports").chmod(0o777)
    assert guard(tmp_path / "reports") == SaveFailed.exit_code
    assert process.doors.calls == []
