"""How the next census is asked for: modes, budgets, questions; and the forecast that they rest on."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.injector.session import census_policy, control_groups, forecast
from heaptop.injector.session.census_policy import NOTHING_KNOWN, TABLES, CensusPolicy
from heaptop.injector.session.forecast import Headroom, PauseModel, pause_ns, rollup
from heaptop.protocol.images import FIRST_ID, Image, ImageRequest
from heaptop.protocol.messages import Census, CensusRequest, Core, Decision, Failure, Pauses, Row
from heaptop.protocol.source import Forecast

GIB = 1 << 30
IMAGE = Image(FIRST_ID, 1, 0, 150_000_000, 0, 60_000_000_000, 77, 40 << 20, 0, 0, 0, (), 0, True)
COUNTED = Census(1, 0, "clone", True, "", (), 0, 50_000_000, 0, 0, 0)


def seen(anonymous: int = GIB, huge: int = 0) -> Forecast:
    return Forecast(anonymous, anonymous, huge, pause_ns(anonymous, huge))


STOP = 60_000_000
"""What the agent says that a count in the stopped process would take."""


def asks(request: CensusRequest) -> bool:
    """Whether the agent may do nothing but a short stop, and else asks."""
    return request.mode == "stop" and request.budget_ns == 0


def asked(policy: CensusPolicy, request: CensusRequest) -> Decision:
    """What a person is asked where no short stop can be expected."""
    assert asks(request)
    return policy.ask(Decision(request.id, "stop", request.reason, STOP, 0))


def test_a_clone_is_asked_for_within_the_budget() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen())
    request = policy.request(5, None)
    assert (request.mode, request.budget_ns) == ("clone", 100_000_000)
    assert not asks(request)


def test_a_short_clone_is_asked_for_at_once() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen(64 << 20))
    assert policy.request(5, None) == CensusRequest(5, mode="clone", budget_ns=100_000_000)


def test_a_stop_is_tried_first_where_it_may_be_far_shorter_than_a_clone() -> None:
    """It gives up at half of what the clone would take, and at the budget."""
    for size, most in ((GIB, pause_ns(GIB, 0) // 2), (20 * GIB, 100_000_000)):
        policy = CensusPolicy(budget_ns=100_000_000)
        policy.foresee(seen(size))
        request = policy.request(5, None)
        assert request.stop_ns == most
        expected = pause_ns(size, 0) / 1e6
        assert request.reason == f"a clone would pause the program for about {expected:.0f} ms"


def test_above_the_budget_a_person_is_asked_first_and_once() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen(8 * GIB))
    question = asked(policy, policy.request(5, None))
    assert question.mode == "clone"
    assert question.pause_ns > 8 * 15_000_000
    assert question.stop_ns == STOP, "there is another pause to choose"
    policy.decide(True)
    request = policy.request(6, None)
    assert (request.mode, request.budget_ns) == ("clone", 100_000_000), "a clone was allowed, not a stop"
    policy.counted(replace(COUNTED, pause_ns=2 * question.pause_ns), None)
    assert not asks(policy.request(7, None))
    policy.counted(replace(COUNTED, pause_ns=2 * question.pause_ns + 1), None)
    policy.counted(replace(COUNTED, pause_ns=2 * question.pause_ns + 1), None)
    assert asks(policy.request(8, None)), "that is longer than what was allowed"


def test_a_stop_that_is_longer_than_a_clone_is_not_offered() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen(8 * GIB))
    request = policy.request(5, None)
    assert policy.ask(Decision(5, "stop", request.reason, pause_ns(8 * GIB, 0), 0)).stop_ns == 0


def test_the_other_pause_may_be_chosen() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen(8 * GIB))
    asked(policy, policy.request(5, None))
    policy.decide(True, stop=True)
    request = policy.request(6, None)
    assert (request.mode, request.budget_ns) == ("stop", 2 * STOP)
    assert "a clone would pause" in request.reason
    assert isinstance(policy.image(ImageRequest(FIRST_ID, 1), None), Decision), "a snapshot's pause was not allowed"


def test_a_snapshot_above_the_budget_is_asked_about_and_declined_for_good() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen(8 * GIB))
    question = policy.image(ImageRequest(FIRST_ID, 1), None)
    assert isinstance(question, Decision)
    assert (question.request, question.mode, question.stop_ns) == (FIRST_ID, "clone", 0)
    assert policy.ask(question) == question
    policy.decide(False)
    answer = policy.image(ImageRequest(FIRST_ID + 1, 1), None)
    assert isinstance(answer, Failure)
    assert "declined" in answer.text
    assert policy.request(6, None).mode != "python", "a census was not declined"
    policy.ask(question)
    policy.decide(True)
    assert policy.request(7, None).mode == "clone", "what a snapshot may do a census may"


def test_a_stop_that_was_allowed_allows_no_longer_clone() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen(8 * GIB))
    policy.pending = Decision(5, "stop", "no clone could be made", 2_000_000_000, 100_000_000)
    policy.decide(True)
    assert asks(policy.request(6, None))
    assert policy.request(7, None, Headroom(0)).budget_ns == 4_000_000_000


def test_without_the_core_nothing_is_asked() -> None:
    policy = CensusPolicy(budget_ns=0)
    policy.foresee(seen())
    policy.core(Core(1, "0123456789abcdef", loaded=False, reused=False, text="it does not fit"))
    assert policy.request(5, None, Headroom(0)) == CensusRequest(
        5, mode="python", reason="it does not fit", budget_ns=0
    )


def test_a_declined_pause_means_slices_from_then_on() -> None:
    policy = CensusPolicy(budget_ns=0)
    policy.foresee(seen())
    asked(policy, policy.request(5, None))
    policy.decide(False)
    request = policy.request(6, None)
    assert isinstance(request, CensusRequest)
    assert request.mode == "python"
    assert "declined" in request.reason
    policy.decide(True)
    assert policy.request(7, None) == replace(request, id=7), "there was nothing to decide"


def test_huge_pages_make_the_same_heap_cheap() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen(8 * GIB, huge=8 * GIB))
    assert not asks(policy.request(5, None))


def test_what_was_measured_replaces_what_was_expected_and_grows_with_the_process() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen())
    policy.counted(COUNTED, 2 * GIB)
    assert not asks(policy.request(5, 3 * GIB))
    question = asked(policy, policy.request(6, 5 * GIB))
    assert question.pause_ns == 125_000_000


def test_one_long_pause_among_short_ones_is_the_machine_s() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen())
    for pause in (20, 400, 22, 21, 23):
        policy.counted(replace(COUNTED, pause_ns=pause * 1_000_000), GIB)
        assert not asks(policy.request(5, GIB))
    for _ in range(3):
        policy.counted(replace(COUNTED, pause_ns=150_000_000), GIB)
    assert asks(policy.request(6, GIB)), "by now they are all long"


def test_one_slow_pause_on_a_loaded_machine_asks_nobody() -> None:
    """There is the forecast to say that it was not the target's; with three of them, the forecast was too low."""
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen())
    for _ in range(2):
        policy.counted(replace(COUNTED, pause_ns=101_000_000), GIB)
        assert not asks(policy.request(5, GIB))
        assert policy.model.expect(GIB) == pause_ns(GIB, 0)
    policy.counted(replace(COUNTED, pause_ns=101_000_000), GIB)
    assert asks(policy.request(6, GIB))


