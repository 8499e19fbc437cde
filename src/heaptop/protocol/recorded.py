"""What only a recording has: its process, and what was known at a moment as one piece instead of as what led to it.

No agent sends these. Columns are numbers of one size, packed one after another, little-endian; what is longer than a
message may be comes in several, each going on where the last one ended.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Final

from heaptop.protocol.messages import Message

INT: Final = struct.Struct("<i")
LONG: Final = struct.Struct("<Q")
BYTE: Final = struct.Struct("<B")
TALLY: Final = struct.Struct("<iihHHQQQQdd")
"""Sums over sampled blocks of one stack, type and size bin (numbers as
:class:`~heaptop.analysis.samples.tallies.Tally` has them, below 0 too): 65536ths of the bytes and of the blocks;
samples, bytes of the samples, bytes, blocks; variance and third central moment of the bytes."""
LEAST_BIN: Final = -3
MOST_BIN: Final = 1026
PIECE: Final = 1 << 16
"""Living blocks, likenesses, stacks or numbers of these in one message, at most; of tallies an eighth of it."""


@dataclass(frozen=True, slots=True)
class RecordingInfo(Message):
    """The process that a recording is of, and its clock: its header, and the beginning of each of its segments."""

    KIND: ClassVar[str] = "about"
    heaptop: str  # Version that has written it
    pid: int
    command: str
    python: str
    user: str
    backend: str
    stopped_ns: int
    time_ns: int  # The target's clock …
    wall: float  # … and seconds since 1970, at one moment
    note: str = ""
    thinned: bool = False  # Older ticks were left out, to stay within its largest size


@dataclass(frozen=True, slots=True)
class KeptStacks(Message):
    """The tree of stacks as :class:`~heaptop.analysis.samples.stacks.StackTree` numbers it; its code came before, as
    Codes."""

    KIND: ClassVar[str] = "kept-stacks"
    first: int  # Number of the first node, from 1
    parents: bytes
    codes: bytes
    lines: bytes


@dataclass(frozen=True, slots=True)
class KeptNumbers(Message):
    """What the sampler's numbers of code and of stacks mean now, from 0 and from 1 on: numbers of the tree, or -1. What
    an agent sends next goes by the sampler's."""

    KIND: ClassVar[str] = "kept-numbers"
    codes: bytes
    stacks: bytes
    on: bool = False  # They continue where those of the last message end


@dataclass(frozen=True, slots=True)
class Tallied(Message):
    """What was sampled and lives no more, summed up: records of :data:`TALLY`."""

    KIND: ClassVar[str] = "tallied"
    freed: bytes
    lost: bytes  # Alive when samples became void
    dropped: int = 0  # Samples that were lost, for not all could be followed


@dataclass(frozen=True, slots=True)
class Likenesses(Message):
    """What sampled blocks that are alike have in common, a column each, with numbers as
    :class:`~heaptop.analysis.samples.live_blocks.Likeness` has them: by their own numbers. Size and interval 0: nobody
    has it now."""

    KIND: ClassVar[str] = "likenesses"
    first: int  # Number of the first, from 1
    stacks: bytes
    types: bytes
    sizes: bytes
    intervals: bytes


@dataclass(frozen=True, slots=True)
class LiveBlocks(Message):
    """Sampled blocks that live, by rising id, a column each: ids that no block has are rows too."""

    KIND: ClassVar[str] = "living"
    time_ns: int
    clock: int  # The sampler's, now
    first: int
    likenesses: bytes  # By number, as in Likenesses; 0 where there is no block
    births: bytes
    """The sampler's clock then: the lowest bytes of all, then the next ones, and so on to the highest. Most are long
    runs, as ids are given in order: a fortieth of the size once compressed."""
    domains: bytes


KEPT: Final[tuple[type[Message], ...]] = (RecordingInfo, KeptStacks, KeptNumbers, Tallied, Likenesses, LiveBlocks)
