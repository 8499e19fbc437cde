"""The whole of a recording above the footer: its heap, its jumps, and the moment that is shown. A click goes there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from heaptop.analysis.reports.jumps import Jump
from heaptop.analysis.text.recorded_times import RecordedSpan
from heaptop.analysis.text.units import format_bytes
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.course import column_of, heights, time_of
from heaptop.tui.charts.sparkline import sparkline
from heaptop.tui.state.messages import MomentChosen

LEFT: Final = 9
RIGHT: Final = 10  # Columns of the words beside the line


@dataclass(frozen=True)
class Course:
    """How a recording went, and which moment of it is shown."""

    heap: Sequence[tuple[int, int]]  # (time, bytes) of the live heap
    jumps: Sequence[Jump]
    span: RecordedSpan
    now_ns: int


def _write_legend(marks: list[str], *legends: str) -> None:
    """Explain the marks among them, as far right as there is room, by the first legend that has room."""
    for legend in legends:
        room = len(legend) + 4
        for begin in range(len(marks) - room, -1, -1):
            if marks[begin : begin + room] == [" "] * room:
                marks[begin + 2 : begin + room - 2] = legend
                return


class RecordingLine(Widget):
    """Two lines: the live heap from the first moment to the last, between its lowest and its highest, and below it the
    jumps and the times of the ends. What comes after the moment that is shown is dim."""

    DEFAULT_CSS = """
    RecordingLine { height: 2; background: $surface; }
    Screen.-low RecordingLine, Screen.paneled RecordingLine { display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._content: tuple[Course, ChartStyle] | None = None
        self._drags = False

    def show(self, course: Course, look: ChartStyle) -> None:
        if (course, look) != self._content:
            self._content = course, look
            self.refresh()

    @property
    def _width(self) -> int:
        return max(self.size.width - LEFT - RIGHT, 1)

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        if self._content is None:
            return Strip.blank(width, base)
        course, look = self._content
        segments = self._heap(course, look) if y == 0 else self._marks(course, look)
        return Strip(segments).apply_style(base).adjust_cell_length(width, base)

    def _heap(self, course: Course, look: ChartStyle) -> list[Segment]:
        span = course.span
        sizes = heights(course.heap, span.first_ns, span.last_ns, self._width)
        line = sparkline(sizes, self._width, ascii_only=look.ascii_only)
        at = self._column(course.now_ns, span)
        peak = format_bytes(max((size for _, size in course.heap), default=0))
        return [
            Segment(f"{' heap':{LEFT}}"),
            Segment(line[:at]),
            Segment("|" if look.ascii_only else "│", Style(reverse=True, bold=True)),
            Segment(line[at + 1 :], Style(dim=True)),
            Segment(f"{peak:>{RIGHT - 1}}"),
        ]

    def _marks(self, course: Course, look: ChartStyle) -> list[Segment]:
        span = course.span
        marks = [" "] * self._width
        for jump in course.jumps:
            marks[self._column(jump.end_ns, span)] = look.text("▲")
        lowest = format_bytes(min((size for _, size in course.heap), default=0))
        short = look.text("▲ jump, │ here")
        _write_legend(marks, f"(lowest {lowest}, {short})", f"({short})")
        begin, end = (span.clock(time, seconds=span.seconds < 600) for time in (span.first_ns, span.last_ns))
        dim = Style(dim=True)
        return [Segment(f"{f' {begin}':{LEFT}}", dim), Segment("".join(marks)), Segment(f"{end:>{RIGHT - 1}}", dim)]

    def _column(self, time_ns: int, span: RecordedSpan) -> int:
        return column_of(time_ns, span.first_ns, span.last_ns, self._width)

    # -- the mouse -------------------------------------------------------------------------------------------

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._drags = True
        self.capture_mouse()
        self._go_to(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._drags:
            self._go_to(event.x)

    def on_mouse_up(self) -> None:
        self._drags = False
        self.release_mouse()

    def _go_to(self, x: int) -> None:
        if self._content is not None:
            span = self._content[0].span
            self.post_message(MomentChosen(time_of(x - LEFT, span.first_ns, span.last_ns, self._width)))