def test_what_a_clone_costs_is_its_cpu_time_and_not_how_long_the_machine_took() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen())
    for _ in range(forecast.REMEMBERED):
        felt = Pauses(stopped_ns=400_000_000, stopped_cpu_ns=7_000_000)
        policy.counted(replace(COUNTED, pause_ns=400_000_000, pauses=felt), GIB)
    assert policy.model.expect(GIB) == 7_000_000


def test_a_slow_first_snapshot_does_not_forbid_the_next() -> None:
    policy = CensusPolicy(budget_ns=100_000_000)
    policy.foresee(seen())
    policy.frozen(replace(IMAGE, pause_ns=150_000_000), GIB)
    assert isinstance(policy.image(ImageRequest(FIRST_ID, 1), GIB), ImageRequest)


def test_without_room_for_a_clone_the_target_is_stopped() -> None:
    policy = CensusPolicy()
    policy.foresee(seen(2 * GIB))
    request = policy.request(5, None, Headroom(10 << 20))
    assert isinstance(request, CensusRequest)
    assert request.mode == "stop"
    assert request.reason.startswith("only 10 MiB of memory are free")
    later = policy.request(6, None, Headroom(GIB))
    assert isinstance(later, CensusRequest)
    assert later.mode == "clone", "there is room again"
    grown = policy.request(7, 40 * GIB, Headroom(GIB))
    assert isinstance(grown, CensusRequest)
    assert grown.mode == "stop"


