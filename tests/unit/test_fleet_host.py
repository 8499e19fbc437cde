"""The host agent's loop, over sources without a process: whatever one of them does, the others are watched."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.reports.stack_sums import StackSum, stack_sums
from heaptop.analysis.samples.producers import NO_SITE
from heaptop.errors import AgentLost, ConfigError, HeaptopError, PtraceDenied, RecordingTooLarge, TargetExited
from heaptop.fleet import host as host_module
from heaptop.fleet.configuration import FleetConfig
from heaptop.fleet.host import FleetHost
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.selection import SeenProcess, SelectRule
from heaptop.fleet.session import MOST_NAMES, MOST_STACKS, MOST_TALLIES
from heaptop.injector.api import AttachOptions
from heaptop.protocol.messages import CodeName, Codes, Decision, Failure, GcEvent, GcEvents, StackNode, Stacks
from heaptop.protocol.source import Behind, Deliver, never_behind
from heaptop.recordings.exports import pprof
from tests.fakes.source import FakeAgent, FakeSource
from tests.support.processes import PATIENCE, eventually
from tests.support.profiles import Profile

EVERYTHING = FleetConfig((SelectRule(name="shop"),))


class PromptSource(FakeSource):
    """Attaches and counts as soon as it is opened; fails with ``error`` instead where there is one."""

    def __init__(self, options: AttachOptions, error: HeaptopError | None = None) -> None:
        super().__init__(FakeAgent())
        self.over = False
        self.ready = False
        """All that the first tick says was delivered."""
        self._options = options
        self._error = error

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver, behind)
        if self._error is not None:
            self.end(self._error)
            return
        self.attach()
        self.sample(self._options.sample_interval, self._options.sample_depth)
        self.tick()
        self.ready = True

    def end(self, error: HeaptopError | None = None) -> None:
        self.over = True
        super().end(error)


class Hosted:
    """A running host and the processes that it sees."""

    def __init__(self) -> None:
        self.seen = [process(1)]
        self.config = EVERYTHING
        self.broken: Exception | None = None
        """What to scan, and to read the configuration, fails with."""
        self.errors: dict[int, Exception] = {}
        """What an attach to these pids ends with: raised at once where it is no HeaptopError."""
        self.sources: dict[int, list[PromptSource]] = {}
        self.meters = HostMeters()
        self.host = FleetHost(self._load, self.meters, scan=self._scan, attach=self._attach)

    def _load(self) -> FleetConfig:
        if self.broken is not None:
            raise self.broken
        return self.config

    def _scan(self) -> list[SeenProcess]:
        if self.broken is not None:
            raise self.broken
        return list(self.seen)

    def _attach(self, pid: int, options: AttachOptions) -> PromptSource:
        error = self.errors.get(pid)
        if error is not None and not isinstance(error, HeaptopError):
            raise error
        source = PromptSource(options, error)
        self.sources.setdefault(pid, []).append(source)
        return source

    def attached(self) -> list[int]:
        return sorted(one["pid"] for one in self.host.processes()["attached"])

    def refused(self) -> list[tuple[int, str, int]]:
        return [(one["pid"], one["class"], one["times"]) for one in self.host.processes()["refused"]]

    def refusals(self, name: str) -> float:
        return self.meters.registry.get_sample_value("heaptop_refusals_total", {"class": name}) or 0.0


def process(pid: int, rss: int = 100) -> SeenProcess:
    return SeenProcess(pid, 1, "www", "python shop.py", "shop", rss, 1000.0)


@pytest.fixture
def hosted(monkeypatch: pytest.MonkeyPatch) -> Hosted:
    monkeypatch.setattr(host_module, "ROUND", 0.01)
    monkeypatch.setattr(host_module, "is_same_process", lambda pid, start: True)
    return Hosted()


@contextmanager
def running(hosted: Hosted) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=hosted.host.run)
    thread.start()
    try:
        yield thread
    finally:
        hosted.host.stop()
        thread.join(60)
        assert not thread.is_alive()
        assert all(source.over for sources in hosted.sources.values() for source in sources)


def test_processes_that_come_are_attached_and_those_that_end_are_dropped(hosted: Hosted) -> None:
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1])
        hosted.seen.append(process(2))
        assert eventually(lambda: hosted.attached() == [1, 2])
        assert eventually(lambda: [service.counted for service in hosted.host.services()] == [2])
        (service,) = hosted.host.services()
        assert (service.service, service.processes) == ("shop", 2)
        alone = hosted.host.services()[0].types["dict"][0]
        hosted.sources[1][0].end(TargetExited("Process 1 ended."))
        del hosted.seen[0]
        assert eventually(lambda: hosted.attached() == [2])
        assert hosted.host.services()[0].types["dict"][0] == alone / 2
        assert hosted.refused() == []


def test_what_a_service_allocated_is_not_taken_back_when_a_process_ends(hosted: Hosted) -> None:
    with running(hosted):
        hosted.seen.append(process(2))
        assert eventually(lambda: hosted.attached() == [1, 2])
        for pid in (1, 2):
            hosted.sources[pid][0].tick(3)
        before = sum(hosted.host.services()[0].allocated.values())
        assert before > 0
        hosted.sources[1][0].end(TargetExited("Process 1 ended."))
        del hosted.seen[0]
        assert eventually(lambda: hosted.attached() == [2])
        assert sum(hosted.host.services()[0].allocated.values()) == before


@pytest.mark.parametrize("error", [PtraceDenied("denied"), ValueError("a bug")], ids=str)
def test_a_refused_process_rests_and_the_others_are_attached(hosted: Hosted, error: Exception) -> None:
    hosted.errors[1] = error
    hosted.seen.append(process(2, rss=50))
    name = "PtraceDenied" if isinstance(error, HeaptopError) else "InjectionFailed"
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [2])
        hosted.seen.append(process(3))
        assert eventually(lambda: hosted.attached() == [2, 3])  # rounds pass meanwhile
        assert hosted.refused() == [(1, name, 1)]
        assert hosted.refusals(name) == 1
        del hosted.seen[0]
        assert eventually(lambda: hosted.refused() == [])


def test_a_refused_process_takes_no_place(hosted: Hosted) -> None:
    hosted.config = FleetConfig((SelectRule(),), limit=1)
    hosted.host.reload()
    hosted.errors[1] = PtraceDenied("denied")
    hosted.seen.append(process(2, rss=50))
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [2])


def test_rests_get_longer(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "FIRST_REST", 0.001)
    hosted.errors[1] = PtraceDenied("denied")
    with running(hosted):
        assert eventually(lambda: any(times >= 4 for _, _, times in hosted.refused()))
        del hosted.errors[1]
        assert eventually(lambda: hosted.attached() == [1])
        assert hosted.refused() == []


def test_a_session_that_fails_rests_too(hosted: Hosted) -> None:
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1])
        hosted.sources[1][0].end(AgentLost("The agent exited."))
        assert eventually(lambda: hosted.refused() == [(1, "AgentLost", 1)])
        assert hosted.attached() == []


def test_a_clock_that_jumps_detaches_from_nothing_and_shortens_no_rest(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted.errors[1] = PtraceDenied("denied")
    hosted.seen.append(process(2))
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [2])
        began = time.time_ns()
        for hours in (24, -24, 24 * 365):
            monkeypatch.setattr(time, "time", lambda hours=hours: began / 1e9 + 3600 * hours)
            monkeypatch.setattr(time, "time_ns", lambda hours=hours: began + 3600 * hours * 10**9)
            hosted.seen.append(process(3 + len(hosted.sources)))
            assert eventually(lambda: hosted.seen[-1].pid in hosted.attached()), "a round has passed"
            assert hosted.refused() == [(1, "PtraceDenied", 1)]
            assert eventually(lambda: hosted.host.services()[0].counted == len(hosted.attached()))
            (service,) = hosted.host.services()
            assert service.oldest_census is not None
            assert 0 <= service.oldest_census < 3600
            assert Profile(hosted.host.profile()).default == "inuse_space"
        assert [len(sources) for sources in hosted.sources.values()] == [1] * len(hosted.sources)


def test_a_round_that_fails_ends_nothing(hosted: Hosted) -> None:
    with running(hosted) as thread:
        assert eventually(lambda: hosted.attached() == [1])
        hosted.broken = OSError("no /proc")
        assert eventually(lambda: hosted.refusals("OSError") >= 1)
        hosted.broken = None
        hosted.seen.append(process(2))
        assert eventually(lambda: hosted.attached() == [1, 2])
        assert thread.is_alive()


def test_a_long_pause_is_refused_and_nobody_decides(hosted: Hosted) -> None:
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1])
        source = hosted.sources[1][0]
        for _ in range(3):
            source.say(Decision(1, "clone", "", 90_000_000, 50_000_000))
        assert hosted.refusals("PauseTooLong") == 1
        source.say(Failure(1, "no memory"))
        assert hosted.refusals("NoCensus") == 1
        assert source.decisions == []
        assert hosted.attached() == [1]


def test_what_a_census_counted_is_not_served_when_no_other_one_comes(hosted: Hosted) -> None:
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1])
        (session,) = hosted.host._sessions.values()
        assert eventually(lambda: session._recorded.sampling.samples.state is not None)
        source = hosted.sources[1][0]
        source.tick(3)
        before = hosted.host.services()[0]
        assert (before.counted, "dict" in before.types, NO_SITE in before.sites) == (1, True, True)
        assert NO_SITE in Profile(hosted.host.profile()).texts
        source.say(Decision(1, "clone", "", 90_000_000, 50_000_000))
        (service,) = hosted.host.services()
        assert (service.counted, service.inexact, service.oldest_census, service.types) == (0, 0, None, {})
        assert service.sites.keys() == before.sites.keys() - {NO_SITE}
        assert NO_SITE not in Profile(hosted.host.profile()).texts
        (one,) = hosted.host.processes()["attached"]
        assert (one["census_age_seconds"], one["mode"], one["exact"]) == (None, "", None)


def sampled(hosted: Hosted) -> None:
    """Processes 1 to 3, attached to, each with samples."""
    hosted.seen += [process(2), process(3)]
    assert eventually(lambda: hosted.attached() == [1, 2, 3])
    sessions = list(hosted.host._sessions.values())
    assert eventually(lambda: all(one._recorded.sampling.samples.state is not None for one in sessions))
    for sources in hosted.sources.values():
        sources[0].tick(2)


def test_a_process_with_too_many_stacks_is_left_out_of_a_profile_and_the_others_are_in_it(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(hosted):
        sampled(hosted)
        sums = stack_sums(hosted.host._sessions[1, 1]._recorded)
        one, few = sum(each.text for each in sums), sums[:1]

        def of_three(recorded: Recorded, *, older: bool, most: int) -> list[StackSum]:
            if recorded.name == "process 1":
                return few
            return stack_sums(recorded, older=older, most=0 if recorded.name == "process 2" else most)

        monkeypatch.setattr(pprof, "stack_sums", of_three)
        monkeypatch.setattr(host_module, "MOST_TEXT", 2 * one)  # a third of that would be too little for process 3
        profile = Profile(hosted.host.profile())
        assert {labels["pid"] for _, _, labels in profile.samples} == {"1", "3"}
        assert [text for text in profile.comments if "left out" in text] == [
            "process 2 is left out: its stacks take too many characters"
        ]
        with pytest.raises(RecordingTooLarge):
            hosted.host.profile(pid=2)


def test_a_session_that_was_dropped_counts_nothing_any_more(hosted: Hosted) -> None:
    with running(hosted):
        sampled(hosted)
        (session, *_) = hosted.host._sessions.values()
        assert hosted.host._counters.keys() == {"shop"}
        hosted.config = FleetConfig((SelectRule(user="nobody"),))
        hosted.host.reload()
        assert eventually(lambda: hosted.host._sessions == {})
        hosted.host._add_allocated(session, {}, {"shop.py:1": 1000})
        hosted.host._add_collections(session, GcEvents((), 3))
        assert hosted.host._counters == {}


def test_collections_of_all_processes_are_added_up_and_stay_when_one_ends(hosted: Hosted) -> None:
    hosted.seen.append(process(2))
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1, 2])
        before = hosted.host.services()[0].gc
        assert before is not None
        collection = GcEvent(0, 2, 7, 1, 2_000_000, None)
        for pid in (1, 2):
            hosted.sources[pid][0].say(GcEvents((collection, collection), 1))
        hosted.sources[1][0].end(TargetExited("Process 1 ended."))
        del hosted.seen[0]
        assert eventually(lambda: hosted.attached() == [2])
        after = hosted.host.services()[0].gc
        assert after is not None
        assert after.collections[2] - before.collections[2] == 4
        assert (after.uncollectable - before.uncollectable, after.lost - before.lost) == (4, 2)


def test_nothing_is_kept_of_a_session_that_has_ended(hosted: Hosted) -> None:
    """Python seldom collects what is old and in a reference cycle: none has what was received."""
    gc.disable()
    try:
        _is_forgotten(hosted)
    finally:
        gc.enable()


def _is_forgotten(hosted: Hosted) -> None:
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1])
        (session,) = map(weakref.ref, hosted.host._sessions.values())
        samples = weakref.ref(session().sampling.samples)  # type: ignore[union-attr]
        hosted.sources[1][0].tick(5)
        source = hosted.sources[1].pop()
        source.end(TargetExited("Process 1 ended."))
        hosted.seen.clear()
        assert source.over
        del source
        assert eventually(lambda: (session(), samples()) == (None, None))


FRAGMENTED = """
from heaptop.fleet.host import trim_memory
from heaptop.injector.inspect.process import rss_bytes
import os
kept = [bytes(60_000) for _ in range(1000)]
kept = kept[::50]
before = rss_bytes(os.getpid())
trim_memory()
print(before - rss_bytes(os.getpid()))
"""


def test_free_memory_between_what_is_kept_is_returned_to_the_kernel() -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("only glibc can")
    returned = subprocess.run([sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, check=True).stdout
    assert int(returned) > 40_000_000


ARENAS = """
import ctypes, re, sys, threading
from heaptop.fleet.host import use_one_arena
use_one_arena()
together = threading.Barrier(20)
def work():
    kept = [bytes(60_000) for _ in range(10)]
    together.wait()
