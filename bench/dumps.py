"""What a heap on disk costs: ``heaptop dump`` beside PyHeap's dump and ``gcore``, in one run.

``python bench/dumps.py [--pyheap FOLDER] [--python PYTHON] [--objects N ...] [--heaps fresh aged]``. PyHeap is not in
the package index: ``--pyheap`` names a checkout of it. It and ``gcore`` need gdb.

Each has a process of its own with the same heap (``retaining.py``, standing), which says at the end how long its other
threads ever stood still, and how much more memory it had at most. Seconds are those of the whole command. A file is as
large as the disk's blocks that it takes: a core has holes.

Ends as bench/census.py does: the promises are those of heaptop, for each object.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from census import heap_arguments, python_of
from graph import Bench
from promises import Promise, Verdict, core_library, together

Figures = dict[str, float] | str


def measured(bench: Bench, pyheap: Path | None, objects: int, aged: bool) -> Iterator[tuple[str, Figures]]:
    """Each way, and its figures or why there are none."""
    ways: dict[str, Callable[[int, Path], list[str]]] = {
        "heaptop dump": lambda pid, path: [sys.executable, "-m", "heaptop", "dump", str(pid), "-o", str(path)],
        "gcore": lambda pid, path: ["gcore", "-o", str(path), str(pid)],
    }
    for name, command in ways.items():
        try:
            yield name, bench.written(command, objects, aged)
        except OSError as error:
            yield name, f"{error}"
    yield "PyHeap", bench.dump(pyheap, objects, aged) if pyheap else "no checkout of it was named (--pyheap)"


def report(bench: Bench, pyheap: Path | None, objects: int, aged: bool) -> Verdict:
    print(f"\n{objects:,} records, {'aged' if aged else 'fresh'}", flush=True)
    print(f"  {'':14} {'seconds':>8} {'stood still ms':>14} {'more memory MiB':>15} {'file MiB':>9}")
    verdict = Verdict.NOT_MEASURED
    for name, figures in measured(bench, pyheap, objects, aged):
        if isinstance(figures, str):
            print(f"  {name:14} {figures[:100]}", flush=True)
            continue
        seconds, pause, more, size = (figures[each] for each in ("seconds", "pause", "extra", "written"))
        line = f"{seconds:8.1f} {pause * 1e3:14.0f} {more / 2**20:15.0f} {size / 2**20:9.1f}"
        print(f"  {name:14} {line}", flush=True)
        if name == "heaptop dump":
            beside = (seconds - 2) / objects * 1e6
            promises = [
                Promise("bytes of file for each object", 12, above=False, figure=size / objects),
                Promise("microseconds for each object, and 2 s", 2, above=False, figure=beside),
            ]
            print(*(f"    {each}" for each in promises), sep="\n")
            verdict = together(each.verdict for each in promises)
    return verdict


def main() -> None:
    parser: argparse.ArgumentParser = heap_arguments(__doc__)
    parser.set_defaults(objects=[1_000_000, 10_000_000], heaps=["fresh"])
    parser.add_argument("--pyheap", type=Path, help="a checkout of PyHeap")
    options = parser.parse_args()
    bench = Bench(python_of(options), core_library(), options.rounds, options.seconds)
    print(f"{os.cpu_count()} cores, load {'/'.join(f'{each:.1f}' for each in os.getloadavg())}", flush=True)
    sys.exit(
        together(
            report(bench, options.pyheap, objects, name == "aged")
            for objects in options.objects
            for name in options.heaps
        )
    )


if __name__ == "__main__":
    main()
