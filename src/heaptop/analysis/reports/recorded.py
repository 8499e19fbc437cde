"""A recording as far as it was replayed: what every export, report and difference of moments is computed from.

Its reader feeds it messages, and gives it what is known of the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Final

from heaptop.analysis.heap.history import History
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.findings import Findings
from heaptop.protocol.messages import Hello, Message, Tick
from heaptop.protocol.source import Attached, Event, Received, Seek, TargetInfo


@dataclass
class Recorded:
    """The messages about one process, up to one moment of its recording."""

    name: str  # Of the file, without its folder
    notices: tuple[str, ...] = ()
    """What is missing from it, is damaged, or was thinned out: sentences without their full stops."""
    history: History = field(default_factory=History)
    sampling: Sampling = field(default_factory=Sampling)
    findings: list[Findings] = field(default_factory=list)  # The findings of leak hunts, oldest first
    target: TargetInfo | None = None
    hello: Hello | None = None
    shown: Seek | None = None  # Which moment it was, and of which recording

    def feed(self, event: Event) -> None:
        """Take one event of the recording.

        Raises:
            ProtocolError: it does not fit the messages before.
        """
        match event:
            case Attached():
                self.target, self.hello = event.target, event.hello
            case Seek():
                self.shown = event
            case Received(message):
                self.take(message)

    def take(self, message: Message) -> None:
        """Take one message, as :meth:`feed` does."""
        if isinstance(message, Findings):
            if self.findings and self.findings[-1].time_ns == message.time_ns:
                self.findings.pop()  # the same check, with a note that came later
            self.findings.append(message)
        else:
            self.history.feed(message)
            self.sampling.feed(message)

    @property
    def hunts(self) -> list[list[Findings]]:
        """Looks since one and the same mark belong together: the last of them has what the earlier ones had, and more.
        The hunt that ended first comes first."""
        found: dict[tuple[int, str], list[Findings]] = {}
        for one in self.findings:
            found.setdefault((one.marks[0].time_ns, one.marks[0].name), []).append(one)
        return sorted(found.values(), key=lambda checks: checks[-1].time_ns)

    @property
    def time_ns(self) -> int:
        """The moment, on the target's clock."""
        return self.shown.time_ns if self.shown is not None else 0

    @property
    def rss(self) -> int | None:
        """Resident bytes at the moment: of the last tick that has them."""
        return rss_at(self.history.ticks, None)

    def wall(self, time_ns: int) -> float:
        """Seconds since 1970 of a time on the target's clock, as if no clock had been set meanwhile."""
        return self.shown.wall + (time_ns - self.shown.time_ns) / 1e9 if self.shown is not None else 0.0


def rss_at(ticks: Sequence[Tick], time_ns: int | None) -> int | None:
    """Resident bytes by the last tick up to then (None: of all) that has them; None where none does."""
    place = len(ticks) if time_ns is None else bisect_right(ticks, time_ns, key=lambda tick: tick.time_ns)
    while place and ticks[place - 1].rss is None:
        place -= 1
    return ticks[place - 1].rss if place else None


GAP_NS: Final = 30_000_000_000  # Ticks come every second or so: after so long without any, something is missing


def gaps(moments: Sequence[int]) -> list[tuple[int, int]]:
    """From when to when nothing was recorded; ``moments`` ascend. Where ticks are further apart by themselves, it is
    ten times their usual distance that counts."""
    steps = [later - before for before, later in pairwise(moments)]
    least = max(GAP_NS, 10 * median(steps)) if steps else GAP_NS
    return [(before, later) for before, later in pairwise(moments) if later - before > least]
