"""The conversation with an agent over its socket: gives it its source, asks for ticks and censuses, passes on answers.

Knows nothing of how the socket came to be, so it is tested against the fake agent. It never queues a census behind
another: while one is being counted, the next is not asked for.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from heaptop.errors import AgentLost, AttachCancelled, ProtocolError
from heaptop.injector.agent import framed_source, named_places
from heaptop.injector.native import Library
from heaptop.injector.session.agent_link import AgentLink
from heaptop.injector.session.census_policy import CensusPolicy
from heaptop.injector.session.forecast import Headroom
from heaptop.injector.session.snapshot_cost import SnapshotCost, excess
from heaptop.protocol.bounds import MEAN_NAME, TYPES, MessageBounds
from heaptop.protocol.codec import read_hello
from heaptop.protocol.images import FIRST_ID, CancelRequest, CloseRequest, Image, ImageRequest
from heaptop.protocol.messages import (
    Bye,
    Census,
    CollectRequest,
    Core,
    CoreRequest,
    Decision,
    DetachRequest,
    Failure,
    Hello,
    Memory,
    MemoryRequest,
    Message,
    Outside,
    OwnPages,
    Sampler,
    SamplerRequest,
    Tick,
    TickRequest,
)
from heaptop.protocol.source import Behind, Event, Forecast, IntervalChanged, Received, never_behind

TICK_INTERVAL: Final = 1.0
SILENT_AFTER: Final = 5.0
"""Seconds without a word after which an agent counts as silent: it is asked every second, while the screen keeps up."""
SILENT_PATIENCE: Final = 2.0
"""Seconds for the goodbye of one that has been silent. One that was not asked for anything answers in far less."""
BEHIND_REST: Final = 0.1  # Seconds to the next look at whether a census may be asked for, after one had to wait
PIECE: Final = 60_000  # Bytes of the native core in one request


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How allocations are sampled."""

    interval: int = 0  # Bytes from one sample to the next, on average; 0 for not at all
    depth: int = 128  # Frames kept of a stack, at most
    tracer: bool = False  # By tracemalloc, where there is no native core
    exact: bool = False  # With objects in blocks that free lists hand on, or not at all
    target: int = 0  # Samples a second that the interval is to follow the program for; 0: it stays


@dataclass(slots=True)
class ConversationRequests:
    """What other threads want of the conversation: set, then :meth:`wake`."""

    census: threading.Event = field(default_factory=threading.Event)
    memory: threading.Event = field(default_factory=threading.Event)
    leave: threading.Event = field(default_factory=threading.Event)
    accept: threading.Event = field(default_factory=threading.Event)  # The pause that was asked about may be made
    stop: threading.Event = field(default_factory=threading.Event)  # The other one may be made, in mode stop
    decline: threading.Event = field(default_factory=threading.Event)
    resample: threading.Event = field(default_factory=threading.Event)  # Allocations are to be sampled as in sampling
    sampling: SamplingSettings = SamplingSettings()
    outbox: queue.SimpleQueue[Message] = field(default_factory=queue.SimpleQueue)  # Requests to be sent as they are
    _pair: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            self._pair[1].send(b"!", socket.MSG_DONTWAIT)

    @property
    def bell(self) -> socket.socket:
        return self._pair[0]

    def close(self) -> None:
        for end in self._pair:
            end.close()


