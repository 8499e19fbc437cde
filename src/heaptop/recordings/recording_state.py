"""The state of a session, kept so that a recording of it can begin at any moment.

It writes nothing: :meth:`RecordingState.state` is the content of a segment's KEY. Costs while nothing is recorded: what
samples cost to follow, and 13 bytes for each that lives (:mod:`heaptop.analysis.samples.sampled_blocks`, whose bounds
are the bounds here, unless tighter ones are given).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.protocol.findings import NOTED
from heaptop.protocol.images import FIRST_ID
from heaptop.protocol.messages import (
    REPLIES,
    Bye,
    Census,
    Core,
    Decision,
    Failure,
    Hello,
    Memory,
    Message,
    Phase,
    Phases,
    Sampler,
    Tick,
    Traced,
    TypeName,
    Types,
)

_NOT_TOLD: Final = (Hello, Core, Decision, Bye)  # They are about the attach, and not about the process
TOLD: Final[tuple[type[Message], ...]] = (*(kind for kind in REPLIES if kind not in _NOT_TOLD), *NOTED)
"""What is recorded. What open snapshots say is not: it may hold values, and is of use while they are open only."""

_NAMES: Final = 1 << 16  # Types in one message, at most
_MOST_RUNNING: Final = 1024


def is_recorded(message: Message) -> bool:
    """Whether a recording holds it."""
    return isinstance(message, TOLD) and not (isinstance(message, Failure) and message.request >= FIRST_ID)


class RecordingState:
    """Takes what is recorded, in order."""

    def __init__(self, samples: SampledBlocks | None = None) -> None:
        """``samples``: those that keep samples within tighter limits than the default; nobody else feeds them."""
        self.time_ns = 0  # Of the last tick or census, on the target's clock; never runs back
        self.counted = False  # Whether there was a census
        self._types: list[TypeName] = []
        self._samples = SampledBlocks() if samples is None else samples
        self._samplers: list[Sampler] = []
        self._switched: tuple[Sampler, ...] = ()
        self._latest: dict[type[Message], Message] = {}
        self._running: dict[tuple[str, int], Phase] = {}

    def feed(self, message: Message) -> None:
        """Raises ProtocolError where it does not fit the messages before."""
        self._samples.feed(message)
        self._samples.forget_changes()
        match message:
            case Types():
                self._types += message.names
            case Census() | Tick() | Memory() | Traced():
                self._latest[type(message)] = message
                self.time_ns = max(self.time_ns, message.time_ns)
                self.counted = self.counted or isinstance(message, Census)
            case Sampler():
                self._feed_sampler(message)
            case Phases():
                self._feed_phases(message)

    def state(self) -> Iterator[Message]:
        """All that a reader needs: what changes least from here on in front, as later blocks lean on it."""
        latest = self._latest
        yield from (latest[kind] for kind in (Census, Tick, Memory) if kind in latest)
        for first in range(0, len(self._types), _NAMES):
            yield Types(first, tuple(self._types[first : first + _NAMES]))
        if self._running:
            yield Phases(tuple(self._running.values()), 0)
        yield from self._samplers
        if self._samplers:
            yield from self._samples.kept()
        if Traced in latest and self._samples.is_traced:
            yield latest[Traced]

    def _feed_sampler(self, message: Sampler) -> None:
        """Kept are the first, the one that last switched it or made samples void, and the last."""
        before = self._samplers[-1] if self._samplers else None
        if before is None or (message.on, message.epoch) != (before.on, before.epoch):
            self._switched = (message,)
        chosen = (*self._samplers[:1], *self._switched, message)
        self._samplers = list({id(one): one for one in chosen}.values())

    def _feed_phases(self, message: Phases) -> None:
        for phase in message.phases:
            if phase.end_ns is None:
                self._running[phase.name, phase.begin_ns] = phase
            else:
                self._running.pop((phase.name, phase.begin_ns), None)
        while len(self._running) > _MOST_RUNNING:  # an agent that loses ends of phases reports it
            del self._running[next(iter(self._running))]
