"""When a guard acts: ``rss > 80% of limit`` and its like, read, written, and compared with figures of a process.

Pure: figures come from who watches. What is not known fires nothing.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from heaptop.analysis.text.recorded_times import seconds_of
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns, format_rate, parse_size
from heaptop.errors import UsageError

HOW: Final = (
    "Write one of: rss > 2GB · rss > 80% of limit · left < 200MB · left < 10% of limit · growth > 10MB/min · "
    "time to limit < 30min · garbage > 1000 · pressure > 10% · verdict = leak · verdict = leak every 2h · every 6h"
)
HUNT_EVERY: Final = 3600
"""Seconds between two leak hunts for a verdict, where none are written."""
TREND_SECONDS: Final = 300.0
"""Growth is that of so much time, or since the attach."""
RECENT: Final = 10.0
_MACHINE: Final = "the machine"
"""The name of all its memory as a limit begins so: others may be not visible."""
LEAST_TREND: Final = 30.0
"""Before that nothing is called growth: a program that has just started grows."""

_OPERATORS: Final = {
    "rss": ">",
    "left": "<",
    "growth": ">",
    "time to limit": "<",
    "garbage": ">",
    "pressure": ">",
    "verdict": "=",
    "every": "",
}
_ALSO: Final = {"limit in": "time to limit"}
"""Other names of figures."""
_FIGURE: Final = re.compile(
    r"\s*(rss|left|growth|time\s+to\s+limit|limit\s+in|garbage|pressure|verdict|every)(?![\w-])", re.IGNORECASE
)
_PER_CENT: Final = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)\s*%", re.ASCII)
_OF_LIMIT: Final = re.compile(r"\s+of\s+limit", re.IGNORECASE)
_PER: Final = {"s": 60, "min": 1, "m": 1, "h": 1 / 60}
"""Times a minute."""
_SIZES: Final = [
    (base**power, f"{letter}{i}B")
    for power, letter in ((4, "T"), (3, "G"), (2, "M"), (1, "K"))
    for base, i in ((1024, "i"), (1000, ""))
]


@dataclass(frozen=True, slots=True)
class ProcessReadings:
    """What is known of a process at one moment; None and empty: not known."""

    rss: int | None = None
    limit: int | None = None
    """Bytes; which limit that is, :attr:`limit_of` names."""
    limit_of: str = ""
    left: int | None = None
    """Bytes that it may still take."""
    growth: float | None = None
    """Of RSS, in bytes a second."""
    garbage: int | None = None
    pressure: float | None = None
    """Per cent of the time."""
    verdict_is_leak: bool = False
    """A hunt has just found one."""

    @property
    def seconds_left(self) -> float | None:
        """Until the limit, if it continues to grow like this; None where it does not grow."""
        if self.left is None or not self.growth or self.growth <= 0:
            return None
        return self.left / self.growth


@dataclass(frozen=True, slots=True)
class Trigger:
    """One condition. Its text, ``str(trigger)``, parses to itself."""

    figure: str
    """A key of the table of operators: ``rss``, ``time to limit``, ``every`` …"""
    value: float
    """Bytes, bytes a minute, per cent, a number, or seconds: of a verdict, between two hunts."""
    of_limit: bool = False
    """``value`` is per cent of the limit."""

    def __str__(self) -> str:
        words = f"{self.figure} {_OPERATORS[self.figure]}".rstrip()
        match self.figure:
            case "verdict":
                return f"{words} leak every {_time(self.value)}"
            case "every" | "time to limit":
                return f"{words} {_time(self.value)}"
            case "pressure":
                return f"{words} {self.value:g}%"
            case "garbage":
                return f"{words} {self.value:.0f}"
            case "growth":
                return f"{words} {_size(self.value)}/min"
        return f"{words} {self.value:g}% of limit" if self.of_limit else f"{words} {_size(self.value)}"

    def fires(self, now: ProcessReadings, since: float) -> bool:
        """Whether it holds ``now``; ``since`` are the seconds since it last fired, or since the beginning."""
        figure = self._figure(now)
        match self.figure:
            case "every":
                return since >= self.value
            case "verdict":
                return now.verdict_is_leak
        if figure is None or (self.of_limit and now.limit is None):
            return False
        bound = self.value / 100 * (now.limit or 0) if self.of_limit else self.value
        return figure > bound if _OPERATORS[self.figure] == ">" else figure < bound

    def _figure(self, now: ProcessReadings) -> float | None:
        match self.figure:
            case "rss":
                return now.rss
            case "left":
                return now.left
            case "growth":
                return None if now.growth is None else now.growth * 60
            case "time to limit":
                return now.seconds_left
            case "garbage":
                return now.garbage
            case "pressure":
                return now.pressure
        return None


@dataclass(frozen=True, slots=True)
class GuardRule:
    """What a guard waits for, and what it does then."""

    triggers: tuple[Trigger, ...]
    """Any of them."""
    hunts: bool = False
    records: bool = False
    dumps: bool = False
    webhook: str = ""
    alertmanager: str = ""
    """Its URL, without the path of its API."""
    command: tuple[str, ...] = ()
    hunt_seconds: float = 30.0
    cooldown: float = 600.0
    """Seconds after a firing in which nothing fires."""
    at_most: int = 10
    """Firings after which the guard ends."""


def readings_words(now: ProcessReadings) -> str:
    """``RSS 512 MiB, 80 % of 640 MiB (memory.max of /app), 128 MiB left, +1.20 MiB/s, limit reached in about 1m 47s at
    that rate``"""
    words = []
    if now.rss is not None:
        words.append(f"RSS {format_bytes(now.rss)}")
        if now.limit:
            words.append(f"{100 * now.rss / now.limit:.0f} % of {format_bytes(now.limit)} ({now.limit_of})")
    if now.left is not None:
        words.append(f"{format_bytes(now.left)} left")
    if now.growth is not None and now.growth > 0:
        words.append(f"+{format_rate(now.growth, bytes_=True)}")
    if (seconds := now.seconds_left) is not None:
        words.append(f"limit reached in about {format_duration_ns(round(min(seconds, 1e9) * 1e9))} at that rate")
    if now.garbage:
        words.append(f"{format_count(now.garbage)} objects in gc.garbage")
    if now.pressure:
        words.append(f"memory pressure {now.pressure:g} %")
    return ", ".join(words)


def seconds_to_limit(processes: Iterable[ProcessReadings]) -> float | None:
    """When the first of these processes reaches its limit, if they continue to grow like this: those of one limit grow
    towards it together. None where none grows."""
    groups: dict[str, list[ProcessReadings]] = {}
    for one in processes:
        groups.setdefault(_MACHINE if one.limit_of.startswith(_MACHINE) else one.limit_of, []).append(one)
    found = []
    for group in groups.values():
        left = [one.left for one in group if one.left is not None]
        growth = sum(one.growth for one in group if one.growth is not None)
        found.append(ProcessReadings(left=min(left, default=None), growth=growth).seconds_left)
    return min((seconds for seconds in found if seconds is not None), default=None)


class RssTrend:
    """By how much RSS grows: of the last minutes, the middle value of the last third less that of the first."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, int]] = deque()

    def add(self, seconds: float, rss: int) -> None:
        """Take a reading; times ascend."""
        self._readings.append((seconds, rss))
        while seconds - self._readings[0][0] > TREND_SECONDS:
            self._readings.popleft()

    @property
    def growth(self) -> float | None:
        """Bytes a second; None as long as there are too few readings."""
        readings = list(self._readings)
        if not readings or readings[-1][0] - readings[0][0] < LEAST_TREND:
            return None
        third = max(len(readings) // 3, 1)
        first, last = readings[:third], readings[-third:]
        seconds = median(at for at, _ in last) - median(at for at, _ in first)
        return (median(rss for _, rss in last) - median(rss for _, rss in first)) / seconds

    def seconds_until(self, bytes_: int) -> float | None:
        """When RSS will have grown by so much, if it continues as in the last seconds; None where it does not grow. For
        what has to be done before: a trigger is no reason to hurry, but this is."""
        readings = [reading for reading in self._readings if self._readings[-1][0] - reading[0] <= RECENT]
        if len(readings) < 2 or readings[-1][1] <= readings[0][1]:
            return None
        (first, before), (last, now) = readings[0], readings[-1]
        return bytes_ * (last - first) / (now - before)


# -- reading a trigger --------------------------------------------------------------------------------------


def parse_trigger(text: str) -> Trigger:
    """A trigger from what a person has written.

    Raises:
        UsageError: it is none; the message points at the place.
    """
    found = _FIGURE.match(text)
    if found is None:
        word = re.match(r"\s*([\w-]*)", text)
        assert word is not None
        raise _wrong("There is no such trigger", text, word.start(1), max(word.end(1), word.start(1) + 1))
    name = " ".join(found[1].lower().split())
    figure = _ALSO.get(name, name)
    operator = _OPERATORS[figure]
    rest = re.match(rf"\s*{operator}\s*", text[found.end() :])
    if rest is None:
        at = len(text) - len(text[found.end() :].lstrip())
        raise _wrong(f"{figure} needs {operator!r} here", text, at, at + 1)
    begin = found.end() + rest.end()
    try:
        return _with_value(figure, text[begin:].strip())
    except ValueError as error:
        raise _wrong(str(error), text, begin, max(len(text.rstrip()), begin + 1)) from None


def _with_value(figure: str, value: str) -> Trigger:
    """Raises ValueError with what was expected."""
    match figure:
        case "rss" | "left":
            share = _PER_CENT.match(value)
            if share is None:
                return Trigger(figure, _parse_size(value, "a size such as 2GB, or a share such as 80% of limit"))
            if not _OF_LIMIT.fullmatch(value[share.end() :]):
                raise ValueError("expected 'of limit' after the share")
            return Trigger(figure, _share(share[1]), of_limit=True)
        case "growth":
            size, _, unit = value.partition("/")
            if unit.strip() not in _PER:
                raise ValueError("expected a rate such as 10MB/min; units of time are s, min and h")
            return Trigger(figure, round(_parse_size(size, "a rate such as 10MB/min") * _PER[unit.strip()]))
        case "garbage":
            if not re.fullmatch(r"\d{1,12}", value, re.ASCII):
                raise ValueError("expected a number of objects")
            return Trigger(figure, int(value))
        case "pressure":
            share = _PER_CENT.fullmatch(value)
            if share is None:
                raise ValueError("expected per cent of the time, such as 10%")
            return Trigger(figure, _share(share[1]))
        case "verdict":
            leak = re.fullmatch(r"leak(?:\s+every\s+(.*))?", value, re.IGNORECASE)
            if leak is None:
                raise ValueError("expected 'leak', or 'leak every 2h'")
            return Trigger(figure, _parse_time(leak[1]) if leak[1] is not None else HUNT_EVERY)
    return Trigger(figure, _parse_time(value))


def _parse_size(text: str, expected: str) -> int:
    try:
        return parse_size(text)
    except UsageError:
        raise ValueError(f"expected {expected}") from None


def _share(text: str) -> float:
    if not 0 < float(text) <= 100:
        raise ValueError("expected more than 0% and at most 100%")
    return float(text)


def _parse_time(text: str) -> int:
    """Whole seconds of ``30min``, ``90m``, ``6h``, ``1h30m``, ``45s``, ``45``."""
    seconds = seconds_of(re.sub(r"min\b", "m", text.strip()))
    if not seconds or round(seconds) < 1:
        raise ValueError("expected a time such as 30min, 6h or 90s")
    return round(seconds)


def _wrong(what: str, text: str, start: int, end: int) -> UsageError:
    return UsageError.at(f"{what}:", text, start, end, fix=HOW)


def _size(value: float) -> str:
    """Exactly: in the largest unit that has no fraction."""
    number = int(value)
    return next((f"{number // size}{name}" for size, name in _SIZES if number and number % size == 0), f"{number}B")


def _time(value: float) -> str:
    """Exactly: ``1h30m``."""
    left, parts = int(value), []
    for size, unit in ((3600, "h"), (60, "m"), (1, "s")):
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts)
