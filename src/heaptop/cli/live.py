"""Runs the live front end on a source and says how it ended: what attach, run, demo and pick have in common.

This module never draws and never attaches: the front end and the source do.
"""

from __future__ import annotations

import argparse

from heaptop.cli.leaving import say_what_stays
from heaptop.errors import HeaptopError, TargetExited
from heaptop.protocol.images import Question
from heaptop.protocol.messages import Census
from heaptop.protocol.source import (
    Attached,
    Behind,
    Deliver,
    Ended,
    Event,
    Received,
    Source,
    TargetInfo,
    never_behind,
)


class WatchedSource:
    """A source that passes everything on, and remembers whether a heap was counted and how it ended."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._attached: Attached | None = None
        self.counted = False
        self.ended: Ended | None = None

    @property
    def target(self) -> TargetInfo:
        """The best that is known of it: a program that heaptop starts has its pid only when the agent answers."""
        return self._attached.target if self._attached else self._source.target

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        def watch(event: Event) -> None:
            if isinstance(event, Received) and isinstance(event.message, Census):
                self.counted = True
            elif isinstance(event, Attached):
                self._attached = event
            elif isinstance(event, Ended):
                self.ended = event
            deliver(event)

        self._source.open(watch, behind)

    def memory_now(self) -> None:
        self._source.memory_now()

    def census_now(self) -> None:
        self._source.census_now()

    def sample(self, interval: int, depth: int, tracer: bool = False) -> None:
        self._source.sample(interval, depth, tracer)

    def decide(self, accept: bool) -> None:
        self._source.decide(accept)

    def image(self, keep: float, memory: int = 0) -> int:
        return self._source.image(keep, memory)

    def ask(self, image: int, question: Question) -> int:
        return self._source.ask(image, question)

    def give_up(self, id: int) -> None:
        self._source.give_up(id)

    def close_image(self) -> None:
        self._source.close_image()

    def cancel(self) -> None:
        self._source.cancel()

    def close(self, timeout: float = 5.0) -> None:
        self._source.close(timeout)

    def say_what_stays(self) -> None:
        """Say on stderr, once the screen is gone, what could not be taken out of the target."""
        say_what_stays(self.ended, self.target.pid)


def show(source: WatchedSource, args: argparse.Namespace) -> None:
    """Run the front end on a source until the person quits, and leave the target as it was. Errors: :func:`check`."""
    from heaptop.tui.app import make_app

    try:
        error = make_app(source, ascii=args.ascii, theme=args.theme, user_code=args.user_code).run()
    finally:
        source.close()
        source.say_what_stays()
    check(error, source)


def check(error: HeaptopError | None, source: WatchedSource | None) -> None:
    """Raise what a front end ended with.

    A target that ends while it is looked at is no failure, so TargetExited is raised only where nothing was seen
    of it; every other error is raised too.
    """
    seen = source is not None and source.counted
    if error is not None and not (isinstance(error, TargetExited) and seen):
        raise error
