"""Runs cases, one seed after the other, in a process of its own whose memory and time are capped."""

from __future__ import annotations

import faulthandler
import mmap
import multiprocessing
import multiprocessing.connection
import resource
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.targets import EXPECTED, TARGETS

CASE_SECONDS: Final = 20.0
"""A case that takes longer hangs: the longest take a second on a busy machine."""
CASE_BYTES: Final = 256 << 20
"""What the cases may take beside the modules; the largest case is of some hundred kilobytes."""


class Hang(BaseException):
    """A case took too long. No ``except Exception`` stops it."""


@dataclass(frozen=True, slots=True)
class Result:
    """Of one target."""

    target: str
    cases: int
    seconds: float
    refused: int
    """Cases that ended with an error of heaptop's own."""
    longest: float
    """Seconds of the slowest case."""
    seed: int = -1
    """The case that failed; -1 where none did."""
    failure: str = ""

    @property
    def text(self) -> str:
        """A line; behind it what failed, and the command that does it again."""
        line = (
            f"{self.target}: {self.cases} cases in {self.seconds:.1f} s, {self.refused} refused, "
            f"slowest {self.longest * 1000:.0f} ms"
        )
        if not self.failure:
            return line
        return f"{line}\n{self.failure}\nAgain: python -m tests.fuzz --target {self.target} --seed {self.seed}"


def run_case(target: str, seed: int) -> bool:
    """One case; whether heaptop refused it. Whatever else is raised is a finding."""
    try:
        TARGETS[target](Random(f"{target}:{seed}"))
    except EXPECTED:
        return True
    return False


def _hang(number: int, frame: object) -> None:
    raise Hang(f"not done after {CASE_SECONDS:g} s")


def _limit() -> None:
    """Cap the memory of this process at what it has by now and :data:`CASE_BYTES`."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * mmap.PAGESIZE + CASE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(target: str, first: int, cases: int, seconds: float, at: mmap.mmap, out: object) -> None:
    assert isinstance(out, multiprocessing.connection.Connection)
    faulthandler.enable()
    run_case(target, first)  # what is made once is made without a limit
    _limit()
    signal.signal(signal.SIGALRM, _hang)
    began, refused, longest, done, failure, seed = time.monotonic(), 0, 0.0, 0, "", -1
    while done < cases and time.monotonic() - began < seconds and not failure:
        seed = first + done
        at[:8] = seed.to_bytes(8, "little")
        started = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, CASE_SECONDS)
        try:
            refused += run_case(target, seed)
        except BaseException:
            signal.setitimer(signal.ITIMER_REAL, 0)
            failure = traceback.format_exc()
        signal.setitimer(signal.ITIMER_REAL, 0)
        longest = max(longest, time.monotonic() - started)
        done += 1
    out.send(Result(target, done, time.monotonic() - began, refused, longest, seed if failure else -1, failure))


def fuzz(target: str, first: int, cases: int, seconds: float) -> Result:
    """Seeds from ``first`` on: ``cases`` of them, or as many as ``seconds`` allow. Ends at the first finding."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with mmap.mmap(-1, mmap.PAGESIZE) as at:
        worker = context.Process(target=_work, args=(target, first, cases, seconds, at, theirs))
        began = time.monotonic()
        worker.start()
        theirs.close()
        try:
            # The worker's own limit is an exception; this one is for a case that holds it up in C.
            patience = min(seconds, cases * CASE_SECONDS) + 3 * CASE_SECONDS
            if ours.poll(patience):
                result = ours.recv()
                assert isinstance(result, Result)
                return result
            failure = "The process hangs."
        except EOFError:
            worker.join()
            failure = f"The process ended by itself (exit code {worker.exitcode})."
        finally:
            if worker.is_alive():
                worker.kill()
            worker.join()
        seed = int.from_bytes(at[:8], "little")
        return Result(target, seed - first + 1, time.monotonic() - began, 0, 0.0, seed, failure)
