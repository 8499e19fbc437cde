"""How long an attach takes, and how long the target feels it, beside gdb in the same run: medians of several rounds.

``python bench/attach.py [ROUNDS]``. The target (``gaps.py``) measures itself: the longest gap in a busy loop. The peer
is what tools without a way in of their own do: gdb attaches, calls one function, and detaches. heaptop's figure has a
whole attach, a first census and a detach in it.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import interpreters

from heaptop.injector.api import AttachOptions, attach_source
from heaptop.protocol.messages import Census
from heaptop.protocol.source import Attached, Ended, Event, Received

TARGET = Path(__file__).resolve().with_name("gaps.py")
SETTLE = 0.3


@contextlib.contextmanager
def target(python: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(python, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


def gap(process: subprocess.Popen[str]) -> float:
    """Milliseconds: the target's longest gap since the last question."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    return float(process.stdout.readline())


def heaptop(pid: int) -> dict[str, float]:
    """Attach, wait for the first census, detach; milliseconds of each, and of the stop as heaptop measured it."""
    marks: dict[str, float] = {}
    counted, ended = threading.Event(), threading.Event()
    began = time.perf_counter()

    def deliver(event: Event) -> None:
        since = (time.perf_counter() - began) * 1e3
        if isinstance(event, Attached):
            marks["attached"], marks["stopped"] = since, event.stopped_ns / 1e6
        elif isinstance(event, Received) and isinstance(event.message, Census):
            marks.setdefault("first census", since)
            counted.set()
        elif isinstance(event, Ended):
            ended.set()
            counted.set()

    source = attach_source(pid, AttachOptions())
    source.open(deliver)
    counted.wait(60)
    leaving = time.perf_counter()
    source.close()
    ended.wait(60)
    marks["detached"] = (time.perf_counter() - leaving) * 1e3
    return marks


def gdb(pid: int) -> dict[str, float]:
    began = time.perf_counter()
    call = "call (int)Py_AddPendingCall(0, 0)"
    subprocess.run(["gdb", "-p", str(pid), "-batch", "-nx", "-ex", call], capture_output=True, check=False)
    return {"attached": (time.perf_counter() - began) * 1e3}


def rounds(python: list[str], way: Callable[[int], dict[str, float]], count: int) -> dict[str, float]:
    """Medians over ``count`` rounds on one target, its own longest gap among them."""
    results: list[dict[str, float]] = []
    with target(python) as process:
        for _ in range(count):
            time.sleep(SETTLE)
            gap(process)
            marks = way(process.pid)
            results.append({**marks, "felt": gap(process)})
    return {name: statistics.median(each[name] for each in results) for name in results[0]}


def main() -> None:
    count = max(5, int(sys.argv[1]) if len(sys.argv) > 1 else 7)
    print(f"medians of {count}, milliseconds; felt = the longest gap in the target's own loop")
    for interpreter in interpreters.found().values():
        if interpreter.name not in interpreters.SUPPORTED:
            continue
        command = interpreter.command([interpreter.place(TARGET)])
        ours = rounds(command, heaptop, count)
        print(f"{interpreter.name:12}", "  ".join(f"{name} {value:7.1f}" for name, value in ours.items()), flush=True)
        if interpreter.name == "3.12" and shutil.which("gdb"):
            peer = rounds(command, gdb, count)
            ratio = peer["felt"] / ours["felt"]
            words = "  ".join(f"{name} {value:7.1f}" for name, value in peer.items())
            print(f"{'  gdb':12} {words}  felt {ratio:.0f} times as long")


if __name__ == "__main__":
    main()
