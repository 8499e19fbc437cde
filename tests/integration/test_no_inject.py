"""``--no-inject``: the heap of a copy is that of the process, and the process is as it was, whoever is killed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from heaptop.dumps.cores.conversion import CoreOptions, open_copy
from heaptop.dumps.reader import HeapDump
from heaptop.errors import (
    HeaptopError,
    ImageRefused,
    OutOfResources,
    PauseTooLong,
    ProcessNotFound,
    SeccompTarget,
    StoppedTarget,
    TracedTarget,
    UsageError,
)
from heaptop.injector.entry import memory_copy
from heaptop.injector.entry.memory_copy import Copier, CopyPlan
from heaptop.injector.inspect import process
from tests.interpreters import MUSL, SAMPLE, STABLE, Interpreter
from tests.support import native
from tests.support.attaching import attach_once
from tests.support.dumped_heaps import check_same_heap, loaded
from tests.support.leaking import ENVIRONMENT, HEAPTOP, document, heaptop
from tests.support.processes import (
    EXIT_CODE,
    PATIENCE,
    Facts,
    Target,
    difference,
    eventually,
    running,
    this_python,
    with_proc,
)

ENOUGH: Final = ("--pause-budget", "20000")
"""Milliseconds: for a machine that is busy with other things."""

INTERRUPTED: Final = {"epoll_wait", "sigtimedwait", "io_getevents"}
"""Those of tests/targets/waiting_in_c.py that signal(7) names, with a time limit."""
ENDLESS_CALLS: Final = (
    *("epoll_wait", "epoll_pwait", "epoll_pwait2", "sigwaitinfo", "semop", "semtimedop", "io_getevents"),
    "read",
)
"""Of tests/targets/endless.py."""
NOT_TAKEN: Final = {"semop", "semtimedop", "io_getevents"}  # Waits that an attach takes no thread from
ENDLESS: Final = {"endless epoll_wait", "endless sigwaitinfo"}


def copy(*arguments: object) -> subprocess.CompletedProcess[str]:
    return heaptop(*arguments, "--no-inject", *ENOUGH)


def untouched(before: Facts, target: Target) -> list[str]:
    return difference(before, Facts.of(target.pid), allow_pages=False)


def interrupted(target: Target) -> set[str]:
    """The calls that have returned EINTR so far."""
    lines = len(target.said())
    target.signal(signal.SIGUSR1)
    assert eventually(lambda: len(target.said()) > lines)
    return set(target.said()[-1].split(", ")[1:])


@pytest.mark.pythons("3.8", "3.13", *MUSL)
@pytest.mark.parametrize("way", ["copy", "stop"])
def test_a_copy_ends_only_waits_with_a_time_limit_that_any_stop_ends(interpreter: Interpreter, way: str) -> None:
    """With EINTR, after which Python's own functions call again. Here an attach ends none: other threads wait too."""
    with running(interpreter, "waiting_in_c", wrapper=with_proc(interpreter)) as target:
        attach_once(target.pid)
        assert interrupted(target) == set()
        if way == "copy":
            assert copy("census", target.pid).returncode == 0
        else:
            target.stop()
            target.signal(signal.SIGCONT)
        expected = INTERRUPTED if way == "copy" else INTERRUPTED | ENDLESS
        if interpreter.musl:  # which calls that again
            expected = expected - {"sigtimedwait", "endless sigwaitinfo"}
        eventually(lambda: len(interrupted(target)) >= len(expected), 10)
        assert interrupted(target) == expected
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("call", ENDLESS_CALLS)
def test_a_wait_without_a_time_limit_goes_on(interpreter: Interpreter, call: str) -> None:
    """In the only thread there is, which is stopped and taken: and a signal's handler ends it, as always."""
    with running(interpreter, "endless", call) as target:
        if call not in NOT_TAKEN:
            attach_once(target.pid)
        assert copy("census", target.pid).returncode == 0
        assert target.said() == []
        target.signal(signal.SIGUSR1)
        assert eventually(lambda: target.said() == [f"ENDED {errno.EINTR}"])
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("call", ["epoll_wait", "sigwaitinfo"])
def test_a_wait_without_a_time_limit_goes_on_in_a_thread_that_blocks_the_signals_of_glibc(
    interpreter: Interpreter, call: str
) -> None:
    """It is looked at for long, as one in a handler of glibc's, and then not taken."""
    with running(interpreter, "endless", call, "blocked") as target:
        with pytest.raises(HeaptopError):
            attach_once(target.pid)
        assert target.said() == []
        target.signal(signal.SIGUSR1)
        assert eventually(lambda: target.said() == [f"ENDED {errno.EINTR}"])
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons(STABLE)
def test_lists_of_the_collector_aligned_to_four_bytes_are_found_in_a_process_and_in_a_copy(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    test_a_copy_has_the_heap_of_the_snapshot(interpreter, tmp_path)


@pytest.mark.pythons(*SAMPLE, *MUSL)
def test_a_copy_has_the_heap_of_the_snapshot(interpreter: Interpreter, tmp_path: Path) -> None:
    """Types and objects; bytes but for types that are measured by code, which are named. What is opaque is stated."""
    native.core()
    with running(interpreter, "why_planted", wrapper=with_proc(interpreter)) as target:
        before = Facts.of(target.pid)
        done = copy("dump", target.pid, "-o", tmp_path / "copy.heapdump")
        assert done.returncode == 0, done.stderr
        assert "was stopped for" in done.stderr
        assert untouched(before, target) == []
        assert heaptop("dump", target.pid, "-o", tmp_path / "live.heapdump").returncode == 0
        with (
            loaded(HeapDump(str(tmp_path / "live.heapdump"))) as live,
            loaded(HeapDump(str(tmp_path / "copy.heapdump"))) as found,
        ):
            assert (found.whole, found.info.origin, found.info.pid) == (True, "copy", target.pid)
            assert found.image.pause_ns > 0
            check_same_heap(interpreter, live, found)
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.12")
def test_commands_answer_of_a_copy(interpreter: Interpreter) -> None:
    native.core()
    with running(interpreter, "why_planted") as target:
        census = document("census", target.pid, "--top", 0, "--no-inject", *ENOUGH)
        assert sum(row["count"] for row in census["rows"] if row["name"] == "__main__.Session") > 0
        assert census["mode"] == "stop"
        assert census["pause_ms"] > 0
        assert "--no-inject" in census["mode_reason"]
        why = document("why", target.pid, "__main__.Session", "--no-inject", *ENOUGH)
        assert why["paths"]
        assert document("waste", target.pid, "--no-inject", *ENOUGH)["rows"]
        words = copy("census", target.pid).stdout
        assert "longest pause" in words
        assert "no code ran in the process" in words
        for more in (["--memory"], ["--by", "producer"], ["--mode", "stop"]):
            assert copy("census", target.pid, *more).returncode == UsageError.exit_code
        assert copy("dump", target.pid, "--for", 3).returncode == UsageError.exit_code
        assert target.said() == []


@pytest.mark.pythons("3.8", "3.12", *MUSL)
@pytest.mark.parametrize("name", ["sleeper", "lock", "asyncio_sleeper", "threads8", "leader_gone"])
def test_the_target_runs_on_as_if_nothing_had_been(interpreter: Interpreter, name: str) -> None:
    """Sleeps take their time, locks stay, and there is no mapping, descriptor or thread more."""
    native.core()
    with running(interpreter, name) as target:
        before = Facts.of(target.pid)
        for _ in range(3):
            done = copy("census", target.pid)
            # One that changes its heap all the time may be stopped where no other thread could see it.
            assert done.returncode == 0 or (name == "threads8" and "Retry" in done.stderr), done.stderr
        assert [line for line in untouched(before, target) if not line.startswith("anonymous")] == []
        assert target.said() == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="root can read filters")
