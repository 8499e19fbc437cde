"""The conversation with an agent, against the fake one over a real socket: manners good and bad, pace, farewell."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from heaptop.errors import AgentLost, AttachCancelled, FrameTooLarge, HeaptopError, ProtocolError, VersionMismatch
from heaptop.injector.agent import place
from heaptop.injector.native import Library
from heaptop.injector.session import conversation
from heaptop.injector.session.census_policy import CensusPolicy
from heaptop.injector.session.conversation import Conversation, ConversationRequests, PollSchedule, SamplingSettings
from heaptop.injector.session.forecast import CLONE_LEAST, Headroom, pause_ns
from heaptop.protocol.bounds import OTHER_TYPES
from heaptop.protocol.codec import encode
from heaptop.protocol.framing import frame
from heaptop.protocol.images import FIRST_ID, CancelRequest, CloseRequest, Image, ImageGone, ImageRequest
from heaptop.protocol.messages import (
    PROTOCOL_VERSION,
    Bye,
    Census,
    CensusRequest,
    Collected,
    CollectRequest,
    Core,
    CoreRequest,
    Decision,
    Failure,
    GcEvents,
    Hello,
    Memory,
    Message,
    Sampler,
    SamplerRequest,
    Tick,
    TickRequest,
    Traced,
    Types,
)
from heaptop.protocol.source import Event, Forecast, IntervalChanged, Received
from tests.fakes.source import OUTSIDE, TOKEN, FakeAgent, Misbehaviour

PATIENCE = 20.0


class Talk:
    """A conversation whose other end is a fake agent in a thread; it reads its source first, as an agent does."""

    def __init__(self, agent: FakeAgent, *, interval: float = 0.01, **more: Any) -> None:
        self.agent = agent
        self.heard: list[Message] = []
        self.events: list[Event] = []
        self.enough = threading.Event()
        self.orders = ConversationRequests()
        self.ours, self.theirs = socket.socketpair()
        self.thread = threading.Thread(target=self._agent_side, daemon=True)
        self.conversation = Conversation(
            self.ours,
            TOKEN,
            interval=interval,
            max_share=1.0,
            **more,
            deliver=self._deliver,
            orders=self.orders,
            outside_rss=lambda: 123_456_789,
            agent_lives=lambda: True,
            outside_memory=lambda told: OUTSIDE,
        )

    def _agent_side(self) -> None:
        with self.theirs, contextlib.suppress(OSError):
            while length := int.from_bytes(self.theirs.recv(4, socket.MSG_WAITALL), "big"):
                self.theirs.recv(length, socket.MSG_WAITALL)
            self.agent.serve(self.theirs)

    def _deliver(self, event: Event) -> None:
        self.events.append(event)
        if not isinstance(event, Received):
            return
        self.heard.append(event.message)
        if sum(isinstance(each, Census) for each in self.heard) >= 3:
            self.orders.leave.set()


@contextlib.contextmanager
def talking(agent: FakeAgent, **options: Any) -> Iterator[Talk]:
    talk = Talk(agent, **options)
    talk.thread.start()
    with talk.conversation:
        yield talk
    talk.ours.close()
    talk.thread.join(PATIENCE)
    talk.orders.close()
    assert not talk.thread.is_alive()


def silent(phase: str, seconds: float) -> None:
    pass


def test_a_session_distinguishes_no_more_types_than_it_is_to() -> None:
    with talking(FakeAgent(), most_types=3) as talk:
        talk.conversation.greet(PATIENCE, silent)
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    named = [name for message in talk.heard if isinstance(message, Types) for name in message.names]
    assert (len(named), named[-1]) == (4, OTHER_TYPES)
    assert not any(message.complete for message in talk.heard if isinstance(message, Census))


def test_while_the_screen_is_behind_nothing_more_is_asked_for() -> None:
    """Nor queued: what was due meanwhile is asked for once, afterwards."""
    asked: list[type[Message]] = []
    checks: list[int] = []

    class Watched(FakeAgent):
        def answer(self, request: Message) -> list[Message]:
            asked.append(type(request))
            if {TickRequest, CensusRequest} <= set(asked):
                talk.orders.leave.set()
                talk.orders.wake()
            return super().answer(request)

    def is_behind() -> bool:
        checks.append(len(asked))
        return len(checks) <= 5

    with talking(Watched(), behind=is_behind, interval=60.0) as talk:
        talk.conversation.greet(PATIENCE, silent)
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    assert checks[:6] == [0] * 6
    assert asked.count(TickRequest) == asked.count(CensusRequest) == 1


def test_a_census_that_is_wanted_while_one_is_out_comes_after_it() -> None:
    asked = 0

    class Wanted(FakeAgent):
        def answer(self, request: Message) -> list[Message]:
            nonlocal asked
            if isinstance(request, CensusRequest):
                asked += 1
                (talk.orders.census if asked == 1 else talk.orders.leave).set()
                talk.orders.wake()
                time.sleep(0.2)  # it is heard meanwhile
            return super().answer(request)

    with talking(Wanted(), interval=PATIENCE) as talk:
        talk.conversation.greet(PATIENCE, silent)
        begin = time.monotonic()
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    assert asked == 2
    assert time.monotonic() - begin < PATIENCE, "it came by and by"


def test_greets_asks_and_takes_leave() -> None:
    with talking(FakeAgent()) as talk:
        assert talk.conversation.greet(PATIENCE, silent).token == TOKEN
        talk.conversation.run()
        assert talk.conversation.leave(PATIENCE)
    kinds = {type(message) for message in talk.heard}
    assert {Types, Census, Tick, GcEvents} <= kinds
    numbers = [message.id for message in talk.heard if isinstance(message, Census)]
    assert numbers == sorted(set(numbers))


def test_the_goodbye_of_a_silent_agent_is_not_waited_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = FakeAgent()
    agent.misbehave = Misbehaviour.HANG
    with talking(agent) as talk:
        monkeypatch.setattr(conversation, "SILENT_AFTER", 0.0)
        monkeypatch.setattr(conversation, "SILENT_PATIENCE", 0.1)
        assert not talk.conversation.leave(86_400.0)


def test_rss_comes_from_outside_where_the_target_cannot_say_it() -> None:
    class Blind(FakeAgent):
        def answer(self, request: Message) -> list[Message]:
            return [replace(each, rss=None) if isinstance(each, Tick) else each for each in super().answer(request)]

    with talking(Blind()) as talk:
        talk.conversation.greet(PATIENCE, silent)
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    assert {message.rss for message in talk.heard if isinstance(message, Tick)} == {123_456_789}


def test_what_memory_is_used_for_is_asked_once_and_completed_from_outside() -> None:
    with talking(FakeAgent()) as talk:
        talk.conversation.greet(PATIENCE, silent)
        talk.orders.memory.set()
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    (memory,) = (message for message in talk.heard if isinstance(message, Memory))
    assert memory.outside == OUTSIDE
    assert memory.malloc is not None


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (Misbehaviour.GARBAGE, ProtocolError),
        (Misbehaviour.OVERSIZED, FrameTooLarge),
        (Misbehaviour.EMPTY, ProtocolError),
        (Misbehaviour.WRONG_TYPE, ProtocolError),
        (Misbehaviour.WRONG_TOKEN, ProtocolError),
        (Misbehaviour.WRONG_VERSION, VersionMismatch),
        (Misbehaviour.DIE, AgentLost),
        (Misbehaviour.DIE_MID_FRAME, ProtocolError),
    ],
)
def test_a_bad_greeting_is_an_error_of_its_own(how: Misbehaviour, error: type[HeaptopError]) -> None:
    agent = FakeAgent()
    agent.misbehave = how
    with talking(agent) as talk, pytest.raises(error):
        talk.conversation.greet(PATIENCE, silent)


class Hasty(FakeAgent):
    """Sends messages together with its hello, in one piece, and then ends or goes on."""

    def __init__(self, *behind: Message, ends: bool) -> None:
        super().__init__()
        self.behind = behind
        self.ends = ends

    def serve(self, sock: socket.socket) -> None:
        sock.sendall(b"".join(frame(encode(message)) for message in (self.hello(), *self.behind)))
        if not self.ends:
            self._converse(sock)


def test_frames_behind_the_hello_are_taken() -> None:
    failure = Failure(7, "together with the hello")
    with talking(Hasty(failure, failure, ends=False)) as talk:
        talk.conversation.greet(PATIENCE, silent)
        talk.conversation.run()
        assert talk.conversation.leave(PATIENCE)
    assert talk.heard[:2] == [failure, failure]


def test_an_end_behind_the_hello_is_no_broken_frame() -> None:
    with talking(Hasty(Failure(7, "the last"), ends=True)) as talk:
        talk.conversation.greet(PATIENCE, silent)
        with pytest.raises(AgentLost, match="closed its socket"):
            talk.conversation.run()
    with talking(Hasty(Bye("the interpreter ends"), ends=True)) as talk:
        talk.conversation.greet(PATIENCE, silent)
        with pytest.raises(AgentLost, match="the interpreter ends"):
            talk.conversation.run()


def test_an_error_in_the_agent_is_shown_with_the_module_and_line_it_comes_from() -> None:
    where = "agent/{}:{}".format(*place(100))
    told = Failure(7, "TypeError in agent line 100: what of it"), Failure(8, "TypeError in agent line 999999: a lie")
    with talking(Hasty(*told, Bye("the agent failed: KeyError in agent line 100"), ends=True)) as talk:
        talk.conversation.greet(PATIENCE, silent)
        with pytest.raises(AgentLost, match=f"failed: KeyError in {where}"):
            talk.conversation.run()
    assert talk.heard == [Failure(7, f"TypeError in {where}: what of it"), told[1]]


@pytest.mark.timeout(120)
def test_bytes_that_the_target_takes_from_our_end_hold_up_nobody() -> None:
    """It can have a copy of our end, the same open file description, and reads between our poll and our read."""
    stolen = bytearray()

    class Robbed(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            came = super().select(timeout)
            with contextlib.suppress(BlockingIOError):
                stolen.extend(thief.recv(1 << 16, socket.MSG_DONTWAIT))
            return came

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selectors, "DefaultSelector", Robbed)
        with talking(FakeAgent()) as talk, talk.ours.dup() as thief, pytest.raises(AgentLost, match="did not start"):
            talk.conversation.greet(0.5, silent)
        # The fake agent's thread ends with the last copy.
    assert stolen


@pytest.mark.timeout(120)
def test_an_agent_that_never_reads_its_source_is_given_up() -> None:
    orders = ConversationRequests()
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    conversation = Conversation(
        ours,
        TOKEN,
        interval=1.0,
        max_share=1.0,
        deliver=lambda event: None,
        orders=orders,
        outside_rss=lambda: None,
        agent_lives=lambda: True,
    )
    with ours, theirs, conversation, pytest.raises(AgentLost):
        conversation.greet(0.3, silent)
    orders.close()


@pytest.mark.parametrize("fields", [{}, {"pid": "renamed to text"}])
def test_an_agent_of_another_version_is_told_by_its_number_whatever_else_it_says(fields: dict[str, object]) -> None:
    class Later(FakeAgent):
        def serve(self, sock: socket.socket) -> None:
            payload: bytes = msgpack.packb(["hello", {"protocol": PROTOCOL_VERSION + 1, **fields}])
            sock.sendall(frame(payload))

    with talking(Later()) as talk, pytest.raises(VersionMismatch, match=f"version {PROTOCOL_VERSION + 1};"):
        talk.conversation.greet(PATIENCE, silent)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (Misbehaviour.GARBAGE, ProtocolError),
        (Misbehaviour.OVERSIZED, FrameTooLarge),
        (Misbehaviour.WRONG_TYPE, ProtocolError),
        (Misbehaviour.DIE, AgentLost),
        (Misbehaviour.DIE_MID_FRAME, ProtocolError),
    ],
)
def test_bad_manners_later_end_the_session_with_their_error(how: Misbehaviour, error: type[HeaptopError]) -> None:
    agent = FakeAgent()
    with talking(agent) as talk:
        talk.conversation.greet(PATIENCE, silent)
        agent.misbehave = how
        with pytest.raises(error):
            talk.conversation.run()


def test_a_failed_census_is_told_and_asked_for_again() -> None:
    agent = FakeAgent()
    with talking(agent) as talk:
        talk.conversation.greet(PATIENCE, silent)
        agent.misbehave = Misbehaviour.FAILURE

        def deliver(event: Event) -> None:
            assert isinstance(event, (Received, IntervalChanged))
            if isinstance(event, IntervalChanged):
                return
            talk.heard.append(event.message)
            if isinstance(event.message, Failure):
                agent.misbehave = None
            if isinstance(event.message, Census):
                talk.orders.leave.set()

        talk.conversation._deliver = deliver
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    assert any(isinstance(message, Failure) for message in talk.heard)
    assert any(isinstance(message, Census) for message in talk.heard)


def test_unknown_kinds_are_skipped() -> None:
    agent = FakeAgent()
    with talking(agent) as talk:
        talk.conversation.greet(PATIENCE, silent)
        agent.misbehave = Misbehaviour.UNKNOWN_KIND
        talk.conversation.run()
        assert talk.conversation.leave(PATIENCE)


def test_leaving_before_the_hello_is_a_cancelled_attach() -> None:
    agent = FakeAgent()
    agent.misbehave = Misbehaviour.HANG
    with talking(agent) as talk:

        def progress(phase: str, seconds: float) -> None:
            talk.orders.leave.set()

        with pytest.raises(AttachCancelled):
            talk.conversation.greet(PATIENCE, progress)


def test_an_agent_that_never_starts_is_given_up() -> None:
    agent = FakeAgent()
    agent.misbehave = Misbehaviour.HANG
    with talking(agent) as talk, pytest.raises(AgentLost):
        talk.conversation.greet(0.2, silent)


def test_an_agent_that_does_not_go_is_left_in_time() -> None:
    agent = FakeAgent()
    with talking(agent) as talk:
        talk.conversation.greet(PATIENCE, silent)
        agent.misbehave = Misbehaviour.HANG
        assert not talk.conversation.leave(0.2)


def run(talk: Talk) -> None:
    talk.conversation.greet(PATIENCE, silent)
    talk.conversation.prepare(PATIENCE)
    talk.conversation.run()
    assert talk.conversation.leave(PATIENCE)


def test_a_native_core_is_given_whole_and_first() -> None:
    core = Library(Path("_core.so"), "0123456789abcdef", bytes(range(256)) * 700)
    with talking(FakeAgent(), core=core) as talk:
        run(talk)
    assert bytes(talk.agent.core) == core.data
    assert isinstance(talk.heard[0], Core), "and waited for, so that a program that starts finds nothing half done"
    (reply,) = (message for message in talk.heard if isinstance(message, Core))
    assert (reply.build, reply.loaded) == (core.build, True)
    assert {message.mode for message in talk.heard if isinstance(message, Census)} == {"clone"}


def test_an_agent_that_reads_nothing_more_does_not_hold_up_who_leaves() -> None:
    """Its thread waits for the interpreter, say: the core is larger than what the socket holds for it."""
    core = Library(Path("_core.so"), "0123456789abcdef", bytes(8 << 20))
    read_on = threading.Event()

    class Waiting(FakeAgent):
        def answer(self, request: Message) -> list[Message]:
            read_on.wait(PATIENCE)
            return super().answer(request)

    with talking(Waiting(), core=core) as talk:
        talk.conversation.greet(PATIENCE, silent)
        threading.Timer(0.1, talk.orders.leave.set).start()
        with pytest.raises(AttachCancelled):
            talk.conversation.prepare(PATIENCE)
        read_on.set()


def test_an_agent_that_takes_no_core_is_given_none() -> None:
    class Old(FakeAgent):
        def hello(self) -> Hello:
            return replace(super().hello(), capabilities=("census.python", "gc", "ticks"))

    core = Library(Path("_core.so"), "0123456789abcdef", b"\x7fELF")
    with talking(Old(), core=core) as talk:
        run(talk)
    assert not talk.agent.core
    assert {message.mode for message in talk.heard if isinstance(message, Census)} == {"python"}


class Refusing(FakeAgent):
    """Its interpreter is not as the core expects it."""

    def answer(self, request: Message) -> list[Message]:
        if isinstance(request, CoreRequest):
            return [Core(request.id, request.build, loaded=False, reused=False, text="it does not fit")]
        return super().answer(request)


def large() -> Forecast:
    return Forecast(8 << 30, 8 << 30, 0, pause_ns(8 << 30, 0))


@pytest.mark.parametrize("accept", [True, False])
def test_nothing_is_counted_until_a_long_pause_is_decided_on(accept: bool) -> None:
    agent = FakeAgent()
    agent.mode = "clone"
    with talking(agent, policy=CensusPolicy(), forecast=large) as talk:

        def deliver(event: Event) -> None:
            if isinstance(event, Received) and isinstance(event.message, Decision):
                assert agent.censuses == 0
                (talk.orders.accept if accept else talk.orders.decline).set()
                talk.orders.wake()
            talk._deliver(event)

        talk.conversation._deliver = deliver
        run(talk)
    assert talk.events[0] == large()
    assert sum(isinstance(message, Decision) for message in talk.heard) == 1
    assert {message.mode for message in talk.heard if isinstance(message, Census)} == {"clone" if accept else "python"}


def test_a_short_stop_is_made_without_a_question() -> None:
    agent = FakeAgent()
    agent.mode, agent.stop_ns = "clone", 3_000_000
    with talking(agent, policy=CensusPolicy(), forecast=large) as talk:
        run(talk)
    assert not [message for message in talk.heard if isinstance(message, Decision)]
    assert {message.mode for message in talk.heard if isinstance(message, Census)} == {"stop"}


def test_what_was_sampled_before_a_snapshot_is_received_before_it() -> None:
    agent = FakeAgent()
    agent.mode = "clone"
    with talking(agent, policy=CensusPolicy()) as talk:
        talk.orders.outbox.put(ImageRequest(FIRST_ID, 60_000_000_000))
        run(talk)
    kinds = [type(message) for message in talk.heard]
    assert Tick in kinds[: kinds.index(Image)], "samples come with a tick"


@pytest.mark.parametrize("accept", [True, False])
def test_a_snapshot_waits_for_an_answer_about_its_pause(accept: bool) -> None:
    agent = FakeAgent()
    agent.mode, agent.stop_ns = "clone", 3_000_000
    with talking(agent, policy=CensusPolicy(), forecast=large) as talk:
        talk.orders.outbox.put(ImageRequest(FIRST_ID, 60_000_000_000))

        def deliver(event: Event) -> None:
            if isinstance(event, Received) and isinstance(event.message, Decision):
                assert (event.message.request, event.message.mode) == (FIRST_ID, "clone")
                assert not [message for message in talk.heard if isinstance(message, Image)]
                (talk.orders.accept if accept else talk.orders.decline).set()
                talk.orders.wake()
            talk._deliver(event)

        talk.conversation._deliver = deliver
        run(talk)
    assert sum(isinstance(message, Decision) for message in talk.heard) == 1
    ends = [message for message in talk.heard if isinstance(message, Image | Failure)]
    assert [type(end) for end in ends] == [Image if accept else Failure]
    assert accept or "declined" in getattr(ends[0], "text", "")


def test_a_snapshot_that_is_cancelled_while_its_pause_is_asked_about_is_not_made() -> None:
    agent = FakeAgent()
    agent.mode, agent.stop_ns = "clone", 3_000_000
    with talking(agent, policy=CensusPolicy(), forecast=large) as talk:
        talk.orders.outbox.put(ImageRequest(FIRST_ID, 60_000_000_000))

        def deliver(event: Event) -> None:
            if isinstance(event, Received) and isinstance(event.message, Decision):
                talk.orders.outbox.put(CancelRequest(FIRST_ID))
                talk.orders.wake()
            if isinstance(event, Received) and isinstance(event.message, Failure):
                talk.orders.accept.set()
                talk.orders.wake()
            talk._deliver(event)

        talk.conversation._deliver = deliver
        run(talk)
    ends = [message for message in talk.heard if isinstance(message, Image | Failure)]
    assert [(type(end), getattr(end, "text", "")) for end in ends] == [(Failure, "cancelled")]


def test_no_census_in_slices_is_taken_where_memory_is_short() -> None:
    """Its lists of objects are in the target."""
    agent = FakeAgent()
    with talking(agent, policy=CensusPolicy(mode="python"), room=lambda: Headroom(8 << 20)) as talk:

        def deliver(event: Event) -> None:
            if isinstance(event, Received) and isinstance(event.message, Failure):
                talk.orders.leave.set()
                talk.orders.wake()
            talk._deliver(event)

        talk.conversation._deliver = deliver
        run(talk)
    assert agent.censuses == 0
    failures = [message for message in talk.heard if isinstance(message, Failure)]
    assert failures
    assert "only 8 MiB of memory are free" in failures[0].text


def test_nothing_is_asked_or_foretold_of_a_clone_that_cannot_be() -> None:
    core = Library(Path("_core.so"), "0123456789abcdef", b"\x7fELF")
    with talking(Refusing(), core=core, policy=CensusPolicy(), forecast=large) as talk:
        run(talk)
    assert not [event for event in talk.events if isinstance(event, Forecast)]
    assert not [message for message in talk.heard if isinstance(message, Decision)]
    reasons = {(message.mode, message.mode_reason) for message in talk.heard if isinstance(message, Census)}
    assert reasons == {("python", "it does not fit")}


def test_without_room_nothing_is_foretold_of_a_clone() -> None:
    agent = FakeAgent()
    agent.mode = "clone"
    with talking(agent, policy=CensusPolicy(budget_ns=0), forecast=large, room=lambda: Headroom(0)) as talk:
        run(talk)
    assert not [event for event in talk.events if isinstance(event, Forecast)]
    assert {message.mode for message in talk.heard if isinstance(message, Census)} == {"stop"}


def test_what_the_agent_asks_is_passed_on_and_its_answer_sent() -> None:
    """A count in the target itself: only the agent knows how long that would take."""
    agent = FakeAgent()
    agent.mode, agent.mode_reason, agent.pause_ns = "stop", "no clone could be made", 300_000_000
    with talking(agent) as talk:

        def deliver(event: Event) -> None:
            if isinstance(event, Received) and isinstance(event.message, Decision):
                assert event.message.mode == "stop"
                talk.orders.accept.set()
                talk.orders.wake()
            talk._deliver(event)

        talk.conversation._deliver = deliver
        run(talk)
    assert {message.pause_ns for message in talk.heard if isinstance(message, Census)} == {300_000_000}


def test_a_stretched_interval_is_told_once() -> None:
    pace = PollSchedule(interval=0.5, max_share=0.05)
    assert IntervalChanged(pace.interval, pace.interval).is_throttled is False
    with talking(FakeAgent(), interval=0.001) as talk:
        run(talk)
    told = [event for event in talk.events if isinstance(event, IntervalChanged)]
    assert told
    assert all(event.is_throttled and event.asked == 0.001 for event in told)


def census(cpu_ns: int) -> Census:
    return Census(1, 0, "python", True, "", (), 0, 0, cpu_ns, 0, 0)


def test_the_interval_stretches_to_keep_the_share() -> None:
    pace = PollSchedule(interval=1.0, max_share=0.2, began=100.0, census_out=True)
    assert not pace.census_due(1e9)
    pace.counted(census(cpu_ns=3_000_000_000))
    assert not pace.census_due(114.9)
    assert pace.census_due(115.0)


def test_a_census_that_failed_is_taken_to_have_cost_all_its_time() -> None:
    pace = PollSchedule(interval=1.0, max_share=0.2, began=100.0, census_out=True)
    pace.failed(103.0)
    assert not pace.census_due(114.9)
    assert pace.census_due(115.0)
    pace.failed(200.0)
    assert not pace.census_due(200.9), "something else failed: no census was out"
    assert pace.census_due(201.0)


def test_a_cheap_census_keeps_the_interval() -> None:
    pace = PollSchedule(interval=1.0, max_share=0.2, began=100.0, census_out=True)
    pace.counted(census(cpu_ns=1_000_000))
    assert pace.census_due(101.0)
    assert not pace.census_due(100.9)


def test_what_the_agent_could_not_take_out_is_kept() -> None:
    agent = FakeAgent()
    agent.left = "another tool's hook lies over heaptop's"
    with talking(agent) as talk:
        run(talk)
        assert talk.conversation.left == agent.left


@pytest.mark.parametrize("tracer", [False, True])
def test_tracemalloc_is_asked_for_only_where_a_person_agreed(tracer: bool) -> None:
    agent = FakeAgent()
    agent.sampler_text, agent.offer = "there is no native core", True
    with talking(agent) as talk:
        talk.orders.sampling = SamplingSettings(65_536, 4, tracer)
        talk.conversation.greet(PATIENCE, silent)
        talk.conversation.prepare(PATIENCE)
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    state = next(message for message in talk.heard if isinstance(message, Sampler))
    assert (state.on, state.offer) == (tracer, not tracer)
    assert any(isinstance(message, Traced) for message in talk.heard) == tracer


@pytest.mark.parametrize(("left", "memory"), [(None, 0), (0, 1), (1, 1), (40 << 20, 20 << 20)])
def test_the_tables_of_samples_have_a_limit_wherever_what_is_left_is_known(left: int | None, memory: int) -> None:
    """0 means unknown to the agent: with nothing left it would take its own limit."""
    asked: list[int] = []

    class Sampling(FakeAgent):
        def answer(self, request: Message) -> list[Message]:
            if isinstance(request, SamplerRequest):
                asked.append(request.memory)
            return super().answer(request)

    with talking(Sampling(), room=lambda: Headroom(left)) as talk:
        talk.orders.sampling = SamplingSettings(65_536)
        run(talk)
    assert asked == [memory]


@pytest.mark.parametrize("able", [True, False])
def test_garbage_is_collected_where_the_agent_can(able: bool) -> None:
    """One that cannot would say nothing at all: it is not asked, and the front end is told."""
    asked: list[Message] = []

    class Collecting(FakeAgent):
        def hello(self) -> Hello:
            hello = super().hello()
            others = tuple(each for each in hello.capabilities if each != "collect")
            return replace(hello, capabilities=(*others, "collect") if able else others)

        def answer(self, request: Message) -> list[Message]:
            if not isinstance(request, CollectRequest):
                return super().answer(request)
            asked.append(request)
            return [Collected(request.id, 1, 2, 3, 4)]

    with talking(Collecting()) as talk:
        talk.conversation.greet(PATIENCE, silent)
        talk.orders.outbox.put(CollectRequest(FIRST_ID))
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    assert len(asked) == able
    told = [each for each in talk.heard if isinstance(each, (Collected, Failure))]
    if able:
        assert told == [Collected(FIRST_ID, 1, 2, 3, 4)]
    else:
        assert told == [Failure(FIRST_ID, "This agent cannot run a collection.")]


@pytest.mark.parametrize("stage", ["none", "building", "open"])
@pytest.mark.parametrize("missing", [0, 1])
def test_no_garbage_is_collected_where_a_snapshots_copies_have_no_room(stage: str, missing: int) -> None:
    """A collection writes to pages all over the heap, and no tick is taken meanwhile that could end the snapshot."""
    anonymous, collect = 1 << 30, CollectRequest(FIRST_ID + 1)
    policy = CensusPolicy()
    policy.foresee(Forecast(anonymous, anonymous, 0, 0))
    rooms = [
        Headroom(4 << 30),
        Headroom(anonymous + CLONE_LEAST - missing),
    ]  # less than when the snapshot was asked for
    to_post: list[Message] = [collect]

    def room() -> Headroom:
        return rooms.pop(0) if rooms[1:] else rooms[0]

    def opened(_: int) -> int:
        while to_post:
            talk.orders.outbox.put(to_post.pop())
        return 0

    class Collecting(FakeAgent):
        def hello(self) -> Hello:
            hello = super().hello()
            return replace(hello, capabilities=(*hello.capabilities, "collect"))

    agent = Collecting()
    agent.images.hold = stage == "building"
    with talking(agent, policy=policy, room=room, image_bytes=opened) as talk:
        talk.conversation.greet(PATIENCE, silent)
        if stage != "none":
            talk.orders.outbox.put(ImageRequest(FIRST_ID, 60_000_000_000))
        else:
            rooms.pop(0)
        if stage != "open":
            opened(0)
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    told = [each for each in talk.heard if isinstance(each, Collected)]
    refused = [each.text for each in talk.heard if isinstance(each, Failure) and each.request == collect.id]
    if stage == "none" or not missing:
        assert [each.id for each in told] == [collect.id]
        assert refused == []
    else:
        assert told == []
        assert refused == [
            "only 1055 MiB of memory are free, and the snapshot may need 1056 MiB during a collection: close "
            "the snapshot first"
        ]


@pytest.mark.parametrize("closed", [True, False])
def test_the_memory_of_a_snapshot_counts_as_free_for_the_next_one(closed: bool) -> None:
    """A clone of a large process takes seconds to end: until then the next one would be refused."""
    first, second = ImageRequest(FIRST_ID, 60_000_000_000), ImageRequest(FIRST_ID + 1, 60_000_000_000)
    policy = CensusPolicy()
    policy.foresee(Forecast(1 << 30, 1 << 30, 0, 0))
    is_free = True

    class Closing(FakeAgent):
        def answer(self, request: Message) -> list[Message]:
            nonlocal is_free
            answers = super().answer(request)
            if any(isinstance(each, ImageGone) for each in answers):
                is_free = True
            return answers

    def opened(_: int) -> int:
        nonlocal is_free
        if is_free and first in posted:
            posted.clear()
            is_free = False
            if closed:
                talk.orders.outbox.put(CloseRequest(FIRST_ID + 2))
            talk.orders.outbox.put(second)
        return 0

    posted: list[Message] = [first]
    with talking(Closing(), policy=policy, room=lambda: Headroom((4 << 30) * is_free), image_bytes=opened) as talk:
        talk.conversation.greet(PATIENCE, silent)
        talk.orders.outbox.put(first)
        talk.conversation.run()
        talk.conversation.leave(PATIENCE)
    assert not [each for each in talk.heard if isinstance(each, Failure)]
    assert [each.id for each in talk.heard if isinstance(each, Image)] == [first.id, second.id]


class Posted(FakeAgent):
    """Keeps what it is asked about snapshots. While it ``ends`` one, it does not report the end."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = "clone"
        self.posted: list[Message] = []
        self.ends = False
        self.fails = False

    def answer(self, request: Message) -> list[Message]:
        if isinstance(request, ImageRequest | CancelRequest | CloseRequest | CollectRequest):
            self.posted.append(request)
        if isinstance(request, CloseRequest) and self.fails:
            return [Failure(request.id, "out of memory in the target")]
        if isinstance(request, CloseRequest) and self.ends:
            return []
        return super().answer(request)

    def hello(self) -> Hello:
        hello = super().hello()
        return replace(hello, capabilities=(*hello.capabilities, "collect"))


