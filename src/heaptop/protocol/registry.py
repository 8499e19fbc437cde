"""Every message there is, by who sends it: the lists of the modules that define them, joined."""

from __future__ import annotations

from typing import Final

from heaptop.protocol import findings, images, messages, recorded
from heaptop.protocol.messages import Message

REQUESTS: Final[tuple[type[Message], ...]] = (*messages.REQUESTS, *images.REQUESTS)  # heaptop to agent

REPLIES: Final[tuple[type[Message], ...]] = (*messages.REPLIES, *images.REPLIES)  # Agent to heaptop

RECORDED: Final[tuple[type[Message], ...]] = (*REPLIES, *findings.NOTED, *recorded.KEPT)
"""What a recording may hold: also what heaptop itself has found, and what was known at a moment as one piece."""
