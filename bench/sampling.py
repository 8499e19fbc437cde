"""What sampling allocations costs a program, at several rates, and what the peers cost it in the same run.

``python bench/sampling.py [--setup] [--workloads NAME ...] [--ways NAME ...] [--counted NAME ...] [--rounds N]
[--size F] [--measure time instructions] [--python 3.12]``. ``--setup`` makes the environment first, in the user's
cache: the peers (memray, ddtrace, scalene), and Flask, gunicorn and NumPy for three of the workloads. A quick look:
``--rounds 1 --size 0.1``.

Time: each run of a profiler (``sampled.py``, a process of its own) stands beside one of the bare workload
(``workloads.py``) of about a second, the one or the other first by turns; what is told is the median of the rounds'
ratios, with the least and the most of them. CPU time is that of the whole process, the profiler's threads with it.
Turning a profiler on and off is not in it, nor what it does at its end: only what it costs while it is on.

Instructions: callgrind counts one run of each, of a tenth of that work; of the peers those that come near. They are
the same whoever else uses the machine; two bare runs say how exact they are.

heaptop is the sampler, and a thread that fetches what was sampled once a second; the agent's other work and the
screen are not in it. ``heaptop-adaptive``, ``heaptop-hunt`` and ``heaptop-serve`` are for 200, 1,000 and 20 samples a
second: they begin at 512 bytes, as after a rest, so that what a burst costs is in their times; instructions are those
of a tenth of a second, and begin at 64 KiB, as an attach does. The peers do what they do by default, where their
names say nothing else. ``ddtrace`` takes a sixteenth of the samples of ``heaptop-64K``, ``ddtrace-64K`` as many.

Ends with 0 when every promise was measured and kept, with 1 when one was broken, and with 2 when none was broken but
some were not measured: without valgrind, say, or with ``--ways`` some of the peers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from promises import CACHE, HERE, Promise, Verdict, compiled, core_library, together
from tests import interpreters
from workloads import WORKLOADS

PACKAGES: Final = ("memray", "ddtrace", "scalene", "flask", "gunicorn", "numpy")
WARM: Final = 20
"""One in so many units is done before what is measured."""
COUNTED: Final = 0.1
"""The part of the work that is done under callgrind, where it takes fifty times as long."""
PATIENCE: Final = 600
PROFILE: Final = "profile.json"
TOLD: Final = "heaptop-adaptive"
"""What the promises are about: the rate that is on by default."""
HUNT: Final = "heaptop-hunt"
"""That of a leak hunt, for which the floor holds as well."""
PACING: Final = HERE.parent / "src/heaptop/injector/agent/pacing.py"
"""Where the agent's choice of an interval is."""
TABLES: Final = 8e6
BYTES_A_SAMPLE: Final = 100

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Way:
    """How a workload is run; what is measured is what ``kind`` does in the target."""

    name: str
    kind: str
    setting: int | str | None = None
    prefix: tuple[str, ...] = ()
    """Words after ``python``: a profiler that starts the program itself, and writes PROFILE."""


BARE: Final = Way("bare", "bare")
HEAPTOP: Final = (
    Way(TOLD, "heaptop", "200/s"),
    Way(HUNT, "heaptop", "1000/s"),
    Way("heaptop-512K", "heaptop", 512 << 10),
    Way("heaptop-64K", "heaptop", 64 << 10),
    Way("heaptop-8K", "heaptop", 8 << 10),
    Way("heaptop-serve", "heaptop", "20/s"),
)
PEERS: Final = (
    Way("tracemalloc", "tracemalloc", 1),
    Way("tracemalloc-25", "tracemalloc", 25),
    Way("memray", "memray", ""),
    Way("memray-aggregate", "memray", "aggregate"),
    Way("memray-python", "memray", "python"),
    Way("ddtrace", "ddtrace"),
    Way("ddtrace-64K", "ddtrace", 64 << 10),
    Way("scalene", "bare", None, ("-m", "scalene", "run", "--memory", "--outfile", PROFILE)),
)
COUNTED_PEERS: Final = ("memray", "memray-aggregate", "ddtrace", "ddtrace-64K")
"""Which may be so near that time cannot tell; the others take several times the work, and callgrind minutes for it."""


