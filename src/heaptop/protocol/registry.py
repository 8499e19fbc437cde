"""Every message there is, by who says it. This module never says what one is about."""

from __future__ import annotations

from typing import Final

from heaptop.protocol import findings, images, recorded
from heaptop.protocol.messages import (
    Bye,
    Census,
    CensusRequest,
    Codes,
    Collected,
    CollectRequest,
    Core,
    CoreRequest,
    Decision,
    DetachRequest,
    Failure,
    GcEvents,
    Hello,
    Memory,
    MemoryRequest,
    Message,
    Phases,
    Sampler,
    SamplerRequest,
    Samples,
    Stacks,
    Tick,
    TickRequest,
    Traced,
    Types,
)

REQUESTS: Final[tuple[type[Message], ...]] = (
    CensusRequest,
    TickRequest,
    CoreRequest,
    MemoryRequest,
    SamplerRequest,
    CollectRequest,
    DetachRequest,
    *images.REQUESTS,
)
"""heaptop to agent."""

REPLIES: Final[tuple[type[Message], ...]] = (
    Hello,
    Types,
    Census,
    Core,
    Decision,
    Tick,
    Memory,
    Sampler,
    Codes,
    Stacks,
    Samples,
    Traced,
    Phases,
    GcEvents,
    Collected,
    Failure,
    Bye,
    *images.REPLIES,
)
"""Agent to heaptop."""

RECORDED: Final[tuple[type[Message], ...]] = (*REPLIES, *findings.NOTED, *recorded.KEPT)
"""What a recording may hold: also what heaptop itself has found, and what was known at a moment as one piece."""
