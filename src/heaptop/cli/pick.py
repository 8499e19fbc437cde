"""``heaptop`` alone."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from heaptop.cli.options import add_screen_options, attach_options, screen_options
from heaptop.cli.terminal import require_terminal
from heaptop.errors import UsageError

if TYPE_CHECKING:
    from heaptop.errors import HeaptopError
    from heaptop.injector.processes import PythonProcess
    from heaptop.protocol.source import ProcessRow


class Pick:
    """Choose a process from a list, and attach to it: what `heaptop` alone does.

    heaptop pick --interval 2
    """

    name = "pick"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_screen_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.cli.live import WatchedSource, check, watched
        from heaptop.injector.api import attach_source
        from heaptop.injector.processes import processes_and_refusals
        from heaptop.tui.app import make_app
        from heaptop.tui.picker import Picker

        if args.record:
            raise UsageError(
                "There is no process yet to record.",
                fix="Name one: `heaptop attach PID --record FILE`; or press ctrl+r once you see it.",
            )
        require_terminal()
        opened: list[WatchedSource] = []

        def connect(pid: int) -> WatchedSource:
            opened.append(watched(attach_source(pid, attach_options(args)), args))
            return opened[-1]

        def processes() -> list[ProcessRow]:
            return [_row(process, error) for process, error in processes_and_refusals()]

        try:
            picker = Picker(processes, connect)
            error = make_app(picker=picker, **screen_options(args)).run()
        finally:
            for source in opened:
                source.close()
                source.say_what_stays()
        check(error, opened[-1] if opened else None)
        return 0


def _row(process: PythonProcess, error: HeaptopError | None) -> ProcessRow:
    from heaptop.protocol.source import ProcessRow

    return ProcessRow(
        pid=process.pid,
        user=process.user,
        version=process.python,
        rss=process.rss,
        command=process.command,
        attachable=error is None,
        reason=error.message.rstrip(".") if error else "",
    )
