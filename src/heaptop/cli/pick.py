"""``heaptop`` alone."""

from __future__ import annotations

import argparse

from heaptop.cli.attach import attach_and_show
from heaptop.cli.options import add_screen_options


class Pick:
    """Choose a process from a list, and attach to it: what `heaptop` alone does."""

    name = "pick"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_screen_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.tui.picker import pick_process

        pid = pick_process(ascii=args.ascii, theme=args.theme)
        if pid is not None:
            attach_and_show(pid, args)
        return 0
