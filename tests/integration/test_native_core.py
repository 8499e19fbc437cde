"""The way of the native core into living targets, and what of it stays: on every interpreter, past every obstacle."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from heaptop.injector import native
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.injector.diagnosis import diagnose
from heaptop.injector.inspect.process import children, stat_fields
from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.messages import (
    PERMANENT,
    Bye,
    Census,
    CensusRequest,
    Core,
    DetachRequest,
    Failure,
    GcEvents,
    Tick,
    TickRequest,
)
from heaptop.protocol.source import Attached, Ended, Event, Received
from tests.interpreters import MUSL, SAMPLE, SUPPORTED, Interpreter, since
from tests.support.agents import Session, session
from tests.support.attaching import Attachment, attach_once, attached, is_whole, resting
from tests.support.outside import become_nobody, in_child
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, difference, eventually, kept, running, with_proc

pytestmark = pytest.mark.sample(2)


@pytest.fixture(autouse=True)
def built() -> native.Library:
    """The core; without it there is nothing to test here."""
    try:
        return native.library()
    except native.NoCore as why:
        pytest.skip(f"{why}: setup.py build_ext --inplace")


def core_lines(pid: int) -> list[str]:
    """The mappings of native cores: their permissions and names."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    lines = [line.split(None, 5) for line in maps if "heaptop-core" in line]
    return [f"{line[1]} {line[5]}" for line in lines]


def counted(attachment: Attachment, mode: str, *, whole: bool = True) -> Census:
    census = attachment.message(Census)
    assert (census.mode, census.mode_reason) == (mode, "")
    assert is_whole(census) == whole
    assert sum(row.count for row in census.rows) > 5_000
    return census


@pytest.mark.pythons(*SUPPORTED, *MUSL)
def test_it_is_loaded_counts_and_is_found_again(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper", wrapper=with_proc(interpreter)) as target:
        before = Facts.of(target.pid)
        with attached(target.pid) as attachment:
            core = attachment.message(Core)
            build = native.library(musl=interpreter.musl).build
            assert core == Core(core.id, build, loaded=True, reused=False, text="")
            first = counted(attachment, "clone")
            assert 0 < first.pause_ns < first.duration_ns
            again = attachment.census()
            assert again.mode == "clone"
        assert difference(before, resting(target.pid)) == []
        mapped = core_lines(target.pid)
        assert mapped
        assert not any("w" in line and "x" in line for line in mapped)

        middle = resting(target.pid)
        for mode in ("stop", "python", "clone"):
            with attached(target.pid, mode=mode, pause_budget=60.0) as attachment:
                if mode != "python":
                    assert attachment.message(Core).reused
                counted(attachment, mode)
        assert kept(middle, resting(target.pid)) == []
        assert core_lines(target.pid) == mapped
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons(*SUPPORTED, *MUSL)
def test_a_debugger_that_attaches_later_opens_no_descriptor_of_its_own(interpreter: Interpreter) -> None:
    """A debugger opens each file that the loader names, and `/proc/self/fd/3` is a pipe of the debugger's."""
    if shutil.which("gdb") is None:
        pytest.skip("no gdb is installed")
    with running(interpreter, "sleeper", wrapper=with_proc(interpreter)) as target:
        for reused in (False, True):
            with attached(target.pid) as attachment:
                assert attachment.message(Core).reused == reused
            resting(target.pid)
            words = ["gdb", "-nx", "-batch", "-p", str(target.pid), "-ex", "info sharedlibrary"]
            run = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * PATIENCE, check=True
            )
            assert "heaptop-core" in run.stdout
            assert "/proc/self/fd" not in run.stdout + run.stderr
        assert target.terminate() == EXIT_CODE


