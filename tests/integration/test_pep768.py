"""PEP 768, the second backend: where it is taken, that it is where CPython says, and that nothing of it stays."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heaptop.errors import (
    AlreadyAttached,
    FinalizedInterpreter,
    InterpreterBusy,
    ProcessNotFound,
    RemoteDebuggingDisabled,
    SeccompTarget,
    TracedTarget,
    UnsupportedPython,
)
from heaptop.injector.api import AttachOptions, diagnose
from heaptop.injector.entry.helper_client import connect_by_helper
from heaptop.injector.entry.remote_debug import PATH_LIMIT, RemoteDebugPlace
from heaptop.injector.inspect import layout, preflight
from heaptop.injector.inspect.memory import RemoteMemory
from heaptop.injector.inspect.threads import agent_thread
from heaptop.injector.requests import Request
from heaptop.protocol.source import Attached
from tests.interpreters import Interpreter, since
from tests.support.attaching import attach_once, attached, is_whole, opened, resting
from tests.support.outside import answer
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, Target, difference, eventually, running, this_python

pytestmark = pytest.mark.pythons(*since("3.14"))

DISABLED = [(("-X", "disable-remote-debug"), {}), ((), {"PYTHON_DISABLE_REMOTE_DEBUG": "1"})]


@contextmanager
def remote_debug_of(pid: int) -> Iterator[tuple[RemoteMemory, RemoteDebugPlace]]:
    seen = preflight.check(pid)
    with RemoteMemory(pid) as memory:
        yield memory, RemoteDebugPlace.find(memory, seen.interpreter.runtime, seen.interpreter.version.pair)


def left_in_tmp(target: Target) -> list[Path]:
    began, left = Path(f"/proc/{target.pid}").stat().st_ctime, []
    for folder in Path(f"/proc/{target.pid}/root/tmp").glob("heaptop-*"):
        with contextlib.suppress(FileNotFoundError):
            if folder.stat().st_ctime >= began:  # else a heaptop that another test killed has left it
                left.append(folder)
    return left


# -- that it is where CPython says -----------------------------------------------------------------------------


def test_the_offsets_lead_to_what_the_interpreter_itself_names(interpreter: Interpreter, tmp_path: Path) -> None:
    script = tmp_path / f"addresses_{interpreter.name}.py"
    script.write_text(
        "import ctypes, sys, time\n"
        "for name in ('PyInterpreterState_Main', 'PyThreadState_Get'):\n"
        "    call = getattr(ctypes.pythonapi, name)\n"
        "    call.restype = ctypes.c_void_p\n"
        "    print(call(), flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen(interpreter.command([interpreter.place(script)]), stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None
            main, thread = (int(process.stdout.readline()) for _ in range(2))
            runtime = preflight.check(process.pid).interpreter.runtime
            with remote_debug_of(process.pid) as (memory, place):
                head = memory.u64(runtime + layout.RUNTIME_INTERPRETERS_HEAD)
                threads_main = memory.u64(runtime + layout.INTERPRETER_THREADS_MAIN)
                assert memory.u64(runtime + head) == main
                assert memory.u64(main + threads_main) == thread
                assert memory.u32(place.enabled) == 1
                assert memory.u32(place.pending) == 0
                assert place.path_size == PATH_LIMIT
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting /proc in a chroot needs root")
def test_the_offsets_are_those_that_sys_remote_exec_writes_to(interpreter: Interpreter, tmp_path: Path) -> None:
    """CPython's own writer leaves a call pending for a main thread that is in a lock, and heaptop finds it there."""
    script = tmp_path / f"nothing_{interpreter.name}.py"
    script.write_text("pass\n")
    # The writer reads /proc, which the chroots do not have, and looks for the files that it names there.
    wrapper = ("unshare", "--mount", "sh", "-c", f'mount -t proc proc {interpreter.root or ""}/proc && exec "$@"', "sh")
    with (
        running(interpreter, "lock", wrapper=wrapper) as target,
        remote_debug_of(target.pid) as (memory, place),
    ):
        inside = interpreter.place(script)
        call = f"import sys; sys.remote_exec({target.pid}, {inside!r})"
        beside = ["nsenter", "--target", str(target.pid), "--mount", "--root", "--wd"]
        subprocess.run([*beside, interpreter.path, "-c", call], check=True, timeout=PATIENCE)
        assert memory.u32(place.pending) == 1
        assert memory.text(place.path) == inside
        assert memory.u64(place.eval_breaker) & layout.STOP_BIT

        got = answer(target.pid, backend="pep768")
        assert got.kind is InterpreterBusy
        assert f"Another remote debugger call is pending in process {target.pid}" in got.message
        assert memory.u32(place.pending) == 1
        assert memory.text(place.path) == inside
        assert left_in_tmp(target) == []


