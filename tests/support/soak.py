"""A soak of the host agent: for a long time a census each second of each of twenty processes, some of which are
replaced again and again. Neither the agent nor any process may grow meanwhile.

As a program (``make soak``) it prints a table, and fails where a slope's interval does not contain 0. The intervals
hold together with 95 %: that of each row is wider. Three more processes of the same program are not attached to. A
process that changes passes only where it changes as these do: where the slope of its difference to them contains 0.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM
from statistics import fmean
from typing import Final

from heaptop.analysis.text.units import format_bytes
from heaptop.injector.inspect.process import rss_bytes
from tests import interpreters
from tests.interpreters import Interpreter
from tests.support.attaching import resting
from tests.support.processes import EXIT_CODE, Facts, Target, difference, eventually, running
from tests.support.serving import Serve, serving, shipped_environment
from tests.support.slopes import Slope, slope_of

STAYING: Final = 15
CONTROLS: Final = 3
REPLACED: Final = 5
"""Processes of which the oldest is replaced by a new one every :data:`REPLACE_SECONDS`."""
REPLACE_SECONDS: Final = 4.0
WARM_UP: Final = 0.5
"""Of the time, that is left out: tables and caches fill, the agents' within five minutes at these many samples."""
PER_SECOND: Final = "5"
"""Requests that each process answers."""
CONFIG: Final = """
limit = 20
interval = 1
share = 5
budget = 100
rate = "200/s"
[[select]]
name = "soaked"
command = "{word}"
min_rss = 0
min_age = 0
"""
FIGURES: Final = ("RSS", "descriptors", "threads", "mappings")
SERVE: Final = "serve"
TOGETHER: Final = "all processes"
CONTROL: Final = "control"

Usage = tuple[int, ...]
"""By :data:`FIGURES`."""
Columns = Sequence[Sequence[float]]
"""Likewise, each over time."""


@dataclass(slots=True)
class Soak:
    """What was read, and what happened."""

    times: list[float] = field(default_factory=list)
    usages: dict[str, list[Usage]] = field(default_factory=dict)
    """Of the host agent, of each process that stayed, and of the controls, by name; one for each time."""
    replaced: int = 0
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """At the end."""
    faults: list[str] = field(default_factory=list)

    def rows(self) -> list[Row]:
        """After the warm-up: of the host agent, of all processes that stayed together, and of each."""
        begin = next(place for place, at in enumerate(self.times) if at >= WARM_UP * self.times[-1])
        hours = [at / 3600 for at in self.times[begin:]]
        kept: dict[str, Columns] = {
            name: list(zip(*usages[begin:], strict=True)) for name, usages in self.usages.items()
        }
        attached = [columns for name, columns in kept.items() if name != SERVE and not name.startswith(CONTROL)]
        controls = _means([columns for name, columns in kept.items() if name.startswith(CONTROL)])
        kept[TOGETHER] = [[each * len(attached) for each in column] for column in _means(attached)]
        confidence = 1 - 0.05 / (2 * len(kept) * len(FIGURES))

        def row(name: str, place: int) -> Row:
            column, times = kept[name][place], len(attached) if name == TOGETHER else 1
            slope = slope_of(hours, column, confidence)
            if name == SERVE or name.startswith(CONTROL):
                return Row(name, FIGURES[place], column[0], slope)
            rest = [value - times * other for value, other in zip(column, controls[place], strict=True)]
            return Row(name, FIGURES[place], column[0], slope, slope_of(hours, rest, confidence))

        return [row(name, place) for name in kept for place in range(len(FIGURES))]


def _means(every: Sequence[Columns]) -> list[list[float]]:
    """Of several processes, by figure and time."""
    return [[fmean(values) for values in zip(*columns, strict=True)] for columns in zip(*every, strict=True)]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    figure: str
    first: float
    """After the warm-up."""
    slope: Slope
    """Per hour."""
    apart: Slope | None = None
    """Likewise of its difference to the mean of the controls."""

    @property
    def is_control(self) -> bool:
        return self.name.startswith(CONTROL)

    @property
    def state(self) -> str:
        if self.slope.is_flat:
            return "flat"
        if self.apart is not None and self.apart.is_flat:
            return "as the controls"
        return "GROWS" if self.slope.value > 0 else "FALLS"

    @property
    def passes(self) -> bool:
        """Whether heaptop changes nothing there."""
        return self.is_control or self.state in ("flat", "as the controls")

    def __str__(self) -> str:
        slope = self.slope
        value, low, high = (self._words(each, sign=True) for each in (slope.value, slope.low, slope.high))
        interval = f"{low} to {high}"
        return f"{self.name:15}{self.figure:12}{self._words(self.first):>12}{value:>14}  {interval:30}{self.state}"

    def _words(self, value: float, *, sign: bool = False) -> str:
        size = format_bytes(round(abs(value))) if self.figure == "RSS" else f"{abs(value):.4g}"
        return f"{'-' if value < 0 else '+' if sign else ''}{size}"