def test_collections_are_noted_by_the_core(interpreter: Interpreter) -> None:
    """And by Python until there is one; then all of them once, in their order."""
    with session(interpreter, "heap_mixed.py", wrapper=with_proc(interpreter)) as target:
        target.start_agent()
        target.send(TickRequest(1))
        assert target.expect(Tick).id == 1
        target.ask(b"c")
        assert target.give_core().loaded
        found = [target.ask(b"c") for _ in range(3)]
        target.send(TickRequest(2))
        noted = target.expect(GcEvents)
        asked = [event for event in noted.events if event.generation == 2][-4:]
        assert [event.collected for event in asked[1:]] == found
        assert all(event.live_blocks is not None and event.live_blocks > 10_000 for event in asked)
        assert all(event.duration_ns > 0 for event in asked)
        times = [event.time_ns for event in noted.events]
        assert times == sorted(times)
        assert len(set(times)) == len(times)
        assert noted.dropped == 0
        assert target.ask(b"s")["callbacks"] == 1


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_nothing_of_it_is_seen_by_the_program(interpreter: Interpreter) -> None:
    """No module, descriptor, callback or thread more while it counts and after; and what is freed is freed at once:
    the collector is off in this target."""
    with session(interpreter, "heap_mixed.py", wrapper=with_proc(interpreter)) as target:
        before = target.ask(b"s")
        target.ask(b"r")
        reference = target.ask(b"r")
        target.start_agent()
        assert target.give_core().loaded
        for number, mode in enumerate(("clone", "stop", "clone"), 1):
            target.send(CensusRequest(number, mode=mode, budget_ns=1 << 60))
            census = target.expect(Census)
            assert census.mode == mode
            during = target.ask(b"s")
            assert during["called"] == []
            assert during["modules"] == before["modules"]
            assert during["fds"] == before["fds"]
        target.send(DetachRequest())
        assert [type(message) for message in target.drain()] == [Bye]
        assert eventually(lambda: target.ask(b"s")["threads"] == before["threads"])
        after = target.ask(b"s")
        same = ("called", "callbacks", "filters", "modules")
        assert [after[key] for key in same] == [before[key] for key in same]
        left = target.ask(b"r")
        differing = {
            key: left.get(key, (0, 0))[0] - reference.get(key, (0, 0))[0]
            for key in reference.keys() | left.keys()
            if left.get(key, (0, 0))[0] != reference.get(key, (0, 0))[0]
        }
        # names that the agent and the module brought, which 3.12 and later keep for good
        names = differing.pop(("builtins", "str", -1), 0)
        assert 0 <= names < 800
        # a dict of the target that was empty and untracked, and that the self-check has made the collector look at
        assert differing.pop(("builtins", "dict", 0), 0) in (0, 1)
        assert differing == {}


def test_leaving_while_the_core_is_on_its_way_is_no_error(interpreter: Interpreter) -> None:
    """The target stands still right after the hello: the socket is full before the core is through."""
    with running(interpreter, "sleeper") as target:
        source = attach_source(target.pid, AttachOptions(wait=PATIENCE))
        ends: list[Ended] = []

        def deliver(event: Event) -> None:
            if isinstance(event, Attached):
                os.kill(target.pid, signal.SIGSTOP)
                source.close()
            elif isinstance(event, Ended):
                ends.append(event)

        try:
            source.open(deliver)
            assert eventually(lambda: bool(ends))
        finally:
            os.kill(target.pid, signal.SIGCONT)
        assert ends == [Ended(None)]
        assert eventually(lambda: agent_thread(target.pid) is None)
        attach_once(target.pid, census=True)


def ask_census(target: Session, number: int, mode: str = "clone") -> Census:
    target.send(CensusRequest(number, mode=mode))
    return target.expect(Census)