@dataclass(slots=True)
class PollSchedule:
    """When to ask for what; seconds of ``time.monotonic``."""

    interval: float
    max_share: float
    next_tick: float = 0.0
    next_census: float = 0.0
    began: float = 0.0
    census_out: bool = False
    tick_out: bool = False
    held: bool = False  # Nothing is counted, because something has to be decided first
    spacing: float = 0.0  # Seconds between the last census and the next, from start to start

    def census_due(self, now: float) -> bool:
        return not self.census_out and not self.held and now >= self.next_census

    def tick_due(self, now: float) -> bool:
        return not self.tick_out and now >= self.next_tick

    def tick_late(self, now: float) -> bool:
        return self.tick_out and now >= self.next_tick

    def wait(self, now: float) -> float:
        """Seconds until something is due, or a late tick is to be wondered at."""
        times = [] if self.census_out or self.held else [self.next_census]
        times.append(now + TICK_INTERVAL if self.tick_late(now) else self.next_tick)
        return max(0.0, min(times) - now)

    def skip(self, now: float) -> None:
        """Leave out a tick that is due, and let a census that is wait: what came before was not taken yet."""
        if self.tick_due(now):
            self.next_tick = now + TICK_INTERVAL
        if self.census_due(now):
            self.next_census = now + BEHIND_REST

    def counted(self, census: Census) -> None:
        """Stretch the interval so that the censuses cost at most ``max_share`` of one core."""
        self.census_out = False
        self.spacing = max(self.interval, census.cpu_ns / 1e9 / self.max_share)
        self.next_census = self.began + self.spacing

    def failed(self, now: float) -> None:
        """Whatever failed, asking again at once would fail again. A census that did is taken to have cost a core all
        the time."""
        spent = now - self.began if self.census_out else 0.0
        self.census_out = self.tick_out = False
        self.next_census = max(now + self.interval, self.began + spent / self.max_share)


