"""The one table of CPython versions: which heaptop attaches to, and what differs between them outside the native core.

No other Python module of the front end compares versions, or has an offset of an interpreter structure. The native
core's table, ``layout.h``, has a column for each version here (``tests/unit/test_versions.py``).
Sources: ``Include/patchlevel.h``, ``Include/internal/pycore_debug_offsets.h`` (from 3.13 on), ``pycore_obmalloc.h``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


class VersionFacts(NamedTuple):
    """What is true of one version, in all of its patch releases."""

    marker: str = ""  # A symbol that came with it: distinguishes versions that have no `Py_Version` word (before 3.11)
    pool_size: int = 16 << 10  # Bytes of a pool of small objects (`Objects/obmalloc.c`, POOL_SIZE)
    state_size: int = 0
    """Bytes of a chunk of malloc's with the arenas of an interpreter of its own (PEP 684); 0: it cannot have any."""
    fresh_locks: bool = False  # A fork's child renews the lock on thread states before it takes it
    debug_offsets: bool = False  # `_Py_DebugOffsets` is at `_PyRuntime`; a build may be free-threaded
    debugger_support: int = 0
    """Offset in it of ``debugger_support`` (PEP 768), six words: eval_breaker, remote_debugger_support,
    remote_debugging_enabled, pending call, script path, its size. 0: there is none."""
    first_counted: int = 0
    """The first patch release whose collector the native core reads; those before it are counted in Python mode."""
    free_threaded: bool = False  # The native core reads its free-threaded build, too, in a core or a copy


_FROM_3_12: Final = VersionFacts(state_size=376 << 10, fresh_locks=True)
_FROM_3_13: Final = _FROM_3_12._replace(state_size=260 << 10, debug_offsets=True)

VERSIONS: Final[dict[tuple[int, int], VersionFacts]] = {
    (3, 8): VersionFacts(marker="Py_RunMain", pool_size=4 << 10),
    (3, 9): VersionFacts(marker="PyThreadState_GetFrame", pool_size=4 << 10),
    (3, 10): VersionFacts(marker="PyModule_AddObjectRef"),
    (3, 11): VersionFacts(),
    (3, 12): _FROM_3_12,
    (3, 13): _FROM_3_13._replace(free_threaded=True),
    (3, 14): _FROM_3_13._replace(debugger_support=712, first_counted=5),
    (3, 15): _FROM_3_13._replace(debugger_support=840),
}
"""What heaptop attaches to, oldest first."""

OLDER_MARKERS: Final = {(3, 7): "_PyRuntime", (3, 6): "PyOS_FSPath", (2, 7): "PyString_FromString"}
"""Of versions that are refused, which are named all the same."""

FIRST_WITH_REMOTE_DEBUG: Final = min(version for version, facts in VERSIONS.items() if facts.debugger_support)
FIRST_WITH_OWN_ARENAS: Final = min(version for version, facts in VERSIONS.items() if facts.state_size)
POOL_SIZES: Final = tuple(sorted({facts.pool_size for facts in VERSIONS.values()}))

FINALIZING_SYMBOLS: Final = ("Py_IsFinalizing", "_Py_IsFinalizing")  # Public from 3.13, private before

PYPY_MARKER: Final = "PyPyRun_SimpleString"

DEBUG_OFFSETS_COOKIE: Final = b"xdebugpy"  # First bytes of `_Py_DebugOffsets`

RUNTIME_INTERPRETERS_HEAD: Final = 40  # Offset in `_Py_DebugOffsets` of `runtime_state.interpreters_head`

INTERPRETER_THREADS_MAIN: Final = 80  # Offset in `_Py_DebugOffsets` of `interpreter_state.threads_main`

STOP_BIT: Final = 1 << 5
"""``_PY_EVAL_PLEASE_STOP_BIT`` of the eval breaker (``pycore_ceval.h``, where there is remote debugging)."""


@dataclass(frozen=True, slots=True)
class PythonVersion:
    """A version as read from outside; ``micro`` is unknown where only symbols show it."""

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
        return self.pair in VERSIONS

    @property
    def facts(self) -> VersionFacts:
        """Of a supported version."""
        return VERSIONS[self.pair]

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + ("" if self.micro is None else f".{self.micro}")


SHOWN_ELSEWHERE: Final = frozenset({(3, 11), (3, 13), (3, 14)})
"""Of the versions, those attached to on machines other than x86-64 (docs/support.md)."""

SUPPORTED: Final = " to ".join(str(PythonVersion(*version)) for version in (min(VERSIONS), max(VERSIONS)))
"""``3.8 to 3.15``, for a person."""
