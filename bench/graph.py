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
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    @contextmanager
    def standing(self, objects: int, aged: bool) -> Iterator[Standing]:
        """A process with the heap, which does nothing."""
        with subprocess.Popen(
            self.command("stand", objects, aged), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as target:
            try:
                assert target.stdout
                target.stdout.readline()
                yield Standing(target, self.seconds)
            finally:
                target.kill()


@dataclass(frozen=True, slots=True)
class Standing:
    """A process with the heap, which says of each command how long it stood still."""

    target: subprocess.Popen[str]
    seconds: float

    def dump(self, pyheap: Path) -> dict[str, float] | str:
        """PyHeap's dump."""
        dumper = str(pyheap / "pyheap" / "src" / "pyheap_dump.py")
        return self.written(lambda pid, path: [sys.executable, dumper, "--pid", str(pid), "--file", str(path)])

    def written(
        self, command: Callable[[int, Path], list[str]], reading: Callable[[Path], list[str]] | None = None
    ) -> dict[str, float] | str:
        """What a command writes to files whose names begin with a path; with ``reading``, also what it takes to read
        the first of them. A sentence where one fails."""
        with tempfile.TemporaryDirectory() as folder:
            before = memory_of(self.target.pid)
            try:
                found = timed(command(self.target.pid, Path(folder, "dump")), self.seconds)
            except Failed as error:
                peak = memory_of(self.target.pid, "VmHWM")
                return f"{error}; the target had {(peak - before) / 2**20:,.0f} MiB more"
            assert self.target.stdin
            assert self.target.stdout
            self.target.stdin.write("\n")
            self.target.stdin.flush()
            told = json.loads(self.target.stdout.readline())
            files = sorted(Path(folder).iterdir())
            found["written"] = sum(each.stat().st_blocks * 512 for each in files)
            if reading is not None:
                try:
                    read = timed(reading(files[0]), self.seconds)
                except Failed as error:
                    return f"cannot be read: {error}"
                found |= {f"read {name}": figure for name, figure in read.items()}
        return {**found, "pause": told["pause"], "extra": max(0, told["peak"] - before), "rss": before, "rounds": 1}


class Failed(Exception):
    """A command that did not end well, or not in time."""


def timed(command: list[str], seconds: float) -> dict[str, float]:
    """Seconds, those of CPU time, and resident bytes of its largest process. Raises Failed."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as words:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words, start_new_session=True
        ) as started:
            while (done := os.wait4(started.pid, os.WNOHANG))[0] == 0 and time.perf_counter() - began < seconds:
                time.sleep(0.005)
            if done[0] == 0:
                os.killpg(started.pid, signal.SIGKILL)
                done = os.wait4(started.pid, 0)
            started.returncode = os.waitstatus_to_exitcode(done[1])
        took = time.perf_counter() - began
        if took >= seconds:
            raise Failed(f"ended after {took:,.0f} s without a result")
        if started.returncode:
            words.seek(0)
            raise Failed(f"exit code {started.returncode}: {' '.join(words.read().splitlines()[-5:])}")
    used = done[2]
    return {"seconds": took, "cpu": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss * 1024}


def memory_of(pid: int, name: str = "VmRSS") -> int:
    """Resident bytes; with ``VmHWM``, the most that there ever were."""
    with open(f"/proc/{pid}/status") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def pyheap_dump(bench: Bench, objects: int, aged: bool, pyheap: Path | None) -> dict[str, float] | str:
    if pyheap is None:
        return "no checkout of it was named (--pyheap)"
    with bench.standing(objects, aged) as standing:
        return standing.dump(pyheap)


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
        is_peer = way == "pyheap"
        figures = pyheap_dump(bench, objects, aged, pyheap) if is_peer else bench.run(way, objects, aged)
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
