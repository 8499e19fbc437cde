"""A scripted agent for tests: the same small heap every time, by socket or in process, bad manners on demand.

This module never starts a thread or a process and reads no clock: :meth:`FakeAgent.serve` blocks its caller, and
:class:`FakeSource` delivers events when it is told to. Nothing in heaptop proper imports it.
"""

from __future__ import annotations

import enum
import itertools
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

import msgpack

from heaptop.errors import AttachCancelled, HeaptopError, ProtocolError
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.framing import HEADER, MAX_FRAME, FrameReader, frame
from heaptop.protocol.images import FIRST_ID, AskRequest, CancelRequest, CloseRequest, ImageRequest, Question
from heaptop.protocol.images import REQUESTS as IMAGE_REQUESTS
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    NATIVE,
    PROTOCOL_VERSION,
    TRACED,
    TRACEMALLOC,
    TYPED,
    UNTRACKED,
    Bye,
    Census,
    CensusRequest,
    CodeName,
    Codes,
    Collected,
    CollectRequest,
    Core,
    CoreRequest,
    Decision,
    DetachRequest,
    Failure,
    GcEvent,
    GcEvents,
    Hello,
    Malloc,
    Memory,
    MemoryRequest,
    Message,
    Outside,
    Pymalloc,
    Region,
    Row,
    Sampler,
    SamplerRequest,
    Samples,
    StackNode,
    Stacks,
    Tick,
    TickRequest,
    Traced,
    TypeName,
    Types,
)
from heaptop.protocol.registry import REQUESTS
from heaptop.protocol.source import (
    Attached,
    Behind,
    Deliver,
    Ended,
    Event,
    Received,
    TargetInfo,
    Waiting,
    never_behind,
)
from tests.fakes.images import FakeImages

SECOND: Final = 1_000_000_000
START_NS: Final = 5_000 * SECOND
"""The fake target's clock at the first census."""

TOKEN: Final = "fake-token"
PYTHON: Final = "3.11.7"
PID: Final = 4242
COMMAND: Final = "python -m shop.server --port 8000"


# -- the heap -----------------------------------------------------------------------------------------------


class Shape(enum.Enum):
    """How a type's population moves from census to census."""

    STEADY = "never changes"
    WOBBLE = "a per cent or so around its start, by no pattern the eye sees"
    RISING = "a leak: more at every census, none ever goes"
    SAW = "rises for six censuses, then falls to a quarter"
    LATE = "appears at the fourth census, then stays"


@dataclass(frozen=True, slots=True)
class _Population:
    """A type of the fake heap: how many at first, how large each, and the share in each generation."""

    module: str
    qualname: str
    shape: Shape
    count: int
    size: int
    generations: tuple[tuple[int, int], ...]
    """Pairs of generation and share in per cent; the shares sum to 100."""

    def at(self, step: int) -> int:
        """Objects at census ``step``, from 0."""
        if self.shape is Shape.WOBBLE:
            return self.count + self.count * (_scatter(step, self.count) - 50) // 4000
        if self.shape is Shape.RISING:
            return self.count + self.count * step // 5 + _scatter(step, 7) // 10
        if self.shape is Shape.SAW:
            return self.count * (4 + 3 * (step % 6)) // 16
        if self.shape is Shape.LATE:
            return self.count if step >= 3 else 0
        return self.count


def _scatter(step: int, salt: int) -> int:
    """A number from 0 to 99 that looks random and never is (Knuth's multiplicative hash)."""
    return ((step + 1) * (2 * salt + 1) * 2654435761 % (1 << 32) >> 16) % 100


_OLD: Final = ((0, 4), (1, 6), (2, 90))
_YOUNG: Final = ((0, 60), (1, 25), (2, 15))
_LEAF: Final = ((UNTRACKED, 100),)