def test_a_snapshot_of_many_objects_needs_room_for_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    left = 1 << 30
    monkeypatch.setattr(census_policy, "forecast", lambda pid: seen(GIB))
    monkeypatch.setattr(census_policy, "room", lambda pid: Headroom(left))
    assert census_policy.snapshot_shortage(1, 1_000_000) == ""
    assert census_policy.snapshot_shortage(1, left // TABLES).startswith("only 1024 MiB of memory are free")
    left = 60 << 20
    assert census_policy.snapshot_shortage(1, 0).startswith("only 60 MiB of memory are free")
    monkeypatch.setattr(census_policy, "forecast", lambda pid: None)
    assert census_policy.snapshot_shortage(1, 0) == "", "it has ended"


def test_where_all_would_be_ended_together_a_clone_needs_room_for_every_page() -> None:
    assert not Headroom(5 * GIB, together=True).shortage(4 * GIB)
    assert "memory.oom.group" in Headroom(4 * GIB, together=True).shortage(4 * GIB)
    assert not Headroom(4 * GIB).shortage(4 * GIB)


def test_a_mode_that_a_person_chose_has_no_reason_and_no_forecast() -> None:
    for mode in ("stop", "python"):
        policy = CensusPolicy(mode)
        policy.foresee(seen(64 * GIB))
        assert policy.request(5, None, Headroom(0)) == CensusRequest(5, mode=mode, reason="")


@given(st.integers(0, 1 << 44), st.integers(0, 1 << 44), st.none() | st.integers(0, 1 << 44))
def test_more_memory_never_makes_a_pause_shorter(anonymous: int, more: int, headroom: int | None) -> None:
    assert pause_ns(anonymous + more, 0) >= pause_ns(anonymous, 0) > 0
    assert pause_ns(anonymous, anonymous) <= pause_ns(anonymous, 0)
    for together in (False, True):
        room = Headroom(headroom, together)
        if headroom is None:
            assert not room.shortage(anonymous)
        elif room.shortage(anonymous):
            assert room.shortage(anonymous + more)


@given(st.integers(1, 1 << 40), st.none() | st.integers(1, 1 << 44))
def test_a_pause_measured_again_and_again_is_never_expected_to_shrink(pause: int, rss: int | None) -> None:
    model = PauseModel(seen())
    for _ in range(forecast.ENOUGH):
        model.measure(pause, rss)
    assert model.expect(rss) == pause
    assert model.expect(None) == pause
    assert model.expect(2 * rss if rss else rss) >= pause


def test_this_process_has_a_forecast() -> None:
    found = forecast.forecast(os.getpid())
    assert found is not None
    assert found.rss >= found.anonymous >= found.huge >= 0
    assert found.anonymous > 1 << 20
    usual = pause_ns(found.anonymous, found.huge)
    assert usual <= found.pause_ns <= usual + 1e6 + 2500 * len(Path("/proc/self/maps").read_text().splitlines())
    left = forecast.room(os.getpid()).left
    assert left is None or left > 1 << 20
    assert forecast.forecast((1 << 22) + 1) is None


def test_where_the_kernel_tells_nothing_of_huge_pages_all_are_taken_to_be_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecast, "_sizes", lambda file: {})
    found = forecast.forecast(os.getpid())
    assert found is not None
    assert found.rss == found.anonymous > 1 << 20
    assert found.huge == 0
    assert found.pause_ns >= pause_ns(found.rss, 0)


def test_a_long_list_of_mappings_lengthens_the_pause() -> None:
    """The kernel copies it: 60,000 took 160 ms, in a process of 128 MiB for which 4 ms were expected."""
    assert pause_ns(128 << 20, 0, 60_000) > 100e6 > pause_ns(128 << 20, 0, 300)
    with mapped(20_000):
        found = forecast.forecast(os.getpid())
    assert found is not None
    assert found.pause_ns >= pause_ns(found.anonymous, found.huge, 20_000)