threads = [threading.Thread(target=work) for _ in range(20)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, stream)
libc.fclose(stream)
print(open(sys.argv[1]).read().count("<heap nr="))
"""


def test_threads_of_sessions_have_no_memory_that_only_they_can_use(tmp_path: Path) -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("only glibc can")
    command = [sys.executable, "-c", ARENAS, str(tmp_path / "arenas")]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) == 1


def test_a_service_has_one_name_in_metrics_and_profiles_whatever_it_is(hosted: Hosted) -> None:
    """A command line gives it, or a rule: `?service=` finds it, and labels are bounded."""
    hosted.config = FleetConfig((SelectRule(name=f" {'shop ' * 100}"),))
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1] and hosted.sources[1][0].ready)
        (service,) = (one.service for one in hosted.host.services())
        profile = Profile(hosted.host.profile(service=service))
    assert len(service) < 200
    assert {labels["service"] for _, _, labels in profile.samples} == {service}


def test_a_session_keeps_no_history_of_its_process(hosted: Hosted) -> None:
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1] and bool(hosted.sources[1][0].sampling))
        hosted.sources[1][0].tick(20)
        (session,) = hosted.host._sessions.values()
        recorded = session._recorded
        assert len(recorded.history.ticks) == 2
        assert len(recorded.history.records) == 2
        assert len(recorded.sampling.gc.rows) <= 2
        assert len(recorded.sampling.timeline.pairs) == 1
        assert recorded.sampling.lives.groups() == ()
        assert recorded.sampling.samples.changes() == []
        assert session.rss > 0


def test_a_reload_applies_and_a_broken_file_changes_nothing(hosted: Hosted) -> None:
    hosted.seen.append(process(2))
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1, 2])
        hosted.broken = ConfigError("unknown key `limits`.")
        with pytest.raises(ConfigError):
            hosted.host.reload()
        hosted.broken = None
        hosted.seen.append(process(3))
        assert eventually(lambda: hosted.attached() == [1, 2, 3])
        hosted.config = FleetConfig((SelectRule(name="web"),), limit=1)
        hosted.host.reload()
        assert eventually(lambda: len(hosted.attached()) == 1)
        assert [service.service for service in hosted.host.services()] == ["web"]


def test_no_two_attaches_are_under_way_at_once(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way: set[int] = set()
    most: list[int] = []
    start = PromptSource.open

    def slow(source: PromptSource, deliver: Deliver, behind: Behind = never_behind) -> None:
        under_way.add(id(source))
        most.append(len(under_way))

        def later() -> None:
            under_way.discard(id(source))
            start(source, deliver, behind)

        threading.Timer(0.1, later).start()

    monkeypatch.setattr(PromptSource, "open", slow)
    hosted.seen += [process(2), process(3)]
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1, 2, 3])
    assert most == [1, 1, 1]


def test_a_process_that_takes_a_pid_between_the_choice_and_the_attach_is_left_alone(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked at before the attach is then not what the rules chose."""
    monkeypatch.setattr(host_module, "is_same_process", lambda pid, start: not hosted.sources)
    hosted.host._round()
    (source,) = hosted.sources[1]
    assert not source.ready
    assert hosted.attached() == []
    assert hosted.refused() == []


