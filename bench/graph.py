"""What the graph of a heap costs, and what is found in it: medians of several rounds.

``python bench/graph.py [--python PYTHON] [--objects N ...] [--heaps fresh aged] [--rounds N]``. A quick look:
``--objects 200000 --rounds 3``.

Each round is in a fork of a process with the heap (``retaining.py``). The graph is the walk and the rows; the search
gives each object a parent and a kind; dominators come with the sums of what would go; retainer sets are of types,
functions and modules, three at most. Bytes are those at one time, at most.

Ends as bench/census.py does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

from promises import HERE, Promise, Verdict, core_library, together

PARTS = ("walk", "rows", "search", "dominators", "retainers")


@dataclass(frozen=True, slots=True)
class Bench:
    """How to run a target."""

    python: str
    core: str
    rounds: int
    seconds: float

    def run(self, way: str, objects: int, aged: bool) -> dict[str, float] | str:
        """Medians over the rounds, ``rss`` among them; or why there are none, a sentence."""
        request = {
            "way": way,
            "objects": objects,
            "aged": aged,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "targets": str(HERE.parent / "tests" / "targets"),
            "core": self.core,
        }
        command = [self.python, "-B", str(HERE / "retaining.py"), json.dumps(request)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            return f"ended with {answer.returncode}: {(answer.stderr.splitlines() or [''])[-1]}"
        found = json.loads(answer.stdout)
        if "missing" in found:
            return str(found["missing"])
        medians = {name: statistics.median(each[name] for each in found["rounds"]) for name in found["rounds"][0]}
        return {**medians, "rss": found["rss"]}


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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the target's Python (default: this one)")
    parser.add_argument("--objects", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--heaps", nargs="+", choices=["fresh", "aged"], default=["fresh", "aged"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300, help="no further round of a way after that many")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    bench = Bench(options.python, core_library(), options.rounds, options.seconds)
    version = subprocess.run([options.python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{version}, {os.cpu_count()} cores, load {load}, medians of {options.rounds}", flush=True)
    heaps = [(objects, name == "aged") for objects in options.objects for name in options.heaps]
    sys.exit(together([report(bench, *heap) for heap in heaps]))


if __name__ == "__main__":
    main()
