"""How the agent uses a native core, with one made of Python: order of modes, failures, numbers of types, farewell."""

from __future__ import annotations

import os
import posix
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from heaptop.injector import agent
from heaptop.protocol.messages import (
    Bye,
    Census,
    CensusRequest,
    Core,
    CoreRequest,
    Decision,
    DetachRequest,
    Failure,
    Row,
    Tick,
    TickRequest,
    TypeName,
)
from tests.support.fake_core import BUILD, STATS, FakeCore, talking

pytestmark = pytest.mark.slow


def test_a_clone_is_counted_in_and_its_msgpack_is_the_message() -> None:
    core = FakeCore()
    with talking(core) as talk:
        reply = talk.give_core()
        assert reply == Core(7, BUILD, loaded=True, reused=False, text="")
        for number in range(3):
            census = talk.census(Census)
            assert census.mode == "clone"
            assert census.mode_reason == ""
            assert census.rows == (Row(number, -1, 1 << 33, 5, 6),)
            assert census.pauses is not None
            assert census.pause_ns >= census.pauses.stopped_ns == 5_000_000
            assert census.cpu_ns >= 7
            assert census.agent_bytes == 4096
            assert census.sizeof_guessed == 2
            assert (census.owned, census.mapped, census.at_least) == (900, 500, 1)
            assert census.exact is False
        assert talk.history.records[-1].cells[0].type == TypeName("shop", "T3")
    assert core.calls[:5] == ["abort", "open", "begin", "end", "abort"]
    assert len(core.own) > 100, "the agent's own objects are told to the core"


def test_ticks_are_answered_while_a_clone_counts_and_a_detach_ends_it() -> None:
    core = FakeCore()
    core.child_lasts = True
    with talking(core) as talk:
        talk.give_core()
        talk.send(CensusRequest(1))
        for number in (2, 3):
            talk.send(TickRequest(number))
            assert talk.expect(Tick).id == number
        talk.send(DetachRequest())
        assert isinstance(talk.expect(Bye), Bye)
    assert core.calls[-2:] == ["abort", "close"]
    assert "end" not in core.calls


def test_a_clone_s_processor_time_is_the_agent_s() -> None:
    core = FakeCore()
    with talking(core) as talk:
        talk.give_core()
        assert talk.census(Census).cpu_ns < 10**12
        STATS["cpu_ns"] += 10**12
        try:
            assert talk.census(Census).cpu_ns >= 10**12
        finally:
            STATS["cpu_ns"] -= 10**12
        talk.send(TickRequest(9))
        assert talk.expect(Tick).agent_cpu_ns >= 10**12


def test_a_closed_socket_ends_the_clone_too() -> None:
    core = FakeCore()
    core.child_lasts = True
    with talking(core) as talk:
        talk.give_core()
        talk.send(CensusRequest(1))
        talk.send(TickRequest(2))
        talk.expect(Tick)
    assert core.calls[-2:] == ["abort", "close"]


def test_while_the_interpreter_collects_the_clone_waits() -> None:
    core = FakeCore()
    core.begin_errors = [BlockingIOError(), BlockingIOError()]
    with talking(core) as talk:
        talk.give_core()
        assert talk.census(Census).mode == "clone"
    assert core.calls.count("begin") == 3


def test_without_a_clone_the_target_is_stopped_and_says_why() -> None:
    core = FakeCore()
    core.begin_errors = [PermissionError(1, "Operation not permitted"), RuntimeError("clone was refused.")]
    with talking(core) as talk:
        talk.give_core()
        for reason in ("Operation not permitted", "clone was refused"):
            census = talk.census(Census, budget_ns=10**18)
            assert (census.mode, census.mode_reason) == ("stop", f"no clone could be made: {reason}")
            assert census.rows[0].hidden == 6
        assert talk.census(Census).mode == "clone", "it is tried again"


