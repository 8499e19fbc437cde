"""What large heaps cost: census, snapshot, mark, check, a leak hunt and a path, at 1, 5 and 25 million objects.

``python bench/scale.py [--python PYTHON] [--objects N ...] [--heaps fresh aged]``. A quick look: ``--objects 200000``.
25 million objects take some 6 GB; a size for which memory is short is left out, and so said. Each heap is in a process
of its own (``retaining.py``, standing), which says at the end how long its other threads ever stood still.

A census is the first after an attach. A snapshot has walk, graph, search and dominators; its bytes are those of its
tables. A mark is taken from one snapshot and sent to the next. A check is a snapshot, all that a hunt asks of it, and a
mark. ``leaks`` and ``why`` are the commands as a person types them, with the attach.

Ends as bench/census.py does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from census import heap_arguments, python_of
from graph import Bench
from promises import Promise, Verdict, core_library, together

from heaptop.analysis.leaks.marks import send_pieces, take_pieces
from heaptop.analysis.samples.sampling import Sampling
from heaptop.cli.terminal import ProgressLine
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.watching.hunting import Hunter, HuntWatch, Plan

SIZES = (1_000_000, 5_000_000, 25_000_000)
BYTES_AN_OBJECT = 260
"""Of the heap, its snapshot and copies."""
SECONDS = 20
LARGE = 5_000_000
"""Up to so many objects a hunt ends in time."""


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


def measured(pid: int, clock: Clock) -> dict[str, float]:
    """One session: objects, and bytes an object of a snapshot and of a mark."""
    source = attach_source(pid, AttachOptions(pause_budget=60.0))
    progress = ProgressLine()
    with HuntWatch(source, progress, "bench/scale.py", Sampling(()), timeout=3600) as watch:
        with clock("census"):
            watch.ready()
        hunter = Hunter(watch, Plan(SECONDS, 3), progress)
        hunter.check("first")
        with clock("check"):
            hunter.check("second")
        image = watch.freeze()
        with clock("mark taken"):
            pieces = watch.run(take_pieces(image))
        with clock("mark sent"):
            watch.run(send_pieces(pieces))
        watch.close()
    clock.took["snapshot"] = image.build_ns / 1e9
    marked = sum(map(len, pieces)) / image.objects
    return {"objects": image.objects, "snapshot": image.memory / image.objects, "mark": marked}


def command(clock: Clock, name: str, pid: int, *arguments: str) -> None:
    """A command of heaptop's. CalledProcessError where it fails."""
    with clock(name):
        subprocess.run(
            [sys.executable, "-m", "heaptop", name, str(pid), *arguments, "--pause-budget", "60000", "--json"],
            stdout=subprocess.DEVNULL,
            check=True,
        )


def promises(took: dict[str, float], facts: dict[str, float], objects: int) -> list[Promise]:
    ends = SECONDS * 1.1 + 3 if objects <= LARGE else 30
    times = took["check"] / took["snapshot"] if "check" in took else None
    return [
        Promise("mark: bytes an object", 2, False, facts.get("mark")),
        Promise("check: times a snapshot", 2, False, times),
        Promise(f"leaks --for {SECONDS}: seconds", ends, False, took.get("leaks")),
    ]


def report(bench: Bench, objects: int, aged: bool) -> Verdict:
    print(f"\n{objects / 1e6:g}M objects, {'aged' if aged else 'fresh'}", flush=True)
    if objects * BYTES_AN_OBJECT > os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        print("  left out: memory is short", flush=True)
        return Verdict.NOT_MEASURED
    clock = Clock()
    with standing(bench, objects, aged) as target:
        facts = measured(target.pid, clock)
        command(clock, "leaks", target.pid, "--for", str(SECONDS))
        command(clock, "why", target.pid, "dict")
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
    options = parser.parse_args()
    bench = Bench(python_of(options), core_library(), options.rounds, options.seconds)
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{os.cpu_count()} cores, load {load}", flush=True)
    verdicts = [report(bench, objects, name == "aged") for objects in options.objects for name in options.heaps]
    sys.exit(together(verdicts))


if __name__ == "__main__":
    main()