SEE_ALL: Final = ("tracemalloc", "tracemalloc-25", "memray-python", "scalene")
"""Peers that see every allocation of these workloads, as heaptop does: they are compared by time. memray by default
does not see the interpreter's small blocks, and ddtrace not NumPy's buffers."""
SEE_SMALL: Final = ("ddtrace", "ddtrace-64K")
"""Likewise those that see the small blocks and are cheap enough to be compared by instructions."""


# -- one run ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bench:
    """How to run a target."""

    python: str
    core: str
    counter: str
    """The library that tells callgrind where to count, or an empty text where there is no callgrind."""

    def run(self, way: Way, workload: str, size: float, seed: int, counted: bool = False) -> Figures | str:
        """The figures of one run, with ``instructions`` when counted; or why there are none, a sentence."""
        units = max(1, round(WORKLOADS[workload][1] * size))
        with tempfile.TemporaryDirectory(prefix="heaptop-bench-") as name:
            folder = Path(name)
            request = {
                "way": way.kind,
                "setting": way.setting,
                "workload": workload,
                "units": units,
                "warm": max(1, units // WARM),
                "folder": name,
                "core": self.core,
                "pacing": str(PACING),
                "counter": self.counter if counted else "",
            }
            command = [self.python, "-B", *way.prefix, str(HERE / "sampled.py")]
            command += ["---"] if way.prefix else []
            if counted:
                tool = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder / 'callgrind'}"]
                command = ["valgrind", "--quiet", *tool, *command]
            failure = _run([*command, json.dumps(request)], folder, seed)
            if failure:
                return failure
            figures: dict[str, Any] = json.loads((folder / "answer").read_text())
            if "missing" in figures:
                return str(figures["missing"])
            if way.prefix and not (folder / PROFILE).exists():
                return "it wrote no profile"
            if counted:
                figures["instructions"] = _instructions(folder / "callgrind")
            return figures


def _run(command: Sequence[str], folder: Path, seed: int) -> str:
    """Why it failed, or an empty text. Equal seeds give equal hashes, so that pairs do the same work."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DD_"))}
    environment["PYTHONHASHSEED"] = str(seed)
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {PATIENCE} seconds"
    if done.returncode == 0 and (folder / "answer").exists():
        return ""
    return f"ended with {done.returncode}: {(done.stderr.splitlines() or [''])[-1]}"


def _instructions(file: Path) -> int:
    found = re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError("callgrind told no totals")
    return int(found[1])


# -- many of them -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """Of the rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a profiler on a workload, beside the bare workload."""

    cpu: Spread
    wall: Spread
    """Both as times the bare one's."""
    memory: float
    """Bytes resident at the peak, more than the bare one's: the median."""
    last: Figures
    """All the figures of the last round."""

    def __str__(self) -> str:
        return (
            f"CPU ×{self.cpu.median:6.3f} ({self.cpu.least:6.3f} … {self.cpu.most:6.3f})"
            f"   wall ×{self.wall.median:6.3f} ({self.wall.least:6.3f} … {self.wall.most:6.3f})"
            f"   resident {self.memory / 1e6:+7.1f} MB"
        )


def pair(bench: Bench, way: Way, workload: str, size: float, turn: int) -> tuple[Figures, Figures] | str:
    """A bare run and one of the way, or why there is none. An odd turn has the bare one last."""
    first, second = (way, BARE) if turn % 2 else (BARE, way)
    found: dict[str, Figures] = {}
    for each in (first, second):
        figures = bench.run(each, workload, size, seed=turn + 1)
        if isinstance(figures, str):
            return figures
        found[each.name] = figures
    if found[BARE.name]["answer"] != found[way.name]["answer"]:
        return "it changed what the workload does"
    return found[BARE.name], found[way.name]


def costs(bench: Bench, workload: str, ways: Sequence[Way], size: float, rounds: int) -> dict[str, Cost | str]:
    """By the ways' names; a way that failed once is not run again."""
    pairs: dict[str, list[tuple[Figures, Figures]]] = {way.name: [] for way in ways}
    failed: dict[str, str] = {}
    for turn in range(rounds):
        for way in ways:
            if way.name in failed:
                continue
            one = pair(bench, way, workload, size, turn)
            if isinstance(one, str):
                failed[way.name] = one
            else:
                pairs[way.name].append(one)
    return {name: failed[name] if name in failed else cost(each) for name, each in pairs.items()}


