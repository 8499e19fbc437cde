"""The loop: makes up visitors and their requests, until told to stop or until nobody is there to look.

Its rate is steady by the clock, so that a leak of so many bytes a second shows as a straight line, however fast the
machine is.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import random
import time

from . import catalogue, handlers, sessions
from .models import Session

TICK = 0.05  # Seconds between two rounds of requests: the longest that an orphan lives on is a few of these

SESSION_BYTES = 18_000  # About what one visitor leaves behind, with the cart and the history of ten requests or so

BUFFER_BYTES = 32 * 1024
BUFFERS = 200  # Request bodies wait in memory until so many are there, and then go together: the sawtooth


class Server:
    """One shop: :meth:`tick` is a round of requests."""

    def __init__(self, rate: float, limit: float) -> None:
        """``rate``: bytes leaked in a second. ``limit``: bytes at which that stops. Both are about right."""
        self._rate = rate
        self._most = int(limit / SESSION_BYTES)
        self._debt = 0.0
        self._buffers: list[bytearray] = []

    def tick(self, seconds: float) -> None:
        """Serve what came in during ``seconds``."""
        # After a pause (a stopped process, a laptop asleep) the backlog is dropped, not served in one burst.
        self._debt += self._rate * min(seconds, 1.0) / SESSION_BYTES
        while self._debt >= 1:
            self._debt -= 1
            self._serve(self._visitor())
        self._buffer()

    def _visitor(self) -> Session:
        if len(sessions.ACTIVE) < self._most:
            return sessions.open_session(f"visitor {len(sessions.ACTIVE)}")
        return Session("", "robot", time.time())  # at the limit: served, and not remembered

    def _serve(self, session: Session) -> None:
        for path in random.choices(tuple(handlers.ROUTES), weights=(6, 3, 1), k=11):
            handlers.ROUTES[path](session)

    def _buffer(self) -> None:
        if len(self._buffers) >= BUFFERS:
            self._buffers.clear()
        self._buffers.append(bytearray(BUFFER_BYTES))


def allow_profilers() -> None:
    """Let any process of this user attach, where Linux's Yama would let only a parent (``ptrace_scope`` 1).

    The sample is made to be examined. A program with something to hide must not do this.
    """
    pr_set_ptracer, anyone = 0x59616D61, ctypes.c_ulong(-1).value
    with contextlib.suppress(OSError, AttributeError):
        # Answers EINVAL where there is no Yama, and nothing needs it.
        ctypes.CDLL(None).prctl(pr_set_ptracer, ctypes.c_ulong(anyone), 0, 0, 0)


def main() -> None:
    """Run until the parent ends."""
    parser = argparse.ArgumentParser(prog="webshop.py", description="A sample program that leaks.")
    parser.add_argument("--rate", type=float, default=1.5, help="megabytes leaked a second (%(default)s)")
    parser.add_argument("--limit", type=float, default=300, help="megabytes at which it stops (%(default)s)")
    parser.add_argument("--seed", type=int, help="make the same visitors each time")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="end when this is not the parent any more")
    options = parser.parse_args()
    random.seed(options.seed)
    allow_profilers()
    catalogue.load()
    server = Server(options.rate * 1e6, options.limit * 1e6)
    print("serving", flush=True)
    before = time.monotonic()
    # A look at the parent's number, because a signal on its death (PR_SET_PDEATHSIG) would come when the
    # *thread* that started us ends, and that thread need not be the main one.
    while os.getppid() == options.parent:
        now = time.monotonic()
        server.tick(now - before)
        before = now
        time.sleep(TICK)
