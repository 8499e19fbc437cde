"""The fake agent: the same story every time, and every misbehaviour met by the protocol's own errors."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from heaptop.errors import AttachCancelled, FrameTooLarge, ProtocolError, TargetExited, VersionMismatch
from heaptop.protocol.codec import decode, encode, read_hello
from heaptop.protocol.framing import FrameReader, frame
from heaptop.protocol.messages import (
    Bye,
    Census,
    CensusRequest,
    DetachRequest,
    Failure,
    GcEvents,
    Memory,
    Message,
    Tick,
    TickRequest,
    Types,
)
from heaptop.protocol.registry import REPLIES
from heaptop.protocol.source import Attached, Ended, Event, Received, Source, Waiting
from tests.fakes.source import OUTSIDE, TOKEN, FakeAgent, FakeSource, Misbehaviour


class Client:
    """heaptop's end of the socket, as simple as can be."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader = FrameReader()
        self.waiting: list[bytes] = []

    def payload(self) -> bytes:
        while not self.waiting:
            data = self.sock.recv(65536)
            if not data:
                self.reader.end()
                raise EOFError
            self.waiting += self.reader.feed(data)
        return self.waiting.pop(0)

    def message(self) -> Message | None:
        return decode(self.payload(), REPLIES)

    def ask(self, request: Message) -> None:
        self.sock.sendall(frame(encode(request)))


@contextmanager
def serving(agent: FakeAgent) -> Iterator[Client]:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    thread = threading.Thread(target=agent.serve, args=(theirs,))
    thread.start()
    try:
        with ours:
            yield Client(ours)
    finally:
        thread.join(10)
        assert not thread.is_alive()


def test_a_session_answers_ticks_and_censuses_until_it_is_detached() -> None:
    with serving(FakeAgent()) as client:
        assert read_hello(client.payload(), TOKEN).capabilities
        client.ask(TickRequest(1))
        client.ask(CensusRequest(2))
        client.ask(DetachRequest())
        kinds = []
        while not isinstance(message := client.message(), Bye):
            kinds.append(type(message))
        assert kinds == [Tick, GcEvents, Types, Census]
        with pytest.raises(EOFError):
            client.payload()


def test_closing_the_socket_ends_the_agent() -> None:
    with serving(FakeAgent()) as client:
        client.payload()


def test_garbage_ends_the_agent() -> None:
    with serving(FakeAgent()) as client:
        client.payload()
        client.sock.sendall(frame(b"\xc1"))
        with pytest.raises(EOFError):
            client.payload()


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (Misbehaviour.GARBAGE, ProtocolError),
        (Misbehaviour.WRONG_TYPE, ProtocolError),
        (Misbehaviour.OVERSIZED, FrameTooLarge),
        (Misbehaviour.EMPTY, ProtocolError),
        (Misbehaviour.DIE_MID_FRAME, ProtocolError),
        (Misbehaviour.DIE, EOFError),
        (Misbehaviour.HANG, TimeoutError),
    ],
)
def test_a_bad_reply_has_its_error(how: Misbehaviour, error: type[Exception]) -> None:
    agent = FakeAgent()
    with serving(agent) as client:
        client.payload()
        agent.misbehave = how
        client.sock.settimeout(0.05 if how is Misbehaviour.HANG else 10)
        client.ask(CensusRequest(1))
        with pytest.raises(error):
            client.message()


@pytest.mark.parametrize(
    ("how", "error"),
    [(Misbehaviour.WRONG_VERSION, VersionMismatch), (Misbehaviour.WRONG_TOKEN, ProtocolError)],
)
def test_a_bad_hello_has_its_error(how: Misbehaviour, error: type[Exception]) -> None:
    agent = FakeAgent()
    agent.misbehave = how
    with serving(agent) as client, pytest.raises(error):
        read_hello(client.payload(), TOKEN)


def test_an_unknown_kind_and_a_failure_leave_the_session_standing() -> None:
    agent = FakeAgent()
    with serving(agent) as client:
        client.payload()
        agent.misbehave = Misbehaviour.UNKNOWN_KIND
        client.ask(TickRequest(1))
        assert client.message() is None
        assert isinstance(client.message(), Tick)
        assert isinstance(client.message(), GcEvents)
        agent.misbehave = Misbehaviour.FAILURE
        client.ask(TickRequest(2))
        failure = client.message()
        assert isinstance(failure, Failure)
        assert failure.request == 2
        client.ask(TickRequest(3))
        assert isinstance(client.message(), Tick)


def story(source: FakeSource) -> list[Event]:
    events: list[Event] = []
    source.open(events.append)
    source.wait("waiting for the interpreter", 0.5)
    source.attach()
    source.tick(12)
    source.end(TargetExited("Process 4242 exited with code 0."))
    source.tick()
    source.close()
    return events


def test_a_source_tells_the_same_story_every_time() -> None:
    first, second = story(FakeSource()), story(FakeSource())
    assert first[:-1] == second[:-1]
    assert isinstance(first[0], Waiting)
    assert isinstance(first[1], Attached)
    assert isinstance(first[-1], Ended)
    assert isinstance(first[-1].error, TargetExited)


def test_the_heap_has_what_the_goldens_need() -> None:
    received = [event.message for event in story(FakeSource()) if isinstance(event, Received)]
    names = [name for message in received if isinstance(message, Types) for name in message.names]
    censuses = [message for message in received if isinstance(message, Census)]
    assert len({name.module for name in names}) == 5
    assert {row.generation for census in censuses for row in census.rows} == {0, 1, 2, -1}
    session = [name.full for name in names].index("shop.models.Session")
    leak = [sum(row.bytes for row in census.rows if row.type == session) for census in censuses]
    assert leak == sorted(set(leak))
    assert sum(isinstance(message, Types) for message in received) == 2  # one type comes late


def test_every_message_of_the_story_passes_the_codec() -> None:
    for event in story(FakeSource()):
        if isinstance(event, Received):
            assert decode(encode(event.message), REPLIES) == event.message


def test_what_memory_is_used_for_is_told_once_for_all_who_asked() -> None:
    events: list[Event] = []
    source = FakeSource()
    source.open(events.append)
    source.attach()
    source.memory_now()
    source.memory_now()
    source.tick(3, census=False)
    (memory,) = (each.message for each in events if isinstance(each, Received) and isinstance(each.message, Memory))
    assert memory.outside == OUTSIDE
    assert source.memory_requests == 2
    assert decode(encode(memory), REPLIES) == memory


def test_cancel_ends_a_waiting_source_and_not_an_attached_one() -> None:
    events: list[Event] = []
    source = FakeSource()
    as_source: Source = source
    as_source.open(events.append)
    as_source.cancel()
    assert isinstance(events[-1], Ended)
    assert isinstance(events[-1].error, AttachCancelled)

    events.clear()
    source = FakeSource()
    source.open(events.append)
    source.attach()
    source.cancel()
    source.census_now()
    assert source.census_requests == 1
    assert not any(isinstance(event, Ended) for event in events)
    source.close()
    source.close()
    assert events[1:] == [Ended(None)]
