"""``heaptop`` alone."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from heaptop.cli.options import add_screen_options, attach_options, screen_options
from heaptop.cli.terminal import require_terminal
from heaptop.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from heaptop.cli.live import WatchedSource
    from heaptop.errors import HeaptopError
    from heaptop.injector.processes import PythonProcess
    from heaptop.protocol.source import ProcessRow
    from heaptop.tui.screens.several import Several


class Pick:
    """Choose a process from a list, and attach to it; the same as `heaptop` alone.

    heaptop pick --interval 2
    """

    name = "pick"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_screen_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.cli.commands.doctor import as_lines
        from heaptop.cli.live import check, leave, watched
        from heaptop.cli.several import ProcessGroup
        from heaptop.injector.api import attach_source, diagnose
        from heaptop.injector.processes import described, processes_and_refusals
        from heaptop.tui.app import make_app
        from heaptop.tui.screens.picker import Picker

        if args.record:
            raise UsageError(
                "No process to record is chosen yet.",
                fix="Name one: `heaptop attach PID --record FILE`; or press ctrl+r once you see it.",
            )
        require_terminal(args)
        opened: list[WatchedSource] = []
        last: list[WatchedSource] = []

        def connect(pid: int) -> WatchedSource:
            last[:] = [watched(attach_source(pid, attach_options(args)), args)]
            opened.extend(last)
            return last[0]

        def several(rows: Sequence[ProcessRow]) -> Several:
            group = ProcessGroup(described([row.pid for row in rows]), args)
            last[:] = group.sources
            opened.extend(last)
            return group.several

        def processes() -> list[ProcessRow]:
            return [_row(process, error) for process, error in processes_and_refusals()]

        def doctor(pid: int) -> str:
            return "\n".join(as_lines(diagnose(pid)))

        try:
            picker = Picker(processes, connect, several, doctor)
            error = make_app(picker=picker, **screen_options(args)).run()
        finally:
            leave(*opened)
        check(error, *last)
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
        parent=process.parent,
        created=process.created,
    )
