"""A filter that would kill the agent's thread is found out beforehand, and nothing is changed."""

from __future__ import annotations

import os

import pytest

from heaptop.errors import SeccompTarget
from tests.interpreters import Interpreter
from tests.support.attaching import attach_once, attached
from tests.support.processes import Facts, difference, running

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="reading filters needs CAP_SYS_ADMIN")


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.12")
@pytest.mark.parametrize(
    ("call", "computing", "remedy"),
    [
        pytest.param("rt_sigtimedwait", "0", "Start the program with", id="of the agent's thread"),
        pytest.param("lseek", "0", "Start the program with", id="of a fork that warns"),
        pytest.param("clone3", "60", "Retry while", id="of the thread that starts it, when none blocks"),
        pytest.param("nanosleep", "60", "Retry while", id="of the same, while it waits for the new one"),
    ],
)
def test_a_filter_that_kills_for_a_call_is_a_refusal(
    interpreter: Interpreter, call: str, computing: str, remedy: str
) -> None:
    with running(interpreter, "seccomp", "kill", call, computing) as target:
        before = Facts.of(target.pid)
        with pytest.raises(SeccompTarget) as caught, attached(target.pid):
            pass
        assert call in caught.value.message
        assert remedy in caught.value.fix
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []
        assert target.alive
        assert target.said() == []


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("call", ["mmap", "mprotect", "socketpair", "clone3"])
def test_a_filter_that_kills_only_the_way_in_is_suspended_for_it(interpreter: Interpreter, call: str) -> None:
    with running(interpreter, "seccomp", "kill", call) as target:
        for _ in range(3):
            attach_once(target.pid, census=True)
        assert target.alive
        assert target.stderr() == ""


@pytest.mark.pythons("3.12")
def test_a_start_that_the_filter_forbids_now_waits_for_a_thread_that_blocks(interpreter: Interpreter) -> None:
    with running(interpreter, "seccomp", "kill", "clone3", "0.5") as target:
        attach_once(target.pid)
        assert target.alive
