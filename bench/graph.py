"""What the graph of a heap costs, and what is found in it: medians of several rounds.

``python bench/graph.py [--setup] [--python PYTHON] [--objects N ...] [--heaps fresh aged] [--rounds N]
[--pyheap FOLDER]``. A quick look: ``--objects 200000 --rounds 3``. ``--setup`` makes the environment with the peers
(guppy3, objgraph) in the user's cache first; PyHeap is not in the package index: ``--pyheap`` names a checkout of it,
and it takes gdb. A peer that is not there is left out, and so said.

First the parts, each round in a fork of a process with the heap (``retaining.py``). The graph is the walk and the rows;
the search gives each object a parent and a kind; dominators come with the sums of what would go; retainer sets are of
types, functions and modules, three at most. Bytes are those at one time, at most.

Then whole answers, each way in a process of its own with an equal heap: heaptop's open snapshot, frozen and asked for
groups, paths and retainer sets of everything; guppy3's partition by referrers (``byrcs``), and what its largest type
alone would free (``domisize``); objgraph's chain of one object; PyHeap's dump, which only writes and answers later.
Felt is the longest gap in the time stamps of another thread.

Ends as bench/census.py does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from census import heap_arguments, python_of
from promises import HERE, Promise, Verdict, core_library, together

from heaptop.protocol.images import GROUPS, PATHS, RETAINERS, Question

ANSWERS = ("image", "guppy3 byrcs", "guppy3 domisize", "objgraph")
QUESTIONS = [Question(what, limit=100).pack(2).hex() for what in (GROUPS, PATHS, RETAINERS)]
PARTS = ("walk", "rows", "search", "dominators", "retainers")


@dataclass(frozen=True, slots=True)
class Bench:
    """How to run a target."""

    python: str
    core: str
    rounds: int
    seconds: float

    def command(self, way: str, objects: int, aged: bool) -> list[str]:
        request = {
            "way": way,
            "objects": objects,
            "aged": aged,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "targets": str(HERE.parent / "tests" / "targets"),
            "core": self.core,
            "questions": QUESTIONS,
        }
        return [self.python, "-B", str(HERE / "retaining.py"), json.dumps(request)]

    def run(self, way: str, objects: int, aged: bool) -> dict[str, float] | str:
        """Medians over the rounds, ``rss`` among them; or why there are none, a sentence."""
        answer = subprocess.run(self.command(way, objects, aged), capture_output=True, text=True, check=False)
        if answer.returncode:
            return f"ended with {answer.returncode}: {(answer.stderr.splitlines() or [''])[-1]}"
        found = json.loads(answer.stdout)
        if "missing" in found:
            return str(found["missing"])
        medians = {name: statistics.median(each[name] for each in found["rounds"]) for name in found["rounds"][0]}
        return {**medians, "rss": found["rss"], "rounds": len(found["rounds"])}

    def dump(self, pyheap: Path, objects: int, aged: bool) -> dict[str, float] | str:
        """PyHeap's dump: one round."""
        dumper = str(pyheap / "pyheap" / "src" / "pyheap_dump.py")
        return self.written(
            lambda pid, path: [sys.executable, dumper, "--pid", str(pid), "--file", str(path)], objects, aged
        )

    def written(self, command: Callable[[int, Path], list[str]], objects: int, aged: bool) -> dict[str, float] | str:
        """What a command writes of a process with the heap, to files whose names begin with a path: one round."""
        with (
            tempfile.TemporaryDirectory() as folder,
            subprocess.Popen(
                self.command("stand", objects, aged), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as target,
        ):
            assert target.stdout
            target.stdout.readline()
            before, line = memory_of(target.pid), command(target.pid, Path(folder, "dump"))
            began = time.perf_counter()
            try:
                subprocess.run(line, capture_output=True, text=True, check=True, timeout=self.seconds)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                target.kill()
                return f"{error}"
            seconds = time.perf_counter() - began
            told = json.loads(target.communicate()[0])
            size = sum(each.stat().st_blocks * 512 for each in Path(folder).iterdir())
        return {
            "seconds": seconds,
            "pause": told["pause"],
            "extra": max(0, told["peak"] - before),
            "written": size,
            "rounds": 1,
        }


def memory_of(pid: int) -> int:
    """Resident bytes."""
    with open(f"/proc/{pid}/status") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def promises(heaptop: dict[str, float] | str, kernel: dict[str, float] | str) -> list[Promise]:
    """Those of the design, an object each."""

    def an_object(figures: dict[str, float] | str, *names: str) -> float | None:
        return None if isinstance(figures, str) else sum(figures[name] for name in names) / figures["objects"]

    # the time that counts is the wall's; on a busy machine that of the processor says what it would be on a quiet one
    return [
        Promise("graph: ns an object", 250, False, an_object(heaptop, "walk", "rows")),
        Promise("graph: ns of CPU time an object", 250, False, an_object(heaptop, "graph cpu")),
        Promise("dominators, with the search: ns an object", 700, False, an_object(heaptop, "search", "dominators")),
        Promise("dominators: ns of CPU time an object", 700, False, an_object(heaptop, "dominators cpu")),
        Promise("bytes an object, by its own account", 75, False, an_object(heaptop, "bytes")),
        Promise("bytes an object, by the kernel's", 75, False, an_object(kernel, "kernel")),
    ]


def report(bench: Bench, objects: int, aged: bool) -> Verdict:
    heaptop, kernel = (bench.run(way, objects, aged) for way in ("heaptop", "kernel"))
    print(f"\n{objects / 1e6:g}M objects, {'aged' if aged else 'fresh'}", flush=True)
    for figures in (heaptop, kernel):
        if isinstance(figures, str):
            print(f"  left out: {figures}")
    if not isinstance(heaptop, str):
        met = heaptop["objects"]
        print(f"  {met:.0f} objects, {heaptop['edges'] / met:.2f} references each, {heaptop['sets']:.0f} retainer sets")
        print("  ns an object:", *(f"  {part} {heaptop[part] / met:.0f}" for part in PARTS))
        print(
            f"  retainer sets: {heaptop['set bytes'] / met:.1f} bytes an object, instead of what dominators took;",
            end="",
        )
        print(f" {heaptop['steps'] / heaptop['edges']:.2f} times each reference followed")
    made = promises(heaptop, kernel)
    for promise in made:
        print(f"  {promise}", flush=True)
    return together(promise.verdict for promise in made)


def report_answers(bench: Bench, objects: int, aged: bool, pyheap: Path | None) -> Verdict:
    """Whole answers, side by side."""
    print("  whole answers:", flush=True)
    found: dict[str, dict[str, float]] = {}
    for way in (*ANSWERS, "pyheap"):
        if way != "pyheap":
            figures = bench.run(way, objects, aged)
        else:
            figures = bench.dump(pyheap, objects, aged) if pyheap else "no checkout of it was named (--pyheap)"
        if isinstance(figures, str):
            print(f"    {way:15} left out: {figures}", flush=True)
            continue
        found[way] = figures
        written = f"   {figures['written'] / 1e6:.0f} MB written" if "written" in figures else ""
        print(
            f"    {way:15} {figures['seconds']:9.3f} s   felt {figures['pause'] * 1e3:10.1f} ms"
            f"   memory {figures['extra'] / 1e6:8.1f} MB   ({figures['rounds']:.0f} rounds){written}",
            flush=True,
        )
    made = []
    for way in (*ANSWERS[1:], "pyheap"):
        times = found[way]["pause"] / found["image"]["pause"] if "image" in found and way in found else None
        made.append(Promise(f"image: times felt less than {way}", 1, True, times))
    for promise in made:
        print(f"    {promise}", flush=True)
    return together(promise.verdict for promise in made)


def arguments() -> argparse.Namespace:
    parser = heap_arguments(__doc__)
    parser.add_argument("--pyheap", type=Path, help="a checkout of PyHeap")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    python = python_of(options)
    bench = Bench(python, core_library(), options.rounds, options.seconds)
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{version}, {os.cpu_count()} cores, load {load}, medians of {options.rounds}", flush=True)
    verdicts = []
    for objects in options.objects:
        for name in options.heaps:
            verdicts.append(report(bench, objects, name == "aged"))
            verdicts.append(report_answers(bench, objects, name == "aged", options.pyheap))
    sys.exit(together(verdicts))


if __name__ == "__main__":
    main()