class Conversation:
    """One agent's session, from the bootstrap's first line (already read) to its end."""

    def __init__(
        self,
        link: socket.socket,
        token: str,
        *,
        interval: float,
        max_share: float,
        deliver: Callable[[Event], None],
        orders: ConversationRequests,
        outside_rss: Callable[[], int | None],
        agent_lives: Callable[[], bool],
        outside_memory: Callable[[Sequence[OwnPages]], Outside | None] = lambda _: None,
        policy: CensusPolicy | None = None,
        core: Library | None = None,
        forecast: Callable[[], Forecast | None] = lambda: None,
        room: Callable[[], Headroom] = Headroom,
        image_bytes: Callable[[int], int | None] = lambda _: None,
        behind: Behind = never_behind,
        most_types: int = TYPES,
    ) -> None:
        """``agent_lives`` is asked when a tick is late: a socket that a forked child has a copy of stays open when
        the target dies. ``core`` is given to an agent that takes one. ``orders.sampling`` is asked for from the
        beginning. ``image_bytes`` returns the private bytes of a clone, by its pid in the target. While
        ``behind()``, ticks are left out and censuses wait: what is sampled meanwhile stays in the agent's tables, which
        are bounded and say what they drop."""
        gate = MessageBounds(most_types, most_types * MEAN_NAME)
        self._link = AgentLink(link, orders.bell, orders.leave.is_set, agent_lives, gate)
        self._token = token
        self._deliver = deliver
        self._orders = orders
        self._outside_rss = outside_rss
        self._agent_lives = agent_lives
        self._outside_memory = outside_memory
        self._policy = policy or CensusPolicy()
        self._core = core
        self._forecast = forecast
        self._room = room
        self._image = SnapshotCost(image_bytes)
        self._held_image: ImageRequest | None = None  # A snapshot that waits for an answer about its pause
        self._next_image: ImageRequest | None = None
        """A snapshot that waits for the end of the one before it, whose memory is not free until then."""
        self._unposted: deque[Message] = deque()  # What was wanted after that one
        self._behind = behind
        self._capabilities: tuple[str, ...] = ()
        self._core_told = self._sampler_told = False
        self._rss: int | None = None
        self.left = ""  # What the agent could not take out of the target, by its goodbye
        self._pace = PollSchedule(interval, max_share)
        self._ids = itertools.count(1)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *exception: object) -> None:
        self._link.close()

    def greet(self, patience: float, progress: Callable[[str, float], None]) -> Hello:
        """Send the agent's source and wait for its Hello. Raises SessionError, AttachCancelled."""
        began = time.monotonic()
        self._link.send_raw(framed_source(), began + patience)
        while True:
            seconds = time.monotonic() - began
            for payload in self._link.payloads(0.1):
                hello = read_hello(payload, self._token)
                self._capabilities = hello.capabilities
                return hello
            if self._orders.leave.is_set():
                raise AttachCancelled("The attach was cancelled.")
            if seconds > patience:
                raise AgentLost(f"The agent did not start within {patience:g} s.")
            progress("waiting for the agent", seconds)

    def run(self) -> None:
        """Ask and listen until asked to leave. Raises SessionError, also where the agent detaches."""
        while not self._orders.leave.is_set():
            now = time.monotonic()
            self._obey(now)
            if (self._pace.tick_due(now) or self._pace.census_due(now)) and self._behind():
                self._pace.skip(now)
            if self._pace.tick_due(now):
                self._ask_tick(now)
            if self._pace.census_due(now):
                self._ask_census(now)
            for message in self._link.read(self._pace.wait(time.monotonic())):
                self._take(message)
            if self._pace.tick_late(time.monotonic()) and not self._agent_lives():
                raise AgentLost("The agent has exited.")

    def prepare(self, patience: float) -> None:
        """Give the agent its native core, begin to sample, wait at most ``patience`` seconds for what becomes of both,
        and say what the first census will cost. Raises SessionError."""
        if self._core is not None and "core" in self._capabilities:
            core, number = self._core, next(self._ids)
            for at in range(0, len(core.data), PIECE):
                piece = core.data[at : at + PIECE]
                self._link.send(CoreRequest(number, core.build, len(core.data), at, piece))
            self._listen_until(lambda: self._core_told, patience)
        if self._orders.sampling.interval and "sampler" in self._capabilities:
            self._ask_sampler()
            self._listen_until(lambda: self._sampler_told, patience)
        if self._policy.mode == "clone":
            seen = self._forecast()
            self._policy.foresee(seen)
            if seen is not None and not self._room().shortage(seen.anonymous):
                self._deliver(seen)

    def _listen_until(self, done: Callable[[], bool], patience: float) -> None:
        end = time.monotonic() + patience
        while not done() and not self._orders.leave.is_set() and (left := end - time.monotonic()) > 0:
            for message in self._link.read(left):
                self._take(message)

    def _ask_sampler(self) -> None:
        left = self._room().for_tables
        memory = max(left, 1) if left is not None else 0  # 0 is unknown to the agent
        self._link.send(SamplerRequest(next(self._ids), **asdict(self._orders.sampling), memory=memory))

    def _obey(self, now: float) -> None:
        """What other threads want."""
        orders = self._orders
        if orders.census.is_set() and not self._pace.census_out:  # one that is out began before it was wanted
            orders.census.clear()
            self._pace.next_census = min(self._pace.next_census, now)
        if orders.memory.is_set():
            orders.memory.clear()
            self._link.send(MemoryRequest(next(self._ids)))
        if orders.resample.is_set():
            orders.resample.clear()
            self._ask_sampler()
        with contextlib.suppress(queue.Empty):
            while True:
                self._unposted.append(orders.outbox.get_nowait())
        while self._posts_next_image() and self._unposted:
            self._post(self._unposted.popleft())
        for order, accept in ((orders.accept, True), (orders.stop, True), (orders.decline, False)):
            if order.is_set():
                order.clear()
                self._policy.decide(accept, order is orders.stop)
                self._decided(now)

    def _decided(self, now: float) -> None:
        """Do what was held for an answer."""
        held, self._held_image = self._held_image, None
        self._pace.held = False
        if held is not None:
            self._post_snapshot(held)
        else:
            self._pace.next_census = now

    def _posts_next_image(self) -> bool:
        """Whether no snapshot waits for the end of another one any longer: what is wanted later waits behind it."""
        request = self._next_image
        if request is None:
            return True
        if any(_ends(each, request) for each in self._unposted):
            self._take(Failure(request.id, "cancelled"))
        elif self._image.is_open:
            return False
        else:
            self._post_snapshot(request)
        self._next_image = None
        return True

    def _post(self, request: Message) -> None:
        """Send a request. A snapshot and a collection are asked for only where they do no harm, and a collection only
        where the agent can."""
        if self._held_image is not None and _ends(request, self._held_image):
            self._drop_held(self._held_image)
        match request:
            case CollectRequest() if why := self._no_collection():
                self._take(Failure(request.id, why))
            case ImageRequest() if self._image.is_open:
                self._next_image = request
                self._close(CloseRequest(next(self._ids)))
            case ImageRequest():
                self._post_snapshot(request)
            case CloseRequest():
                self._close(request)
            case _:
                self._link.send(request)

    def _post_snapshot(self, request: ImageRequest) -> None:
        made = self._policy.image(request, self._rss, self._room())
        if isinstance(made, Decision):
            self._held_image = request
            self._take(made)
        elif isinstance(made, Failure):
            self._take(made)
        else:
            if not self._pace.tick_out and not self._behind():
                self._ask_tick(time.monotonic())  # with what was sampled so far: its sites are those of the snapshot
            self._image.on_request(made)
            self._link.send(made)

    def _drop_held(self, held: ImageRequest) -> None:
        """Go on as if the snapshot had not been wanted whose pause was asked about."""
        self._held_image = None
        if self._policy.withdraw(held.id):
            self._pace.held = False
        self._take(Failure(held.id, "cancelled"))

    def _close(self, request: CloseRequest) -> None:
        self._image.on_close(request)
        self._link.send(request)

    def _no_collection(self) -> str:
        if "collect" not in self._capabilities:
            return "This agent cannot run a collection."
        return self._policy.collection(self._rss, self._room()) if self._image.is_there else ""

    def _watch_image(self) -> None:
        """Say what the open snapshot costs, and end it where that is too much."""
        cost = self._image.cost()
        if cost is None:
            return
        if cost.image:
            self._deliver(cost)
        if why := excess(cost, self._room()):
            self._close(CloseRequest(next(self._ids), why))

    def _ask_tick(self, now: float) -> None:
        self._pace.tick_out, self._pace.next_tick = True, now + TICK_INTERVAL
        self._link.send(TickRequest(next(self._ids)))

    def _ask_census(self, now: float) -> None:
        room = self._room()
        request = self._policy.request(next(self._ids), self._rss, room)
        self._pace.census_out, self._pace.began = True, now
        if request.mode == "python" and (why := room.shortage_of_slices(self._rss)):
            self._take(Failure(request.id, why))
        else:
            self._link.send(request)

    def leave(self, patience: float) -> bool:
        """Ask the agent to detach; whether it confirmed that, or closed its end, within ``patience`` seconds. It goes
        in any case, so one that has been silent is waited for no longer than :data:`SILENT_PATIENCE`."""
        now = time.monotonic()
        end = now + (patience if now - self._link.heard_at < SILENT_AFTER else min(patience, SILENT_PATIENCE))
        try:
            self._link.send(DetachRequest())
            while (left := end - time.monotonic()) > 0:
                for message in self._link.read(left):
                    if isinstance(message, Bye):
                        self.left = message.left
                        return True  # what was under way came before it; a forked child may keep the socket open
        except (AgentLost, ProtocolError):
            return True
        except AttachCancelled:
            pass  # it reads nothing now: it will see the end of its socket
        return False

    def _take(self, message: Message) -> None:
        self._image.take(message)
        match message:
            case Census():
                self._counted(message)
            case Tick():
                self._pace.tick_out = False
                if message.rss is None:
                    message = replace(message, rss=self._outside_rss())
                self._rss = message.rss
            case Image():
                self._policy.frozen(message, self._rss)
            case Memory():
                message = replace(message, outside=self._outside_memory(message.own_pages), own_pages=())
            case Core():
                self._core_told = True
                self._policy.core(message)
            case Sampler():
                self._sampler_told = True
            case Decision():
                message = self._hold(message)
            case Failure():
                if message.request < FIRST_ID:
                    self._pace.failed(time.monotonic())
                message = replace(message, text=named_places(message.text))
            case Bye():
                self.left = message.left
                raise AgentLost(f"The agent detached: {named_places(message.reason)}.")
        self._deliver(Received(message))
        if isinstance(message, Tick):
            self._watch_image()

    def _hold(self, decision: Decision) -> Decision:
        """Count nothing until it is answered. What a person is asked."""
        self._pace.held = True
        if decision.request < FIRST_ID:
            self._pace.census_out = False
        return self._policy.ask(decision)

    def _counted(self, census: Census) -> None:
        self._policy.counted(census, self._rss)
        before = self._pace.spacing
        self._pace.counted(census)
        if self._pace.spacing != before:
            self._deliver(IntervalChanged(self._pace.spacing, self._pace.interval))


def _ends(later: Message, request: ImageRequest) -> bool:
    """Whether the snapshot is not wanted any more."""
    return isinstance(later, CloseRequest) or (isinstance(later, CancelRequest) and later.id == request.id)