HEAP: Final = (
    _Population("builtins", "dict", Shape.WOBBLE, 41_000, 232, _OLD),
    _Population("builtins", "str", Shape.WOBBLE, 88_000, 71, _LEAF),
    _Population("builtins", "bytes", Shape.SAW, 640, 9_215, _LEAF),
    _Population("builtins", "list", Shape.WOBBLE, 16_500, 104, _YOUNG),
    _Population("builtins", "tuple", Shape.WOBBLE, 31_200, 63, _OLD),
    _Population("builtins", "int", Shape.WOBBLE, 12_400, 28, _LEAF),
    _Population("builtins", "float", Shape.SAW, 9_000, 24, _LEAF),
    _Population("builtins", "function", Shape.STEADY, 14_800, 152, ((2, 100),)),
    _Population("builtins", "code", Shape.STEADY, 15_100, 176, _LEAF),
    _Population("builtins", "type", Shape.STEADY, 1_900, 1_064, ((2, 100),)),
    _Population("shop.models", "Session", Shape.RISING, 2_400, 312, _OLD),
    _Population("shop.models", "Order", Shape.SAW, 3_000, 184, _YOUNG),
    _Population("shop.models", "Customer", Shape.STEADY, 5_000, 136, _OLD),
    _Population("shop.models", "Basket.Line", Shape.WOBBLE, 7_400, 88, _YOUNG),
    _Population("shop.cache", "Entry", Shape.RISING, 300, 96, _OLD),
    _Population("shop.cache", "Warmup", Shape.LATE, 1_200, 720, ((0, 100),)),
    _Population("collections", "OrderedDict", Shape.STEADY, 420, 1_440, ((2, 100),)),
    _Population("collections", "deque", Shape.STEADY, 310, 760, ((2, 100),)),
    _Population("sqlalchemy.orm.state", "InstanceState", Shape.WOBBLE, 6_100, 240, _OLD),
    _Population("sqlalchemy.orm.state", "PendingCollection", Shape.STEADY, 90, 112, ((2, 100),)),
)
"""Twenty types in five modules, some 20 MB."""

OUTSIDE: Final = Outside(
    regions=(
        Region("arena", "", 22_000_000, 23_068_672),
        Region("heap", "main", 12_000_000, 12_582_912),
        Region("file", "/usr/bin/python3.11", 6_000_000, 7_000_000),
        Region("chunk", "", 4_000_000, 9_000_000),
        Region("anonymous", "", 1_400_000, 40_000_000),
        Region("stack", "thread 4243 worker", 300_000, 8_388_608),
        Region("stack", "main thread", 100_000, 135_168),
        Region("shared", "/dev/shm/board", 65_536, 1_048_576),
        Region("kernel", "[vdso]", 4_096, 8_192),
    ),
    huge=2_097_152,
    hugetlb=0,
    swap=0,
    pymalloc=Pymalloc(22_000_000, 17_000_000, 4_000_000, 800_000, 200_000),
    duration_ns=38_000_000,
    gaps=(),
)
"""What the kernel would say of the fake target."""


# -- what is allocated ---------------------------------------------------------------------------------------

CODES: Final = (
    CodeName("/srv/shop/app.py", "main", 10),
    CodeName("/srv/shop/views.py", "create_session", 80),
    CodeName("/srv/shop/views.py", "list_orders", 120),
    CodeName("/srv/shop/cache.py", "Cache.get", 22),
    CodeName("/usr/lib/python3.11/json/decoder.py", "JSONDecoder.decode", 332),
    CodeName("/usr/lib/python3/site-packages/sqlalchemy/orm/state.py", "InstanceState.__init__", 60),
)
STACKS: Final = (
    StackNode(0, 0, 14),  # 1: main
    StackNode(1, 1, 88),  # 2: main > create_session
    StackNode(1, 2, 131),  # 3: main > list_orders
    StackNode(3, 4, 340),  # 4: main > list_orders > decode
    StackNode(1, 3, 30),  # 5: main > Cache.get
    StackNode(2, 5, 77),  # 6: main > create_session > InstanceState.__init__
)
"""Ids from 1, as they come."""


