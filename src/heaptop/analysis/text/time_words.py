"""How moments are written on a screen: since the attach, as the time of day here, or as that in UTC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from heaptop.choices import TIMES

DAY: Final = 86_400


def duration_label(seconds: float) -> str:
    """``45s``, ``2m``, ``1m30``, ``3h``, ``2h15``, ``4d``: short enough to be under a tick."""
    whole = round(seconds)
    for size, unit in ((DAY, "d"), (3600, "h"), (60, "m")):
        if whole >= size:
            rest = whole % size * (24 if unit == "d" else 60) // size
            return f"{whole // size}{unit}{rest:02}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


@dataclass(frozen=True, slots=True)
class Times:
    """A way to write moments, which are given in seconds since the attach."""

    attach: float | None = None  # Seconds since 1970; None where moments are written since the attach
    utc: bool = False

    @classmethod
    def of(cls, chosen: str, attach: float | None) -> Times:
        """One of :data:`heaptop.choices.TIMES`; since the attach as long as it is not known when that was."""
        return cls(None if chosen == TIMES[0] else attach, chosen == "utc")

    def first_tick(self, first: float, step: float) -> float:
        """The first moment from ``first`` on that is a round one, ticks being ``step`` seconds apart."""
        if self.attach is None:
            return math.ceil(first / step) * step
        begin = self._at(0)
        offset = begin.utcoffset()
        here = self.attach + (offset.total_seconds() if offset else 0)
        return math.ceil((first + here) / step) * step - here

    def tick(self, seconds: float, step: float) -> str:
        """Under a tick: ``30s``, or ``14:05:30``, ``14:05`` where ticks are minutes apart, ``22 Nov`` where days."""
        if self.attach is None:
            return duration_label(seconds)
        at = self._at(round(seconds, 3))
        return f"{at:%d %b}" if step >= DAY else f"{at:%H:%M}" if step % 60 == 0 else f"{at:%H:%M:%S}"

    def moment(self, seconds: float) -> str:
        """In a table, in 9 columns: ``12.345 s``, ``11m 05s``, or ``14:05:30``."""
        if self.attach is None:
            whole = int(seconds)
            return f"{seconds:.3f} s" if whole < 600 else f"{whole // 60}m {whole % 60:02d}s"
        return f"{self._at(seconds):%H:%M:%S}"

    def _at(self, seconds: float) -> datetime:
        at = datetime.fromtimestamp((self.attach or 0.0) + seconds, timezone.utc)
        return at if self.utc else at.astimezone()


ELAPSED: Final = Times()
