"""``heaptop attach``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from heaptop.cli.options import add_screen_options, pid_of
from heaptop.cli.terminal import require_terminal

if TYPE_CHECKING:
    from heaptop.cli.several import ProcessGroup
    from heaptop.injector.processes import PythonProcess


class Attach:
    """Show the live heap of a running process, or of several processes in tabs with their sum.

    The process is not restarted and needs nothing installed. When you quit (key q), the agent is removed, and the
    process continues.

    With --children, or several PIDs, each process has a tab, and a first tab shows the sum of all. With --children a
    name may match several processes, if one of them started all others. heaptop attaches to one after the other, and
    --share limits the censuses of all of them together.

    heaptop attach 4711
    heaptop attach gunicorn --rate 8KiB --record night.heaptop
    heaptop attach --children gunicorn
    """

    name = "attach"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "targets", metavar="PID", nargs="+", help="a process id, or a name that matches exactly one Python process"
        )
        parser.add_argument(
            "--children",
            action="store_true",
            help="also attach to the Python processes that PID started, such as prefork workers; later ones get a "
            "tab, where Enter attaches",
        )
        add_screen_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        require_terminal(args, lambda: self._check(args))
        pids = _pids(args)
        if args.children or len(pids) > 1:
            from heaptop.cli.several import show_several

            show_several(self._group(pids, args), args)
        else:
            from heaptop.cli.opening import attach_live

            attach_live(pids[0], args)
        return 0

    def _check(self, args: argparse.Namespace) -> None:
        """Look at what is meant, and raise what stands in the way. Nothing is touched."""
        from heaptop.injector.inspect.preflight import check

        pids = _pids(args)
        if args.children or len(pids) > 1:
            self._group(pids, args)
        else:
            check(pids[0])

    @staticmethod
    def _group(pids: list[int], args: argparse.Namespace) -> ProcessGroup:
        from heaptop.cli.several import ProcessGroup
        from heaptop.injector.processes import described, family

        def look() -> list[PythonProcess]:
            found = [process for pid in pids for process in family(pid)]
            return list({process.pid: process for process in found}.values())

        first = look() if args.children else []
        return ProcessGroup(first or described(pids), args, look if args.children else None)


def _pids(args: argparse.Namespace) -> list[int]:
    return list(dict.fromkeys(pid_of(target, children=args.children) for target in args.targets))