def cost(pairs: Sequence[tuple[Figures, Figures]]) -> Cost:
    return Cost(
        Spread.of([own["cpu"] / bare["cpu"] for bare, own in pairs]),
        Spread.of([own["seconds"] / bare["seconds"] for bare, own in pairs]),
        statistics.median(own["resident"] - bare["resident"] for bare, own in pairs),
        pairs[-1][1],
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Instructions on a workload, by the ways' names: percent more than the bare one's."""

    bare: int
    apart: float
    """Of two bare runs, in percent."""
    more: Mapping[str, float | str]
    """Or why there is none."""


def counts(bench: Bench, workload: str, ways: Sequence[Way], size: float) -> Counts | str:
    """Or why there are none, a sentence."""
    found: list[int] = []
    for _ in range(2):
        figures = bench.run(BARE, workload, size, seed=1, counted=True)
        if isinstance(figures, str):
            return figures
        found.append(figures["instructions"])
    bare = statistics.mean(found)
    more: dict[str, float | str] = {}
    for way in ways:
        figures = bench.run(way, workload, size, seed=1, counted=True)
        more[way.name] = figures if isinstance(figures, str) else (figures["instructions"] / bare - 1) * 100
    return Counts(round(bare), (max(found) / min(found) - 1) * 100, more)


# -- the report ---------------------------------------------------------------------------------------------


def say(line: str) -> None:
    print(line, flush=True)


def say_costs(found: Mapping[str, Cost | str]) -> None:
    for name, each in found.items():
        say(f"  {name:17} {each if isinstance(each, Cost) else f'left out: {each}'}")
        if isinstance(each, Cost) and "samples" in each.last:
            rate = each.last["clock"] / each.last["seconds"] / 1e6
            dropped = f", {each.last['dropped']} dropped" if each.last["dropped"] else ""
            say(
                f"  {'':17} {each.last['samples']} samples of {rate:.0f} MB/s, {each.last['live']} live,"
                f" tables {each.last['bytes'] / 1e6:.1f} MB{dropped}"
            )


def say_counts(found: Counts | str) -> None:
    if isinstance(found, str):
        say(f"  instructions      left out: {found}")
        return
    say(f"  instructions      {found.bare / 1e6:.0f} million bare, {found.apart:.2f} % between two bare runs")
    for name, more in found.more.items():
        say(f"  {name:17} instructions {f'{more:+.2f} %' if isinstance(more, float) else f'left out: {more}'}")


def promises(workload: str, found: Mapping[str, Cost | str], counted: Counts | str) -> list[Promise]:
    """Those that are about one workload."""
    profiled = {name: each for name, each in found.items() if isinstance(each, Cost)}
    ours = profiled.get(TOLD)
    memory, live = (ours.memory / 1e6, ours.last["live"]) if ours else (None, 0)
    more = {} if isinstance(counted, str) else counted.more
    instructions = {name: each for name, each in more.items() if isinstance(each, float)}
    bound = round((TABLES + BYTES_A_SAMPLE * live) / 1e6, 2)
    times = {name: each.cpu.median for name, each in profiled.items()}
    works = {name: 1 + each / 100 for name, each in instructions.items()}
    return [
        *(
            promise
            for name, words in ((TOLD, "at 200 samples/s"), (HUNT, "at 1,000 samples/s"))
            for promise in (
                Promise(f"{workload}: percent more instructions {words}", 3, False, instructions.get(name), 2),
                Promise(f"{workload}: times the CPU time {words}", 1.05, False, times.get(name), 3),
            )
        ),
        Promise(f"{workload}: MB more resident at 200 samples/s", bound, False, memory),
        below(f"{workload}: times the CPU time with", times, SEE_ALL),
        below(f"{workload}: times the instructions with", works, SEE_SMALL),
    ]


def below(what: str, factors: Mapping[str, float], peers: Sequence[str]) -> Promise:
    """That heaptop costs less than each of the peers; ``factors`` are times the bare workload."""
    whole = all(name in factors for name in (TOLD, *peers))
    cheapest = min(peers, key=lambda name: factors[name]) if whole else ""
    figure = factors[TOLD] / factors[cheapest] if whole else None
    return Promise(f"{what} {cheapest or 'any peer'}", 1, False, figure, 3)


def typical(found: Mapping[str, Mapping[str, Cost | str]]) -> Promise:
    """The one that is about all workloads together."""
    told = [each[TOLD] for each in found.values() if TOLD in each]
    medians = [each.cpu.median for each in told if isinstance(each, Cost)]
    whole = len(medians) == len(WORKLOADS)
    figure = statistics.median(medians) if whole else None
    return Promise("times the CPU time at 200 samples/s, the median of the workloads", 1.03, False, figure, 3)


# -- the parts that are made --------------------------------------------------------------------------------


def not_measured(why: str) -> NoReturn:
    print(why, file=sys.stderr)
    sys.exit(Verdict.NOT_MEASURED)


def environment(python: str) -> Path:
    return CACHE / f"sampling-{python}"


def set_up(python: str) -> None:
    """The environment with the peers, made anew, or none: MissingInterpreter, CalledProcessError."""
    made = interpreters.get(python)
    if made.root is not None:
        not_measured(f"Python {python} stands in a root of its own: no environment can be made with it")
    subprocess.run(made.command(["-m", "venv", "--clear", environment(python)]), check=True)
    pip = [str(environment(python) / "bin/pip"), "install", "-q", "--only-binary", ":all:"]
    try:
        subprocess.run([*pip, *PACKAGES], check=True)
    except subprocess.CalledProcessError:
        shutil.rmtree(environment(python))
        raise


def versions(python: str) -> str:
    """Of Python and of what was installed."""
    names = "'Python ' + platform.python_version(), *(each + ' ' + m.version(each) for each in sys.argv[1:])"
    code = f"import platform, sys, importlib.metadata as m; print({names}, sep=', ')"
    return subprocess.run([python, "-c", code, *PACKAGES], capture_output=True, text=True, check=True).stdout.strip()


def counter_library() -> str:
    """An empty text where there is no callgrind, or where its header is missing."""
    if shutil.which("valgrind") is None:
        return ""
    try:
        return compiled("instructions.c")
    except (OSError, subprocess.CalledProcessError):
        return ""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ways = [way.name for way in (*HEAPTOP, *PEERS)]
    parser.add_argument("--setup", action="store_true", help="make the environment with the peers first")
    parser.add_argument(
        "--python",
        default="3.12",
        choices=interpreters.SUPPORTED,
        help="as tests/interpreters.py names it (default 3.12)",
    )
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways)
    parser.add_argument(
        "--counted",
        nargs="+",
        choices=ways,
        default=[*(way.name for way in HEAPTOP), *COUNTED_PEERS],
        help="whose instructions are counted, of the ways (default: heaptop's, and of the peers the cheap ones)",
    )
    parser.add_argument("--measure", nargs="+", choices=["time", "instructions"], default=["time", "instructions"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=float, default=1.0, help="of the work; 1 is about a second")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.setup:
        try:
            set_up(options.python)
        except (interpreters.MissingInterpreter, subprocess.CalledProcessError) as error:
            not_measured(str(error))
    python = environment(options.python) / "bin/python"
    if not python.exists():
        not_measured(f"there is no environment for Python {options.python} yet: --setup makes it")
    bench = Bench(str(python), core_library(), counter_library())
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    say(f"{versions(str(python))}; {os.cpu_count()} cores, load {load}, {options.rounds} rounds, size {options.size:g}")
    ways = [way for way in (*HEAPTOP, *PEERS) if way.name in options.ways]
    timed: dict[str, Mapping[str, Cost | str]] = {}
    made: list[Promise] = []
    for workload in options.workloads:
        say(f"\n{workload}")
        timed[workload] = {}
        counted: Counts | str = "not asked for"
        if "time" in options.measure:
            timed[workload] = costs(bench, workload, ways, options.size, options.rounds)
            say_costs(timed[workload])
        if "instructions" in options.measure:
            counted = "no valgrind, or no valgrind/callgrind.h"
            if bench.counter:
                theirs = [way for way in ways if way.name in options.counted]
                counted = counts(bench, workload, theirs, options.size * COUNTED)
            say_counts(counted)
        mine = promises(workload, timed[workload], counted)
        made += mine
        for promise in mine:
            say(f"  {promise}")
    last = typical(timed)
    say(f"\n{last}")
    sys.exit(together(promise.verdict for promise in (*made, last)))


if __name__ == "__main__":
    main()
