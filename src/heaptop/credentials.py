"""File access with another user's rights: the calling thread's fsuid, fsgid and supplementary groups (credentials(7)).

heaptop runs as root and works at names that a target controls. What is opened, created or removed with the target's
own rights gives the target nothing that it could not do itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from collections.abc import Iterator
from typing import Final

SETGROUPS: Final = 159 if platform.machine() == "aarch64" else 116
"""Raw, because glibc's setgroups changes every thread of the process."""
UNCHANGED: Final = 0xFFFFFFFF
"""-1: no user has it, so setfsuid changes nothing and returns the present one."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.setfsuid.argtypes = _libc.setfsgid.argtypes = [ctypes.c_uint32]


@contextlib.contextmanager
def acting_as(uid: int, gid: int) -> Iterator[None]:
    """Access files as ``uid`` with the group ``gid`` and no other, in this thread, until the end of the block.

    From root, the kernel takes the capabilities that override file permissions (CAP_DAC_OVERRIDE, CAP_CHOWN, CAP_FOWNER
    and their like) out of the effective set until fsuid is 0 again. Nothing changes where this thread has that fsuid
    already. Raises PermissionError without CAP_SETUID and CAP_SETGID.
    """
    old_uid, old_gid = _set(_libc.setfsuid, UNCHANGED), _set(_libc.setfsgid, UNCHANGED)
    if uid == old_uid:
        yield
        return
    if not 0 <= uid < UNCHANGED or not 0 <= gid < UNCHANGED:
        raise PermissionError(f"no user {uid} or no group {gid}")
    groups = os.getgroups()
    try:
        _set_groups([])
        _change(_libc.setfsgid, gid)
        _change(_libc.setfsuid, uid)
        yield
    finally:
        # In any order of failures: each puts back what it finds changed.
        _change(_libc.setfsuid, old_uid)
        _change(_libc.setfsgid, old_gid)
        if os.getgroups() != groups:
            _set_groups(groups)


def _set(function: ctypes._FuncPointer, number: int) -> int:
    """The one before, as unsigned."""
    return int(function(number)) & UNCHANGED


def _change(function: ctypes._FuncPointer, number: int) -> None:
    """setfsuid and setfsgid return no error: whether it worked is seen by asking again."""
    _set(function, number)
    if _set(function, UNCHANGED) != number:
        raise PermissionError(f"acting as user or group {number} is denied")


def _set_groups(groups: list[int]) -> None:
    numbers = (ctypes.c_uint32 * len(groups))(*groups)
    if _libc.syscall(SETGROUPS, len(groups), numbers) != 0:
        code = ctypes.get_errno()
        raise PermissionError(code, f"setgroups: {os.strerror(code)}")