def test_both_agents_see_the_same_heap(interpreter: Interpreter) -> None:
    """Object for object, but for what only one can see: names, code and tables inside types and code objects, and the
    few things that the census itself is made of."""
    with session(interpreter, "heap_mixed.py", wrapper=with_proc(interpreter)) as target:
        target.start_agent()
        assert target.give_core().loaded
        counts: list[dict[tuple[str, str, int], int]] = []
        for number, mode in enumerate(("python", "clone")):
            census = ask_census(target, number, mode)
            found: dict[tuple[str, str, int], int] = {}
            for row in census.rows:
                name = target.types[row.type]
                key = (name.module, name.qualname, row.generation)
                found[key] = found.get(key, 0) + row.count
            counts.append(found)
        python, clone = counts
        for key in python.keys() | clone.keys():
            module, _, generation = key
            if module != "builtins":
                assert clone.get(key, 0) == python.get(key, 0), key
            elif generation >= 0:
                # 3.12 is born with frozen tuples that only C leads to
                few = 64 if generation == PERMANENT else 2
                assert abs(clone.get(key, 0) - python.get(key, 0)) <= few, key


def test_ticks_are_answered_and_a_detach_obeyed_while_a_clone_counts(interpreter: Interpreter) -> None:
    with session(interpreter, "heap_mixed.py", wrapper=with_proc(interpreter)) as target:
        before = target.ask(b"s")
        target.start_agent()
        assert target.give_core().loaded
        for number in range(20):
            target.send(CensusRequest(number))
        target.send(TickRequest(100))
        assert target.expect(Tick).id == 100
        target.send(DetachRequest())
        assert isinstance(target.expect(Bye), Bye)
        assert target.drain() == []
        assert eventually(lambda: target.ask(b"s")["threads"] == before["threads"])
        assert not Path(f"/proc/{target.process.pid}/task/{target.process.pid}/children").read_text()


