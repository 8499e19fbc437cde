"""The one table of what differs between versions of CPython, as far as getting in needs it.

No other module of the injector names a version or an offset of an interpreter structure.
Sources: ``Include/patchlevel.h``, ``Include/internal/pycore_debug_offsets.h`` (3.13 to 3.15).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OLDEST: Final = (3, 8)
NEWEST: Final = (3, 15)

VERSION_MARKERS: Final[tuple[tuple[str, tuple[int, int]], ...]] = (
    ("PyModule_AddObjectRef", (3, 10)),
    ("PyThreadState_GetFrame", (3, 9)),
    ("Py_RunMain", (3, 8)),
    ("_PyRuntime", (3, 7)),
    ("PyOS_FSPath", (3, 6)),
    ("PyString_FromString", (2, 7)),
)
"""For interpreters without the ``Py_Version`` word (before 3.11): the newest symbol present tells the version."""

FINALIZING_SYMBOLS: Final = ("Py_IsFinalizing", "_Py_IsFinalizing")
"""Public from 3.13, private before."""

PYPY_MARKER: Final = "PyPyRun_SimpleString"

DEBUG_OFFSETS_COOKIE: Final = b"xdebugpy"
"""First bytes of ``_PyRuntime`` from 3.13 on: ``_Py_DebugOffsets`` begins there."""

FIRST_WITH_DEBUG_OFFSETS: Final = (3, 13)

FIRST_WITH_FRESH_LOCKS: Final = (3, 12)
"""From it on a fork's child renews the lock on thread states before it takes it."""


@dataclass(frozen=True, slots=True)
class RemoteDebug:
    """Where PEP 768 keeps its things: offsets in ``_Py_DebugOffsets`` at ``_PyRuntime``."""

    support: int
    """``debugger_support``: six words: eval_breaker, remote_debugger_support, remote_debugging_enabled, pending
    call, script path, its size."""


REMOTE_DEBUG: Final[dict[tuple[int, int], RemoteDebug]] = {
    (3, 14): RemoteDebug(support=712),
    (3, 15): RemoteDebug(support=840),
}

RUNTIME_INTERPRETERS_HEAD: Final = 40
"""Offset in ``_Py_DebugOffsets`` of ``runtime_state.interpreters_head``."""

INTERPRETER_THREADS_MAIN: Final = 80
"""Offset in ``_Py_DebugOffsets`` of ``interpreter_state.threads_main``."""

STOP_BIT: Final = 1 << 5
"""``_PY_EVAL_PLEASE_STOP_BIT`` of the eval breaker (``pycore_ceval.h``, 3.14 and 3.15)."""


@dataclass(frozen=True, slots=True)
class PythonVersion:
    """A version as read from outside; ``micro`` is unknown where only symbols tell."""

    major: int
    minor: int
    micro: int | None = None

    @classmethod
    def from_hex(cls, word: int) -> PythonVersion:
        """From ``PY_VERSION_HEX``."""
        return cls(word >> 24 & 0xFF, word >> 16 & 0xFF, word >> 8 & 0xFF)

    @property
    def pair(self) -> tuple[int, int]:
        return self.major, self.minor

    @property
    def supported(self) -> bool:
        return OLDEST <= self.pair <= NEWEST

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + ("" if self.micro is None else f".{self.micro}")
