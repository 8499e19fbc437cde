"""Every message there is, by who says it. This module never says what one is about."""

from __future__ import annotations

from typing import Final

from heaptop.protocol import images
from heaptop.protocol.messages import (
    Bye,
    Census,
    CensusRequest,
    Codes,
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
    Failure,
    Bye,
    *images.REPLIES,
)
"""Agent to heaptop."""