# -- where it is taken -----------------------------------------------------------------------------------------


@pytest.mark.sample(3, least=3)
@pytest.mark.parametrize("name", ["sleeper", "busy"])
def test_taken_where_another_tracer_is(interpreter: Interpreter, name: str) -> None:
    with running(interpreter, name) as target:
        with running(this_python(), "tracer", str(target.pid)) as tracer:
            before = Facts.of(target.pid)
            for _ in range(3):
                with opened(target.pid) as attachment:
                    event = attachment.event(Attached)
                    assert (event.backend, event.stopped_ns) == ("pep768", 0)
                    assert is_whole(attachment.census())
                    assert agent_thread(target.pid) is not None
                    assert left_in_tmp(target) == []
                    assert attachment.close() is None
                assert difference(before, resting(target.pid)) == []
            assert diagnose(target.pid).attachable
            assert Facts.of(target.pid).tracer == tracer.pid
        assert target.terminate() == EXIT_CODE
        assert target.said() == []
        assert target.stderr() == ""


@pytest.mark.sample(2, least=3)
@pytest.mark.parametrize("name", ["asyncio_sleeper", "gevent_loop", "threads8", "churn_main", "alternating"])
def test_all_kinds_of_programs(interpreter: Interpreter, name: str) -> None:
    with running(interpreter, name) as target:
        before = Facts.of(target.pid)
        attach_once(target.pid, census=True, backend="pep768")
        after = [change for change in difference(before, resting(target.pid)) if not change.startswith("thread")]
        assert after == []
        assert target.terminate() == EXIT_CODE
        assert target.said() == []
        assert target.stderr() == ""


@pytest.mark.parametrize("backend", ["pep768", "ptrace"])
@pytest.mark.parametrize("change", [{"start": 1}, {"image": "00"}], ids=["pid of another process", "exec"])
def test_what_was_looked_at_is_gone(interpreter: Interpreter, change: dict[str, Any], backend: str) -> None:
    """Every address is of the program that was looked at; the pid may be another's by the time of the attach."""
    with running(interpreter, "sleeper") as target:
        seen = preflight.check(target.pid)
        checked = replace(seen, facts=replace(seen.facts, **change))
        request = Request(AttachOptions(), "0" * 16, lambda phase, seconds: None, checked)
        with pytest.raises(ProcessNotFound):
            connect_by_helper(backend, request)
        assert left_in_tmp(target) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")
