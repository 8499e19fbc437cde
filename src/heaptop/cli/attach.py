"""``heaptop attach``."""

from __future__ import annotations

import argparse

from heaptop.cli.options import add_screen_options, add_target, target_pid
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
        from heaptop.cli.opening import attach_live

        require_terminal()
        attach_live(target_pid(args), args)
        return 0
