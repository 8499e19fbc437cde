"""A target that leaks when it is told to (tests/targets/sampling_shop.py), attached to and sampled.

Nothing here asserts on figures: tests do.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from heaptop.analysis.heap.history import History
from heaptop.analysis.samples.producers import Producer, producers
from heaptop.analysis.samples.sampling import Sampling
from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.messages import Message, Sampler, Tick
from tests.interpreters import Interpreter
from tests.support.attaching import Attachment, Silent
from tests.support.building import TARGETS
from tests.support.native import Asked
from tests.support.processes import PATIENCE, eventually, starting, with_proc

M = TypeVar("M", bound=Message)

BLOCK = 1024
LEAK = 2000 * BLOCK
"""Bytes of one leak's largest blocks, all of one line."""


class Shop(Asked):
    """The target, and what heaptop knows of it while it is attached."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked.target)
        self.forget()

    def forget(self) -> None:
        """Know nothing, as at the beginning of an attach."""
        self.sampling, self.history = Sampling(), History()

    def text(self, letter: bytes) -> str:
        """What it answers, where that is words."""
        return str(self(letter))

    def listen(self, attachment: Attachment, kind: type[M]) -> M:
        """The agent's next message of that kind; all messages up to it are taken in."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            message = attachment.message(Message, end - time.monotonic())
            self.sampling.feed(message)
            self.history.feed(message)
            if isinstance(message, kind):
                return message
        raise Silent(f"no {kind.__name__}")

    def ticks(self, attachment: Attachment, number: int = 2) -> None:
        """Take in what is said up to that many ticks from now: of two, the second was asked for after now."""
        while attachment.behind:
            self.listen(attachment, Message)
        for _ in range(number):
            self.listen(attachment, Tick)

    def until(self, attachment: Attachment, done: Callable[[], bool]) -> bool:
        """Listen until it is so; whether it came to that within the time that tests have."""
        end = time.monotonic() + PATIENCE
        while not done() and time.monotonic() < end:
            self.listen(attachment, Tick)
        return done()

    def switch(self, attachment: Attachment, interval: int, depth: int = 128) -> Sampler:
        """Sample otherwise; what the agent answers."""
        attachment.source.sample(interval, depth)
        return self.listen(attachment, Sampler)

    def producer(self, function: str) -> Producer | None:
        """The row of the one site in this function; None where there is none."""
        rows = producers(self.sampling.samples, self.sampling.sites, "site")
        return next((row for row in rows if row.frame is not None and row.frame.function == function), None)

    def live(self, function: str) -> int:
        """Living bytes by that site, estimated."""
        row = self.producer(function)
        return row.live.bytes if row is not None else 0


KILLED = """\
import os, signal, sys
from heaptop.injector.api import AttachOptions, attach_source
def watch(event):
    if getattr(getattr(event, "message", None), "KIND", None) == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
attach_source(int(sys.argv[1]), AttachOptions({options})).open(watch)
signal.pause()
"""


def kill_heaptop_at(kind: type[Message], pid: int, **options: object) -> None:
    """Attach by a heaptop of its own, which is killed at the agent's first message of that kind; the agent has gone."""
    program = KILLED.format(options=", ".join(f"{name}={value!r}" for name, value in options.items()))
    killed = subprocess.run([sys.executable, "-c", program, str(pid), kind.KIND], timeout=PATIENCE, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert eventually(lambda: agent_thread(pid) is None)


@contextlib.contextmanager
def shop(interpreter: Interpreter, *, proc: bool = True, **environment: Any) -> Iterator[Shop]:
    """Running, until the end of the block, which it must reach alive and with an empty stderr. Without ``proc`` a
    chroot has no /proc, from which the core is loaded."""
    wrapper = with_proc(interpreter) if proc else ()
    command = [*wrapper, *interpreter.command([interpreter.place(TARGETS / "sampling_shop.py")])]
    with starting(command, pipe=True, environment=environment) as target:
        found = Shop(Asked(target))
        found(b"a")  # it is ready when it answers
        yield found
        target.write(b"q")
        assert target.process.wait(PATIENCE) == 0, target.stderr()
        assert target.stderr() == ""
