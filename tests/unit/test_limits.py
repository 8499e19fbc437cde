"""Where the program itself may need the last thread, file, mapping or bytes of address space, heaptop takes none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from heaptop.injector.session import control_groups, forecast, limits
from heaptop.injector.session.forecast import Headroom

STATUS: Final = """\
Uid:\t{user}\t0\t0\t0
FDSize:\t{fds}
VmSize:\t  {size} kB
VmData:\t {data} kB
Threads:\t{threads}
CapEff:\t{able:016x}
"""
LIMITS: Final = "Limit                     Soft Limit           Hard Limit           Units     \n"


def status(user: int = 1000, fds: int = 64, size: int = 1000, data: int = 500, threads: int = 1, able: int = 0) -> str:
    return STATUS.format(user=user, fds=fds, size=size, data=data, threads=threads, able=able)


def limit(name: str, soft: str) -> str:
    return LIMITS + f"{name:<26}{soft:<21}{'unlimited':<21}{'units':<10}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with process 7, whose leader has exited: only thread 8 shows its memory and files."""
    monkeypatch.setattr(control_groups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(control_groups, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(limits, "thread_ids", lambda _: [7, 8])
    write(tmp_path, "proc/7/status", status())
    write(tmp_path, "proc/7/task/8/status", status())
    write(tmp_path, "proc/loadavg", "0.10 0.20 0.30 2/345 6789\n")
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def reason() -> str:
    """Why process 7 is refused; empty when it is not."""
    refusal = limits.refusal(7)
    return f"{refusal.message} {refusal.why}" if refusal is not None else ""


@pytest.mark.parametrize(("have", "is_refused"), [(65_530 - 300, False), (65_530 - 200, True)])
def test_an_attach_is_refused_where_the_next_mapping_may_be_one_too_many(
    folder: Path, have: int, is_refused: bool
) -> None:
    """Of the process: its malloc and its threads need some too."""
    write(folder, "proc/sys/vm/max_map_count", "65530\n")
    write(folder, "proc/7/task/7/maps", "")
    write(folder, "proc/7/task/8/maps", "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n" * have)
    assert ("vm.max_map_count" in reason()) == is_refused


@pytest.mark.parametrize(
    ("line", "place", "name"),
    [("0::/pod/app", "cgroup/pod", "/pod"), ("4:pids:/pod/app", "cgroup/pids/pod", "/pod")],
    ids=["version 2", "version 1"],
)
@pytest.mark.parametrize(("most", "left"), [("40", 7), ("41", 8), ("max", 99)])
def test_near_the_limit_of_a_pids_group_no_thread_and_no_clone_is_made(
    folder: Path, line: str, place: str, name: str, most: str, left: int
) -> None:
    """Also where it is that of a group around its own."""
    write(folder, "proc/7/cgroup", line + "\n")
    write(folder, f"{place}/pids.max", most + "\n")
    write(folder, f"{place}/pids.current", "33\n")
    write(folder, f"{place}/app/pids.max", "max\n")
    write(folder, f"{place}/app/pids.current", "2\n")
    assert (f"Only 7 more may be made (pids.max of {name})" in reason()) == (left < 8)
    assert ("only 7 more processes or threads" in forecast.room(7).shortage(1 << 20)) == (left < 8)


@pytest.mark.parametrize(("path", "is_seen"), [("/box/own", True), ("/box/own/part", True), ("/box/other", False)])
def test_the_group_of_another_container_is_not_taken_for_that_of_heaptops(
    folder: Path, path: str, is_seen: bool
) -> None:
    """Version 1 without namespaces: a container sees its own group alone, mounted as if it were the first."""
    own = folder / "cgroup" / "pids"
    write(folder, "proc/self/mountinfo", f"38 31 0:38 /box/own {own} rw - cgroup cgroup rw,pids\n")
    write(folder, "proc/7/cgroup", f"4:pids:{path}\n")
    write(folder, "cgroup/pids/pids.max", "40\n")
    write(folder, "cgroup/pids/pids.current", "39\n")
    assert ("pids.max" in reason()) == is_seen
    assert control_groups.is_hidden(7, "pids") != is_seen


@pytest.mark.parametrize(
    ("soft", "user", "able", "is_refused"),
    [
        ("unlimited", 1000, 0, False),
        ("400", 1000, 0, False),  # the whole machine has 345
        ("44", 1000, 0, True),  # this user's three processes have 37 threads
        ("45", 1000, 0, False),
        ("44", 0, 0, False),
        ("44", 1000, 1 << 24, False),
        ("44", 1000, 1 << 21, False),
    ],
)
def test_near_the_limit_of_its_users_processes_no_thread_is_made(
    folder: Path, soft: str, user: int, able: int, is_refused: bool
) -> None:
    """The limit is on threads. Root is exempt, and a process with CAP_SYS_RESOURCE or CAP_SYS_ADMIN."""
    write(folder, "proc/7/limits", limit("Max processes", soft))
    write(folder, "proc/7/status", status(user, threads=2, able=able))
    write(folder, "proc/9/status", status(user, threads=34))
    write(folder, "proc/10/status", status(user, threads=1))
    write(folder, "proc/11/status", status(1001, threads=300))
    assert ("RLIMIT_NPROC" in reason()) == is_refused
    assert ("RLIMIT_NPROC" in forecast.room(7).shortage(1 << 20)) == is_refused


@pytest.mark.parametrize(
    ("namespace", "is_refused"),
    [("         0          0 4294967295\n", False), ("         0       1000          1\n", True), ("", False)],
)
def test_root_of_a_user_namespace_is_near_a_limit_as_any_user(
    folder: Path, namespace: str, is_refused: bool
) -> None:
    """Neither its number nor its capabilities exempt it: the kernel asks for those of the machine."""
    write(folder, "proc/7/limits", limit("Max processes", "44"))
    write(folder, "proc/7/uid_map", namespace)
    write(folder, "proc/7/status", status(0, threads=37, able=(1 << 41) - 1))
    assert ("RLIMIT_NPROC" in reason()) == is_refused


def test_descriptors_beyond_a_limit_that_was_lowered_take_none_of_it(folder: Path) -> None:
    write(folder, "proc/7/limits", limit("Max open files", "64"))
    write(folder, "proc/7/status", status(fds=256))
    for number in [*range(48), *range(100, 200)]:
        write(folder, f"proc/7/task/8/fd/{number}", "")
    assert "RLIMIT_NOFILE" not in reason()
    write(folder, "proc/7/task/8/fd/63", "")
    assert "It may open only 15 more files" in reason()


@pytest.mark.parametrize(
    ("soft", "table", "have", "is_refused"),
    [("1024", 256, 300, False), ("1024", 1024, 1009, True), ("1024", 1024, 1008, False), ("unlimited", 64, 9, False)],
)
def test_with_few_descriptors_left_none_is_taken(
    folder: Path, soft: str, table: int, have: int, is_refused: bool
) -> None:
    """Those that are open are counted only where its table is about as large as the limit."""
    write(folder, "proc/7/limits", limit("Max open files", soft))
    write(folder, "proc/7/status", status(fds=table))
    for number in range(have):
        write(folder, f"proc/7/task/8/fd/{number}", "")
    assert ("RLIMIT_NOFILE" in reason()) == is_refused


@pytest.mark.parametrize(("name", "used"), [("Max address space", 1000), ("Max data size", 500)])
@pytest.mark.parametrize(("left", "is_refused"), [(255, True), (256, False)])
def test_with_little_address_space_left_none_is_taken(
    folder: Path, name: str, used: int, left: int, is_refused: bool
) -> None:
    write(folder, "proc/7/limits", limit(name, f"{(used << 10) + (left << 20)}"))
    assert ("little address space left" in reason()) == is_refused
    assert (f"It may take only {left} MiB more" in reason()) == is_refused


@pytest.mark.parametrize(("overcommit", "shortage"), [("0", False), ("1", False), ("2", True)])
def test_a_clone_that_takes_the_last_of_what_the_kernel_promises_is_not_made(
    folder: Path, overcommit: str, shortage: bool
) -> None:
    """It is promised as much as the process may write to, not only what changes: others would get nothing."""
    write(folder, "proc/sys/vm/overcommit_memory", overcommit + "\n")
    memory = "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\nCommitLimit: 6000000 kB\nCommitted_AS: 3000000 kB\n"
    write(folder, "proc/meminfo", memory)
    write(folder, "proc/7/task/8/status", status(data=2_990_000))
    room = forecast.room(7)
    assert ("vm.overcommit_memory=2" in room.shortage(1 << 20)) == shortage
    assert room.left == 8_000_000 << 10
    write(folder, "proc/7/task/8/status", status(data=1_000_000))
    assert forecast.room(7).shortage(1 << 20) == ""


def test_this_process_is_near_no_limit() -> None:
    assert limits.refusal(os.getpid()) is None
    assert forecast.room(os.getpid()).tasks == ""


def test_want_of_processes_comes_before_want_of_memory() -> None:
    assert Headroom(0, tasks="few").shortage(1 << 30) == "few"
