"""Attaches live to a process that is there: looks at it, shows that at once, and loads all the rest behind the first
frame.

This module never draws and never attaches: the front end and the source do.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from heaptop.cli.options import attach_options, screen_options

if TYPE_CHECKING:
    from heaptop.cli.live import WatchedSource


def attach_live(pid: int, args: argparse.Namespace) -> None:
    """Run the front end on a process until the person quits, and leave it as it was.

    Raises:
        TargetError, RecordingExists, RecordingFailed: before there is a screen.
        HeaptopError: as :func:`heaptop.cli.live.check` has it.
    """
    from heaptop.injector.preflight import look

    seen = look(pid)
    made = [_connected(pid, args)] if args.record else []

    def connect() -> WatchedSource:
        if not made:
            made.append(_connected(pid, args))
        return made[0]

    from heaptop.tui.app import make_app
    from heaptop.tui.opening import Opening

    opening = Opening(pid, seen.facts.command, str(seen.interpreter.version), seen.facts.user, connect)
    try:
        error = make_app(opening=opening, **screen_options(args)).run()
    finally:
        if made:
            from heaptop.cli.live import leave

            leave(*made)

    from heaptop.cli.live import check

    check(error, *made)


def _connected(pid: int, args: argparse.Namespace) -> WatchedSource:
    from heaptop.cli.live import watched
    from heaptop.injector.api import attach_source

    return watched(attach_source(pid, attach_options(args)), args)
