"""How long an attach takes, and how long the target feels it, beside py-spy, memray and gdb: several rounds each.

``python bench/attach.py [--setup] [ROUNDS [INTERPRETER …]]``. The target (``tests/targets/spinning_clock.py``) measures
itself: the longest gap in a loop that reads the clock, without the part for which the machine had no processor for it.
It holds 1,000 objects, and then a million. heaptop's round is an attach, three censuses and a detach; *said* is what it
reports itself. *bare fork* is an ``os.fork`` of the target's own, *alone* is nothing at all. The peers are
``py-spy dump``, ``memray attach``, and gdb calling one function; they run on 3.12.
``--setup`` installs the first two into a folder of the test cache.

The least of the rounds is what the tool costs, the median has the machine's load in it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import interpreters

from heaptop.analysis.bands.report import attach_pause_ns
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.protocol.messages import Census
from heaptop.protocol.source import Attached, Ended, Event, Received

TARGET = Path(__file__).resolve().parent.parent / "tests" / "targets" / "spinning_clock.py"
PEERS: Final = interpreters.cache_dir() / "bench-attach"
SETTLE = 0.3
CENSUSES = 3
SIZES = (1_000, 1_000_000)

Gap = tuple[int, int]
"""When it began, and how long it was without the machine's load; nanoseconds."""


class Clock:
    """The target, and what it says of itself."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid
        self._process = process

    def ask(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")

    def gaps(self) -> list[Gap]:
        """Since the last question."""
        assert self._process.stdout is not None
        self.ask("")
        return [(begin, length - waited) for begin, length, waited in json.loads(self._process.stdout.readline())]


@contextlib.contextmanager
def target(command: list[str]) -> Iterator[Clock]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield Clock(process)
    finally:
        process.kill()
        process.wait()


def longest(gaps: list[Gap], begin: int = 0, end: int = 1 << 62) -> float:
    """Milliseconds, of those that began in that time."""
    return max((length for at, length in gaps if begin <= at < end), default=0) / 1e6


def heaptop(clock: Clock) -> dict[str, float]:
    """Attach, wait for some censuses, detach: milliseconds."""
    censuses: list[tuple[int, Census]] = []
    attached: list[tuple[int, Attached]] = []
    done, ended = threading.Event(), threading.Event()
    began = time.monotonic_ns()

    def deliver(event: Event) -> None:
        now = time.monotonic_ns()
        if isinstance(event, Attached):
            attached.append((now, event))
        elif isinstance(event, Received) and isinstance(event.message, Census):
            censuses.append((now, event.message))
            if len(censuses) == CENSUSES:
                done.set()
        elif isinstance(event, Ended):
            ended.set()
            done.set()

    source = attach_source(clock.pid, AttachOptions(max_share=1.0, pause_budget=60.0))
    source.open(deliver)
    done.wait(120)
    source.close()
    ended.wait(60)
    gaps = clock.gaps()
    (at, event), first = attached[0], censuses[0][0]
    rest = [longest(gaps, censuses[i][0] + 1_000_000, censuses[i + 1][0]) for i in range(CENSUSES - 1)]
    counts = [census for _, census in censuses[1:]]
    return {
        "attached after": (at - began) / 1e6,
        "first census after": (first - began) / 1e6,
        "felt: attach": longest(gaps, began, first),
        "said": max(attach_pause_ns(censuses[0][1], event.stopped_ns), censuses[0][1].pause_ns) / 1e6,
        "felt: census": min(rest),
        "said: census": min(census.pause_ns for census in counts) / 1e6,
        "of that stopped": min(census.pauses.stopped_ns if census.pauses else 0 for census in counts) / 1e6,
    }


def bare_fork(clock: Clock) -> dict[str, float]:
    """What the target feels of an ``os.fork`` of its own: what a clone costs by itself."""
    clock.ask("fork")
    time.sleep(SETTLE)
    return {"felt": longest(clock.gaps())}


def nothing(clock: Clock) -> dict[str, float]:
    time.sleep(1)
    return {"felt": longest(clock.gaps())}


def command(*words: str) -> Callable[[Clock], dict[str, float]]:
    """A peer's command, with ``PID`` for the target's."""

    def run(clock: Clock) -> dict[str, float]:
        began = time.monotonic()
        subprocess.run(
            [str(clock.pid) if word == "PID" else word for word in words], capture_output=True, check=False, timeout=60
        )
        took = (time.monotonic() - began) * 1e3
        return {"attached after": took, "felt": longest(clock.gaps())}

    return run


def rounds(python: list[str], way: Callable[[Clock], dict[str, float]], count: int) -> str:
    """Least and median of each figure, over some rounds on one target."""
    results: list[dict[str, float]] = []
    with target(python) as clock:
        for _ in range(count):
            time.sleep(SETTLE)
            clock.gaps()
            clock.gaps()  # to say the first ones was a gap itself
            results.append(way(clock))
    figures = []
    for name in results[0]:
        values = [each[name] for each in results]
        figures.append(f"{name} {min(values):.1f} ({statistics.median(values):.1f})")
    return "  ".join(figures)


def setup(python: str) -> None:
    """memray is imported by its target, so both have one environment."""
    subprocess.run([python, "-m", "venv", "--clear", PEERS], check=True)
    subprocess.run([PEERS / "bin/pip", "install", "-q", "--only-binary", ":all:", "py-spy", "memray"], check=True)


def peers() -> dict[str, tuple[str, Callable[[Clock], dict[str, float]]]]:
    """By name: the target's Python, and what is done to it. Only those that are here."""
    python = PEERS / "bin/python"
    found = {}
    if (PEERS / "bin/py-spy").exists():
        found["py-spy dump"] = (str(python), command(str(PEERS / "bin/py-spy"), "dump", "--pid", "PID"))
    if (PEERS / "bin/memray").exists() and shutil.which("gdb"):
        made = (str(PEERS / "bin/memray"), "attach", "--aggregate", "-o", "/dev/null", "-f", "--duration", "1", "PID")
        found["memray attach"] = (str(python), command(*made))
    if shutil.which("gdb") and python.exists():
        call = ("gdb", "-p", "PID", "-batch", "-nx", "-ex", "call (int)Py_AddPendingCall(0, 0)")
        found["gdb"] = (str(python), command(*call))
    return found


def main() -> None:
    words = sys.argv[1:]
    known = interpreters.found()
    if "--setup" in words:
        setup(known["3.12"].path)
        words.remove("--setup")
    count = max(3, int(words[0]) if words else 7)
    chosen = words[1:] or list(interpreters.SUPPORTED)
    print(f"least (median) of {count}, milliseconds")
    for size in SIZES:
        print(f"{size:,} objects", flush=True)
        for name in chosen:
            if name in known:
                python = known[name].command([known[name].place(TARGET), str(size)])
                print(f"  {name:14}{rounds(python, heaptop, count)}", flush=True)
                print(f"  {'  alone':14}{rounds(python, nothing, count)}", flush=True)
                print(f"  {'  bare fork':14}{rounds(python, bare_fork, count)}", flush=True)
        for name, (path, way) in peers().items():
            print(f"  {name:14}{rounds([path, str(TARGET), str(size)], way, count)}", flush=True)


if __name__ == "__main__":
    main()
