"""heaptop's own capabilities: what it keeps of root's, and what the helper raises for a moment.

Only root's are dropped: whoever runs heaptop with a capability or two has chosen them. A heaptop that reads what a
hostile process wrote, and is led astray by it, can then write no file, change no owner and load no module.

A program that heaptop starts gets root's capabilities back from the kernel at its execve. Where the kernel would not
give them back (no_new_privs, SECBIT_NOROOT, ambient capabilities), the permitted ones stay and only the effective
ones are dropped, because the program that ``heaptop run`` starts must have what it had without heaptop.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

DAC_READ_SEARCH, SETGID, SETUID, SYS_PTRACE, SYS_ADMIN, SYS_RESOURCE = 2, 6, 7, 19, 21, 24  # `linux/capability.h`
NAMES: Final = {
    "CAP_SYS_PTRACE": SYS_PTRACE,
    "CAP_DAC_READ_SEARCH": DAC_READ_SEARCH,
    "CAP_SETUID": SETUID,
    "CAP_SETGID": SETGID,
}
KEPT: Final = sum(1 << number for number in NAMES.values())
"""To look into processes, to read below folders of others, and to act as the target's user."""

_VERSION_3: Final = 0x20080522
_HEADER, _SETS = struct.Struct("=Ii"), struct.Struct("=6I")
_PR_CAPBSET_READ, _PR_GET_SECUREBITS, _PR_GET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_IS_SET = 23, 27, 39, 47, 1
_SECBIT_NOROOT: Final = 1
_CAPABILITIES: Final = range(64)

_libc = ctypes.CDLL(None, use_errno=True)


class Sets(NamedTuple):
    """The capability sets of the calling thread, as bit sets. (A dataclass would take longer to load.)"""

    effective: int
    permitted: int
    inheritable: int


def current() -> Sets:
    """Raises OSError."""
    header, data = ctypes.create_string_buffer(_HEADER.pack(_VERSION_3, 0)), ctypes.create_string_buffer(_SETS.size)
    if _libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    low_high = _SETS.unpack(data.raw)
    return Sets(*(low | high << 32 for low, high in zip(low_high[:3], low_high[3:], strict=True)))


def _set(sets: Sets) -> None:
    words = [part & 0xFFFFFFFF for part in sets] + [part >> 32 for part in sets]
    header, data = _HEADER.pack(_VERSION_3, 0), _SETS.pack(*words)
    if _libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")


def regained_by_exec() -> bool:
    """Whether a program that root starts gets every capability of the bounding set, whatever its parent has."""
    return not (
        _libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) > 0
        or _libc.prctl(_PR_GET_SECUREBITS, 0, 0, 0, 0) & _SECBIT_NOROOT
        or any(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_IS_SET, number, 0, 0) > 0 for number in _CAPABILITIES)
    )


def drop(also: int = 0, *, for_programs: bool = False) -> None:
    """Drop what root does not need here; ``also`` (a bit set) stays permitted, but not effective.

    ``for_programs``: this process starts programs that must not lose anything by it.

    Nothing is dropped by a root that has no CAP_SYS_PTRACE, as in most containers: there the kernel lets it look into
    those processes only that have no capability which it has not itself.
    """
    if os.geteuid() != 0:
        return
    sets = current()
    if not sets.permitted >> SYS_PTRACE & 1:
        return
    stays = for_programs and not regained_by_exec()
    permitted = sets.permitted if stays else sets.permitted & (KEPT | also)
    _set(Sets(permitted & KEPT, permitted, sets.inheritable))


def dropped() -> bool:
    """Whether a program that this process starts gains capabilities by that."""
    return os.geteuid() == 0 and regained_by_exec() and bool(_bounding() & ~current().permitted)


def _bounding() -> int:
    return sum(1 << number for number in _CAPABILITIES if _libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) > 0)


@contextlib.contextmanager
def raised(capability: int) -> Iterator[None]:
    """Make a permitted capability effective for the length of the block; without effect where it is not permitted."""
    sets = current()
    wanted = sets.effective | (sets.permitted & 1 << capability)
    if wanted == sets.effective:
        yield
        return
    _set(Sets(wanted, sets.permitted, sets.inheritable))
    try:
        yield
    finally:
        _set(sets)


def helper_has(capability: int) -> bool:
    """Whether a helper that is started now would have it."""
    sets = current()
    if os.geteuid() != 0:
        return bool(sets.effective >> capability & 1)
    if not regained_by_exec():
        return bool(sets.permitted >> capability & 1)
    return bool((sets.inheritable | _bounding()) >> capability & 1)
