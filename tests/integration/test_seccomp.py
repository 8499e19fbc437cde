"""Targets under a seccomp filter: as root it is suspended for the moment; otherwise they are refused, or risked on
request, and a filter that answers with an error leaves a clean error and nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from heaptop.errors import InjectionDenied, SeccompTarget
from heaptop.injector.api import diagnose
from heaptop.injector.entry import seccomp
from heaptop.injector.inspect import preflight
from tests.interpreters import MUSL, SAMPLE, Interpreter
from tests.support.attaching import attach_once, resting
from tests.support.leaking import document
from tests.support.outside import answer, answer_of_child, become_nobody, in_child
from tests.support.processes import (
    ANY_PAUSE,
    EXIT_CODE,
    FORK_WARNING,
    PATIENCE,
    Facts,
    Target,
    difference,
    eventually,
    running,
    with_proc,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is what makes the difference here")

OPENAT = 257
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def filter_of(target: Target) -> str:
    lines = Path(f"/proc/{target.pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Seccomp:"))


@pytest.mark.pythons(*SAMPLE, *MUSL)
@pytest.mark.parametrize("call", ["mmap", "mprotect", "socketpair"])
@pytest.mark.parametrize("action", ["errno", "kill"])
def test_as_root_the_filter_is_suspended_and_then_on_again(interpreter: Interpreter, action: str, call: str) -> None:
    with running(interpreter, "seccomp", action, call) as target:
        before = Facts.of(target.pid)
        assert diagnose(target.pid).attachable
        attach_once(target.pid, census=True)
        assert difference(before, resting(target.pid)) == []
        assert filter_of(target) == "2"
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.12", "3.13")
@pytest.mark.parametrize("call", ["readlink", "getdents64"])
def test_a_collection_and_a_fork_make_no_call_that_a_filter_was_not_asked_about(
    interpreter: Interpreter, call: str
) -> None:
    """Either would end a program whose filter kills for it: nothing looks for the threads of the process in /proc."""
    with running(interpreter, "seccomp", "kill", call, "0", "fork") as target:
        command = [sys.executable, "-m", "heaptop", "leaks", str(target.pid), "--for", "3", "--marks", "2", "--collect"]
        command += ANY_PAUSE
        done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
        assert target.alive
        assert done.returncode == 0, done.stderr
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.12", "3.13", *MUSL)
def test_agent_and_core_make_no_call_but_those_that_filters_are_asked_about(interpreter: Interpreter) -> None:
    """The filter kills for every other one. Censuses, snapshots, samples and collections are made under it."""
    agent = (*seccomp.MUSL_AGENT_CALLS, seccomp.MUSL_LOAD) if interpreter.musl else seccomp.AGENT_CALLS
    numbers = {call.number for call in (*agent, *seccomp.CORE_CALLS)}
    only = "only=" + ",".join(map(str, sorted(numbers)))
    with running(interpreter, "seccomp", "kill", only, "0", "fork", wrapper=with_proc(interpreter)) as target:
        for arguments in (
            ["leaks", str(target.pid), "--for", "4", "--marks", "2", "--collect", *ANY_PAUSE],
            ["census", str(target.pid), "--memory"],
            ["waste", str(target.pid)],
        ):
            command = [sys.executable, "-m", "heaptop", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
            assert target.alive, arguments
            assert done.returncode == 0, done.stderr
        assert target.terminate() == EXIT_CODE
        said = target.stderr().splitlines()
        if interpreter.version >= (3, 12) and said and FORK_WARNING in said[0]:
            said = said[2:]  # a fork before the agent's warnings filter was there (docs/known-issues.md)
        assert said == []


@pytest.mark.pythons(*MUSL)
def test_on_musl_the_core_is_not_loaded_where_the_filter_kills_for_its_openat(interpreter: Interpreter) -> None:
    """musl itself opens files by open, so a filter may know of no other call. The core finds by openat how the pages
    of numpy's slots are protected."""
    calls = *seccomp.MUSL_AGENT_CALLS, seccomp.MUSL_LOAD, *seccomp.CORE_CALLS
    only = "only=" + ",".join(map(str, sorted({call.number for call in calls} - {OPENAT})))
    with running(interpreter, "seccomp", "kill", only, wrapper=with_proc(interpreter)) as target:
        census = document("census", target.pid)
        assert (census["mode"], census["mode_reason"]) == (
            "python",
            "the seccomp filter kills the program for openat",
        )
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.12", "3.14")
@pytest.mark.parametrize("wait", ["poll", "lock", "masked"])
@pytest.mark.parametrize("action", ["errno", "kill"])
def test_a_wait_goes_on_where_the_filter_forbids_the_call_that_resumes_it(
    interpreter: Interpreter, action: str, wait: str
) -> None:
    with running(interpreter, "seccomp", action, "restart_syscall", "0", wait) as target:
        before = Facts.of(target.pid)
        attach_once(target.pid, census=True)
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.11-debian")
@pytest.mark.parametrize("call", ["mmap", "socketpair"])
def test_without_root_it_is_refused(interpreter: Interpreter, call: str) -> None:
    with running(interpreter, "seccomp", "kill", call, wrapper=AS_NOBODY) as target:
        before = Facts.of(target.pid)
        got = answer_of_child(target.pid, become_nobody)
        assert got.kind is SeccompTarget
        assert f"Process {target.pid} (python3.11) runs under seccomp (a filter)." in got.message
        assert f"sudo heaptop attach {target.pid}" in got.fix
        assert f"heaptop attach {target.pid} --allow-seccomp" in got.fix

        said = in_child(lambda: type(diagnose(target.pid).error).__name__, become_nobody)
        assert said == SeccompTarget.__name__
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.11-debian")
@pytest.mark.parametrize(
    ("call", "said"),
    [("mmap", "refused mmap(PROT_EXEC)"), ("socketpair", "refused socketpair"), ("clone3", "one more thread")],
)
def test_a_filter_that_answers_with_an_error(interpreter: Interpreter, call: str, said: str) -> None:
    """Allowed by the user: what was begun is undone, and the target goes on."""
    with running(interpreter, "seccomp", "errno", call, wrapper=AS_NOBODY) as target:
        before = Facts.of(target.pid)
        got = answer_of_child(target.pid, become_nobody, allow_seccomp=True)
        assert got.kind is InjectionDenied
        assert said in got.message
        assert "Operation not permitted" in got.message
        assert got.why
        assert got.fix
        pages = call != "mmap"  # without executable memory, not even the pages stay
        assert difference(before, resting(target.pid), allow_pages=pages) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.11-debian")
def test_a_filter_that_lets_it_through(interpreter: Interpreter) -> None:
    with running(interpreter, "seccomp", "kill", "mprotect", wrapper=AS_NOBODY) as target:
        assert answer_of_child(target.pid, become_nobody, allow_seccomp=True).kind is None
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.11-debian")
def test_what_the_warning_is_about(interpreter: Interpreter) -> None:
    """Allowed by the user against better knowledge: the filter kills the target, and heaptop says that it ended."""
    with running(interpreter, "seccomp", "kill", "mmap", wrapper=AS_NOBODY) as target:
        got = answer_of_child(target.pid, become_nobody, allow_seccomp=True, wait=2.0)
        assert got.kind is not None
        assert "exited" in got.message
        assert target.process.wait(PATIENCE) == -signal.SIGSYS


@pytest.mark.pythons("3.13")
def test_heaptop_under_a_filter_of_its_own(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTRACE_O_SUSPEND_SECCOMP is denied to it then, so the target counts as one that cannot be helped."""
    with running(interpreter, "seccomp", "kill", "mmap") as target:
        monkeypatch.setattr(preflight, "can_suspend_seccomp", lambda: False)
        assert answer(target.pid).kind is SeccompTarget
        assert eventually(lambda: target.alive)