@dataclass(frozen=True, slots=True)
class _Allocation:
    """Blocks that are sampled at every tick: where, how large, how many, and for how many ticks each lives."""

    stack: int
    size: int
    count: int
    life: int
    """0: for ever."""
    kind: str = ""
    """The ``qualname`` in :data:`HEAP` that a census finds them to be; empty for a buffer."""


ALLOCATIONS: Final = (
    _Allocation(2, 312, 6, 0, "Session"),
    _Allocation(6, 240, 2, 0, "InstanceState"),
    _Allocation(4, 71, 12, 1, "str"),
    _Allocation(4, 232, 8, 2, "dict"),
    _Allocation(3, 9_215, 2, 4, "bytes"),
    _Allocation(5, 131_072, 1, 12),
)
BYTES_PER_TICK: Final = 2_000_000


# -- bad manners --------------------------------------------------------------------------------------------


class Misbehaviour(enum.Enum):
    """What a fake agent can do instead of its next reply. It says goodbye after none of them."""

    GARBAGE = "a frame that is not msgpack, then goes on"
    WRONG_TYPE = "a census whose fields have wrong types, then goes on"
    UNKNOWN_KIND = "a message of a kind nobody knows, then the reply"
    FAILURE = "a Failure for the request, then goes on"
    OVERSIZED = "a header that announces more than is allowed, then goes on"
    EMPTY = "a frame of no bytes, then goes on"
    WRONG_VERSION = "a hello of a newer protocol (at the hello; otherwise as a message nobody expects)"
    WRONG_TOKEN = "a hello with another token (likewise)"
    HANG = "nothing, now and ever after, until the socket closes"
    DIE_MID_FRAME = "half a frame, then closes the socket"
    DIE = "closes the socket"


# -- the agent ----------------------------------------------------------------------------------------------


ANSWERED: Final = (
    CensusRequest,
    TickRequest,
    MemoryRequest,
    SamplerRequest,
    CollectRequest,
    ImageRequest,
    AskRequest,
)
"""Requests that have an id, and one reply that may fail."""


