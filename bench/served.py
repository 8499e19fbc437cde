"""What ``heaptop serve`` costs an application that it is attached to: throughput, latency and processor time.

    python bench/served.py                              eight windows of two minutes
    python bench/served.py --rounds 1 --window 60       a look

Two gunicorns serve the same Flask application, of 600,000 objects. A client asks for one page after the other, in short
turns: some pages of one server, then as many of the other. ``heaptop serve`` at its default settings is attached to one
of them, in the next window to the other. A round is two windows: its ratios are those of a server with heaptop to the
one without, and what the two servers differ in cancels out. So does most of what else the machine does: it slows both
down, and throughput and CPU time are medians over pairs of turns. "in all" has what is rare, such as censuses, and what
disturbed only one of the two. CPU time is that of the worker's threads, the agent's among them, to the nanosecond;
clones are not in it. The intervals are over the rounds, 95 %. It exits with 1 where a promise is broken, and with 2
where the bound of 0.5 % is within the interval of the throughput.
"""

from __future__ import annotations

import argparse
import http.client
import math
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from statistics import fmean, median, quantiles, stdev
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.promises import Promise, together  # noqa: E402
from tests import interpreters  # noqa: E402
from tests.support import web  # noqa: E402
from tests.support.building import TARGETS  # noqa: E402
from tests.support.processes import eventually  # noqa: E402
from tests.support.serving import serving  # noqa: E402
from tests.support.slopes import t_quantile  # noqa: E402

RULE: Final = """
rate = "{rate}"
[[select]]
command = "{name}"
min_age = 0
"""
"""Default settings but for the choice of the process: its gunicorn's master is too small."""
MOST_LOST: Final = 0.5
"""Percent."""
PAGES: Final = 50
"""Of a turn."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one server did for some pages."""

    took: Sequence[float]
    """Seconds of each page."""
    cpu: float
    """Seconds of its worker, with the agent in it."""


def take_turn(server: web.Server) -> Turn:
    before, took = cpu_seconds(server.workers[0]), []
    for _ in range(PAGES):
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", "/")
        answer = connection.getresponse()
        if answer.status != 200 or not answer.read():
            raise RuntimeError(f"status {answer.status}")
        connection.close()
        took.append(time.perf_counter() - began)
    return Turn(took, cpu_seconds(server.workers[0]) - before)


def cpu_seconds(pid: int) -> float:
    """Of all threads of a process, by its clock (``clock_getcpuclockid``)."""
    return time.clock_gettime((~pid << 3) | 2)


def window(servers: Sequence[web.Server], seconds: float) -> list[list[Turn]]:
    """The turns of each server. Which one begins alternates, too."""
    found: list[list[Turn]] = [[] for _ in servers]
    end, order = time.monotonic() + seconds, list(range(len(servers)))
    while time.monotonic() < end:
        for place in order:
            found[place].append(take_turn(servers[place]))
        order.reverse()
    return found


def changes_of(on: Sequence[Turn], off: Sequence[Turn]) -> dict[str, float]:
    """The logarithm of each figure's ratio."""
    pairs = list(zip(on, off, strict=True))
    cuts = [quantiles([took for turn in turns for took in turn.took], n=100) for turns in (on, off)]
    (on_50, on_99), (off_50, off_99) = ((cut[49], cut[98]) for cut in cuts)
    return {
        "throughput": median(math.log(sum(b.took) / sum(a.took)) for a, b in pairs),
        "p50": math.log(on_50 / off_50),
        "p99": math.log(on_99 / off_99),
        "CPU a request": median(math.log(a.cpu / b.cpu) for a, b in pairs),
        "CPU in all": math.log(sum(turn.cpu for turn in on) / sum(turn.cpu for turn in off)),
    }


def rounds(args: argparse.Namespace, folder: Path) -> Iterator[Mapping[str, float]]:
    """The logarithm of each figure's ratio, of one round after the other."""
    interpreter, word = interpreters.get(args.python), uuid.uuid4().hex
    interpreter.place(TARGETS / "web.py")
    with ExitStack() as stack:
        names = [f"served-{word}-{place}" for place in (1, 2)]
        servers = [stack.enter_context(web.serving(interpreter, 1, "large_web", name)) for name in names]
        window(servers, 5)  # to get warm
        for number in range(1, args.rounds + 1):
            logs: dict[str, float] = {}
            for place, server in enumerate(servers):
                with serving(folder / "fleet.toml", RULE.format(name=names[place], rate=args.rate)) as serve:
                    wanted = {server.workers[0]}
                    if not eventually(lambda serve=serve, wanted=wanted: serve.counted() >= wanted):  # type: ignore[misc]
                        raise RuntimeError(f"nothing was counted: {serve.process.stderr()}")
                    turns = window(servers, args.window)
                    metrics = serve.metrics()
                    serve.end(SIGTERM)
                changes = changes_of(turns[place], turns[1 - place])
                censuses, pauses = metrics["heaptop_censuses_total"][""], metrics["heaptop_pause_seconds_sum"][""]
                print(
                    f"round {number}.{place + 1}: {len(turns[place])} turns; "
                    + ", ".join(f"{name} {100 * math.expm1(change):+.2f} %" for name, change in changes.items())
                    + f"; {censuses:.0f} censuses, pauses {pauses * 1e3:.1f} ms",
                    flush=True,
                )
                for name, change in changes.items():
                    logs[name] = logs.get(name, 0.0) + change / 2
            yield logs


def percent(logs: Sequence[float]) -> tuple[float, float, float]:
    """The mean change by heaptop in percent, and its interval; endless with one round."""
    mean = fmean(logs)
    half = math.inf
    if len(logs) > 1:
        half = t_quantile(0.975, len(logs) - 1) * stdev(logs) / len(logs) ** 0.5
    return 100 * math.expm1(mean), 100 * math.expm1(mean - half), 100 * math.expm1(min(mean + half, 5.0))


def measured(args: argparse.Namespace, folder: Path) -> Iterable[Promise]:
    found = list(rounds(args, folder))
    changes = {name: percent([logs[name] for logs in found]) for name in found[0]}
    for name, (change, low, high) in changes.items():
        print(f"{name:14}{change:+7.2f} %  ({low:+.2f} to {high:+.2f} %)")
    change, low, high = changes["throughput"]
    is_known = low > -MOST_LOST or high < -MOST_LOST
    yield Promise("throughput lost, percent", MOST_LOST, False, -change if is_known else None, 2)
    change, low, high = changes["p99"]
    yield Promise("p99 latency that is longer beyond its interval, percent", 0, False, max(low, 0.0), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--window", type=float, default=120.0, metavar="S", help="seconds; a census is due every 60")
    parser.add_argument("--rate", default="20/s", help="as in the file of heaptop serve; off: without the sampler")
    parser.add_argument("--python", default="3.12", help="of the application")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        promises = list(measured(args, Path(folder)))
    for promise in promises:
        print(promise)
    sys.exit(together(promise.verdict for promise in promises))


if __name__ == "__main__":
    main()