@pytest.mark.pythons("3.8", "3.13")
def test_a_process_whose_filter_forbids_the_attach_is_copied(interpreter: Interpreter) -> None:
    native.core()
    with running(interpreter, "seccomp", "kill", "rt_sigtimedwait") as target:
        refused = heaptop("census", target.pid)
        assert refused.returncode == SeccompTarget.exit_code
        assert "--no-inject" in refused.stderr
        before = Facts.of(target.pid)
        done = copy("census", target.pid)
        assert done.returncode == 0, done.stderr
        assert untouched(before, target) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.skipif(os.geteuid() != 0, reason="root can give up a capability")
@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("wait", ["poll", "lock", "sleep"])
def test_a_wait_with_a_time_out_survives_a_filter_that_kills_for_its_restart(
    interpreter: Interpreter, wait: str
) -> None:
    """The kernel continues it by restart_syscall."""
    native.core()
    with running(interpreter, "seccomp", "kill", "restart_syscall", "0", wait) as target:
        for without in ((), ("setpriv", "--bounding-set=-sys_admin")):  # the latter cannot read filters
            command = [*without, *HEAPTOP, "census", str(target.pid), "--no-inject", *ENOUGH]
            for _ in range(2):
                subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True, env=ENVIRONMENT)
                assert target.alive
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.12")
def test_a_process_whose_interpreter_was_deleted_since_is_copied(interpreter: Interpreter, tmp_path: Path) -> None:
    """As by an upgrade."""
    native.core()
    library = Path(shutil.copy(Path(interpreter.path).parents[1] / "lib/libpython3.12.so.1.0", tmp_path))
    with running(interpreter, "sleeper", environment={"LD_LIBRARY_PATH": str(tmp_path)}) as target:
        library.unlink()
        assert f"{library} (deleted)" in Path(f"/proc/{target.pid}/maps").read_text()
        done = copy("census", target.pid)
        assert done.returncode == 0, done.stderr
        assert target.said() == []


