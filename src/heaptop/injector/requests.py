"""What is asked of a backend, and what it answers with: plain data."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from heaptop.injector.inspect.preflight import CheckedProcess
from heaptop.injector.preload.malloc_table import MallocTable
from heaptop.protocol.bounds import TYPES


@dataclass(frozen=True, slots=True)
class AttachOptions:
    """What a person may choose about an attach."""

    wait: float = 10.0  # Seconds the interpreter may take to answer
    allow_seccomp: bool = False
    override_remote_debug: bool = False
    backend: str | None = None  # Use this backend and no other
    interval: float = 1.0  # Seconds from the start of a census to the next
    max_share: float = 0.05  # Share of one core the censuses may cost; the interval intervals to keep it
    mode: str = "clone"  # The best way of counting that may be tried: one of choices.MODES
    pause_budget: float = 0.1  # Seconds for which a census may stop the target without asking
    sample_interval: int = 0  # Bytes of allocation from one sample to the next, on average; 0 for no sampling
    sample_target: int = 0
    """Samples a second that this interval follows the program for, as far as ``max_share`` allows; 0: it stays."""
    sample_depth: int = 128  # Frames kept of a sample's stack, at most
    sample_exact: bool = False  # Follow objects in blocks that free lists hand on, or do not sample at all
    tracer: bool = False
    """Where there is no native core, trace allocations by tracemalloc: a person has been shown what that costs."""
    most_types: int = TYPES  # Types that are distinguished; others are counted as one, and the census is not complete


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to start with the agent in it."""

    argv: tuple[str, ...]
    python: str
    output: Path
    force: bool = False  # `output` replaces a file that is there
    native: MallocTable | None = None  # Where its native memory is sampled into


@dataclass(slots=True)
class Request:
    """One attach: what to get into (``checked``) or to start (``launch``), and how to talk about it meanwhile."""

    options: AttachOptions
    token: str
    progress: Callable[[str, float], None]  # Called with a phase and the seconds since the attach began
    checked: CheckedProcess | None = None
    launch: Launch | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Launched:
    """A program that heaptop started and that waits before its first line."""

    process: subprocess.Popen[bytes]
    gate: BinaryIO

    def go(self) -> None:
        """Let it run: closing the gate opens it, so it runs also when heaptop dies here."""
        self.gate.close()


@dataclass(frozen=True, slots=True)
class Connection:
    """A socket whose other end is the bootstrap in the target, which waits for the agent's source."""

    socket: socket.socket
    backend: str
    pid: int
    stopped_ns: int = 0
    launched: Launched | None = None  # The program, where heaptop started it
    core_refusal: str = ""
    """Why the native core may not be used there, as a sentence without its full stop; empty when it may."""
    musl: bool = False  # Whether the target's C library is musl, and not glibc