class FakeAgent:
    """The agent's side of the wire, with :data:`HEAP` for a heap and a clock that moves only when told.

    Every census and every tick is numbered from 0 and depends on nothing but its number.
    """

    def __init__(self, token: str = TOKEN, python: str = PYTHON, pid: int = PID) -> None:
        self.token = token
        self.python = python
        self.pid = pid
        self.time_ns = START_NS
        self.left = ""
        """What it says that it could not take out of the target."""
        self.misbehave: Misbehaviour | None = None
        """What to do instead of the next reply (or of the hello); taken back once done."""
        self.core = bytearray()
        """The native core, as far as it was given."""
        self.mode = "python"
        """How it counts, where the request allows it; ``clone`` as soon as it has a core."""
        self.mode_reason = ""
        self.pause_ns: int | None = None
        """The pause of its censuses; above a request's budget it answers with a Decision."""
        self.stop_ns = 60_000_000
        """How long a count in the stopped process would take."""
        self.images = FakeImages()
        """Its open snapshot, and how it is to behave about it."""
        self.garbage = 0
        self.exits: int | None = 3
        """What its ticks say of gc.garbage, and of atexit."""
        self.collections = 0
        """How often garbage was collected because it was asked for."""
        self.censuses = 0
        self.ticks = 0
        self._interned: dict[_Population, int] = {}
        self.interval = 0
        """Bytes from one sample to the next; 0 while it does not sample."""
        self.sampler_text = ""
        """Why it does not sample, though it is asked to."""
        self.offer = False
        """Whether tracemalloc could do it then, where it is allowed to."""
        self.traced = 0
        """Censuses since tracemalloc was switched on, itself included; 0 while it is off."""
        self._was_traced = False
        self._intervals: list[int] = []
        self._depth = 0
        self._epoch = 0
        self._sampled = 0
        self._free: list[int] = []
        self._next_sample = 0
        self._dying: dict[int, list[int]] = {}
        self._untyped: list[tuple[int, str]] = []

    # -- what it says

    def hello(self) -> Hello:
        return Hello(
            protocol=PROTOCOL_VERSION,
            token=self.token,
            pid=self.pid,
            python=self.python,
            executable="/usr/bin/python3.11",
            capabilities=("census.python", "gc", "ticks", "core", "sampler", "image"),
            gc_enabled=True,
            time_ns=self.time_ns,
        )

    def answer(self, request: Message) -> list[Message]:
        """What the agent says to a request, in the order of the wire."""
        if isinstance(request, CensusRequest):
            return self._census(request)
        if isinstance(request, CoreRequest):
            return self._take_core(request)
        if isinstance(request, TickRequest):
            return self._tick(request.id)
        if isinstance(request, MemoryRequest):
            return [self._memory(request.id)]
        if isinstance(request, SamplerRequest):
            return [self._sampler(request)]
        if isinstance(request, CollectRequest):
            return [self._collect(request.id)]
        if isinstance(request, IMAGE_REQUESTS):
            return self.images.answer(request, self.time_ns)
        if isinstance(request, DetachRequest):
            return [*self.images.end(), Bye("detached", self.left)]
        return [Failure(-1, f"{type(request).__name__} is not a request")]

    def advance(self, nanoseconds: int = SECOND) -> None:
        """Move the target's clock."""
        self.time_ns += nanoseconds

    def _take_core(self, request: CoreRequest) -> list[Message]:
        if request.at != len(self.core):
            return [Failure(request.id, "a piece of the native core that does not fit")]
        self.core += request.data
        if len(self.core) < request.size:
            return []
        self.mode, self.mode_reason = "clone", ""
        return [Core(request.id, request.build, loaded=True, reused=False, text="")]

    def _census(self, request: CensusRequest) -> list[Message]:
        mode, reason = (self.mode, self.mode_reason) if request.mode == "clone" else (request.mode, request.reason)
        if self.mode == "clone" and 2 * self.stop_ns <= request.stop_ns:
            mode, reason = "stop", request.reason
        elif mode == "stop" and request.stop_ns and self.stop_ns > request.budget_ns:
            return [Decision(request.id, mode, reason, self.stop_ns, request.budget_ns)]
        elif mode != "python" and self.pause_ns is not None and self.pause_ns > request.budget_ns:
            return [Decision(request.id, mode, reason, self.pause_ns, request.budget_ns)]
        step = self.censuses
        self.censuses += 1
        first = len(self._interned)
        rows = tuple(self._rows(step, native=mode != "python"))
        new = tuple(TypeName(kind.module, kind.qualname) for kind in list(self._interned)[first:])
        objects = sum(row.count for row in rows)
        census = Census(
            id=request.id,
            time_ns=self.time_ns,
            mode=mode,
            mode_reason=reason,
            complete=True,
            cut="",
            rows=rows,
            duration_ns=objects * 1_500,
            pause_ns=self.pause_ns or 3_000_000 + _scatter(step, 1) * 4_000,
            cpu_ns=objects * 700,
            agent_bytes=2_621_440,
            sizeof_guessed=12,
        )
        typed = [*self._samples(births=False)] if self.interval else [*self._traces()]
        return [Types(first, new), *typed, census] if new else [*typed, census]

    def _rows(self, step: int, native: bool) -> Iterator[Row]:
        """The core's rows have hidden bytes, and say which sizes are guesses."""
        for kind in HEAP:
            total = left = kind.at(step)
            if not total:
                continue
            number = self._interned.setdefault(kind, len(self._interned))
            for position, (generation, share) in enumerate(kind.generations):
                count = left if position == len(kind.generations) - 1 else total * share // 100
                left -= count
                hidden = 48 * count if native and kind.module.startswith("shop") else 0
                guessed = count if native and kind.qualname == "Warmup" else 0
                if count:
                    yield Row(number, generation, count, count * kind.size, hidden, guessed)

    def _tick(self, request: int) -> list[Message]:
        step = self.ticks
        self.ticks += 1
        tick = Tick(
            id=request,
            time_ns=self.time_ns,
            rss=64 * 1024 * 1024 + step * 131_072,
            blocks=260_000 + step * 480 + _scatter(step, 3),
            gc_enabled=True,
            gc_counts=(_scatter(step, 4) * 7, step % 10, step % 7),
            frozen=0,
            threads=4,
            agent_cpu_ns=step * 9_000_000,
            garbage=self.garbage,
            exits=self.exits,
        )
        events = tuple(self._collections(step))
        sampled = [*self._samples(births=True)] if self.interval else []
        gone = self.images.pass_time(self.time_ns)
        return [*sampled, *gone, tick, GcEvents(events, 0)] if events else [*sampled, *gone, tick]

    def _collect(self, request: int) -> Collected:
        self.collections += 1
        found = 18 if self.collections == 1 else 0
        return Collected(request, self.time_ns, duration_ns=42_000_000, collected=found, uncollectable=self.garbage)

    def _sampler(self, request: SamplerRequest) -> Sampler:
        traces = bool(self.sampler_text and self.offer and request.tracer and request.interval)
        self._epoch += traces and not self.traced
        self.traced = (self.traced or 1) if traces else 0
        self._was_traced |= traces
        state = self._native_sampler(request)
        if traces:
            return replace(
                state,
                on=True,
                interval=1,
                intervals=(1,),
                depth=4,
                epoch=self._epoch,
                text="",
                means=TRACEMALLOC,
                approximate=(),
            )
        means = TRACEMALLOC if self._was_traced else NATIVE
        return replace(state, offer=bool(self.sampler_text) and self.offer, means=means)

    def _traces(self) -> Iterator[Message]:
        """What tracemalloc says before a census: more of everything at each."""
        if not self.traced:
            return
        if self.traced == 1:
            files = [CODES[node.code].file for node in STACKS]
            lines = [node.line for node in STACKS]
            yield Codes(0, tuple(CodeName(file, "", line) for file, line in zip(files, lines, strict=True)))
            yield Stacks(1, tuple(StackNode(node.parent, place, node.line) for place, node in enumerate(STACKS)))
        numbers = {kind.qualname: number for kind, number in self._interned.items()}
        rows = []
        for one in ALLOCATIONS:
            if one.kind:
                size_class = 1 if one.size <= 256 else 2 if one.size <= 2048 else 3
                count = one.count * self.traced
                rows.append(TRACED.pack(one.stack, numbers[one.kind], size_class, count, count * one.size))
        self.traced += 1
        yield Traced(self.time_ns, b"".join(rows), left_out=3, left_out_bytes=96)

    def _native_sampler(self, request: SamplerRequest) -> Sampler:
        if request.interval and not self.interval and not self.sampler_text:
            self._epoch += 1
            self._sampled = self._next_sample = 0
            self._free, self._dying, self._untyped = [], {}, []
        self.interval = 0 if self.sampler_text else request.interval
        self._depth = request.depth
        if self.interval not in (0, *self._intervals):
            self._intervals.append(self.interval)
        return Sampler(
            id=request.id,
            time_ns=self.time_ns,
            on=self.interval > 0,
            target=request.target if self.interval else 0,
            interval=self.interval,
            depth=request.depth,
            intervals=tuple(self._intervals),
            epoch=self._epoch,
            text=self.sampler_text if request.interval else "",
            approximate=() if request.exact else ("list", "dict", "tuple", "float"),
            path=("/srv", "/usr/lib/python311.zip", "/usr/lib/python3.11", "/usr/lib/python3/site-packages"),
            prefixes=("/usr",),
        )

    def _samples(self, *, births: bool) -> Iterator[Message]:
        """What a tick brings (births, and deaths of those whose time is over), or a census (what they are)."""
        born, died = [], []
        if births:
            if not self._sampled:
                yield Codes(0, CODES)
                yield Stacks(1, STACKS)
            self._sampled += 1
            clock = self._sampled * BYTES_PER_TICK
            for allocation in ALLOCATIONS:
                for number in range(allocation.count):
                    sample = self._free.pop() if self._free else self._next_sample
                    self._next_sample = max(self._next_sample, sample + 1)
                    birth = clock - BYTES_PER_TICK * (number + 1) // (allocation.count + 1)
                    rate = self._intervals.index(self.interval)
                    born.append(BIRTH.pack(sample, allocation.stack, birth, allocation.size, 0, 1, rate, 0))
                    if allocation.life:
                        self._dying.setdefault(self._sampled + allocation.life, []).append(sample)
                    if allocation.kind:
                        self._untyped.append((sample, allocation.kind))
            gone = self._dying.pop(self._sampled, [])
            died = [DEATH.pack(sample, 0, clock) for sample in gone]
            self._free += gone
            self._untyped = [pair for pair in self._untyped if pair[0] not in gone]
        typed = []
        if not births:
            numbers = {kind.qualname: number for kind, number in self._interned.items()}
            typed = [TYPED.pack(sample, numbers[kind]) for sample, kind in self._untyped]
            self._untyped = []
        clock = self._sampled * BYTES_PER_TICK
        yield Samples(self.time_ns, clock, b"".join(born), b"".join(died), b"".join(typed))

    def _memory(self, request: int) -> Memory:
        return Memory(
            id=request,
            time_ns=self.time_ns,
            blocks=260_000,
            allocator="pymalloc",
            malloc=Malloc(12_582_912, 9_000_000, 3_582_912, 9_000_000, 3, False),
            duration_ns=60_000,
        )

    def _collections(self, step: int) -> Iterator[GcEvent]:
        """A young collection at every tick, a middle one at every third, a full one at every sixth."""
        for generation, every in ((0, 1), (1, 3), (2, 6)):
            if step % every == every - 1:
                cost = 180_000 * 12**generation
                live = 255_000 + step * 480 if generation == 2 else None
                begin = self.time_ns - SECOND // (generation + 2)
                clock = None
                if self.interval:  # by the part of the step that is over
                    clock = max(0, self._sampled * BYTES_PER_TICK - BYTES_PER_TICK // (generation + 2))
                yield GcEvent(begin, generation, 40 + _scatter(step, 5), 0, cost, live, clock)

    # -- over a socket

    def serve(self, sock: socket.socket) -> None:
        """Say hello, then answer requests until the other side closes or detaches; closes the socket.

        Blocks: run it in a thread of the test. It ends when ``sock``'s other end is closed, whatever it was
        told to do, and whatever the other side sends.
        """
        with sock:
            try:
                if self._say(sock, [self.hello()], -1):
                    self._converse(sock)
            except (OSError, ProtocolError):
                return  # the real agent cleans up and ends; so does this one

    def _converse(self, sock: socket.socket) -> None:
        reader = FrameReader()
        while data := sock.recv(65536):
            for payload in reader.feed(data):
                request = decode(payload, REQUESTS)
                if request is None:
                    continue
                number = request.id if isinstance(request, ANSWERED) else -1
                if not self._say(sock, self.answer(request), number) or isinstance(request, DetachRequest):
                    return

    def _say(self, sock: socket.socket, replies: list[Message], request: int) -> bool:
        """Send the replies, or misbehave once; False when the conversation is over."""
        how, self.misbehave = self.misbehave, None
        if how is Misbehaviour.DIE:
            return False
        if how is Misbehaviour.DIE_MID_FRAME:
            whole = frame(encode(replies[-1]))
            sock.sendall(whole[: len(whole) // 2])
            return False
        if how is Misbehaviour.HANG:
            while sock.recv(65536):
                pass
            return False
        if how is not None:
            sock.sendall(self._bad(how, request))
        if how in (None, Misbehaviour.UNKNOWN_KIND):
            for reply in replies:
                sock.sendall(frame(encode(reply)))
        return True

    def _bad(self, how: Misbehaviour, request: int) -> bytes:
        """The bytes of a misbehaviour that leaves the socket open."""
        hello = {field.name: getattr(self.hello(), field.name) for field in fields(Hello)}
        return {
            Misbehaviour.GARBAGE: frame(b"\xc1" * 64),  # 0xc1 is the one byte msgpack never uses
            Misbehaviour.OVERSIZED: (MAX_FRAME + 1).to_bytes(HEADER, "big"),
            Misbehaviour.EMPTY: bytes(HEADER),
            Misbehaviour.FAILURE: frame(encode(Failure(request, "the fake agent was told to fail"))),
            Misbehaviour.UNKNOWN_KIND: frame(_pack("novelty", {"of": "a newer agent"})),
            Misbehaviour.WRONG_TYPE: frame(_pack("census", {"id": "one", "rows": {}})),
            Misbehaviour.WRONG_VERSION: frame(_pack("hello", {**hello, "protocol": PROTOCOL_VERSION + 1})),
            Misbehaviour.WRONG_TOKEN: frame(_pack("hello", {**hello, "token": "not-" + self.token})),
        }[how]


def _pack(kind: str, values: dict[str, object]) -> bytes:
    return bytes(msgpack.packb([kind, values]))


def _seen(message: Message) -> Message:
    """The agent's message with what heaptop sees from outside."""
    return replace(message, outside=OUTSIDE) if isinstance(message, Memory) else message


# -- the source ---------------------------------------------------------------------------------------------


class FakeSource:
    """A :class:`~heaptop.protocol.source.Source` in process: the test says when what is delivered.

    Events are delivered by the calling thread, from within :meth:`wait`, :meth:`attach`, :meth:`tick`,
    :meth:`end`, :meth:`cancel` and :meth:`close`. Each tick advances the target's clock by ``step_ns``.
    What is asked of open snapshots, and a collection, is answered from within the call that asks it, or at the attach.
    """

    def __init__(self, agent: FakeAgent | None = None, *, step_ns: int = SECOND, note: str = "") -> None:
        self.agent = agent or FakeAgent()
        self.census_requests = 0
        """How often :meth:`census_now` was called. It delivers nothing: the next :meth:`tick` does."""
        self.decisions: list[bool] = []
        """What :meth:`decide` was called with."""
        self.stops: list[bool] = []
        self.sampling: list[tuple[int, int]] = []
        """What :meth:`sample` was called with; the next :meth:`tick` answers."""
        self.tracing: list[bool] = []
        self.targets: list[int] = []
        """With each of these, whether tracemalloc might do it."""
        self.memory_requests = 0
        """How often :meth:`memory_now` was called; the next :meth:`tick` answers once."""
        self.behind: Behind = never_behind
        """What :meth:`open` was given."""
        self.cancelled = False
        self.closed = False
        self._step_ns = step_ns
        self._target = TargetInfo(self.agent.pid, COMMAND, self.agent.python, "shop", note)
        self._deliver: Deliver | None = None
        self._attached = False
        self._ended = False
        self._memory_wanted = False
        self._sampling_told = 0
        self._requests = 0
        self._image_ids = itertools.count(FIRST_ID)
        self._before_attach: list[Message] = []

    # -- the Source

    @property
    def target(self) -> TargetInfo:
        return self._target

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver = deliver
        self.behind = behind

    def census_now(self) -> None:
        self.census_requests += 1

    def memory_now(self) -> None:
        self.memory_requests += 1
        self._memory_wanted = True

    def sample(self, interval: int, depth: int, tracer: bool = False, target: int = 0) -> None:
        self.sampling.append((interval, depth))
        self.tracing.append(tracer)
        self.targets.append(target)

    def decide(self, accept: bool, stop: bool = False) -> None:
        self.decisions.append(accept)
        self.stops.append(stop)

    def image(self, keep: float, memory: int = 0) -> int:
        return self.request(lambda id: ImageRequest(id, int(keep * SECOND), memory))

    def ask(self, image: int, question: Question) -> int:
        return self.request(lambda id: AskRequest(id, image, question.pack(id)))

    def give_up(self, id: int) -> None:
        self.request(lambda _: CancelRequest(id))

    def close_snapshot(self) -> None:
        self.request(CloseRequest)

    def request(self, make: Callable[[int], Message]) -> int:
        id = next(self._image_ids)
        request = make(id)
        if self._attached:
            self.say(*self.agent.answer(request))
        else:
            self._before_attach.append(request)
        return id

    def cancel(self) -> None:
        if not self._attached:
            self.cancelled = True
            self.end(AttachCancelled(f"The attach to {self._target.pid} was cancelled."))

    def close(self, timeout: float = 5.0) -> None:
        self.closed = True
        self.end()

    # -- what a test says

    def wait(self, phase: str, seconds: float) -> None:
        """Deliver one :class:`Waiting`."""
        self._send(Waiting(phase, seconds))

    def attach(self, backend: str = "ptrace", stopped_ns: int = 1_700_000) -> None:
        """Deliver :class:`Attached` with the agent's hello."""
        self._attached = True
        self._send(Attached(self._target, self.agent.hello(), backend, stopped_ns))
        for request in self._before_attach:
            self.say(*self.agent.answer(request))
        self._before_attach = []

    def tick(self, times: int = 1, *, census: bool = True) -> None:
        """A step of time, then the agent's tick, what an open snapshot costs, (with ``census``) a census, and Memory if
        wanted; ``times`` over."""
        for _ in range(times):
            self.agent.advance(self._step_ns)
            self._requests += 1
            self.say(*self.agent.answer(TickRequest(self._requests)))
            cost = self.agent.images.cost(self.agent.time_ns)
            if cost is not None:
                self.announce(cost)
            if census:
                self._requests += 1
                self.say(*self.agent.answer(CensusRequest(self._requests)))
            if len(self.sampling) > self._sampling_told:
                self._sampling_told = len(self.sampling)
                self._requests += 1
                how = *self.sampling[-1], self.tracing[-1]
                self.say(*self.agent.answer(SamplerRequest(self._requests, *how, target=self.targets[-1])))
            if self._memory_wanted:
                self._memory_wanted = False
                self._requests += 1
                self.say(*(_seen(reply) for reply in self.agent.answer(MemoryRequest(self._requests))))

    def go_on(self) -> None:
        """Deliver the answers that were held back (:attr:`FakeImages.hold`)."""
        self.say(*self.agent.images.go_on(self.agent.time_ns))

    def end_image(self, reason: str, expected: bool = False) -> None:
        """The open snapshot ends by itself."""
        self.say(*self.agent.images.end(reason, expected))

    def announce(self, event: Event) -> None:
        """Deliver an event as it is."""
        self._send(event)

    def say(self, *messages: Message) -> None:
        """Deliver these messages as they are."""
        for message in messages:
            self._send(Received(message))

    def end(self, error: HeaptopError | None = None) -> None:
        """Deliver :class:`Ended`, once; nothing is delivered after it, and who took events is kept no longer."""
        if self._deliver is not None and not self._ended:
            self._send(Ended(error))
            self._ended = True
            self._deliver, self.behind = (lambda event: None), never_behind

    def _send(self, event: Event) -> None:
        if self._deliver is None:
            raise RuntimeError("open() the source before it is told to deliver")
        if not self._ended:
            self._deliver(event)