@pytest.mark.pythons("3.12")
def test_a_process_that_reserves_half_of_all_addresses_is_copied(interpreter: Interpreter) -> None:
    """As below a sanitizer. What it reserves can be read, so it is zeros, and none of it was touched but a page."""
    native.core()
    with running(interpreter, "reserving", "64") as target:
        before = Facts.of(target.pid)
        census = document("census", target.pid, "--top", 0, "--no-inject", *ENOUGH)
        assert (census["complete"], census["total"]["count"] > 5000) == (True, True)
        assert untouched(before, target) == []


@pytest.mark.pythons("3.12")
def test_a_process_with_pages_in_many_places_of_a_large_mapping_is_copied(interpreter: Interpreter) -> None:
    """As an arena of another language's collector has them: the kernel reports 512 places at a time."""
    native.core()
    with running(interpreter, "reserving", "1", "700") as target:
        before = Facts.of(target.pid)
        census = document("census", target.pid, "--no-inject", *ENOUGH)
        assert census["complete"]
        assert "could not be read" not in census["mode_reason"]
        assert untouched(before, target) == []


@pytest.mark.pythons("3.12")
def test_zeros_take_no_memory_in_a_copy(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 MiB that the process has asked for and not touched, also where their contents are compared."""
    native.core()
    made, create = list[int](), os.memfd_create

    def kept(name: str, flags: int) -> int:
        fd = create(name, flags)
        made.append(os.dup(fd))
        return fd

    monkeypatch.setattr(os, "memfd_create", kept)
    with running(interpreter, "untouched", "400") as target:
        told: list[tuple[str, int, int]] = []
        with open_copy(target.pid, CoreOptions(), 20.0, lambda *step: told.append(step)) as dump:
            assert dump.image.bytes > 400 << 20
        assert [os.fstat(fd).st_blocks * 512 < 100 << 20 for fd in made] == [True]
        os.close(made[0])
        assert all(0 <= done <= total for _, done, total in told if total), "what is done is a part of all"


@pytest.mark.pythons("3.12")
def test_guard_pages_are_not_copied(interpreter: Interpreter) -> None:
    """As the C library makes them below the stacks of threads (MADV_GUARD_INSTALL, Linux 6.13)."""
    native.core()
    with running(interpreter, "untouched", "0", "guarded") as target:
        if target.detail:
            pytest.skip(target.detail)
        census = document("census", target.pid, "--no-inject", *ENOUGH)
        assert "could not be read" not in census["mode_reason"]


@pytest.mark.pythons("3.12")
def test_a_process_whose_page_tables_cannot_be_asked_is_refused_where_it_reserves_much(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before Linux 6.7."""
    monkeypatch.setattr(memory_copy, "PAGEMAP_SCAN", 0)
    with running(interpreter, "reserving", "64") as target:
        facts = process.read_facts(target.pid)
        fd = os.memfd_create("copy")
        plan = CopyPlan(target.pid, facts.start, facts.image, target.pid, 10**12, 1 << 30, fd, os.getpid())
        with pytest.raises(ImageRefused, match="more address space"):
            Copier(plan).run()
        os.close(fd)


@pytest.mark.pythons("3.8", "3.12")
def test_a_copy_with_a_set_that_grows_is_partial_and_says_so(interpreter: Interpreter) -> None:
    """Its items are in the old table, which only running C code has."""
    native.core()
    with running(interpreter, "set_growing") as target:
        census = document("census", target.pid, "--no-inject", *ENOUGH)
        assert not census["complete"]
        assert "dict or set that grows" in census["cut"]
    with running(interpreter, "sleeper") as target:
        assert document("census", target.pid, "--no-inject", *ENOUGH)["complete"]


@pytest.mark.pythons("3.12")
def test_a_copy_says_that_a_thread_was_running_if_one_was(interpreter: Interpreter) -> None:
    """What its C code alone held is not found, unless the collector knows it."""
    native.core()
    for name, is_running in (("busy", True), ("sleeper", False)):
        with running(interpreter, name) as target:
            census = document("census", target.pid, "--no-inject", *ENOUGH)
            assert census["complete"]
            assert ("threads that were running: 1" in census["mode_reason"]) is is_running


@pytest.mark.pythons("3.12")
def test_a_copy_over_the_budget_is_refused_with_the_figure_before_anything_is_stopped(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        done = heaptop("census", target.pid, "--no-inject", "--pause-budget", "1")
        assert done.returncode == PauseTooLong.exit_code
        assert "would stop it for about" in done.stderr
        assert "--pause-budget" in done.stderr
        assert target.said() == []


@pytest.mark.pythons("3.12")
def test_a_copy_that_would_take_more_than_its_share_of_free_memory_is_refused(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        facts = process.read_facts(target.pid)
        fd = os.memfd_create("copy")
        plan = CopyPlan(target.pid, facts.start, facts.image, target.pid, 10**12, 1 << 20, fd, os.getpid())
        with pytest.raises(OutOfResources, match="too little memory to copy"):
            Copier(plan).run()
        assert os.fstat(fd).st_size == 0
        os.close(fd)


@pytest.mark.pythons("3.12")
def test_one_that_stands_still_or_is_traced_is_left_alone(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        with running(this_python(), "tracer", str(target.pid)) as tracer:
            assert copy("census", target.pid).returncode == TracedTarget.exit_code
            assert Facts.of(target.pid).tracer == tracer.pid
        target.stop()
        assert copy("census", target.pid).returncode == StoppedTarget.exit_code
        assert process.read_facts(target.pid).state == "T"
        target.signal(signal.SIGCONT)
        assert target.terminate() == EXIT_CODE


def states(pid: int) -> set[str]:
    return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()}


def stopped_copier(started: subprocess.Popen[bytes], target: Target) -> int:
    """The process that copies, which is stopped in the middle of it; 0 where it was too fast."""
    copier, status = 0, Path(f"/proc/{target.pid}/status")
    while started.poll() is None and not copier:
        copier = int(status.read_text().partition("\nTracerPid:")[2].split()[0])
    try:
        if copier:
            os.kill(copier, signal.SIGSTOP)
            eventually(lambda: process.read_facts(copier).state == "T", 1)
    except (ProcessLookupError, ProcessNotFound):
        return 0
    return copier if process.read_facts(target.pid).tracer == copier else 0


@contextlib.contextmanager
def held_in_the_stop(target: Target) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A heaptop that is in the middle of the stop, and the process that copies for it."""
    command = [*HEAPTOP, "census", str(target.pid), "--no-inject", *ENOUGH]
    quiet = subprocess.DEVNULL
    for _ in range(20):
        with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=ENVIRONMENT) as started:
            try:
                if copier := stopped_copier(started, target):
                    yield started, copier
                    return
            finally:
                started.kill()
    pytest.fail("no stop was met")


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("who", ["heaptop", "the process that copies"])
def test_kill_9_in_the_stop_leaves_the_target_running_untraced(interpreter: Interpreter, who: str) -> None:
    native.core()
    with running(interpreter, "large_arrays", "150", "10", "10") as target:
        before = Facts.of(target.pid)
        with held_in_the_stop(target) as (started, copier):
            assert eventually(lambda: states(target.pid) == {"t"}, 5), "it stands still"
            os.kill(started.pid if who == "heaptop" else copier, signal.SIGKILL)
            assert eventually(lambda: process.read_facts(target.pid).tracer == 0)
            assert eventually(lambda: states(target.pid) == {"S"})
        assert untouched(before, target) == []
        assert target.terminate() == EXIT_CODE
