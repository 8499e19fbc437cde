"""Runs the live front end on a source and reports how it ended: what attach, run, demo and pick have in common.

This module never draws and never attaches: the front end and the source do.
"""

from __future__ import annotations

import argparse
from time import monotonic

from heaptop.cli.detach_report import DetachOutcome, report_outcomes
from heaptop.cli.options import screen_options
from heaptop.errors import HeaptopError, TargetExited
from heaptop.protocol.messages import Census, Message
from heaptop.protocol.source import (
    Attached,
    Behind,
    Deliver,
    Ended,
    Event,
    Received,
    Recordable,
    Source,
    TargetInfo,
    never_behind,
)
from heaptop.protocol.source_wrapper import SourceWrapper


def watched(source: Source, args: argparse.Namespace) -> WatchedSource:
    """It, to be shown, and recorded where the person wants it. Errors: RecordingExists, RecordingFailed."""
    from heaptop.recordings.recordable_source import RecordableSource

    taped = RecordableSource(source, max_size=args.max_size)
    if args.record:
        taped.begin_recording(args.record, force=args.force)
    return WatchedSource(taped)


class WatchedSource(SourceWrapper):
    """A source that passes everything on, and remembers whether a heap was counted and how it ended."""

    def __init__(self, source: Recordable) -> None:
        super().__init__(source)
        self._source = source
        self._attached: Attached | None = None
        self._since = self._until = 0.0
        self.counted = False
        self.ended: Ended | None = None

    @property
    def target(self) -> TargetInfo:
        """The best that is known of it: a program that heaptop starts has its pid only when the agent answers."""
        return self._attached.target if self._attached else self._source.target

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        def watch(event: Event) -> None:
            match event:
                case Received(Census()):
                    self.counted = True
                case Attached():
                    self._attached, self._since = event, monotonic()
                case Ended():
                    self.ended, self._until = event, monotonic()
            deliver(event)

        self._source.open(watch, behind)

    def begin_recording(self, path: str) -> None:
        self._source.begin_recording(path)

    def end_recording(self) -> None:
        self._source.end_recording()

    def note(self, message: Message) -> None:
        self._source.note(message)

    @property
    def parting(self) -> DetachOutcome | None:
        """How the target was left; None where heaptop was never in it."""
        if self._attached is None:
            return None
        until = self._until if self.ended is not None else monotonic()
        return DetachOutcome(self.target, until - self._since, self.ended, self._attached.rss_before)


def leave(*sources: WatchedSource, fate: str = "") -> None:
    """Detach from every target, and report that once the screen is gone; ``fate`` as for :func:`report_outcomes`."""
    for source in sources:
        source.close()
    report_outcomes([parting for source in sources if (parting := source.parting) is not None], fate)


def show(source: WatchedSource, args: argparse.Namespace, fate: str = "") -> None:
    """Run the front end on a source until the person quits, and leave the target as it was. Errors: :func:`check`.
    ``fate`` as for :func:`leave`."""
    from heaptop.tui.app import make_app

    try:
        error = make_app(source, **screen_options(args)).run()
    finally:
        leave(source, fate=fate)
    check(error, source)


def check(error: HeaptopError | None, *sources: WatchedSource) -> None:
    """Raise what a front end on these sources ended with.

    A target that ends while it is examined is no failure, so TargetExited is raised only where nothing was seen
    of it; every other error is raised too.
    """
    seen = any(source.counted for source in sources)
    if error is not None and not (isinstance(error, TargetExited) and seen):
        raise error
