"""What large heaps cost: census, snapshot, mark, check, a leak hunt and a path, at 1, 5, 25 and 100 million objects.

``python bench/scale.py [--python PYTHON] [--objects N ...] [--heaps fresh aged] [--kills N]``. A quick look:
``--objects 200000``. 25 million objects take some 6 GB; a size for which memory is short is left out, and so said. Each
heap is in a process of its own (``retaining.py``, standing), which says at the end how long its other threads ever
stood still.

CPU is the processor time of a snapshot's clone, which other programs on the machine lengthen little.

A census is the first after an attach. A snapshot has walk, graph, search and dominators; its bytes are those of its
tables. A mark is taken from one snapshot and sent to the next. A check is a snapshot, all that a hunt asks of it, and a
mark. ``leaks`` and ``why`` are the commands as a person types them, with the attach. Then ``leaks`` is killed by
SIGKILL at N moments that are evenly apart (10), and the process is compared with what it was after the detach before.

Ends as bench/census.py does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from census import heap_arguments, python_of
from graph import Bench
from promises import Promise, Verdict, core_library, together

from heaptop.analysis.leaks.marks import send_pieces, take_pieces
from heaptop.analysis.samples.sampling import Sampling
from heaptop.cli.terminal import ProgressLine
from heaptop.injector.api import AttachOptions, attach_source, memory_limit
from heaptop.injector.inspect import process
from heaptop.injector.inspect.memory import read_mappings
from heaptop.protocol.images import Image
from heaptop.watching.hunting import Hunter, HuntWatch, Plan
from heaptop.watching.snapshot_watch import KEEP

SIZES = (1_000_000, 5_000_000, 25_000_000, 100_000_000)
BYTES_AN_OBJECT = 160
"""Of the heap, its snapshot and copies."""
SECONDS = 20
LARGE = 5_000_000
"""Up to so many objects a hunt ends in time."""
LARGEST = 25_000_000
"""Up to so many one of 20 s ends within 30."""
KILLS = 10
GONE = 10.0
"""Seconds in which a clone and an agent end whose heaptop was killed."""
ARENA = 64 << 20
"""Bytes of an arena and what it has reserved: HEAP_MAX_SIZE in malloc/arena.c of glibc."""
MOST_LEFT = 1 << 20
"""Bytes of resident memory by which a process may differ: its allocators keep what an agent has used."""


@contextmanager
def standing(bench: Bench, objects: int, aged: bool) -> Iterator[subprocess.Popen[str]]:
    """A process with the heap."""
    command = bench.command("stand", objects, aged)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout
        target.stdout.readline()
        try:
            yield target
        finally:
            target.kill()


class Clock:
    """Seconds by the name of what took them."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.took[name] = time.perf_counter() - began


class ClockedWatch(HuntWatch):
    """Notes how much processor time the clone of a snapshot had taken when it was made, and when it was closed."""

    made = whole = 0.0
    _clone = 0

    def freeze(self, keep: float = KEEP) -> Image:
        image = super().freeze(keep)
        self._clone, self.made = image.pid, processor_seconds(image.pid)
        return image

    def close(self) -> None:
        if self._clone:
            self._clone, self.whole = 0, processor_seconds(self._clone)
        super().close()


def processor_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def measured(pid: int, clock: Clock) -> dict[str, float]:
    """One session: objects, and bytes an object of a snapshot and of a mark."""
    source = attach_source(pid, AttachOptions(pause_budget=60.0))
    progress = ProgressLine()
    with ClockedWatch(source, progress, "bench/scale.py", Sampling(()), timeout=3600) as watch:
        with clock("census"):
            watch.ready()
        hunter = Hunter(watch, Plan(SECONDS, 3), progress)
        hunter.check("first")
        with clock("check"):
            hunter.check("second")
        clock.took["check CPU"], clock.took["snapshot CPU"] = watch.whole, watch.made
        image = watch.freeze()
        with clock("mark taken"):
            pieces = watch.run(take_pieces(image))
        with clock("mark sent"):
            watch.run(send_pieces(pieces))
        watch.close()
    clock.took["snapshot"] = image.build_ns / 1e9
    marked = sum(map(len, pieces)) / image.objects
    return {"objects": image.objects, "snapshot": image.memory / image.objects, "mark": marked}


def command_line(name: str, pid: int, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "heaptop", name, str(pid), *arguments, "--pause-budget", "60000", "--json"]


def command(clock: Clock, name: str, pid: int, *arguments: str) -> None:
    """A command of heaptop's. CalledProcessError where it fails."""
    with clock(name):
        subprocess.run(command_line(name, pid, *arguments), stdout=subprocess.DEVNULL, check=True)


def mappings_of(pid: int) -> Iterator[tuple[int, int, str, str]]:
    """Start, end, permissions, path. An arena of glibc's malloc ends where its reservation does: how much of that it
    uses moves with all that the process allocates, and is in its resident memory."""
    mappings = [*read_mappings(pid)]
    ends = {
        used.start: reserved.end
        for used, reserved in itertools.pairwise(mappings)
        if (used.permissions, reserved.permissions) == ("rw-p", "---p")
        and used.start % ARENA == 0
        and reserved.end == used.start + ARENA
    }
    for each in mappings:
        if each.end not in ends.values():
            yield each.start, ends.get(each.start, each.end), each.permissions, each.path


