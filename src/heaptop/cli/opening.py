"""Shows what is about to be attached to, or started, at once, and loads all the rest behind the first frame.

This module never draws and never attaches: the front end and the source do.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from heaptop.cli.options import attach_options, screen_options

if TYPE_CHECKING:
    from heaptop.cli.live import WatchedSource

    Connect = Callable[[], WatchedSource]


def attach_live(pid: int, args: argparse.Namespace, connect: Connect | None = None, fate: str = "") -> None:
    """Run the front end on a process until the person quits, and leave it as it was. ``connect`` makes its source,
    behind the first frame; ``fate`` as for :func:`heaptop.cli.live.leave`.

    Raises:
        TargetError, RecordingExists, RecordingFailed: before there is a screen.
        HeaptopError: as :func:`heaptop.cli.live.check` has it.
    """
    from heaptop.injector.inspect.preflight import check

    seen = check(pid)
    known = OpeningFacts(pid, seen.facts.command, str(seen.interpreter.version), seen.facts.user)
    show_opened(known, connect or partial(_connected, pid, args), args, fate)


class OpeningFacts(NamedTuple):
    """The text of the first frame."""

    pid: int
    command: str
    python: str
    user: str
    note: str = ""


def show_opened(known: OpeningFacts, connects: Connect, args: argparse.Namespace, fate: str = "") -> None:
    """Run the front end on what ``connects`` makes, behind the first frame; what is recorded is made before it, so
    that an error is said in the terminal. Errors: as :func:`heaptop.cli.live.check` has it, and those of ``connects``.
    """
    made = [connects()] if args.record else []

    def connect() -> WatchedSource:
        if not made:
            made.append(connects())
        return made[0]

    from heaptop.tui.app import make_app
    from heaptop.tui.state.opening import Opening

    opening = Opening(*known[:4], connect, known.note)
    try:
        error = make_app(opening=opening, **screen_options(args)).run()
    finally:
        if made:
            from heaptop.cli.live import leave

            leave(*made, fate=fate)

    from heaptop.cli.live import check

    check(error, *made)


def _connected(pid: int, args: argparse.Namespace) -> WatchedSource:
    from heaptop.cli.live import watched
    from heaptop.injector.api import attach_source

    return watched(attach_source(pid, attach_options(args)), args)
