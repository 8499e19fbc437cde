"""Moments of a recording as a person types and reads them: ``+90m``, ``-1h``, ``02:13``, seconds.

All it knows are the recording's own times. Times of day are of the reader's time zone, but for those that a program
reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

from heaptop.errors import UsageError
from heaptop.protocol.source import Seek

_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1, "": 1}
_SPAN: Final = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?[dhms])+|\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([dhms]?)", re.ASCII)
_OF_DAY: Final = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?", re.ASCII)
HOW: Final = "+90m after the start, -1h before the end, 02:13 or 02:13:45 on the clock, 5400 seconds after the start"


@dataclass(frozen=True, slots=True)
class RecordedSpan:
    """From when to when a recording goes."""

    first_ns: int
    last_ns: int  # On the target's clock
    wall: float  # Seconds since 1970 of `first_ns`

    @classmethod
    def of(cls, shown: Seek) -> RecordedSpan:
        """From a recording's own header."""
        return cls(shown.first_ns, shown.last_ns, shown.wall - (shown.time_ns - shown.first_ns) / 1e9)

    @property
    def seconds(self) -> float:
        return (self.last_ns - self.first_ns) / 1e9

    def moment(self, text: str) -> int:
        """What was typed, on the target's clock.

        Raises:
            UsageError: it is no time, or none of this recording.
        """
        after = self._after(text.strip())
        if after is None:
            raise UsageError(f"{text!r} is not a time.", fix=f"Write a time as {HOW}.")
        # What is typed is rounded to whole seconds, as what is shown is; so are the ends.
        if not -1 < after < self.seconds + 1:
            raise UsageError(f"{text!r} is outside the recording, which covers {self.words}.")
        return min(max(self.first_ns + round(after * 1e9), self.first_ns), self.last_ns)

    def _after(self, text: str) -> float | None:
        """Seconds after the beginning; None for what is no time."""
        of_day = _OF_DAY.fullmatch(text)
        if of_day is not None:
            return self._of_day(*(int(part or 0) for part in of_day.groups()))
        if text[:1] == "-":
            span = seconds_of(text[1:])
            return None if span is None else self.seconds - span
        return seconds_of(text.removeprefix("+"))

    def _of_day(self, hour: int, minute: int, second: int) -> float | None:
        """The first such time of day from the beginning on."""
        if hour > 23 or minute > 59 or second > 59:
            return None
        begin = self.at(self.first_ns).replace(microsecond=0)
        wanted = begin.replace(hour=hour, minute=minute, second=second)
        if wanted < begin:
            wanted += timedelta(days=1)
        return (wanted - begin).total_seconds()

    def at(self, time_ns: int) -> datetime:
        """A time of the target's clock in the reader's time zone."""
        return datetime.fromtimestamp(self.wall + (time_ns - self.first_ns) / 1e9).astimezone()

    def clock(self, time_ns: int, *, seconds: bool = True) -> str:
        """``03:12:45``, or ``03:12``."""
        return f"{self.at(time_ns):{'%H:%M:%S' if seconds else '%H:%M'}}"

    @property
    def words(self) -> str:
        """``from 02:00:00 to 10:00:00``"""
        return f"from {self.clock(self.first_ns)} to {self.clock(self.last_ns)}"

    @property
    def short(self) -> str:
        """``02:00–10:00``, with seconds where it takes less than ten minutes."""
        seconds = self.seconds < 600
        return f"{self.clock(self.first_ns, seconds=seconds)}–{self.clock(self.last_ns, seconds=seconds)}"


def file_name(pid: int, now: float) -> str:
    """``heaptop-4711-20261122-041200.heaptop``: of a recording that begins so many seconds after 1970."""
    return f"heaptop-{pid}-{datetime.fromtimestamp(now):%Y%m%d-%H%M%S}.heaptop"


def utc(wall: float) -> str:
    """Seconds since 1970 as ISO 8601 writes them, for who reads them by a program."""
    return datetime.fromtimestamp(wall, timezone.utc).isoformat(timespec="milliseconds")


def seconds_of(text: str) -> float | None:
    """``1h30m``, ``90m``, ``5400``; None for what is none of these."""
    if _SPAN.fullmatch(text) is None:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
