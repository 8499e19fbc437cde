"""What a recording costs: of simulated hours of the fake agent, and of the demo's shop as it runs here.

    python bench/recordings.py                     eight hours of 28,800 ticks and censuses; the shop for a minute
    python bench/recordings.py --hours 1 --seconds 0

Printed are bytes for each hour, and what it takes to record a tick, to open a recording until its last moment is told,
and to show any other: read, and taken in by all that views are made from. Times are the processor's: the file is in
memory, nothing is waited for, and other work on the machine does not count. It exits with 1 where a promise is broken.
This module never draws.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.promises import Promise, together  # noqa: E402
from tests.unit.recording_cases import Made, played  # noqa: E402

from heaptop.cli.commands.demo import sample_program  # noqa: E402
from heaptop.recordings.format import COUNT, KEY, TICK  # noqa: E402
from heaptop.recordings.reader import Recording  # noqa: E402

MIB: Final = 1 << 20
SEEKS: Final = 60


def timed(work: Callable[[], object]) -> float:
    """Seconds of the processor's that it takes."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def simulated(path: Path, hours: float, *, sampled: bool) -> float:
    """Seconds of the processor that recording adds to each tick and census of the fake agent."""
    ticks = round(hours * 3600)
    alone = timed(lambda: Made(path, sampled=sampled, watch=False).run(ticks // 8)) / (ticks // 8)
    made = Made(path, sampled=sampled, watch=False).begin()
    return timed(lambda: made.run(ticks).end()) / ticks - alone


def shop(path: Path, seconds: float, interval: float) -> None:
    """Have the demo's shop recorded by the command."""
    with sample_program() as pid:
        options = ["--for", str(seconds), "--interval", str(interval), "--marks", "0", "-o", str(path)]
        command = [sys.executable, "-m", "heaptop", "record", str(pid), *options]
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT / "src")


def size_words(path: Path) -> str:
    """What an hour of it takes, and of what that is made."""
    with Recording.open(path) as recording:
        seconds = (recording.last_ns - recording.first_ns) / 1e9
        sizes: Counter[int] = Counter()
        for block in recording._blocks:
            sizes[block.head.kind] += block.head.length
        ticks = len(recording.moments)
    part = {
        name: f"{sizes[kind] / MIB * 3600 / seconds:.2f}"
        for name, kind in (("KEY", KEY), ("TICK", TICK), ("COUNT", COUNT))
    }
    parts = ", ".join(f"{name} {size}" for name, size in part.items())
    hourly = path.stat().st_size / MIB * 3600 / seconds
    return f"{hourly:.2f} MiB an hour ({parts}), {path.stat().st_size / ticks:,.0f} bytes a tick"


def looked_at(path: Path) -> tuple[float, list[float], int]:
    """Seconds to open it and know its last moment; those to show others; samples that lived at the end."""
    opened: list[Recording] = []
    live_blocks: list[int] = []

    def open_it() -> None:
        opened.append(Recording.open(path))
        live_blocks.append(played(opened[0]).sampling.samples.live_block_count)

    opening = timed(open_it)
    wild = random.Random(6)
    with opened[0] as recording:
        moments = [wild.choice(recording.moments) for _ in range(SEEKS)]
        seeks = [timed(lambda moment=moment: played(recording, moment)) for moment in moments]  # type: ignore[misc]
    return opening, seeks, live_blocks[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--hours", type=float, default=8.0, help="of the fake agent, simulated (default 8; 0: not at all)"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the shop, real ones (default 60; 0: not at all)"
    )
    args = parser.parse_args()
    promises: list[Promise] = []
    with tempfile.TemporaryDirectory() as folder:
        for sampled in (False, True) if args.hours else ():
            path = Path(folder) / f"fake-{sampled}.heaptop"
            more = simulated(path, args.hours, sampled=sampled)
            opening, seeks, live_blocks = looked_at(path)
            what = f"{args.hours:g} h of the fake agent, {'sampled' if sampled else 'not sampled'}"
            print(f"{what}: {size_words(path)}")
            print(f"  {live_blocks:,} samples live at the end; a tick and a census take {1e3 * more:.2f} ms to record")
            middle, worst = 1e3 * statistics.median(seeks), 1e3 * max(seeks)
            most = 1e3 * statistics.quantiles(seeks, n=10)[-1]
            told = f"seeks in {middle:.0f} ms, nine in ten in {most:.0f}, at most {worst:.0f}"
            print(f"  opens in {opening:.2f} s; {told}")
            promises.append(Promise(f"opens ({what}), s", 1.0, False, opening, 2))
            promises.append(Promise(f"nine seeks in ten ({what}), ms", 100, False, most, 0))
        for interval in (1.0, 10.0) if args.seconds else ():
            path = Path(folder) / f"shop-{interval}.heaptop"
            shop(path, args.seconds, interval)
            print(f"the demo's shop for {args.seconds:g} s, counted every {interval:g} s: {size_words(path)}")
    for promise in promises:
        print(promise)
    return int(together(promise.verdict for promise in promises))


if __name__ == "__main__":
    sys.exit(main())
