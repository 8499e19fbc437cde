"""Drives injector/native/clone/clone.c in this process, through tests/targets/snapshots.c: one snapshot at a time.

A test that uses it is cloned itself, as a target would be.
"""

from __future__ import annotations

import ctypes
import os
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support import building

PARTS: Final = ("clone/clone.c",)


class Work(IntEnum):
    """What the child does: ``enum work`` of snapshots.c."""

    FINISH = 0
    FAIL = 1
    CRASH = 2
    DIVIDE = 3
    OVERFLOW_STACK = 4
    HANG = 5
    WAIT = 6
    LEAVE = 7
    FILL = 8
    COMPARE = 9
    SEE_SIGNALS = 10


class Status(IntEnum):
    """``enum snapshot_status`` of clone.h."""

    NONE = 0
    RUNNING = 1
    OK = 2
    FAILED = 3
    CRASHED = 4
    KILLED = 5
    HUNG = 6
    ABORTED = 7
    LOST = 8


OWN_TABLE: Final = 1
OOM_FIRST: Final = 2

_WORDS: Final = ("address", "used", "capacity", "pause_ns", "cpu_ns", "room_used", "room_capacity")
_POINTERS: Final = ("mapping", "data", "room_data")


def library_path() -> Path:
    """The library, for targets that load it themselves."""
    return building.library_with("snapshots.c", *PARTS)


@cache
def library() -> Any:
    """The library in this process; calls hold the GIL, as the agent's do."""
    loaded = ctypes.PyDLL(str(library_path()))
    loaded.begin.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_ulong]
    loaded.room_open.argtypes = [ctypes.c_ulong]
    loaded.room_append.argtypes = [ctypes.c_char_p, ctypes.c_ulong]
    loaded.reason.restype = loaded.refusal.restype = ctypes.c_char_p
    for name in _WORDS:
        getattr(loaded, name).restype = ctypes.c_ulong
    for name in _POINTERS:
        getattr(loaded, name).restype = ctypes.c_void_p
    return loaded


def begin(
    work: Work, argument: int = 0, *, wall_ms: int = 60_000, size: int = 1 << 16, descriptor: bool = False
) -> int:
    """0, or minus an errno. Argument: of FAIL and LEAVE a code, of CRASH an address, of WAIT milliseconds."""
    library().describe(descriptor)
    return int(library().begin(work, argument, wall_ms, size))


def end() -> Status:
    return Status(library().end())


def outcome(work: Work, argument: int = 0, *, wall_ms: int = 60_000, size: int = 1 << 16) -> Status:
    """Begin, and wait for the end. Raises OSError when it does not begin."""
    error = begin(work, argument, wall_ms=wall_ms, size=size)
    if error:
        raise OSError(-error, os.strerror(-error))
    return end()


def reason() -> str:
    return str(library().reason().decode())


def refusal(error: int) -> str | None:
    """In words, or None; ``error`` is a positive errno."""
    text: bytes | None = library().refusal(-error)
    return None if text is None else text.decode()


def data() -> bytes:
    """What the child reported."""
    return ctypes.string_at(library().data(), library().used())


def abort() -> Status:
    return Status(library().abort_it())


def has_ended(pid: int) -> bool:
    """Whether the child has ended, without reaping it."""
    every_child = 0x40000000  # __WALL
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT | every_child
    return os.waitid(os.P_PID, pid, options) is not None