def test_a_long_stop_is_asked_about_first() -> None:
    core = FakeCore()
    with talking(core) as talk:
        talk.give_core()
        question = talk.census(Decision, mode="stop", reason="no memory", budget_ns=1000)
        assert (question.mode, question.reason, question.budget_ns) == ("stop", "no memory", 1000)
        assert question.pause_ns > 1000
        assert "stop" not in core.calls
        census = talk.census(Census, mode="stop", reason="no memory", budget_ns=question.pause_ns + 10**9)
        assert (census.mode, census.mode_reason) == ("stop", "no memory")


def test_a_stop_is_preferred_where_it_is_expected_to_be_short() -> None:
    core = FakeCore()
    with talking(core) as talk:
        talk.give_core()
        assert talk.census(Census, reason="a clone is slow", stop_ns=1000).mode == "clone", "it would not be"
        census = talk.census(Census, reason="a clone is slow", stop_ns=10**18)
        assert (census.mode, census.mode_reason) == ("stop", "a clone is slow")
        census = talk.census(Census, mode="stop", budget_ns=0, reason="a clone is slow", stop_ns=10**18)
        assert (census.mode, census.mode_reason) == ("stop", "a clone is slow"), "also where a clone may not be made"


def test_a_stop_that_took_longer_than_expected_is_not_tried_again() -> None:
    core = FakeCore()
    core.stop_errors = [TimeoutError("it took too long")]
    with talking(core) as talk:
        talk.give_core()
        for _ in range(2):
            census = talk.census(Census, stop_ns=10**12)
            assert (census.mode, census.mode_reason) == ("clone", "")
        assert core.calls.count("stop") == 1
        question = talk.census(Decision, mode="stop", budget_ns=0, stop_ns=10**12)
        assert question.pause_ns > 10**12, "what is known of a stop by now"


@pytest.mark.parametrize("errors", [[BlockingIOError()], [MemoryError()]], ids=["collecting", "no memory"])
def test_a_stop_that_could_not_be_now_is_tried_again(errors: list[Exception]) -> None:
    core = FakeCore()
    core.stop_errors = errors
    with talking(core) as talk:
        talk.give_core()
        modes = [talk.census(Census, stop_ns=10**18).mode for _ in range(2)]
        assert modes[-1] == "stop"
        assert core.calls.count("stop") == (2 if modes[0] == "clone" else 3)


def test_a_stop_that_was_asked_for_and_takes_too_long_is_asked_about_again() -> None:
    core = FakeCore()
    core.stop_errors = [TimeoutError("it took too long")]
    with talking(core) as talk:
        talk.give_core()
        question = talk.census(Decision, mode="stop", reason="no memory", budget_ns=10**12)
        assert question.pause_ns > 10**12
        assert (question.mode, question.reason, question.budget_ns) == ("stop", "no memory", 10**12)
        assert talk.census(Census, mode="stop", budget_ns=2 * question.pause_ns).mode == "stop"


def test_where_a_clone_measures_more_there_is_no_stop_but_one_that_a_person_chose() -> None:
    core = FakeCore()
    core.stop_errors = [RuntimeError("some objects are only known in a clone")]
    with talking(core) as talk:
        talk.give_core()
        for _ in range(2):
            assert talk.census(Census, stop_ns=10**18).mode == "clone"
        assert core.calls.count("stop") == 1
        assert talk.census(Census, mode="stop", budget_ns=10**18).mode == "stop"


def test_what_crashed_in_a_clone_is_not_counted_in_the_target_for_a_shorter_pause() -> None:
    core = FakeCore()
    core.end_errors = [RuntimeError("it crashed, signal 11")]
    with talking(core) as talk:
        talk.give_core()
        talk.census(Failure)
        assert talk.census(Census, mode="stop", budget_ns=10**18, stop_ns=10**18).mode == "python"
        assert talk.census(Census, stop_ns=10**18).mode == "clone"
        assert "stop" not in core.calls


