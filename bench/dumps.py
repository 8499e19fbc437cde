"""What a heap on disk costs: ``heaptop dump`` beside PyHeap's dump and ``gcore``, in one run.

``python bench/dumps.py [--pyheap FOLDER] [--python PYTHON] [--objects N ...] [--heaps fresh aged]``. PyHeap is not in
the package index: ``--pyheap`` names a checkout of it. It and ``gcore`` need gdb.

One after the other writes the heap of the same process (``retaining.py``, standing), which says each time how long its
other threads ever stood still, and how much more memory it had at most. Seconds are those of the whole command. A file
is as large as the disk's blocks that it takes: a core has holes. heaptop then reads it (``heaptop census``); the memory
is that of its largest process. A way gets ``--seconds``, and is ended then. PyHeap is last: its code in the process
takes memory there.

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
    heaptop = [sys.executable, "-m", "heaptop"]
    without = ["--no-inject", "--pause-budget", f"{bench.seconds * 1000:.0f}"]
    ways: dict[str, Callable[[int, Path], list[str]]] = {
        "heaptop dump": lambda pid, path: [*heaptop, "dump", str(pid), "-o", str(path)],
        "--no-inject": lambda pid, path: [*heaptop, "dump", str(pid), "-o", str(path), *without],
        "gcore": lambda pid, path: ["gcore", "-o", str(path), str(pid)],
    }
    with bench.standing(objects, aged) as standing:
        for name, command in ways.items():
            try:
                yield name, standing.written(command, lambda path: [*heaptop, "census", str(path)])
            except OSError as error:
                yield name, f"{error}"
        yield "PyHeap", standing.dump(pyheap) if pyheap else "no checkout of it was named (--pyheap)"


def report(bench: Bench, pyheap: Path | None, objects: int, aged: bool) -> Verdict:
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"\n{objects:,} records, {'aged' if aged else 'fresh'}, load {load}", flush=True)
    print(
        f"  {'':14} {'seconds':>8} {'CPU':>7} {'stood still ms':>14} {'more memory MiB':>15} {'file MiB':>9}"
        f" {'read seconds':>12} {'read CPU':>8} {'read MiB':>8}"
    )
    verdict = Verdict.NOT_MEASURED
    for name, figures in measured(bench, pyheap, objects, aged):
        if isinstance(figures, str):
            print(f"  {name:14} {figures}", flush=True)
            continue
        seconds, cpu, pause, more, size = (figures[each] for each in ("seconds", "cpu", "pause", "extra", "written"))
        line = f"{seconds:8.1f} {cpu:7.1f} {pause * 1e3:14.0f} {more / 2**20:15.0f} {size / 2**20:9.1f}"
        if "read seconds" in figures:
            line += f" {figures['read seconds']:12.1f} {figures['read cpu']:8.1f} {figures['read memory'] / 2**20:8.0f}"
        print(f"  {name:14} {line}", flush=True)
        if name == "heaptop dump":
            print(f"    the process has {figures['rss'] / 2**20:,.0f} MiB")
            promises = [
                Promise("bytes of file for each object", 12, above=False, figure=size / objects),
                Promise("microseconds for each object, and 2 s", 2, above=False, figure=(seconds - 2) / objects * 1e6),
                Promise(
                    "to read it: microseconds for each object, and 1 s",
                    0.4,
                    above=False,
                    figure=(figures["read seconds"] - 1) / objects * 1e6,
                    digits=2,
                ),
                Promise(
                    "to read it: bytes for each object, and 40 MiB",
                    100,
                    above=False,
                    figure=(figures["read memory"] - 40 * 2**20) / objects,
                    digits=0,
                ),
            ]
            print(*(f"    {each}" for each in promises), sep="\n")
            verdict = together(each.verdict for each in promises)
    return verdict


def main() -> None:
    parser: argparse.ArgumentParser = heap_arguments(__doc__)
    parser.set_defaults(objects=[1_000_000, 10_000_000, 30_000_000], heaps=["fresh"], seconds=900)
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
