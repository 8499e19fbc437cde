"""One suspect in full: its lines, and the stack that its objects were allocated with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from heaptop.analysis.samples.producers import Frame, stacks_at
from heaptop.protocol.findings import Suspect
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.state.hunting import CheckResult
from heaptop.tui.state.session import Display
from heaptop.tui.state.source_lines import SourceLines
from heaptop.tui.views.leaks.hunting_sheets import SuspectLine, page_lines

StackLines = Sequence[tuple[Frame, str]]  # Frames with their lines of source


class SuspectStacks:
    """Stacks of suspects, of which the last one is kept: its source was read from files."""

    def __init__(self, read: Callable[[int, str], bytes]) -> None:
        """``read``: a file as the process with this pid sees it."""
        self._read = read
        self._known: tuple[Suspect, StackLines] | None = None

    def of(self, suspect: Suspect, now: Display) -> StackLines:
        """Empty where it is not known here."""
        if self._known is None or self._known[0] is not suspect:
            self._known = suspect, self._find(suspect, now)
        return self._known[1]

    def _find(self, suspect: Suspect, now: Display) -> StackLines:
        samples, sampling, target = now.samples, now.sampling, now.target
        is_recorded = now.shown is not None  # its pid may be another's by now
        if samples is None or sampling is None or target is None or not suspect.stack or is_recorded:
            return ()
        source = SourceLines(partial(self._read, target.pid))
        for stack in stacks_at(samples, sampling.sites, suspect.site):
            frames = sampling.sites.frames(stack)
            if tuple(frame.label for frame in frames)[: len(suspect.stack)] == suspect.stack:
                return [(frame, source.line(frame.file, frame.line)) for frame in frames]
        return ()


def suspect_page(
    suspect: Suspect, found: CheckResult, frames: StackLines, now: Display, width: int, look: ChartStyle
) -> list[SuspectLine]:
    """All lines about a suspect of a check."""
    return page_lines(
        *(suspect, found.findings, width, look, frames, _why_closed(found, now)),
        least=not found.until,
        is_recorded=now.shown is not None,
    )


def _why_closed(found: CheckResult, now: Display) -> str:
    """Why objects that were found cannot be examined; empty where they can."""
    client = now.client
    if client is not None and client.is_open and client.image is not None and client.image.image == found.image:
        return ""
    if now.shown is not None:
        return "a recording has no single objects"
    return "the snapshot with these objects is closed; d checks again"