FIRST, SECOND = ImageRequest(FIRST_ID, 60_000_000_000), ImageRequest(FIRST_ID + 1, 60_000_000_000)


def with_one_open(agent: Posted, then: Callable[[Talk, Message], None]) -> Talk:
    """A session with a snapshot; ``then`` gets each message that comes, until it lets the session go."""
    with talking(agent, policy=CensusPolicy(), interval=PATIENCE) as talk:

        def deliver(event: Event) -> None:
            talk._deliver(event)
            if isinstance(event, Received):
                then(talk, event.message)
                talk.orders.wake()

        talk.conversation._deliver = deliver
        talk.orders.outbox.put(FIRST)
        run(talk)
    return talk


def test_what_is_wanted_behind_a_snapshot_that_waits_is_sent_behind_it() -> None:
    agent = Posted()

    def then(talk: Talk, message: Message) -> None:
        if isinstance(message, Image) and message.id == FIRST.id:
            for each in (SECOND, CollectRequest(FIRST_ID + 2)):
                talk.orders.outbox.put(each)
        if isinstance(message, Collected):
            talk.orders.leave.set()

    with_one_open(agent, then)
    assert [type(each) for each in agent.posted] == [ImageRequest, CloseRequest, ImageRequest, CollectRequest]


@pytest.mark.parametrize("end", [CancelRequest(SECOND.id), CloseRequest(FIRST_ID + 2)])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_snapshot_that_is_given_up_while_it_waits_for_the_end_of_another_is_not_made(
    end: Message, at_once: bool
) -> None:
    """A clone would pause the program for nobody."""
    agent = Posted()
    agent.ends = True

    def then(talk: Talk, message: Message) -> None:
        if isinstance(message, Image):
            talk.orders.outbox.put(SECOND)
        if isinstance(message, Image if at_once else Tick) and (at_once or len(agent.posted) == 2):
            talk.orders.outbox.put(end)
        if isinstance(message, Failure):
            talk.orders.leave.set()

    talk = with_one_open(agent, then)
    assert [each for each in talk.heard if isinstance(each, Failure)] == [Failure(SECOND.id, "cancelled")]
    assert [each for each in agent.posted if isinstance(each, ImageRequest)] == [FIRST]