def test_a_process_beyond_the_limit_is_not_attached_to(hosted: Hosted) -> None:
    hosted.config = FleetConfig((SelectRule(),), share=0.01, budget=0.02)
    hosted.host.reload()
    hosted.seen = [process(pid, rss=pid) for pid in range(1, 6)]
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [4, 5])


def test_attaches_ask_for_what_production_bears(hosted: Hosted) -> None:
    options = host_module.attach_options(FleetConfig())
    assert (options.interval, options.max_share, options.pause_budget) == (60.0, 0.01, 0.05)
    assert (options.sample_target, options.tracer, options.allow_seccomp) == (20, False, False)
    assert host_module.attach_options(FleetConfig(rate=0)).sample_interval == 0


def test_a_hostile_process_takes_a_small_part_of_the_hosts_memory(hosted: Hosted) -> None:
    assert host_module.attach_options(FleetConfig()).most_types == MOST_NAMES
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1])
        (session,) = hosted.host._sessions.values()
        codes = session._recorded.sampling.samples.codes
        told = len(codes)
        names = tuple(CodeName(f"{number}.py", "f", 1) for number in range(MOST_NAMES + 5))
        hosted.sources[1][0].say(Codes(told, names))
        assert len(codes) == MOST_NAMES
        tree = session._recorded.sampling.samples.stacks
        first = len(session._recorded.sampling.samples._said)
        nodes = tuple(StackNode(0, 0, line) for line in range(10_000, 10_000 + MOST_STACKS))
        hosted.sources[1][0].say(Stacks(first, nodes))
        assert len(tree) == MOST_STACKS
        assert session._recorded.sampling.samples._tallies.limit == MOST_TALLIES


def test_a_look_at_processes_that_has_to_wait_delays_no_other(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that is busy: it took no time of a processor."""
    scan = hosted._scan

    def slow() -> list[SeenProcess]:
        time.sleep(PATIENCE * host_module.SCAN_SHARE * 1.2)
        return scan()

    monkeypatch.setattr(hosted.host, "_scan", slow)
    with running(hosted):
        assert eventually(lambda: hosted.attached() == [1])
        hosted.seen.append(process(2))
        assert eventually(lambda: hosted.attached() == [1, 2])


def test_a_host_of_many_processes_is_looked_at_more_rarely() -> None:
    assert host_module.rest_after(0.01) == host_module.ROUND
    assert host_module.rest_after(3.0) == 150.0
