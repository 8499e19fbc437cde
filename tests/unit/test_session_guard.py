"""Guards in ``heaptop serve``: judged on the sessions that there are, one of them acting at a time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heaptop.dumps.captured_source import CapturedSource
from heaptop.dumps.reader import HeapDump
from heaptop.dumps.writer import DumpFile
from heaptop.errors import AgentLost
from heaptop.fleet import guard_hunts, guarding, session
from heaptop.fleet import host as host_module
from heaptop.fleet.configuration import FleetConfig, ServiceGuard
from heaptop.fleet.guarding import GuardWatch
from heaptop.fleet.host import FleetHost
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.reports import ReportFolder
from heaptop.fleet.selection import SeenProcess, SelectRule
from heaptop.fleet.triggers import GuardRule, parse_trigger
from heaptop.injector.api import AttachOptions
from heaptop.injector.session.forecast import MemoryLimit
from heaptop.protocol.messages import CodeName, Codes, Decision, Message
from heaptop.recordings.reader import Recording
from heaptop.recordings.recordable_source import RecordableSource
from tests.support.processes import eventually
from tests.unit.test_cli_leaks import Growing

MIB = 1 << 20
Said = pytest.CaptureFixture[str]


class Served(Growing):
    """A census comes when one is asked for; what is asked for is counted."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.agent.pid = pid
        self._target = replace(self._target, pid=pid)
        self.opened = 0
        self.asked = 0
        self.declined: list[bool] = []
        self.before_census: Callable[[], None] = lambda: None

    def open(self, *arguments: Any) -> None:
        self.opened += 1
        super().open(*arguments)

    def census_now(self) -> None:
        self.asked += 1
        self.before_census()
        self.tick()

    def memory_now(self) -> None:
        """The session asks for it after a census, which the fake would answer with another one."""

    def decide(self, accept: bool, stop: bool = False) -> None:
        self.declined.append(not accept)


