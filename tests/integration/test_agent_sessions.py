"""The agent's life in a target: what it answers, what it survives, and that it leaves nothing behind."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from heaptop.protocol import framing
from heaptop.protocol.messages import (
    PROTOCOL_VERSION,
    Bye,
    Census,
    CensusRequest,
    DetachRequest,
    Failure,
    GcEvents,
    Tick,
    TickRequest,
)
from tests.interpreters import SAMPLE, SUPPORTED, Interpreter
from tests.support.agents import TOKEN, Session, session
from tests.support.processes import eventually


def settled(target: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    """The target's facts as soon as its agent's thread is gone, as the kernel knows it: the first one that Python lets
    go loads libgcc_s (pthread_exit), and has a file open for that, when it is not counted any more."""
    tasks = Path(f"/proc/{target.process.pid}/task")
    eventually(lambda: len(list(tasks.iterdir())) == 1 + wanted["threads"])
    facts: dict[str, Any] = target.ask(b"s")
    return facts


def unchanged(before: dict[str, Any], after: dict[str, Any]) -> bool:
    same = ("called", "callbacks", "filters", "threads", "modules", "frozen")
    # the bootstrap closes the target's end of the socket, which the test had handed down
    return all(before[key] == after[key] for key in same) and after["fds"] == before["fds"] - 1


def test_hello_tick_and_bye(interpreter: Interpreter) -> None:
    with session(interpreter, "heap_mixed.py") as target:
        before = target.ask(b"s")
        hello = target.start_agent()
        assert (hello.protocol, hello.token, hello.pid) == (PROTOCOL_VERSION, TOKEN, target.process.pid)
        assert hello.python.startswith(".".join(map(str, interpreter.version[:2])))
        assert set(hello.capabilities) >= {"census.python", "gc", "ticks"}
        assert not hello.gc_enabled, "the target switched it off"
        target.send(TickRequest(6))  # where no core comes, the callback does with the first tick
        assert target.expect(Tick).id == 6
        target.ask(b"c")
        target.send(TickRequest(7))
        events = target.expect(GcEvents)
        tick = target.expect(Tick)
        assert tick.id == 7
        assert tick.gc_enabled
        # a chroot here has no /proc: heaptop then fills it in from outside
        assert tick.rss is None if interpreter.root else (tick.rss or 0) > 1 << 20
        assert tick.blocks > 10_000
        assert tick.threads >= 1
        assert tick.agent_cpu_ns > 0
        full = [event for event in events.events if event.generation == 2]
        assert full, "gc.collect() is a full collection"
        assert all(event.live_blocks and event.duration_ns >= 0 for event in full)
        assert hello.time_ns <= full[0].time_ns <= tick.time_ns
        target.send(DetachRequest())
        assert [type(message) for message in target.drain()] == [Bye]
        after = settled(target, before)
        assert unchanged(before, after), (before, after)


def close(target: Session) -> None:
    target.sock.close()


def detach_in_census(target: Session) -> None:
    target.send(CensusRequest(1, slice_ns=100_000, rest_ns=1_000_000))
    target.send(DetachRequest())
    kinds = {type(message) for message in target.drain()}
    assert Bye in kinds
    assert Census not in kinds


def close_in_census(target: Session) -> None:
    target.send(CensusRequest(1, slice_ns=100_000, rest_ns=1_000_000))
    target.sock.close()


def oversized(target: Session) -> None:
    target.sock.sendall(b"\xff\xff\xff\xff")
    assert any(isinstance(message, Bye) for message in target.drain())


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
@pytest.mark.parametrize("end", [close, detach_in_census, close_in_census, oversized])
def test_every_end_leaves_nothing(interpreter: Interpreter, end: Callable[[Session], None]) -> None:
    with session(interpreter, "heap_mixed.py", ["small"]) as target:
        before = target.ask(b"s")
        target.ask(b"r")
        reference = target.ask(b"r")
        target.start_agent()
        end(target)
        after = settled(target, before)
        assert unchanged(before, after), (before, after)
        # The collector is off in this target: whatever the agent kept in a cycle would be here. Bytes of lists
        # may differ: the ones that our hooks were in do not shrink at once.
        left = target.ask(b"r")
        differing = {
            key: (reference.get(key), left.get(key))
            for key in reference.keys() | left.keys()
            if reference.get(key, (0, 0))[0] != left.get(key, (0, 0))[0]
        }
        if interpreter.version >= (3, 14):
            # Seen there through the table of interned strings: since 3.12 the names in compiled code are immortal.
            before_names, after_names = differing.pop(("builtins", "str", -1))
            assert 0 < after_names[0] - before_names[0] < 600
        assert differing == {}


def test_a_tick_is_answered_in_the_middle_of_a_census(interpreter: Interpreter) -> None:
    with session(interpreter, "heap_mixed.py") as target:
        target.start_agent()
        target.send(CensusRequest(1, slice_ns=100_000, rest_ns=2_000_000))
        target.send(TickRequest(2))
        assert target.expect(Tick).id == 2
        assert target.expect(Census).id == 1


def garbage(dice: random.Random) -> bytes:
    """One frame that no heaptop sends: noise, a truncated or twisted request, an unknown kind."""
    request = ["census?", {"id": 1, "slice_ns": 3_000_000, "rest_ns": 3_000_000}]
    twisted: list[Any] = [
        ["census?", {"id": None}],
        ["census?", {"id": 2**63, "slice_ns": "x", "rest_ns": -(2**62)}],
        ["census?", {"id": -1}],
        ["census?", 5],
        ["unknown", {"deep": [[[[[[[[[[[1]]]]]]]]]]]}],
        ["unknown", {}],
        [1, 2, 3],
        {"a": 1.5},
        "tick?",
        None,
        [["tick?"], {}],
        ["tick?", {1: 2}],
        ["tick?", {"id": True}],
    ]
    choice = dice.randrange(4)
    if choice == 0:
        return dice.randbytes(dice.randrange(1, 60))
    if choice == 1:
        whole: bytes = msgpack.packb(request)
        return whole[: dice.randrange(1, len(whole))]
    if choice == 2:
        changed = bytearray(msgpack.packb(request))
        changed[dice.randrange(len(changed))] = dice.randrange(256)
        return bytes(changed)
    packed: bytes = msgpack.packb(dice.choice(twisted))
    return packed


def test_garbage_never_harms_the_target(interpreter: Interpreter) -> None:
    dice = random.Random(f"{interpreter}")
    with session(interpreter, "heap_mixed.py") as target:
        before = target.ask(b"s")
        target.start_agent()
        for _ in range(150):
            target.sock.sendall(framing.frame(garbage(dice)))
        target.send(TickRequest(991))
        while target.expect(Tick).id != 991:
            pass
        target.send(DetachRequest())
        messages = target.drain()
        assert isinstance(messages[-1], Bye)
        assert unchanged(before, settled(target, before))


def test_a_malformed_request_is_answered_with_failure(interpreter: Interpreter) -> None:
    with session(interpreter, "heap_mixed.py") as target:
        target.start_agent()
        target.sock.sendall(framing.frame(b"\xc1"))
        failure = target.expect(Failure)
        assert failure.request == -1
        assert "malformed" in failure.text


def test_a_forked_child_has_no_hooks_and_no_warning_is_shown(interpreter: Interpreter) -> None:
    """With every warning on: ``session`` fails when anything is on stderr."""
    with session(interpreter, "heap_mixed.py", options=["-W", "always"]) as target:
        before = target.ask(b"s")
        target.start_agent()
        target.send(TickRequest(2))
        assert target.expect(Tick).id == 2
        code, found = target.ask(b"f")
        assert code == 0
        child = eval(found, {"__builtins__": {}})
        assert child["callbacks"] == before["callbacks"]
        assert child["filters"] == before["filters"]
        # without the agent's socket, which the first collection closed; with the pipe's two ends
        assert child["fds"] == before["fds"] - 1 + 2
        target.send(CensusRequest(3))
        assert target.expect(Census).id == 3


def test_a_bootstrap_with_another_pid_does_nothing(interpreter: Interpreter) -> None:
    """A fork duplicates a queued call: the copy sees its own pid."""
    with session(interpreter, "heap_mixed.py", ["other pid"]) as target:
        before = target.ask(b"s")
        target.ask(b"a")
        settled(target, before)
        assert target.ask(b"s")["fds"] == before["fds"]
        target.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            target.sock.recv(1)


def test_the_peer_that_does_not_read_only_delays(interpreter: Interpreter) -> None:
    """Frames pile up in the socket, the agent waits in write, and the target goes on."""
    with session(interpreter, "heap_mixed.py") as target:
        before = target.ask(b"s")
        target.start_agent()
        target.sock.setblocking(False)
        tick = framing.frame(msgpack.packb(["tick?", {"id": 1}]))
        deadline = time.monotonic() + 5
        try:
            while time.monotonic() < deadline:
                target.sock.sendall(tick * 100)
        except BlockingIOError:
            pass  # both directions are full
        assert eventually(lambda: target.ask(b"s")["callbacks"] == before["callbacks"] + 1)
        target.sock.close()
        assert unchanged(before, settled(target, before))
