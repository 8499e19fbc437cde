"""Makes the sources of several processes, and shows them: what `attach` with several PIDs, `--children` and the picker
have in common. This module never draws and never attaches: the front end and the sources do.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from heaptop.cli.live import WatchedSource, check, leave, watched
from heaptop.cli.options import attach_options, screen_options
from heaptop.errors import HeaptopError, UsageError
from heaptop.protocol.deferred import DeferredSource
from heaptop.protocol.source import Source, TargetInfo

if TYPE_CHECKING:
    from heaptop.injector.processes import PythonProcess
    from heaptop.tui.screens.several import FamilyChanges, MemberProcess, Several


class ProcessGroup:
    """Several processes on one screen, and what became of them."""

    def __init__(
        self,
        first: Sequence[PythonProcess],
        args: argparse.Namespace,
        look: Callable[[], Sequence[PythonProcess]] | None = None,
    ) -> None:
        """``look``: where others may come, all that are there now.

        Raises:
            HeaptopError: none of them can be attached to, and that is why the first cannot; nothing was touched.
        """
        if args.record:
            raise UsageError(
                "A recording has one process, but these are several.",
                fix="Leave `--record` out, and press ctrl+r in the tab of the process to record.",
            )
        self._args = args
        self._look = look
        self._known = {(process.pid, process.created) for process in first}
        self._share = len(first)
        refusals = [error for process in first if (error := self._refusal(process.pid)) is not None]
        if len(refusals) == len(first):
            raise refusals[0]
        self.sources: list[WatchedSource] = []
        self._members = [self._member(process, asked=True) for process in first]
        self._title = first[0].command

    @property
    def several(self) -> Several:
        """What the front end shows."""
        from heaptop.tui.screens.several import Several

        return Several(self._title, self._members, self._changes if self._look is not None else None)

    def _changes(self) -> FamilyChanges:
        from heaptop.tui.screens.several import FamilyChanges

        assert self._look is not None
        there = self._look()
        new = [process for process in there if (process.pid, process.created) not in self._known]
        self._known |= {(process.pid, process.created) for process in new}
        members = [self._member(process, asked=False) for process in new]
        return FamilyChanges(members, frozenset(process.pid for process in there))

    def _member(self, process: PythonProcess, *, asked: bool) -> MemberProcess:
        from heaptop.injector.processes import names
        from heaptop.tui.screens.several import MemberProcess

        late = DeferredSource(
            TargetInfo(process.pid, process.command, process.python, process.user), lambda: self._attach(process.pid)
        )
        source = watched(late, self._args)
        self.sources.append(source)
        return MemberProcess(source, late, min(names(process.argv), key=len, default=""), asked)

    def _refusal(self, pid: int) -> HeaptopError | None:
        """What is known from outside."""
        try:
            self._attach(pid)
        except HeaptopError as error:
            return error
        return None

    def _attach(self, pid: int) -> Source:
        from heaptop.injector.api import attach_source

        # The cost of counting is reported for all of them together.
        return attach_source(pid, attach_options(self._args, max_share=self._args.share / self._share))


def show_several(group: ProcessGroup, args: argparse.Namespace) -> None:
    """Run the front end until the person quits, and leave every process as it was."""
    from heaptop.tui.app import make_app

    try:
        error = make_app(several=group.several, **screen_options(args)).run()
    finally:
        leave(*group.sources)
    check(error, *group.sources)