def test_a_snapshot_does_not_wait_for_an_end_that_the_agent_failed_to_report() -> None:
    """As where the target has no memory for the message."""
    agent = Posted()
    agent.fails = True

    def then(talk: Talk, message: Message) -> None:
        if isinstance(message, Image) and message.id == FIRST.id:
            talk.orders.outbox.put(SECOND)
        elif isinstance(message, Image):
            talk.orders.leave.set()

    talk = with_one_open(agent, then)
    assert [each.id for each in talk.heard if isinstance(each, Image)] == [FIRST.id, SECOND.id]


@pytest.mark.parametrize("end", [CancelRequest(FIRST.id), CloseRequest(FIRST_ID + 2)])
def test_censuses_go_on_when_a_snapshot_is_given_up_whose_pause_was_asked_about(end: Message) -> None:
    agent = FakeAgent()
    agent.mode, agent.stop_ns = "clone", 3_000_000
    with talking(agent, policy=CensusPolicy(), forecast=large) as talk:
        talk.orders.outbox.put(FIRST)

        def deliver(event: Event) -> None:
            talk._deliver(event)
            if isinstance(event, Received) and isinstance(event.message, Decision):
                talk.orders.outbox.put(end)
                talk.orders.wake()

        talk.conversation._deliver = deliver
        run(talk)
    assert [each for each in talk.heard if isinstance(each, Failure)] == [Failure(FIRST.id, "cancelled")]
    assert sum(isinstance(each, Census) for each in talk.heard) == 3
