"""What ``heaptop serve`` costs on a host with many processes, and that it leaves them as they were.

    python bench/fleet.py                                200 idle processes and 20 busy ones; five minutes
    python bench/fleet.py --idle 20 --busy 2 --steady 10 --churn 5

Idle processes sleep, busy ones answer ten requests a second each. At settings as in production, but for the size that
is chosen: attach to all; let them be; let ten processes a second come and end; end heaptop by SIGKILL; start it
again, and end it by SIGTERM. Before and after both ends it compares what each process has: threads, descriptors,
mappings, signals. Times are the processor's, of heaptop with its helpers and of its agents, in percent of one core: so
a busy machine makes it slower, and the figures hardly larger. It exits with 1 where a promise is broken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.promises import Promise, together  # noqa: E402
from tests import interpreters  # noqa: E402
from tests.interpreters import Interpreter  # noqa: E402
from tests.support.attaching import is_held, resting  # noqa: E402
from tests.support.processes import EXIT_CODE, Facts, Target, difference, eventually, running  # noqa: E402
from tests.support.serving import Serve, serving  # noqa: E402

MIB: Final = 1 << 20
CHURN: Final = 10
"""Processes that come each second."""
CHURN_SECONDS: Final = 5.0
"""That each of them lives."""
MOST_SERIES: Final = 3 * 188 + 40
"""Of three services, and of heaptop itself (docs/fleet.md)."""
PATIENCE: Final = 900.0
CONFIG: Final = """
limit = 300
share = 0.2
budget = 50
"""
RULE: Final = """
[[select]]
name = "{name}"
command = "{word}-{name}"
min_rss = 0
min_age = 0
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of heaptop at a moment."""

    at: float
    own: float
    """CPU seconds of heaptop and its helpers."""
    agents: float
    """Likewise of the agents, and of the clones that they count in."""
    rss: float
    descriptors: float
    series: int

    @staticmethod
    def of(metrics: Mapping[str, Mapping[str, float]], series: int) -> Cost:
        one = {name: values.get("", 0.0) for name, values in metrics.items()}
        return Cost(
            time.monotonic(),
            one["heaptop_process_cpu_seconds_total"] + one["heaptop_helpers_cpu_seconds_total"],
            one["heaptop_agent_cpu_seconds_total"],
            one["heaptop_process_resident_memory_bytes"],
            one["heaptop_process_open_fds"],
            series,
        )

    def since(self, before: Cost) -> tuple[float, float]:
        """Percent of one core: heaptop with its helpers, and the agents."""
        seconds = self.at - before.at
        return (self.own - before.own) / seconds * 100, (self.agents - before.agents) / seconds * 100


@contextmanager
def processes(interpreter: Interpreter, word: str, idle: int, busy: int) -> Iterator[list[Target]]:
    """All of them, started and ended several at a time."""
    wanted = [("sleeper", (f"{word}-idle",))] * idle + [("answering", ("10", f"{word}-busy"))] * busy
    contexts = [running(interpreter, name, *arguments) for name, arguments in wanted]
    with ThreadPoolExecutor(4) as threads:
        started: list[Target] = []
        try:
            for target in threads.map(lambda context: context.__enter__(), contexts):
                started.append(target)
            yield started
        finally:
            list(threads.map(lambda context: context.__exit__(None, None, None), contexts[: len(started)]))


def churn(interpreter: Interpreter, word: str, seconds: float) -> tuple[int, int]:
    """Let processes come and end; how many, and how many of these failed."""
    arguments = (f"{CHURN}", f"{CHURN_SECONDS}", f"{seconds}", f"{word}-forks")
    with running(interpreter, "churning", *arguments) as parent:
        if not eventually(lambda: bool(parent.said()), seconds + CHURN_SECONDS + 60):
            raise RuntimeError(f"no end of the churn: {parent.stderr()}")
        came, failed = (int(each.split()[0]) for each in parent.said()[0].split(","))
        return came, failed


def attached_after(serve: Serve, least: int) -> float:
    """Wait until so many are attached to; seconds that it took."""
    began = time.monotonic()
    while (there := len(serve.attached())) < least:
        if time.monotonic() - began > PATIENCE:
            raise RuntimeError(f"only {there} of {least} are attached to: {serve.process.stderr()[-2000:]}")
        time.sleep(1)  # what is asked for more often costs more
    return time.monotonic() - began


def changed(before: Mapping[int, Facts]) -> Counter[str]:
    """What differs in the processes, after every agent has had the time to leave."""
    found: Counter[str] = Counter()
    for pid, facts in before.items():
        eventually(lambda pid=pid, facts=facts: not difference(facts, resting(pid)))  # type: ignore[misc]
        found.update(difference(facts, resting(pid)))
        found["held"] += is_held(pid)
    return +found


def report(what: str, serve: Serve, before: Cost | None = None) -> Cost:
    """Print a line of what heaptop takes now, and took since then."""
    text = serve.get("metrics")
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    metrics = serve.metrics()
    cost, attached = Cost.of(metrics, series), sum(metrics.get("heaptop_attached_processes", {}).values())
    counted = sum(metrics.get("heaptop_counted_processes", {}).values())
    refused = dict(metrics.get("heaptop_refusals_total", {}))
    print(
        f"{what:22}attached {attached:4.0f}  with a census {counted:4.0f}  RSS {cost.rss / MIB:5.0f} MiB  "
        f"descriptors {cost.descriptors:4.0f}  series {series:4}  {len(text) / 1024:4.0f} KiB  refusals {refused}",
        flush=True,
    )
    if before is not None:
        own, agents = cost.since(before)
        print(f"{'':22}CPU in {cost.at - before.at:.0f} s: heaptop {own:.1f} %, agents {agents:.1f} %", flush=True)
    return cost


def measured(args: argparse.Namespace, folder: Path) -> Iterable[Promise]:
    """Run all of it."""
    interpreter, word, everyone = interpreters.get(args.python), f"fleet-{uuid.uuid4().hex}", args.idle + args.busy
    config = CONFIG + "".join(RULE.format(name=name, word=word) for name in ("idle", "busy", "churn"))
    with processes(interpreter, word, args.idle, args.busy) as targets:
        before = {target.pid: Facts.of(target.pid) for target in targets}
        with serving(folder / "fleet.toml", config) as serve:
            took = attached_after(serve, everyone)
            attached = report(f"attached in {took:.0f} s", serve, Cost(time.monotonic() - took, 0, 0, 0, 0, 0))
            time.sleep(args.steady)
            steady = report("at rest", serve, attached)
            refused = len(serve.events("refused"))
            came, failed = churn(interpreter, word, args.churn)
            churned = report(f"{came} came and ended", serve, steady)
            refused = len(serve.events("refused")) - refused
            reached = len(serve.events("attach")) - everyone
            print(f"{'':22}of these attached to {reached}, refused {refused}", flush=True)
            eventually(lambda: len(serve.attached()) <= everyone)
            settled = report("all of them gone", serve)
            lost = before.keys() - serve.attached()
            serve.end(SIGKILL)
            after_kill = changed(before)
        print(f"after SIGKILL         changed: {dict(after_kill) or 'nothing'}", flush=True)
        with serving(folder / "fleet.toml", config) as serve:
            took = attached_after(serve, min(everyone, args.again))
            report(f"again, after {took:.0f} s", serve)
            code = serve.end(SIGTERM)
            after_end = changed(before)
        print(f"after SIGTERM         changed: {dict(after_end) or 'nothing'}; exit code {code}", flush=True)
        harmed = [one for one in targets if one.terminate() != EXIT_CODE or one.said() or one.stderr()]
    own, agents = steady.since(attached)
    yield Promise("CPU of the agents at rest, percent of one core", 50, False, agents)
    yield Promise("CPU of heaptop at rest, percent of one core", 15, False, own)
    yield Promise("memory of heaptop, MiB", 512, False, churned.rss / MIB)
    churning, churned_agents = churned.since(steady)
    yield Promise("CPU of heaptop in the churn, percent of one core", 50, False, churning)
    yield Promise("CPU of the agents in the churn, percent of one core", 50, False, churned_agents)
    yield Promise("processes that came each second of the churn", 0.95 * CHURN, True, came / args.churn)
    yield Promise("of these, processes that failed", 0, False, float(failed))
    yield Promise("descriptors left by the churn", 5, False, settled.descriptors - steady.descriptors)
    yield Promise("series", MOST_SERIES, False, float(churned.series))
    yield Promise("processes that heaptop lost in the churn", 0, False, float(len(lost)))
    yield Promise("differences in processes after SIGKILL", 0, False, float(after_kill.total()))
    yield Promise("differences in processes after SIGTERM", 0, False, float(after_end.total()))
    yield Promise("processes that were harmed", 0, False, float(len(harmed)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=200)
    parser.add_argument("--busy", type=int, default=20)
    parser.add_argument("--steady", type=float, default=60.0, metavar="S", help="seconds without any change")
    parser.add_argument("--churn", type=float, default=30.0, metavar="S", help="seconds in which processes come")
    parser.add_argument("--again", type=int, default=50, metavar="N", help="after the restart, wait for so many")
    parser.add_argument("--python", default="3.12", help="of the processes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        promises = list(measured(args, Path(folder)))
    for promise in promises:
        print(promise)
    sys.exit(together(promise.verdict for promise in promises))


if __name__ == "__main__":
    main()