def test_a_target_that_changed_its_user_is_attached_to_by_pep768(interpreter: Interpreter) -> None:
    with running(interpreter, "dropping", "before") as target:
        attach_once(target.pid, census=True, backend="pep768")
        assert left_in_tmp(target) == []
        assert target.stderr() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_a_pid_of_its_own(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper", wrapper=("unshare", "--pid", "--fork")) as target:
        (child,) = Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text().split()
        attach_once(int(child), census=True, backend="pep768")
        assert target.stderr() == ""


@pytest.mark.parametrize(("first", "second"), [("pep768", "ptrace"), ("ptrace", "pep768"), ("pep768", "pep768")])
def test_one_agent_at_a_time_through_whatever_door(interpreter: Interpreter, first: str, second: str) -> None:
    with running(interpreter, "sleeper") as target:
        with attached(target.pid, backend=first) as attachment:
            got = answer(target.pid, backend=second)
            assert got.kind is AlreadyAttached
            assert f"heaptop detach {target.pid}" in got.fix
            assert is_whole(attachment.census())
        attach_once(target.pid, backend=second)


# -- where it stays shut ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "environment"), DISABLED, ids=["option", "variable"])
def test_switched_off_by_whoever_started_the_program(
    interpreter: Interpreter, options: tuple[str, ...], environment: dict[str, str]
) -> None:
    with running(interpreter, "sleeper", options=options, environment=environment) as target:
        with running(this_python(), "tracer", str(target.pid)):
            before = Facts.of(target.pid)
            for got in (answer(target.pid), answer(target.pid, backend="pep768")):
                assert got.kind is RemoteDebuggingDisabled
                assert str(target.pid) in got.message
                assert "-X disable-remote-debug" in got.why
                assert "PYTHON_DISABLE_REMOTE_DEBUG=1" in got.why
                assert f"heaptop attach {target.pid} --override-remote-debug" in got.fix
            assert isinstance(diagnose(target.pid).error, RemoteDebuggingDisabled)
            assert diagnose(target.pid, AttachOptions(override_remote_debug=True)).attachable
            assert difference(before, Facts.of(target.pid), allow_pages=False) == []
            with remote_debug_of(target.pid) as (memory, place):
                assert memory.u32(place.enabled) == 0
                with opened(target.pid, override_remote_debug=True) as attachment:
                    assert attachment.event(Attached).backend == "pep768"
                    assert memory.u32(place.enabled) == 0
                assert memory.u32(place.enabled) == 0
        # The switch is about that backend. The first still works, and doctor reports both.
        assert eventually(lambda: Facts.of(target.pid).tracer == 0)
        diagnosis = diagnose(target.pid)
        assert diagnosis.attachable
        assert {check.name: check.ok for check in diagnosis.checks if check.name.startswith("backend")} == {
            "backend ptrace": True,
            "backend pep768": None,
        }
        with opened(target.pid) as attachment:
            assert attachment.event(Attached).backend == "ptrace"
        assert target.terminate() == EXIT_CODE


@pytest.mark.parametrize("switched_off", [False, True])
def test_main_in_a_lock_times_out_and_leaves_nothing(interpreter: Interpreter, switched_off: bool) -> None:
    options = ("-X", "disable-remote-debug") if switched_off else ()
    with running(interpreter, "lock", options=options) as target, remote_debug_of(target.pid) as (memory, place):
        before = Facts.of(target.pid)
        with opened(target.pid, backend="pep768", wait=4.0, override_remote_debug=True) as attachment:
            assert eventually(lambda: memory.u32(place.pending) == 1)
            assert memory.u32(place.enabled) == 1
            assert memory.text(place.path).startswith("/tmp/heaptop-")
            assert [path.stat().st_mode & 0o777 for path in left_in_tmp(target)] == [0o600, 0o600]
            error = attachment.error()
        assert isinstance(error, InterpreterBusy)
        assert str(target.pid) in error.message
        assert memory.u32(place.pending) == 0
        assert memory.u32(place.enabled) == int(not switched_off)
        assert left_in_tmp(target) == []
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []
        attach_once(target.pid, census=True)
        assert target.said() == []


HEAPTOP = """\
import sys, time
from heaptop.injector.api import AttachOptions, attach_source
source = attach_source(int(sys.argv[1]), AttachOptions(wait=60.0, backend="pep768"))
source.open(lambda event: print(event, flush=True))
time.sleep(600)
"""


@pytest.mark.parametrize("name", ["lock", "sleeper"])
def test_all_of_heaptop_goes_when_it_is_killed_at_pep768(interpreter: Interpreter, name: str, tmp_path: Path) -> None:
    """While it waits, or when it is in: by its helper, or by the agent itself, all of it goes."""
    with running(interpreter, name) as target, remote_debug_of(target.pid) as (memory, place):
        before = Facts.of(target.pid)
        said = tmp_path / "said"
        with said.open("wb") as output:
            heaptop = subprocess.Popen([sys.executable, "-c", HEAPTOP, str(target.pid)], stdout=output, stderr=output)
        try:
            arrived = (lambda: memory.u32(place.pending)) if name == "lock" else (lambda: "Hello(" in said.read_text())
            assert eventually(arrived), said.read_text()
        finally:
            heaptop.send_signal(signal.SIGKILL)
            heaptop.wait(PATIENCE)
        assert eventually(lambda: memory.u32(place.pending) == 0 and not left_in_tmp(target))
        assert eventually(lambda: difference(before, Facts.of(target.pid)) == [])
        attach_once(target.pid)
        assert target.terminate() == EXIT_CODE if name == "sleeper" else target.alive
        assert target.stderr() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else is let past the filter by ptrace")
def test_a_filter_that_this_door_cannot_suspend(interpreter: Interpreter) -> None:
    with running(interpreter, "seccomp", "kill", "socket") as target:
        before = Facts.of(target.pid)
        got = answer(target.pid, backend="pep768")
        assert got.kind is SeccompTarget
        assert f"heaptop attach {target.pid} --allow-seccomp" in got.fix
        with running(this_python(), "tracer", str(target.pid)):
            assert answer(target.pid).kind is TracedTarget
        assert difference(before, resting(target.pid), allow_pages=False) == []
        attach_once(target.pid)
        assert target.terminate() == EXIT_CODE
    with running(interpreter, "seccomp", "kill", "mmap") as target:
        attach_once(target.pid, backend="pep768", allow_seccomp=True)
        assert target.terminate() == EXIT_CODE


def test_pep768_refuses_an_interpreter_that_shuts_down(interpreter: Interpreter) -> None:
    with running(interpreter, "finalizing") as target:
        before = Facts.of(target.pid)
        got = answer(target.pid, backend="pep768", wait=1.0)
        assert got.kind is FinalizedInterpreter
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []


@pytest.mark.pythons("3.8", "3.13")
def test_pep768_is_refused_before_python_3_14(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        got = answer(target.pid, backend="pep768")
        assert got.kind is UnsupportedPython
        assert "PEP 768 came with Python 3.14" in got.why
