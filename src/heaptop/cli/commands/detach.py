"""``heaptop detach``."""

from __future__ import annotations

import argparse

from heaptop.cli.options import add_target, target_pid
from heaptop.cli.terminal import notice


class Detach:
    """Remove an agent that was left behind.

    The agent exits when its socket closes, also when heaptop is killed. Use this for a heaptop that hangs or is
    stopped, and so keeps the socket open.

    heaptop detach 4711
    """

    name = "detach"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.injector.api import remove_agent

        notice(remove_agent(target_pid(args)))
        return 0
