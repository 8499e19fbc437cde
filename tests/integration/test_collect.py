"""A collection that a person asks for, through a real attach: what it finds is told, the target's finalizers run, and
one that waits holds up the session, and nothing else."""

from __future__ import annotations

import signal

import pytest

from heaptop.injector.inspect.threads import AGENT_NAME
from heaptop.protocol.messages import Collected, CollectRequest, GcEvents, Message, Tick
from heaptop.protocol.source import Received
from tests.interpreters import Interpreter
from tests.support.attaching import Attachment, Silent, attach_once, attached, resting
from tests.support.processes import EXIT_CODE, Facts, difference, eventually, running, with_proc


def heard_until(attachment: Attachment, kind: type[Message]) -> list[Message]:
    heard = [attachment.event(Received).message]
    while not isinstance(heard[-1], kind):
        heard.append(attachment.event(Received).message)
    return heard


@pytest.mark.pythons("3.8", "3.14")
def test_garbage_is_collected_where_a_person_asks(interpreter: Interpreter) -> None:
    with running(interpreter, "garbage_planted") as target:
        cycles, set_aside, exits = map(int, target.detail.split())
        before = Facts.of(target.pid)
        with attached(target.pid) as attachment:
            tick = attachment.tick()
            assert (tick.garbage, tick.exits, tick.gc_enabled) == (set_aside, exits, False)
            number = attachment.source.request(CollectRequest)
            assert eventually(lambda: target.said() == ["waiting"]), "a finalizer waits in the agent's thread"
            attachment.source.census_now()
            with pytest.raises(Silent):
                attachment.message(Collected, 0.5)
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: len(target.said()) == 2), "the target goes on meanwhile"
            target.signal(signal.SIGUSR2)
            heard = heard_until(attachment, Collected)
            collected = heard[-1]
            assert isinstance(collected, Collected)
            assert (collected.id, collected.uncollectable) == (number, 0)
            assert collected.collected >= cycles
            assert collected.duration_ns > 500_000_000, "the time of the finalizer that waited"
            # the collector's own account of it comes with the next tick, like that of any collection
            events = [
                each
                for message in heard_until(attachment, Tick)
                if isinstance(message, GcEvents)
                for each in message.events
            ]
            assert [each.collected for each in events if each.generation == 2] == [collected.collected]
            again = attachment.source.request(CollectRequest)
            found = attachment.message(Collected)
            assert (found.id, found.uncollectable) == (again, 0)
            assert found.collected < cycles
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: len(target.said()) == 3)
            assert target.said()[2] == f"finalized {cycles}, in the main thread 0"
        assert difference(before, resting(target.pid)) == []
        assert target.stderr().count("ValueError: a finalizer that raises") == 3
        assert target.terminate() == EXIT_CODE


def thread_names(pid: int) -> list[str]:
    return list(Facts.of(pid).threads.values())


@pytest.mark.pythons("3.8", "3.12", "3.14")
def test_threads_that_finalizers_start_are_not_taken_for_an_agent(interpreter: Interpreter) -> None:
    """Nor does threading keep one of its own for the agent's thread, once a finalizer has asked which it is."""
    with running(interpreter, "garbage_starting", wrapper=with_proc(interpreter)) as target:
        with attached(target.pid) as attachment:
            attachment.source.request(CollectRequest)
            assert attachment.message(Collected).collected >= 4
            assert eventually(lambda: len(thread_names(target.pid)) == 5), "three stay, beside the main one and ours"
            assert [name.startswith(AGENT_NAME) for name in thread_names(target.pid)].count(True) == 1
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: target.said() == ["dummies []"])
        names = list(resting(target.pid).threads.values())
        assert len(names) == 4
        assert not [name for name in names if name.startswith(AGENT_NAME)]
        attach_once(target.pid, census=True)
        assert "a finalizer that logs" in target.stderr()
        assert target.terminate() == EXIT_CODE
