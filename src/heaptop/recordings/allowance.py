"""What it may take to read a moment of a recording: memory and work in proportion to the file, whatever is in it.

A file of a few kilobytes may unpack to gigabytes. So while one moment is replayed, the process may
grow by :data:`LEAST` bytes and :data:`TIMES` the size of the file, but :data:`MOST` at most; and what is unpacked and
decoded for it is bounded in the same way. heaptop's own recordings take a fraction of that: an hour of the fake agent
unpacks to 9 times its size.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from heaptop.errors import RecordingTooLarge

LEAST: Final = 96 << 20
TIMES: Final = 64
MOST: Final = 1 << 30  # Bytes of memory: what is decoded, and what is made of it while the moment is replayed

LEAST_UNPACKED: Final = 16 << 20
TIMES_UNPACKED: Final = 256
MOST_UNPACKED: Final = 256 << 20
"""Bytes unpacked, and of these decoded. A census that repeats another is a few bytes in the file, and all rows here."""
_UNDECODED: Final = 16  # Bytes that are unpacked and not decoded, for the time that one takes which is


def most_text(size: int) -> int:
    """Characters that the stacks of a recording of this size may take, written out."""
    return min((64 << 20) + TIMES_UNPACKED * size, MOST)


def resident_bytes() -> int:
    """Of this process; 0 where the kernel does not say."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as statm:
            return int(statm.read(256).split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Allowance:
    """For one moment, from now on. Its methods raise RecordingTooLarge."""

    def __init__(self, path: str, size: int, resident: Callable[[], int] = resident_bytes) -> None:
        """``size``: bytes of the file."""
        self._path = path
        self.memory = min(LEAST + TIMES * size, MOST)  # Bytes
        self._unpacked = min(LEAST_UNPACKED + TIMES_UNPACKED * size, MOST_UNPACKED)
        self._decoded = self._unpacked
        self._skipped = 0
        self._resident = resident
        self._before = resident()

    @property
    def content(self) -> int:
        """Bytes that the next block may be unpacked to."""
        return self._unpacked

    def unpack(self, size: int) -> None:
        """So many bytes are about to be unpacked."""
        self._skipped += size
        if size > self._unpacked or self._skipped // _UNDECODED > self._unpacked:
            self._refuse()

    def decode(self, size: int) -> None:
        """So many bytes of these are about to be decoded."""
        self._decoded -= size
        if self._decoded < 0:
            self._refuse()
        self.check()

    def check(self, more: int = 0) -> None:
        """Whether the memory taken since the beginning is allowed, with so much more."""
        if self._resident() - self._before + more > self.memory:
            self._refuse()

    def _refuse(self) -> None:
        raise RecordingTooLarge(
            f"The recording {self._path} takes more memory or time than a file of its size may: {LEAST >> 20} MiB "
            f"and {TIMES} times its size, {MOST >> 30} GiB at most."
        )