@dataclass(frozen=True)
class Traces:
    """What an attach must leave as it was."""

    threads: frozenset[str]
    children: str
    descriptors: frozenset[tuple[str, str]]
    mappings: frozenset[tuple[int, int, str, str]]

    @classmethod
    def of(cls, pid: int) -> Traces:
        folder = Path(f"/proc/{pid}")
        tasks = [*(folder / "task").iterdir()]
        descriptors = frozenset((each.name, os.readlink(each)) for each in (folder / "fd").iterdir())
        children = " ".join((task / "children").read_text() for task in tasks).strip()
        return cls(frozenset(task.name for task in tasks), children, descriptors, frozenset(mappings_of(pid)))

    def beside(self, other: Traces) -> list[object]:
        pairs = ((self.threads, other.threads), (self.descriptors, other.descriptors), (self.mappings, other.mappings))
        return [self.children, *(sorted(mine ^ theirs) for mine, theirs in pairs)]


def is_as_before(pid: int, before: Traces) -> bool:
    with suppress(FileNotFoundError):  # a thread or descriptor that ends meanwhile
        return Traces.of(pid) == before
    return False


def kill_hunts(pid: int, seconds: float, kills: int) -> tuple[int, int]:
    """Kill so many hunts of so many seconds. After how many the process had something left, and by how many bytes its
    resident memory differed at most."""
    harmed = most = 0
    before, rss = Traces.of(pid), process.rss_bytes(pid) or 0
    for number in range(kills):
        with subprocess.Popen(command_line("leaks", pid, "--for", str(SECONDS)), stdout=subprocess.DEVNULL) as hunt:
            time.sleep(seconds * (number + 0.5) / kills)
            hunt.kill()
        if not process.wait_until(lambda: is_as_before(pid, before), GONE):
            harmed += 1
            print(f"  left by kill {number + 1}: {Traces.of(pid).beside(before)}", flush=True)
        most = max(most, abs((process.rss_bytes(pid) or 0) - rss))
    return harmed, most


def promises(took: dict[str, float], facts: dict[str, float], objects: int) -> list[Promise]:
    ends = SECONDS * 1.1 + 3 if objects <= LARGE else 30
    times = took["check CPU"] / took["snapshot CPU"] if "check CPU" in took else None
    return [
        Promise("mark: bytes an object", 2, False, facts.get("mark")),
        Promise("check: times a snapshot, in processor time of the clone", 2, False, times),
        Promise(f"leaks --for {SECONDS}: seconds", ends, False, took.get("leaks") if objects <= LARGEST else None),
        Promise("leaks killed: times that something was left", 0, False, facts.get("harmed")),
        Promise("leaks killed: bytes of RSS", MOST_LEFT, False, facts.get("left")),
    ]


def report(bench: Bench, objects: int, aged: bool, kills: int) -> Verdict:
    print(f"\n{objects / 1e6:g}M objects, {'aged' if aged else 'fresh'}", flush=True)
    limit = memory_limit(os.getpid())
    if limit is None or limit.left is None or objects * BYTES_AN_OBJECT > limit.left:
        print("  left out: memory is short", flush=True)
        return Verdict.NOT_MEASURED
    clock = Clock()
    with standing(bench, objects, aged) as target:
        facts = measured(target.pid, clock)
        command(clock, "leaks", target.pid, "--for", str(SECONDS))
        command(clock, "why", target.pid, "dict")
        if kills:
            facts["harmed"], facts["left"] = kill_hunts(target.pid, clock.took["leaks"], kills)
        felt = json.loads(target.communicate("")[0])["pause"]
    for name, seconds in clock.took.items():
        size = f"   {facts[name]:6.1f} bytes" if name in facts else ""
        print(f"  {name:12} {seconds:8.2f} s   {seconds / facts['objects'] * 1e9:7.0f} ns an object{size}")
    print(f"  felt at most {felt * 1e3:.1f} ms; {facts['mark']:.2f} bytes an object of a mark")
    made = promises(clock.took, facts, objects)
    for promise in made:
        print(f"  {promise}", flush=True)
    return together(promise.verdict for promise in made)


def main() -> None:
    parser: argparse.ArgumentParser = heap_arguments(__doc__)
    parser.set_defaults(objects=[*SIZES], heaps=["fresh"])
    parser.add_argument("--kills", type=int, default=KILLS, metavar="N", help="of leaks, at N moments")
    options = parser.parse_args()
    bench = Bench(python_of(options), core_library(), options.rounds, options.seconds)
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{os.cpu_count()} cores, load {load}", flush=True)
    sys.exit(
        together(
            report(bench, objects, name == "aged", options.kills)
            for objects in options.objects
            for name in options.heaps
        )
    )


if __name__ == "__main__":
    main()