class GuardedHost:
    """A host whose processes all belong to the service ``shop``."""

    def __init__(self, folder: Path, rule: GuardRule, service: str, pids: tuple[int, ...], quota: int) -> None:
        self.folder = folder
        self.sources = {pid: Served(pid) for pid in pids}
        self.meters = HostMeters()
        guards = (ServiceGuard(service, rule),)
        rules = (SelectRule(name="shop"),)
        self.config = FleetConfig(rules, guards=guards, hunt=0.0, reports_dir=folder, reports_quota=quota)
        self.host = FleetHost(lambda: self.config, self.meters, scan=self._scan, attach=self._attach)

    def _scan(self) -> list[SeenProcess]:
        return [SeenProcess(pid, 1, "www", "python shop.py", "shop", 100, 1000.0) for pid in self.sources]

    def _attach(self, pid: int, options: AttachOptions) -> Served:
        return self.sources[pid]

    def reports(self) -> list[Any]:
        """Those that are written."""
        texts = [path.read_text() for path in sorted(self.folder.glob("*.json"))]
        return [json.loads(text) for text in texts if text.endswith("}")]

    def attached(self) -> int:
        return len(self.host.processes()["attached"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_module, "ROUND", 0.01)
    monkeypatch.setattr(host_module, "is_same_process", lambda pid, start: True)
    monkeypatch.setattr(guarding, "TURN", 0.01)
    monkeypatch.setattr(guarding, "rss_bytes", lambda pid: 400 * MIB)
    limit = MemoryLimit(500 * MIB, "memory.max of /app", 100 * MIB, 0.0)
    monkeypatch.setattr(guarding, "memory_limit", lambda pid: limit)
    return tmp_path / "reports"


@contextmanager
def guarded(
    folder: Path,
    when: str,
    *,
    service: str = "shop",
    pids: tuple[int, ...] = (1,),
    quota: int = 500_000_000,
    **rule: Any,
) -> Iterator[GuardedHost]:
    hosted = GuardedHost(folder, GuardRule((parse_trigger(when),), **rule), service, pids, quota)
    thread = threading.Thread(target=hosted.host.run)
    thread.start()
    try:
        yield hosted
    finally:
        hosted.host.stop()
        thread.join(60)
        assert not thread.is_alive()
        names = [each.name for each in threading.enumerate()]
        assert not {"heaptop-guard", "heaptop-sending"} & {*names}


def test_a_guard_reports_on_the_session_that_there_is(folder: Path, capsys: Said) -> None:
    with guarded(folder, "rss > 70% of limit", at_most=1) as hosted:
        assert eventually(lambda: hosted.reports() and hosted.sources[1].asked)
        assert eventually(lambda: len(hosted.host.guards.running()) == 0)
        (report,) = hosted.reports()
        assert hosted.sources[1].opened == 1, "there is no second attach"
        assert hosted.attached() == 1, "the session goes on when its guard has ended"
    assert (report["service"], report["trigger"]) == ("shop", "rss > 70% of limit")
    assert report["census"]["rows"]
    (text,) = folder.glob("*.txt")
    assert " of shop, Python " in text.read_text()
    said = capsys.readouterr().err
    assert "event=guard" in said
    assert "fired 1 time, as often as allowed" in said


def test_a_hunt_runs_through_the_session(folder: Path) -> None:
    with guarded(folder, "rss > 300MB", at_most=1, hunts=True, hunt_seconds=0.05) as hosted:
        assert eventually(lambda: any(report["leaks"] for report in hosted.reports()))
        assert hosted.sources[1].done.count("image") == guard_hunts.MARKS
        assert hosted.attached() == 1
        assert not hosted.meters.registry.get_sample_value("heaptop_refusals_total", {"class": "NoCensus"})


def test_a_recording_of_the_time_before_is_kept(folder: Path) -> None:
    with guarded(folder, "rss > 300MB", at_most=1, records=True) as hosted:
        assert eventually(lambda: any(report["recording"] for report in hosted.reports()))
        (report,) = hosted.reports()
    with Recording.open(folder / report["recording"]) as recording:
        assert recording.moments
    assert not list(folder.glob("*-ring*")), "of a recording that nothing was kept of nothing stays"


def test_a_heap_dump_is_written_through_the_session_and_the_session_goes_on(folder: Path) -> None:
    with guarded(folder, "rss > 300MB", at_most=1, dumps=True, records=True) as hosted:
        assert eventually(lambda: any(report["dump"] for report in hosted.reports()))
        assert eventually(lambda: len(hosted.host.guards.running()) == 0)
        assert hosted.sources[1].done.count("image") == 1
        assert hosted.attached() == 1
        (report,) = hosted.reports()
    with HeapDump(str(folder / report["dump"])) as dump:
        assert (dump.info.pid, dump.info.values) == (1, "sizes")


def test_a_heap_dump_is_safe_from_the_quota_only_while_it_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those of two guards would leave no room for that of a third, until they fire again."""
    write, kept = guarding.write_dump, list[bool]()

    def look(watch: GuardWatch, source: CapturedSource, file: DumpFile, *more: Any, **named: Any) -> None:
        kept.append(hosted.host.guards._reports(hosted.config)._keeper(Path(file.path).name) is not None)
        write(watch, source, file, *more, **named)

    monkeypatch.setattr(guarding, "write_dump", look)
    with guarded(folder, "rss > 300MB", dumps=True, hunts=True, hunt_seconds=0.05, cooldown=3600) as hosted:
        assert eventually(lambda: any(report["dump"] and report["leaks"] for report in hosted.reports()))
        (report,), files = hosted.reports(), hosted.host.guards._reports(hosted.config)
        assert kept == [True]
        assert files._keeper(report["dump"]) is None
        assert files._keeper(report["dump"].replace(".heapdump", ".json")) is not None


def test_what_is_kept_for_heap_dumps_and_recordings_has_the_bounds_of_a_session(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "MOST_NAMES", 2)
    with guarded(folder, "rss > 1TB", dumps=True, records=True) as hosted:
        assert eventually(lambda: hosted.attached() == 1)
        (guard,) = hosted.host.guards.running()
        recorded = guard._guard._recorder
        assert isinstance(recorded, RecordableSource)
        captured, state = guard._guard._captured, recorded._recording_state
        assert captured is not None
        assert state is not None
        source = hosted.sources[1]
        source.sample(1 << 20, 32)

        def has_codes() -> bool:
            source.tick()  # again: one that comes before the guard reads is left out
            return bool(codes_of(state.state()))

        assert eventually(has_codes)
        assert len(codes_of(state.state())) == len(codes_of(captured.state())) == 2


def codes_of(messages: Iterable[Message]) -> list[CodeName]:
    return [name for message in messages if isinstance(message, Codes) for name in message.names]


def test_while_another_guard_acts_there_is_no_heap_dump(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "CENSUS_SECONDS", 0.1)
    with guarded(folder, "rss > 300MB", at_most=1, dumps=True) as hosted:
        with hosted.host.guards.acting:
            assert eventually(lambda: any("no heap dump" in str(one["notes"]) for one in hosted.reports()))
        assert "image" not in hosted.sources[1].done


def test_of_a_recording_nothing_stays_when_heaptop_detaches(folder: Path) -> None:
    with guarded(folder, "rss > 1TB", records=True) as hosted:
        assert eventually(lambda: hosted.attached() == 1)
        assert eventually(lambda: [*folder.glob("*-ring.heaptop")])
    assert [*folder.iterdir()] == []


def test_where_nothing_can_be_recorded_the_guard_reports_all_the_same(folder: Path, capsys: Said) -> None:
    with guarded(folder, "rss > 300MB", quota=900_000, records=True, at_most=1) as hosted:
        value = hosted.meters.registry.get_sample_value
        assert eventually(lambda: value("heaptop_refusals_total", {"class": "OSError"}))
        assert eventually(lambda: hosted.reports() and hosted.host.guards.running() == [])
    assert "nothing is recorded: the quota" in capsys.readouterr().err


def test_a_guard_keeps_no_course_of_what_is_sampled(folder: Path) -> None:
    """It would be megabytes a process, after half an hour."""
    with guarded(folder, "rss > 1TB") as hosted:
        assert eventually(lambda: hosted.attached() == 1)
        (guard,) = hosted.host.guards.running()
        for _ in range(20):
            hosted.sources[1].tick()
        assert eventually(lambda: len(guard._watch.history.ticks) > 20)
        assert len(guard._watch.sampling._moments._records) == 0


def test_a_service_without_a_rule_has_no_guard(folder: Path) -> None:
    with guarded(folder, "rss > 1MB", service="other") as hosted:
        assert eventually(lambda: hosted.attached() == 1)
        assert hosted.host.guards.running() == []
    assert not folder.exists()


def test_one_guard_acts_at_a_time_and_the_other_still_reports(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "CENSUS_SECONDS", 0.2)
    with guarded(folder, "rss > 300MB", pids=(1, 2), at_most=1, hunts=True, hunt_seconds=0.05) as hosted:
        with hosted.host.guards.acting:
            assert eventually(lambda: len([one for one in hosted.reports() if len(one["notes"]) == 2]) == 2)
            assert [source.asked for source in hosted.sources.values()] == [0, 0]
        for report in hosted.reports():
            assert "no newer census: another process was examined" in report["notes"][0]
            assert "no leak hunt" in report["notes"][1]
            assert report["census"] is not None, "it is from what was known"


def test_a_pause_above_the_budget_is_declined_and_the_guard_goes_on(folder: Path) -> None:
    with guarded(folder, "rss > 1TB") as hosted:
        source = hosted.sources[1]
        assert eventually(lambda: hosted.attached() == 1)
        source.say(Decision(1, "clone", 100_000_000, 50_000_000, "no other mode"))
        assert eventually(lambda: source.declined == [True])
        source.tick()
        (service,) = hosted.host.services()
        assert service.counted == 1, "the census in slices is served"
        assert len(hosted.host.guards.running()) == 1


def test_when_the_session_fails_it_is_counted_once_and_attached_again(folder: Path) -> None:
    with guarded(folder, "rss > 1TB") as hosted:
        source = hosted.sources[1]
        assert eventually(lambda: hosted.attached() == 1)
        source.end(AgentLost("The agent ended."))
        assert eventually(lambda: hosted.host.processes()["refused"])
        assert eventually(lambda: hosted.host.guards.running() == [])
        assert hosted.meters.registry.get_sample_value("heaptop_refusals_total", {"class": "AgentLost"}) == 1


def test_a_folder_that_is_lost_ends_no_session(folder: Path) -> None:
    folder.symlink_to("/nowhere")
    with guarded(folder, "rss > 300MB") as hosted:
        assert eventually(lambda: hosted.attached() == 1)
        assert hosted.meters.registry.get_sample_value("heaptop_refusals_total", {"class": "SaveFailed"}) == 1


def test_no_guard_removes_what_another_one_keeps(tmp_path: Path) -> None:
    shared = ReportFolder(tmp_path / "reports", 5_000_000, 2)
    one, other = shared.share(), shared.share()
    name = "guard-1-20261126-000000.heaptop"
    (tmp_path / "reports" / name).write_bytes(bytes(3_000_000))
    one.keep(name)
    with pytest.raises(OSError, match="quota"):
        other.make_room(4_000_000)
    assert (tmp_path / "reports" / name).exists()
    one.leave()
    other.make_room(4_000_000)
    assert not (tmp_path / "reports" / name).exists()


def test_a_reload_of_the_quota_or_the_limit_keeps_recordings_that_go_on(folder: Path) -> None:
    with guarded(folder, "rss > 1TB", quota=40_000_000, records=True) as hosted:
        assert eventually(lambda: hosted.attached() == 1)
        (ring,) = eventually(lambda: [*folder.glob("*-ring.heaptop")])
        for number in range(4):
            (folder / f"guard-9-20261126-00000{number}.json").write_bytes(bytes(1_200_000))
        hosted.config = replace(hosted.config, reports_quota=5_000_000, limit=2)
        hosted.host.reload()
        hosted.sources[2] = Served(2)
        assert eventually(lambda: hosted.attached() == 2)
        hosted.host.guards._reports(hosted.config).make_room(1_000_000)
        assert ring.exists()
        assert len([*folder.glob("guard-9-*")]) == 2