@contextlib.contextmanager
def mapped(count: int) -> Iterator[None]:
    """So many mappings more in this process: every second page may not be written to."""
    with mmap.mmap(-1, count * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        protect = ctypes.CDLL(None).mprotect
        for page in range(0, count, 2):
            address = ctypes.c_void_p(begin + page * mmap.PAGESIZE)
            assert protect(address, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ) == 0
        yield


@pytest.mark.parametrize(("limit", "left"), [("1048576000", 110 << 20), ("max", 2 << 30)])
@pytest.mark.parametrize("group", ["0", "1"])
def test_room_is_the_least_that_any_control_group_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, left: int, group: str
) -> None:
    monkeypatch.setattr(control_groups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(control_groups, "CGROUPS", tmp_path / "cgroup")
    files = {
        "proc/meminfo": "MemTotal: 1 kB\nMemAvailable: 2097152 kB\n",
        "proc/7/cgroup": "0::/pod/app\n",
        "cgroup/pod/memory.max": limit,
        "cgroup/pod/memory.current": str(900 << 20),
        "cgroup/pod/memory.stat": f"anon 1\ninactive_file {10 << 20}\n",
        "cgroup/pod/app/memory.max": "max",
        "cgroup/pod/app/memory.oom.group": f"{group}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert forecast.room(7) == Headroom(left, together=group == "1")


@pytest.mark.parametrize(
    ("line", "limit", "used", "unused", "in_use"),
    [
        ("0::/app", "memory.max", "memory.current", "inactive_file", "active_file"),
        ("0::/app", "memory.max", "memory.current", "inactive_file", "slab_reclaimable"),
        ("3:memory:/app", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"),
    ],
)
def test_an_attach_is_not_refused_for_memory_that_the_kernel_takes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, limit: str, used: str, unused: str, in_use: str
) -> None:
    folder = "cgroup/" + ("memory/" if "memory" in line else "") + "app/"
    of_itself = f"active_file {1 << 30}\n" if "memory" in line else ""  # version 1: without the groups below
    for cached, is_enough in ((0, False), (9 << 20, False), (10 << 20, True)):
        files = {
            **MACHINE,
            "proc/7/cgroup": line + "\n",
            folder + limit: str(1000 << 20),
            folder + used: str(998 << 20),
            folder + "memory.stat": f"{unused} {1 << 20}\n{of_itself}{in_use} {cached}\n",
        }
        faked(tmp_path, monkeypatch, files)
        assert (forecast.attach_refusal(7) is None) == is_enough
        assert forecast.room(7).left == 3 << 20


def faked(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    """A /proc and control groups of such files, for process 7."""
    monkeypatch.setattr(control_groups, "PROC", folder / "proc")
    monkeypatch.setattr(control_groups, "CGROUPS", folder / "cgroup")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


MACHINE = {"proc/meminfo": "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\n"}
STAT = f"anon 1\ninactive_file {10 << 20}\n"


def test_the_limit_in_version_2_is_the_smallest_of_max_and_high_up_to_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = {"current": str(900 << 20), "stat": STAT, "max": str(1000 << 20), "high": "max"}
    pressure = "some avg10=12.34 avg60=0.00 avg300=0.00 total=1\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=1\n"
    files = {
        **MACHINE,
        "proc/7/cgroup": "0::/pod/app\n",
        **{f"cgroup/pod/memory.{name}": text for name, text in group.items()},
        "cgroup/pod/app/memory.max": "max",
        "cgroup/pod/app/memory.high": "max",
        "cgroup/pod/app/memory.pressure": pressure,
        "cgroup/pod/memory.pressure": pressure.replace("12.34", "99.00"),
    }
    faked(tmp_path, monkeypatch, files)
    assert forecast.memory_limit(7) == forecast.MemoryLimit(1000 << 20, "memory.max of /pod", 110 << 20, 12.34)
    (tmp_path / "cgroup/pod/memory.high").write_text(str(950 << 20))
    assert forecast.memory_limit(7) == forecast.MemoryLimit(950 << 20, "memory.high of /pod", 60 << 20, 12.34)


def test_the_limit_in_version_1_is_the_smallest_of_the_ancestors_and_a_huge_number_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        **MACHINE,
        "proc/7/cgroup": "9:name=systemd:/\n4:memory:/docker/app\n0::/\n",
        "cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "cgroup/memory/docker/memory.limit_in_bytes": str(500 << 20),
        "cgroup/memory/docker/memory.usage_in_bytes": str(450 << 20),
        "cgroup/memory/docker/memory.stat": f"total_inactive_file {20 << 20}\n",
        "cgroup/memory/docker/app/memory.limit_in_bytes": str(3 << 30),
    }
    faked(tmp_path, monkeypatch, files)
    found = forecast.memory_limit(7)
    assert found == forecast.MemoryLimit(500 << 20, "memory.limit_in_bytes of /docker", 70 << 20)


def test_without_a_limit_the_machine_is_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faked(tmp_path, monkeypatch, {**MACHINE, "proc/7/cgroup": "0::/\n", "proc/pressure/memory": "some avg10=0.50 a\n"})
    assert forecast.memory_limit(7) == forecast.MemoryLimit(4 << 30, "the machine", 2 << 30, 0.5)
    faked(tmp_path / "nothing", monkeypatch, {"proc/7/cgroup": "0::/../other\n"})
    assert forecast.memory_limit(7) is None


OUTSIDE = {**MACHINE, "proc/7/cgroup": "0::/../../pod/app\n", "cgroup/pod/app/memory.max": str(1000 << 20)}
"""A process that is in no group of heaptop's namespace, and the host's groups."""


def mounted(folder: Path, root: str) -> dict[str, str]:
    """The lines of heaptop's own mounts, with control groups from ``root`` on."""
    line = f"38 31 0:38 {root} {folder / 'cgroup'} rw,relatime - cgroup2 cgroup2 rw"
    return {"proc/self/mountinfo": f"31 23 0:28 / {folder} rw - tmpfs tmpfs rw\n{line}\n"}


def test_a_group_outside_the_namespace_is_found_where_the_hosts_groups_are_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faked(tmp_path, monkeypatch, {**OUTSIDE, **mounted(tmp_path, "/../..")})
    found = forecast.memory_limit(7)
    assert found is not None
    assert (found.bytes, found.of) == (1000 << 20, "memory.max of /pod/app")


@pytest.mark.parametrize("root", ["/", "/..", "/../../po", "/../../pod/app/part", "/../../.."])
def test_a_limit_that_is_not_visible_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    faked(tmp_path, monkeypatch, {**OUTSIDE, **mounted(tmp_path, root)})
    found = forecast.memory_limit(7)
    assert found is not None
    assert (found.bytes, found.of) == (4 << 30, "the machine; that of its control group is not visible")


@pytest.mark.parametrize("path", ["/", "/pod/app"])
def test_where_the_hosts_groups_are_mounted_those_of_the_namespace_are_not_taken_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The container's own process is in ``/``, which is not the host's; its ``/pod/app`` is not the host's either."""
    faked(tmp_path, monkeypatch, {**OUTSIDE, "proc/7/cgroup": f"0::{path}\n", **mounted(tmp_path, "/../..")})
    found = forecast.memory_limit(7)
    assert found is not None
    assert (found.bytes, found.of) == (4 << 30, "the machine; that of its control group is not visible")


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x85"])
def test_a_control_group_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str) -> None:
    group = f"pod{separator}0::"
    files = {
        **MACHINE,
        "proc/7/cgroup": f"0::/{group}\n",
        f"cgroup/{group}/memory.max": str(1000 << 20),
        f"cgroup/{group}/memory.current": str(900 << 20),
        f"cgroup/{group}/memory.stat": STAT,
    }
    faked(tmp_path, monkeypatch, files)
    assert forecast.room(7).left == 110 << 20


def test_the_limit_names_its_control_group_printably(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = "pod\x1b[2J\x0b"
    files = {**MACHINE, "proc/7/cgroup": f"0::/{group}\n", f"cgroup/{group}/memory.max": str(1000 << 20)}
    faked(tmp_path, monkeypatch, files)
    found = forecast.memory_limit(7)
    assert found is not None
    assert (found.of, found.of.isprintable()) == ("memory.max of /pod [2J ", True)


def test_only_a_rollup_is_read_as_one() -> None:
    text = "55d-7ff ---p 00000000 00:00 0 [rollup]\nRss:  12 kB\nAnonHugePages: 2048 kB\n"
    assert rollup(text) == {"Rss": 12 << 10, "AnonHugePages": 2 << 20}
    for wrong in ("x\nRss: 12 MB\n", "x\nRss: 12\n", "x\nnothing\n"):
        with pytest.raises(ValueError, match=r"kB|unpack"):
            rollup(wrong)


# -- an open snapshot -------------------------------------------------------------------------------------------

FREEZE = ImageRequest(FIRST_ID, 60_000_000_000)
MILLION = replace(COUNTED, rows=(Row(0, 2, 1_000_000, 64_000_000),))


def test_an_open_snapshot_is_asked_for_within_the_budget_and_with_a_limit() -> None:
    policy = CensusPolicy()
    policy.foresee(seen())
    assert policy.image(FREEZE, None) == FREEZE, "of the room nothing is known"
    assert policy.image(FREEZE, None, Headroom(4 * GIB)) == replace(FREEZE, memory=2 * GIB)
    assert policy.image(replace(FREEZE, memory=7), None, Headroom(4 * GIB)) == replace(FREEZE, memory=7)
    assert policy.image(replace(FREEZE, memory=3 * GIB), None, Headroom(4 * GIB)) == replace(FREEZE, memory=2 * GIB)


def refusal(policy: CensusPolicy, room: Headroom = NOTHING_KNOWN) -> str:
    made = policy.image(FREEZE, None, room)
    assert isinstance(made, Failure)
    assert made.request == FIRST_ID
    return made.text


def test_there_is_none_where_its_tables_have_no_room() -> None:
    policy = CensusPolicy()
    policy.foresee(seen(64 << 20))
    enough = Headroom(2 * TABLES * 1_000_000)
    policy.counted(MILLION, None)
    assert isinstance(policy.image(FREEZE, None, enough), ImageRequest)
    text = refusal(policy, replace(enough, left=enough.left - 1 if enough.left else 0))
    assert "only 143 MiB of memory are free, and a clone may need 143 MiB (1 MiB more)" in text
    assert text.endswith("Free some, or raise the limit of its control group")
    assert "memory.oom.group" in refusal(policy, replace(enough, together=True))


def test_a_limit_that_the_tables_would_reach_is_reported_before_it_is_made() -> None:
    """A clone that ends at its limit has taken the time and the memory for nothing."""
    policy = CensusPolicy()
    policy.foresee(seen(64 << 20))
    policy.counted(MILLION, None)
    for left in range(2 * TABLES * 1_000_000, 8 * TABLES * 1_000_000, TABLES * 1_000_000):
        made = policy.image(FREEZE, None, Headroom(left))
        assert isinstance(made, ImageRequest)
        assert made.memory >= TABLES * 1_000_000
    assert "(14 MiB more)" in refusal(policy, Headroom(2 * TABLES * 1_000_000 - (14 << 20)))


def test_what_tables_need_is_known_from_the_last_snapshot() -> None:
    policy = CensusPolicy()
    policy.foresee(seen(64 << 20))
    policy.counted(MILLION, None)
    room = Headroom(100 << 20)
    assert "MiB more" in refusal(policy, room)
    policy.frozen(replace(IMAGE, objects=1_000_000, memory=30_000_000), None)
    assert isinstance(policy.image(FREEZE, None, room), ImageRequest)
    policy.frozen(replace(IMAGE, objects=1_000_000, memory=90_000_000), None)
    assert policy.tables == TABLES, "a snapshot with the tables of queries"


def test_what_was_seen_to_fit_at_the_end_of_a_snapshot_fits_while_it_is_made_and_asked() -> None:
    """A million objects: 46.9 bytes each at the end, 71 while dominators were found; a mark takes another one."""
    policy = CensusPolicy()
    policy.frozen(replace(IMAGE, objects=1_000_000, memory=46_900_000), None)
    assert policy.tables >= 72


def test_before_the_first_census_there_are_as_many_objects_as_there_may_be() -> None:
    policy = CensusPolicy()
    policy.foresee(seen(64 << 20))
    least = 2 * TABLES * (1 << 20)
    assert isinstance(policy.image(FREEZE, None, Headroom(least)), ImageRequest)
    assert "memory" in refusal(policy, Headroom(least - 1))


def test_there_is_none_above_the_budget_until_a_person_has_agreed() -> None:
    policy = CensusPolicy()
    policy.foresee(seen(8 * GIB))
    question = policy.image(FREEZE, None)
    assert question == Decision(FIRST_ID, "clone", "", pause_ns(8 * GIB, 0), 100_000_000)
    asked(policy, policy.request(5, None))
    assert "another pause" in refusal(policy), "one question at a time"
    policy.decide(True)
    assert isinstance(policy.image(FREEZE, None), ImageRequest)


def test_there_is_none_without_a_clone() -> None:
    assert "mode stop was chosen" in refusal(CensusPolicy("stop"))
    policy = CensusPolicy(budget_ns=0)
    policy.foresee(seen())
    asked(policy, policy.request(5, None))
    policy.decide(False)
    assert "a pause of about 30 ms was declined" in refusal(policy)


def test_the_pause_of_an_open_snapshot_is_one_to_expect_the_next_by() -> None:
    policy = CensusPolicy()
    policy.foresee(seen())
    for _ in range(forecast.ENOUGH):
        policy.frozen(IMAGE, None)
    question = policy.image(FREEZE, None)
    assert isinstance(question, Decision)
    assert question.pause_ns == 150_000_000
