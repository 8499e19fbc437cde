"""Resident memory of one process of the fleet: what it is used for, and how near its limit is."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from heaptop.analysis.heap.history import CensusRecord
from heaptop.analysis.rss.memory import explain_counted
from heaptop.fleet.triggers import ProcessReadings, RssTrend
from heaptop.injector.api import memory_limit
from heaptop.protocol.messages import Memory

LIMIT_SECONDS: Final = 10.0  # Between two readings of the memory limit
QUIET_SECONDS: Final = 30.0  # Without a tick for so long, growth is that of the past
READING_SHARE: Final = 0.001
"""Of one core, that heaptop takes to read what the memory of one process is used for: 0.8 ms a MB were measured."""
MAPPINGS_NS: Final = 0.1
"""The kernel lists the mappings of a process in so many nanoseconds a resident byte (74 to 135 ms for 1 GB were
measured), and its mmap waits meanwhile."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What the resident memory of a process was used for at one moment."""

    bytes: Mapping[str, int]  # By the keys of NAMES
    at: float  # By `time.monotonic`


class ServedMemory:
    """Takes what a session receives of its process's memory, on the source's thread. Any thread may read it."""

    def __init__(self, pid: int, pause_budget: float) -> None:
        """``pause_budget``: seconds for which the process may wait for a reading."""
        self.use: MemoryUse | None = None  # None where it was not read yet, and where it is not
        self._pid = pid
        self._budget_ns = pause_budget * 1e9
        self._lock = threading.Lock()
        self._trend = RssTrend()
        self._readings = ProcessReadings()
        self._ticked_at = self._limit_at = self._due_at = float("-inf")

    def tick(self, rss: int) -> None:
        """Take RSS as of now; read the limit where that is due."""
        self._ticked_at = time.monotonic()
        with self._lock:
            self._trend.add(self._ticked_at, rss)
        if self._ticked_at - self._limit_at > LIMIT_SECONDS:
            self._limit_at = self._ticked_at
            found, now = memory_limit(self._pid), ProcessReadings(growth=self._trend.growth)
            if found is not None:
                now = replace(now, limit=found.bytes, limit_of=found.of, left=found.left)
            self._readings = now

    @property
    def readings(self) -> ProcessReadings:
        """Its memory limit and its growth, as they were some seconds ago."""
        is_quiet = time.monotonic() - self._ticked_at > QUIET_SECONDS
        return replace(self._readings, growth=None) if is_quiet else self._readings

    @property
    def seconds_left(self) -> float | None:
        """Until the memory limit, by the growth of the last seconds; None where that is not known, or does not grow."""
        left = self._readings.left
        with self._lock:
            return self._trend.seconds_until(left) if left is not None else None

    def may_ask(self, rss: int, mode: str) -> bool:
        """Whether the process, whose censuses have that mode, waits no longer for a reading than a census may pause it:
        a clone would pause it as long."""
        return mode == "clone" and rss * MAPPINGS_NS <= self._budget_ns and self._due_at < float("inf")

    def is_due(self, rss: int, mode: str) -> bool:
        """Whether to ask what memory is used for, after a census. What is known is dropped where it may not."""
        if not self.may_ask(rss, mode):
            self.clear()
            return False
        return time.monotonic() >= self._due_at

    def take(self, memory: Memory, latest: CensusRecord, took: float) -> None:
        """Take what memory is used for, by the last census. ``took``: seconds of CPU time that heaptop read it for."""
        now = time.monotonic()
        is_quick = memory.duration_ns <= self._budget_ns  # threads wait for malloc's locks
        self._due_at = now + took / READING_SHARE if is_quick else float("inf")
        found = explain_counted(memory, latest)
        if found is not None:
            self.use = MemoryUse({row.key: row.bytes for row in found.rows}, now)

    def clear(self) -> None:
        """Discard the memory use: it is no longer measured."""
        self.use = None
