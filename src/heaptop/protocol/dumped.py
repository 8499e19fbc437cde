"""What only a heap dump has: which process it is of, what it holds, and that it is whole.

No agent sends these. Nothing here reads or writes a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from heaptop.protocol.messages import Message

VALUES: Final = ("none", "sizes", "all")
"""What a dump holds of values: nothing; lengths and bounds of containers and texts; and short texts and numbers."""
CORE_FILE, COPY = "core file", "copy"
ORIGINS: Final = ("", CORE_FILE, COPY)
"""What a dump was made of: a snapshot of a live process; a core file; a process's memory, with no code run in it."""


@dataclass(frozen=True, slots=True)
class DumpInfo(Message):
    """Of whom a heap dump is: its header."""

    KIND: ClassVar[str] = "dump"
    heaptop: str  # Version that has written it
    pid: int
    command: str
    python: str
    user: str
    wall: float  # Seconds since 1970 when the target was frozen
    time_ns: int  # On the target's clock
    values: str  # One of VALUES
    objects: int
    edges: int
    started: int = 0
    """Clock ticks from the boot of its machine until the process started: with the pid it identifies it. 0: not
    known."""
    sampled: float = 0.0  # Seconds for which allocations were sampled before
    origin: str = ""  # One of ORIGINS
    redacted: bool = False  # Names of the program were replaced
    lacking: str = ""  # Of a core file or a copy: which objects are not in it, as a short phrase; empty where all are


@dataclass(frozen=True, slots=True)
class DumpEnd(Message):
    """The last of a heap dump: it is whole."""

    KIND: ClassVar[str] = "dump-end"
    pieces: int
    bytes: int  # Of the pieces, before they were compressed
