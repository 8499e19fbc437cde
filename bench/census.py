"""What a census costs, beside what others take for the same heap in the same run: medians of several rounds.

``python bench/census.py [--setup] [--objects N ...] [--heaps fresh aged] [--rounds N] [--only WAY ...]``. ``--setup``
makes the environment with the peers (guppy3, objgraph, pympler) in the user's cache first; without it they are left
out, and so said. A quick look: ``--objects 200000 --rounds 3``.

Every way runs in a process of its own with an equal heap (``counting.py``), one after another. Felt is the longest gap
in the time stamps of another thread of the target. The floor is the collector's list followed pointer by pointer,
nothing else touched.

Ends with 0 when every promise was measured and kept, with 1 when one was broken, and with 2 when none was broken but
some were not measured: without the peers, say, or with ``--only`` some of the ways.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from promises import CACHE, HERE, Promise, Verdict, compiled, core_library, together

PEERS: Final = ("guppy3", "objgraph", "pympler")
WAYS: Final = ("clone", "stop", "closure", *PEERS)
WORKLOADS: Final = ("idle", "allocating", "reading", "writing")

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Heap:
    objects: int
    aged: bool

    def __str__(self) -> str:
        return f"{self.objects / 1e6:g}M objects, {'aged' if self.aged else 'fresh'}"


@dataclass(frozen=True, slots=True)
class Bench:
    """How to run a target."""

    python: str
    core: str
    chase: str
    rounds: int
    seconds: float

    def run(self, way: str, heap: Heap) -> Figures | str:
        """Medians over the rounds, ``rss`` and ``rounds`` among them; or why there are none, a sentence."""
        request = {
            "way": way,
            "objects": heap.objects,
            "aged": heap.aged,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "targets": str(HERE.parent / "tests" / "targets"),
            "core": self.core,
            "chase": self.chase,
        }
        command = [self.python, "-B", str(HERE / "counting.py"), json.dumps(request)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            return f"ended with {answer.returncode}: {(answer.stderr.splitlines() or [''])[-1]}"
        found = json.loads(answer.stdout)
        if "missing" in found:
            return str(found["missing"])
        rounds = found["rounds"]
        medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        if "extra" in medians:  # memory once had is there for the next round: the first one pays
            medians["extra"] = max(each["extra"] for each in rounds)
        return {**medians, "rss": found["rss"], "rounds": len(rounds)}


# -- the parts that are made --------------------------------------------------------------------------------


def environment_python() -> Path:
    return CACHE / "peers" / "bin" / "python"


def set_up(python: str) -> None:
    """The environment with the peers, made anew."""
    subprocess.run([python, "-m", "venv", "--clear", str(CACHE / "peers")], check=True)
    subprocess.run([str(environment_python()), "-m", "pip", "install", "-q", *PEERS], check=True)


# -- the report ---------------------------------------------------------------------------------------------


def describe(way: str, figures: Figures, objects: float) -> str:
    few = "" if figures["rounds"] >= 5 else f"  ({figures['rounds']:.0f} rounds)"
    return (
        f"  {way:9} {figures['seconds']:9.3f} s {figures['seconds'] / objects * 1e9:8.0f} ns/object"
        f" {figures['cpu'] / objects * 1e9:8.0f} ns CPU"
        f"   felt {figures['pause'] * 1e3:9.1f} ms   extra {figures['extra'] / 1e6:8.1f} MB"
        f" {figures['extra'] / objects:6.1f} B/object   met {figures['objects']:.0f}{few}"
    )


def promises(found: Mapping[str, Figures]) -> list[Promise]:
    """All those of the design, with what the ways found can tell of them."""
    clone = found.get("clone")

    def at_most(bound: float, what: str, figure: Callable[[Figures], float]) -> Promise:
        return Promise(f"clone: {what}", bound, False, None if clone is None else figure(clone))

    def at_least(bound: float, way: str, what: str, figure: str) -> Promise:
        times = found[way][figure] / clone[figure] if clone and way in found else None
        return Promise(f"clone: times {what}", bound, True, times)

    # the time that counts is the wall's; on a busy machine that of the processor says what it would be on a quiet one
    made = [
        at_most(150, "ns an object", lambda of: of["seconds"] / of["objects"] * 1e9),
        at_most(4, "bytes an object, by its own account", lambda of: of["child"] / of["objects"]),
        at_most(40, "GIL held, ms a GB resident", lambda of: of["own pause"] * 1e3 / (of["rss"] / 1e9)),
        at_most(40, "GIL held, ms of CPU time a GB resident", lambda of: of["own pause cpu"] * 1e3 / (of["rss"] / 1e9)),
        at_most(40, "felt, ms a GB resident", lambda of: of["pause"] * 1e3 / (of["rss"] / 1e9)),
    ]
    child = found["child"]["child"] / clone["objects"] if clone and "child" in found else None
    made.append(Promise("clone: bytes an object, by the kernel's", 4, False, child))
    for way, least in (("closure", 15), ("guppy3", 7)):
        made.append(at_least(least, way, f"faster than {way}", "seconds"))
        made.append(at_least(least, way, f"faster than {way}, by CPU time", "cpu"))
    for way, least in (("stop", 10), ("guppy3", 50)):
        made.append(at_least(least, way, f"felt less than {way}", "pause"))
    return made


def report_heap(bench: Bench, heap: Heap, ways: list[str], say: Callable[[str], None]) -> Verdict:
    """Runs the ways on one heap and says what they cost, and what of the promises."""
    found: dict[str, Figures] = {}
    say(f"\n{heap}")
    for way in ways:
        figures = bench.run(way, heap)
        if isinstance(figures, str):
            say(f"  {way:9} left out: {figures}")
            continue
        found[way] = figures
        # whoever counts everything says how many there are; objgraph meets the collector's objects only
        counted = next((found[each]["objects"] for each in ("clone", "stop", "closure") if each in found), heap.objects)
        if way == "floor":
            say(f"  {way:9} {figures['seconds']:9.3f} s {figures['seconds'] / figures['objects'] * 1e9:8.0f} ns/step")
            for each in ("clone", "stop"):
                if each in found:
                    say(f"  {'':9} {each} takes {found[each]['seconds'] / figures['seconds']:.2f} times the floor")
        elif way == "child":
            say(f"  {way:9} {figures['child'] / 1e6:.1f} MB of its own by the kernel's account")
        else:
            say(describe(way, figures, counted))
            if "own pause" in figures:
                held, cpu = figures["own pause"] * 1e3, figures["own pause cpu"] * 1e3
                resident = figures["rss"] / 1e6
                say(f"  {'':9} held the GIL for {held:.1f} ms ({cpu:.1f} of CPU), {resident:.0f} MB resident")
    made = promises(found)
    for promise in made:
        say(f"  {promise}")
    return together(promise.verdict for promise in made)


def report_throughput(bench: Bench, heap: Heap, say: Callable[[str], None]) -> None:
    say(f"\nthe target's own speed while a child counts, {heap} (100 % is without)")
    for name in WORKLOADS:
        figures = bench.run(name, heap)
        if isinstance(figures, str):
            say(f"  {name:11} left out: {figures}")
            continue
        say(
            f"  {name:11} {figures['during'] * 100:5.0f} %   right after {figures['after'] * 100:5.0f} %"
            f"   longest unit {figures['longest unit'] * 1e3:6.1f} ms   pause {figures['own pause'] * 1e3:6.1f} ms"
        )


def heap_arguments(description: str | None) -> argparse.ArgumentParser:
    """What every bench of heaps takes."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--setup", action="store_true", help="make the environment with the peers first")
    parser.add_argument("--python", help="the target's Python (default: that environment's, else this one)")
    parser.add_argument("--objects", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--heaps", nargs="+", choices=["fresh", "aged"], default=["fresh", "aged"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300, help="no further round of a way after that many")
    return parser


def python_of(options: argparse.Namespace) -> str:
    """The target's Python; the environment with the peers is made first, where that was asked for."""
    if options.setup:
        set_up(options.python or sys.executable)
    if not options.python and environment_python().exists():
        return str(environment_python())
    return options.python or sys.executable


def arguments() -> argparse.Namespace:
    parser = heap_arguments(__doc__)
    parser.add_argument("--only", nargs="+", choices=[*WAYS, "floor", "child"], help="these ways, and no throughput")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    python = python_of(options)
    bench = Bench(python, core_library(), compiled("chase.c"), options.rounds, options.seconds)
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    huge = pages.read_text().partition("[")[2].partition("]")[0] if pages.exists() else "none"
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{version}, {os.cpu_count()} cores, load {load}, huge pages {huge}, medians of {options.rounds}")

    def say(line: str) -> None:
        print(line, flush=True)

    verdicts = []
    for objects in options.objects:
        for name in options.heaps:
            heap = Heap(objects, name == "aged")
            verdicts.append(report_heap(bench, heap, options.only or [*WAYS, "floor", "child"], say))
        if not options.only:
            report_throughput(bench, Heap(objects, True), say)
    sys.exit(together(verdicts))


if __name__ == "__main__":
    main()