@pytest.fixture
def no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under PYTHONMALLOC=malloc."""
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: 0)


def test_a_long_stop_is_asked_about_also_where_nobody_counts_blocks(no_blocks: None) -> None:
    core = FakeCore()
    with talking(core) as talk:
        talk.give_core()
        for _ in range(2):
            question = talk.census(Decision, mode="stop", budget_ns=0)
            assert question.pause_ns > 0
            assert talk.census(Census, mode="stop", budget_ns=1 << 60).mode == "stop"


def test_a_stop_that_nobody_can_foresee_is_not_made(no_blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    core = FakeCore()
    core.begin_errors = [RuntimeError("clone was refused.")]
    monkeypatch.setattr(posix, "sysconf", lambda name: 0)
    with talking(core) as talk:
        talk.give_core()
        census = talk.census(Census, budget_ns=1 << 60)
    assert census.mode == "python"
    assert census.mode_reason.startswith("no clone could be made: clone was refused; the pause cannot be predicted")
    assert "stop" not in core.calls


def test_a_clone_without_memory_to_count_in_is_no_crash() -> None:
    core = FakeCore()
    core.end_errors = [MemoryError("there was no memory for the count")] * 5
    with talking(core) as talk:
        talk.give_core()
        for _ in range(5):
            census = talk.census(Census, budget_ns=1 << 60)
            why = "a clone could not count: there was no memory for the count"
            assert (census.mode, census.mode_reason) == ("stop", why)
        assert talk.census(Census).mode == "clone"


def test_where_a_clone_cannot_be_watched_the_core_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """EINVAL: a kernel before 4.7; ENOSYS: a filter."""

    def refuse(*arguments: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(posix, "waitid", refuse)
    with talking(FakeCore()) as talk:
        talk.give_core()
        assert talk.census(Census).mode == "clone"


def test_what_a_failed_clone_may_have_used_is_the_agent_s() -> None:
    core = FakeCore()
    core.child_lasts = True
    core.end_errors = [RuntimeError("it hung")]
    with talking(core) as talk:
        talk.give_core()
        talk.send(CensusRequest(1))
        talk.send(TickRequest(2))
        before = talk.expect(Tick)
        time.sleep(0.3)
        os.close(core._kept.pop())
        talk.expect(Failure)
        talk.send(TickRequest(3))
        assert talk.expect(Tick).agent_cpu_ns - before.agent_cpu_ns > 250_000_000


def test_where_nothing_native_works_python_counts() -> None:
    core = FakeCore()
    core.begin_errors = [PermissionError(1, "Operation not permitted")]
    core.stop_errors = [RuntimeError("the lists are broken")]
    with talking(core) as talk:
        talk.give_core()
        first = talk.census(Census, budget_ns=10**18)
        why = "no clone could be made: Operation not permitted; not stopped either: the lists are broken"
        assert (first.mode, first.mode_reason) == ("python", why)
        assert talk.census(Census).mode == "clone"
        assert {row.type for row in talk.census(Census, mode="python").rows} >= {0}
        assert talk.history.records[-2].cells[0].type == TypeName("shop", "T1"), "types keep their numbers"


def test_a_failed_clone_is_a_failed_census_and_never_a_count_in_the_target_itself() -> None:
    core = FakeCore()
    core.end_errors = [RuntimeError("it crashed, signal 11")]
    core.begin_errors = [RuntimeError("try again")]
    with talking(core) as talk:
        talk.give_core()
        core.begin_errors = []
        failure = talk.census(Failure)
        assert "it crashed, signal 11" in failure.text
        core.begin_errors = [RuntimeError("no")]
        assert talk.census(Census, budget_ns=10**18).mode == "python", "what crashes in a clone would crash the target"
        assert talk.census(Census).mode == "clone"
    assert "stop" not in core.calls


def test_an_error_that_nobody_expected_says_the_module_and_line_of_it() -> None:
    core = FakeCore()
    core.end_errors = [TypeError("what of it")]
    with talking(core) as talk:
        talk.give_core()
        text = agent.named_places(talk.census(Failure).text)
    found = re.fullmatch(r"TypeError in agent/census\.py:(\d+): what of it", text)
    assert found, text
    assert "s.core.end()" in Path(agent.__file__).with_name("census.py").read_text().splitlines()[int(found[1]) - 1]


def test_a_core_that_fails_again_and_again_is_given_up() -> None:
    core = FakeCore()
    core.end_errors = [RuntimeError("it hung")] * 9
    with talking(core) as talk:
        talk.give_core()
        failures = [talk.census(Failure).text for _ in range(2)]
        given_up = talk.census(Core)
        assert (given_up.loaded, given_up.build) == (False, BUILD), "nobody is asked about clones any more"
        failures.append(talk.expect(Failure).text)
        assert failures == ["it hung"] * 3
        census = talk.census(Census)
        assert census.mode_reason == given_up.text
        assert census.mode == "python"
        assert "3 censuses in a clone failed" in census.mode_reason
        assert "it hung" in census.mode_reason
    assert core.calls.count("begin") == 3


def test_a_core_that_differs_from_the_interpreter_is_not_used() -> None:
    core = FakeCore()
    core.difference = "the size of a dict is 64, and sys.getsizeof says 72"
    with talking(core) as talk:
        reply = talk.give_core()
        assert (reply.loaded, reply.text) == (False, core.difference)
        census = talk.census(Census)
        assert (census.mode, census.mode_reason) == ("python", core.difference)


def test_the_self_check_waits_for_a_collection() -> None:
    core = FakeCore()
    core.check_errors = [BlockingIOError("the interpreter is collecting")] * 3
    with talking(core) as talk:
        assert talk.give_core().loaded


def test_the_self_check_does_not_wait_for_ever() -> None:
    core = FakeCore()
    core.check_errors = [BlockingIOError("the interpreter is collecting")] * 1000
    with talking(core) as talk:
        reply = talk.give_core()
        assert (reply.loaded, reply.text) == (False, "the interpreter is collecting")
        assert talk.census(Census).mode == "python"


def broken() -> Any:
    raise ImportError("/proc/self/fd//.//.7: failed to map segment from shared object")


def test_a_library_that_cannot_be_loaded_is_python_mode_without_its_path() -> None:
    with talking(broken) as talk:
        reply = talk.give_core()
        assert reply.text == "the native core could not be loaded: failed to map segment from shared object"
        assert talk.census(Census).mode_reason == reply.text


def test_python_mode_that_was_asked_for_needs_no_reason() -> None:
    with talking(FakeCore()) as talk:
        talk.give_core()
        assert talk.census(Census, mode="python").mode_reason == ""
        assert talk.census(Census, mode="python", reason="it was declined").mode_reason == "it was declined"


@pytest.mark.parametrize(
    "pieces",
    [
        [CoreRequest(1, BUILD, 100, 50, bytes(50))],
        [CoreRequest(1, BUILD, 100, 0, bytes(50)), CoreRequest(1, BUILD, 100, 60, bytes(40))],
        [CoreRequest(1, BUILD, 100, 0, bytes(101))],
        [CoreRequest(1, BUILD, 1 << 30, 0, bytes(50))],
        [CoreRequest(1, "../../../../etc/x", 10, 0, bytes(10))],
        [CoreRequest(1, "0123456789ABCDEF", 10, 0, bytes(10))],
    ],
)
def test_pieces_that_do_not_fit_are_refused_and_the_right_ones_still_taken(pieces: list[CoreRequest]) -> None:
    with talking(FakeCore()) as talk:
        for piece in pieces:
            talk.send(piece)
        assert "does not fit" in talk.expect(Failure).text
        assert talk.give_core().loaded
