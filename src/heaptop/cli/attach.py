"""``heaptop attach``."""

from __future__ import annotations

import argparse

from heaptop.cli.live import WatchedSource, show
from heaptop.cli.options import add_screen_options, add_target, attach_options, target_pid


class Attach:
    """Show the heap of a running process, live.

    The process is not restarted, needs nothing installed, and is left as it was when you quit (key q).
    """

    name = "attach"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target(parser)
        add_screen_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        attach_and_show(target_pid(args), args)
        return 0


def attach_and_show(pid: int, args: argparse.Namespace) -> None:
    """The live front end on a running process, until the person quits."""
    from heaptop.injector.api import attach_source

    show(WatchedSource(attach_source(pid, attach_options(args))), args)