def soak(interpreter: Interpreter, seconds: float, folder: Path, every: float = REPLACE_SECONDS) -> Soak:
    """Run it, and replace a process ``every`` so many seconds. What is wrong with a process, or with the host agent, is
    among the faults."""
    word, done = f"soaked-{uuid.uuid4().hex}", Soak()
    with ExitStack() as stack:
        staying = [stack.enter_context(running(interpreter, "answering", PER_SECOND, word)) for _ in range(STAYING)]
        before = {target.pid: Facts.of(target.pid) for target in staying}
        controls = [stack.enter_context(running(interpreter, "answering", PER_SECOND)) for _ in range(CONTROLS)]
        rules = CONFIG.format(word=word)
        serve = stack.enter_context(serving(folder / "fleet.toml", rules, environment=shipped_environment()))
        if not eventually(lambda: serve.counted() == before.keys()):
            done.faults.append(f"not all are counted: {serve.process.stderr()}")
        names = {SERVE: serve.process.pid} | {f"process {place}": one.pid for place, one in enumerate(staying, 1)}
        names |= {f"{CONTROL} {place}": one.pid for place, one in enumerate(controls, 1)}
        with replacing(interpreter, word, done) as replace:
            _watch(done, seconds, every, names, serve, replace)
            done.metrics = serve.metrics()
        if serve.end(SIGTERM) != 0:
            done.faults.append(f"serve failed: {serve.process.stderr()}")
        for target in staying:
            eventually(lambda one=target: not difference(before[one.pid], resting(one.pid)))  # type: ignore[misc]
            done.faults += difference(before[target.pid], resting(target.pid))
            done.faults += _end(target)
    return done


def _watch(
    done: Soak, seconds: float, every: float, names: Mapping[str, int], serve: Serve, replace: Callable[[], None]
) -> None:
    """Read each second, and replace a process from time to time."""
    done.usages = {name: [] for name in names}
    began, replaced_at = time.monotonic(), 0.0
    while (now := time.monotonic() - began) < seconds:
        if now - replaced_at > every:
            replace()
            replaced_at = now
            serve.get("metrics")
            serve.get("debug/pprof/heap")
        done.times.append(time.monotonic() - began)
        for name, pid in names.items():
            done.usages[name].append(usage_of(pid))
        time.sleep(1)


@contextmanager
def replacing(interpreter: Interpreter, word: str, done: Soak) -> Iterator[Callable[[], None]]:
    """Five processes; what ends the oldest and starts another."""
    alive: deque[tuple[Target, ExitStack]] = deque()

    def start() -> None:
        stack = ExitStack()
        alive.append((stack.enter_context(running(interpreter, "answering", PER_SECOND, word)), stack))

    def end() -> None:
        target, stack = alive.popleft()
        with stack:
            done.faults += _end(target)

    def replace() -> None:
        end()
        start()
        done.replaced += 1

    try:
        for _ in range(REPLACED):
            start()
        yield replace
    finally:
        while alive:
            end()


def _end(target: Target) -> list[str]:
    code, said = target.terminate(), [*target.said(), target.stderr()]
    return [] if code == EXIT_CODE and not any(said) else [f"process {target.pid}: exit code {code}, {said}"]


def usage_of(pid: int) -> Usage:
    """Of a running process."""
    folder = Path(f"/proc/{pid}")
    mappings = (folder / "maps").read_bytes().count(b"\n")
    return rss_bytes(pid) or 0, len(os.listdir(folder / "fd")), len(os.listdir(folder / "task")), mappings


def lines(done: Soak) -> list[str]:
    """The table: of single processes, and of the controls, only what is not flat."""
    rows = done.rows()
    shown = [row for row in rows if row.name in (SERVE, TOGETHER) or not (row.passes and row.slope.is_flat)]
    passed = Counter(row.passes for row in rows)
    metrics = done.metrics
    return [
        f"{done.times[-1]:.0f} s, of these {WARM_UP:.0%} warm-up; {STAYING} processes, {done.replaced} others ended; "
        f"{metrics['heaptop_censuses_total']['']:.0f} censuses, {metrics['heaptop_attaches_total']['']:.0f} attaches, "
        f"refusals {dict(metrics.get('heaptop_refusals_total', {}))}",
        f"{'':15}{'':12}{'at first':>12}{'per hour':>14}  interval",
        *map(str, shown),
        f"flat, or as the controls: {passed[True]} of {len(rows)} rows",
        *(f"fault: {fault}" for fault in done.faults),
    ]


def main() -> None:
    """``python -m tests.support.soak [--seconds N] [--every N] [--python NAME]``."""
    parser = argparse.ArgumentParser(description="Soak the host agent.")
    parser.add_argument("--seconds", type=float, default=7200.0)
    parser.add_argument("--every", type=float, default=REPLACE_SECONDS, help="seconds in which a process is replaced")
    parser.add_argument("--python", default="3.12")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = soak(interpreters.get(args.python), args.seconds, Path(folder), args.every)
    print("\n".join(lines(done)), flush=True)
    sys.exit(bool(done.faults) or not all(row.passes for row in done.rows()))


if __name__ == "__main__":
    main()
