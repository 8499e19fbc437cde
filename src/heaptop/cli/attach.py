"""``heaptop attach``."""

from __future__ import annotations

import argparse

from heaptop.cli.options import add_screen_options, add_target, attach_options, target_pid
from heaptop.cli.terminal import require_terminal


class Attach:
    """Show the heap of a running process, live.

    The process is not restarted, needs nothing installed, and is left as it was when you quit (key q).

    heaptop attach 4711
    heaptop attach gunicorn --rate 8KiB --record night.heaptop
    """

    name = "attach"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target(parser)
        add_screen_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.cli.live import show, watched
        from heaptop.injector.api import attach_source

        require_terminal()
        show(watched(attach_source(target_pid(args), attach_options(args)), args), args)
        return 0