@pytest.mark.pythons("3.8", "3.11-debian", "3.13", "3.14")
def test_many_sessions_map_it_once(interpreter: Interpreter, cycles: int) -> None:
    with running(interpreter, "sleeper", wrapper=with_proc(interpreter)) as target:
        attach_once(target.pid, census=True)
        mapped, settled = core_lines(target.pid), None
        for number in range(cycles):
            attach_once(target.pid, census=True)
            assert core_lines(target.pid) == mapped
            if number == 2:
                settled = resting(target.pid)
        assert settled is not None
        assert kept(settled, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.13")
def test_another_build_is_not_taken_for_this_one(
    interpreter: Interpreter, built: native.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same number of descriptor, another library: each is mapped by itself, and found again by itself."""
    (tmp_path / "_core.abi3.so").write_bytes(built.data + b"\0")
    other = native.library(tmp_path)
    assert other.build != built.build
    with running(interpreter, "sleeper") as target:
        for library, reused in ((built, False), (other, False), (built, True), (other, True)):
            for user in ("session.session", "entry.helper_client"):
                monkeypatch.setattr(f"heaptop.injector.{user}.library", lambda *, musl, library=library: library)
            with attached(target.pid) as attachment:
                core = attachment.message(Core)
                assert (core.build, core.loaded, core.reused) == (library.build, True, reused)
                counted(attachment, "clone")
        names = {line.split()[1] for line in core_lines(target.pid)}
        assert len(names) == 2
        assert len({name.rpartition("-")[2] for name in names}) == 1, "the case that the path is made for"


@pytest.mark.pythons("3.8", "3.12", "3.14")
def test_a_fork_has_it_too_and_counts_by_itself(interpreter: Interpreter) -> None:
    with running(interpreter, "preforking", wrapper=with_proc(interpreter)) as target:
        with attached(target.pid) as attachment:
            counted(attachment, "clone")
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: len(target.said()) == 3)
            for child in map(int, target.said()):
                with attached(child) as inner:
                    assert inner.message(Core).reused
                    counted(inner, "clone")
                assert attachment.census().mode == "clone"
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


def clone_of(pid: int) -> int | None:
    """The pid of the clone that counts the process, as soon as there is one; it may come and go unseen."""
    end = time.monotonic() + 1
    while time.monotonic() < end:  # without a rest: it lives for milliseconds
        if found := children(pid):
            return found[0]
    return None


def state_of(pid: int) -> str:
    """As /proc says it; empty when the process is gone."""
    try:
        return stat_fields(f"/proc/{pid}/stat")[0]
    except (FileNotFoundError, ProcessLookupError):  # the second: it went between the open and the read
        return ""


def hit_a_clone(attachment: Attachment, pid: int, number: signal.Signals) -> int:
    """Ask for censuses until a signal meets a clone that counts still; its pid."""
    for _ in range(50):
        attachment.source.census_now()
        child = clone_of(pid)
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
            eventually(lambda child=child: state_of(child) in ("", "T"))
            if number != signal.SIGSTOP or state_of(child) == "T":
                return child
        while not isinstance(attachment.event(Received).message, Census):
            pass
    raise AssertionError("each of 50 clones was done before it was hit")


def failed(attachment: Attachment) -> str:
    """What the next census says that fails; empty when it does not."""
    while not isinstance(message := attachment.event(Received).message, (Census, Failure)):
        pass
    return message.text if isinstance(message, Failure) else ""


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSEGV])
def test_a_clone_that_is_ended_is_a_failed_census_and_the_next_one_counts(
    interpreter: Interpreter, end: signal.Signals
) -> None:
    """And the program, which waits for any child all the time, sees none of it."""
    with running(interpreter, "childless", "600000", wrapper=with_proc(interpreter)) as target:
        with attached(target.pid) as attachment:
            counted(attachment, "clone")
            for _ in range(3):
                why = ""
                while not why:  # it may have been done already, and only not buried
                    hit_a_clone(attachment, target.pid, end)
                    why = failed(attachment)
                assert ("SIGSEGV" if end == signal.SIGSEGV else "killed by signal 9") in why
                assert attachment.census().mode == "clone"
        assert [line for line in target.said() if "ODD" in line] == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.13")
def test_a_clone_that_stands_still_holds_nobody_up(interpreter: Interpreter) -> None:
    with running(interpreter, "childless", "600000") as target:
        with attached(target.pid) as attachment:
            counted(attachment, "clone")
            child = hit_a_clone(attachment, target.pid, signal.SIGSTOP)
            assert attachment.tick().id < attachment.tick().id
            assert attachment.close() is None
        assert eventually(lambda: not Path(f"/proc/{child}").exists())
        assert len(resting(target.pid).threads) == 1
        assert [line for line in target.said() if "ODD child" in line] == [], "but SIGCHLD comes: it was stopped"
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.11-debian", "3.13")
@pytest.mark.parametrize("room", [272, 320, 640])
def test_with_little_address_space_it_is_counted_in_some_mode(interpreter: Interpreter, room: int) -> None:
    """In mebibytes: for a clone's result, for its marks, for more."""
    with running(interpreter, "sleeper") as target:
        attach_once(target.pid, census=True)
        pages = int(Path(f"/proc/{target.pid}/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + (room << 20)
        resource.prlimit(target.pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
        with attached(target.pid, pause_budget=60.0) as attachment:
            for _ in range(4):
                census = attachment.census()
                assert sum(row.count for row in census.rows) > 5_000
                assert census.mode == "clone" or "memory" in census.mode_reason
                assert room < 640 or census.mode == "clone"
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.13", "3.14")
def test_a_main_thread_in_a_subinterpreter(interpreter: Interpreter) -> None:
    with running(interpreter, "subinterpreter", "sleep", wrapper=with_proc(interpreter)) as target:
        alone = interpreter.version >= (3, 12)  # it has a GIL of its own
        with attached(target.pid) as attachment:
            counted(attachment, "clone", whole=not alone)
        with attached(target.pid, mode="stop", pause_budget=60.0) as attachment:
            counted(attachment, "stop", whole=not alone)
        assert target.alive


# -- where it cannot be ---------------------------------------------------------------------------------------


def python_mode(pid: int, **options: object) -> str:
    """Why a target is counted in Python mode."""
    with attached(pid, **options) as attachment:
        census = attachment.message(Census)
        assert census.mode == "python"
        return census.mode_reason


@pytest.mark.pythons(*since("3.14"))
def test_without_proc_python_counts(interpreter: Interpreter) -> None:
    if interpreter.root is None:
        pytest.skip("this one sees /proc")
    with running(interpreter, "sleeper") as target:
        assert "no /proc" in python_mode(target.pid)
        assert core_lines(target.pid) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.skipif(os.geteuid() != 0, reason="root is what makes the difference here")
@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("call", ["memfd_create", "close_range"])
def test_a_filter_that_kills_for_one_of_its_calls_is_seen_before(interpreter: Interpreter, call: str) -> None:
    with running(interpreter, "seccomp", "kill", call) as target:
        assert python_mode(target.pid) == f"the seccomp filter kills the program for {call}"
        assert core_lines(target.pid) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.skipif(os.geteuid() != 0, reason="root is what makes the difference here")
@pytest.mark.pythons("3.8", "3.13")
def test_a_filter_that_answers_with_an_error(interpreter: Interpreter) -> None:
    with running(interpreter, "seccomp", "errno", "memfd_create") as target:
        refusal = "the target's kernel refused a memfd: Operation not permitted"
        assert python_mode(target.pid) == refusal
        (told,) = (check.detail for check in diagnose(target.pid).checks if check.name == "census")
        assert refusal in told, "by the doctor, from then on"
        assert target.terminate() == EXIT_CODE
    with running(interpreter, "sleeper") as target:
        attach_once(target.pid, census=True)
        (told,) = (check.detail for check in diagnose(target.pid).checks if check.name == "census")
        assert told.startswith("in a clone"), "until it goes better"
    with running(interpreter, "seccomp", "errno", "clone") as target:
        with attached(target.pid, pause_budget=60.0) as attachment:
            census = attachment.message(Census)
            assert census.mode == "stop"
            assert census.mode_reason.startswith("no clone could be made: ")
        assert target.terminate() == EXIT_CODE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")
@pytest.mark.pythons("3.11-debian")
def test_a_filter_that_could_not_be_read(interpreter: Interpreter) -> None:
    wrapper = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with running(interpreter, "seccomp", "errno", "socket", wrapper=wrapper) as target:
        said = in_child(lambda: python_mode(target.pid, allow_seccomp=True), become_nobody)
        assert "seccomp filter that could not be read" in said
        assert target.terminate() == EXIT_CODE


@pytest.mark.skipif(os.geteuid() != 0, reason="a sysctl of a pid namespace needs root")
@pytest.mark.pythons("3.13")
@pytest.mark.parametrize("level", [1, 2])
def test_a_kernel_that_wants_memfds_sealed_against_execution(interpreter: Interpreter, level: int) -> None:
    if not Path("/proc/sys/vm/memfd_noexec").exists():
        pytest.skip("this kernel (before 6.3) has no vm.memfd_noexec")
    script = f'echo {level} > /proc/sys/vm/memfd_noexec && "$@" & wait'
    wrapper = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, "sh")
    with running(interpreter, "sleeper", wrapper=wrapper) as target:
        (inner,) = descendants_named(target.pid, "python")
        with attached(inner) as attachment:
            core = attachment.message(Core)
            assert core.loaded, core.text
            counted(attachment, "clone")


def descendants_named(pid: int, name: str) -> list[int]:
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        if Path(f"/proc/{child}/comm").read_text().startswith(name):
            found.append(child)
        found += descendants_named(child, name)
    return found


@pytest.mark.pythons("3.13")
def test_heaptop_without_a_core_says_so(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("heaptop.injector.session.session.library", lambda *, musl: native.library(tmp_path))
    with running(interpreter, "sleeper") as target:
        assert python_mode(target.pid) == "no native core: heaptop was installed without it"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "_core.abi3.so").write_text("no library")
    with pytest.raises(native.NoCore, match="is not a native core"):
        native.library(tmp_path / "sub")
