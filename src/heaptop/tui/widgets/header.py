"""The two lines at the top: which process, how it is, and what looking at it costs.

What is shown is made by :func:`identity` and :func:`figures`, which are pure.
"""

from __future__ import annotations

from typing import Final

from heaptop.analysis.text.recorded_times import RecordedSpan
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns
from heaptop.protocol.dumped import VALUES
from heaptop.protocol.source import Forecast, HeapFile
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.state.control.recording import recording_text
from heaptop.tui.state.sampling_words import is_traced, rate_text
from heaptop.tui.state.session import AttachPhase, AttachSession, Display
from heaptop.tui.widgets.top_lines import Field, TopLines

SILENT_AFTER: Final = 4.0  # Seconds of silence after which the screen reports it; ticks come every second


def state(session: AttachSession, leaving: bool, held: int | None) -> tuple[str, str]:
    """The word for the session's state, and its tone. ``held`` counts the censuses behind a held display."""
    if session.shown is not None:
        span, now = RecordedSpan.of(session.shown), session.shown.time_ns
        return f"recording · {span.clock(now)} of {span.short}", "warn"
    if leaving:
        return "detaching…", "warn"
    if held is not None:
        waiting = f" · {held} waiting" if held else ""
        return f"‖ paused{waiting}", "warn"
    if session.company is not None and not session.company.live and session.history.records:
        return "○ all ended", "bad"
    if session.target.file is not None and session.phase is AttachPhase.LIVE:
        return _file_words(session.target.file), "warn"
    return {
        AttachPhase.WAITING: ("○ reading" if session.is_dump or session.path else "○ attaching", "warn"),
        AttachPhase.LIVE: ("● live", "good"),
        AttachPhase.EXITED: ("○ exited", "bad"),
        AttachPhase.ENDED: ("○ detached", "warn"),
        AttachPhase.FAILED: ("○ not attached" if session.attached is None else "○ agent lost", "bad"),
    }[session.phase]


def _file_words(file: HeapFile) -> str:
    """``heap dump · redacted``: what is looked at, and what is known of values in it but their lengths."""
    nothing, _, everything = VALUES
    values = {nothing: "no lengths", everything: "with values"}.get(file.values, "")
    return " · ".join(part for part in (file.what, "redacted" if file.redacted else "", values) if part)


def identity(session: AttachSession, leaving: bool, held: int | None) -> list[Field]:
    """The target, and the session's state; the command line takes what room is left."""
    target = session.target
    word, tone = state(session, leaving, held)
    way_in = session.attached.backend if session.attached and not session.is_dump else ""
    backend = f"via {way_in}" if way_in else ""
    fields = [
        Field(9, "", "heaptop", "name"),
        _who(session),
        Field(5, "", target.command, "command"),
        Field(6, "Python", target.python),
        Field(3, "", backend, "quiet"),
        Field(10, "", word, tone),
    ]
    return [field for field in fields if field.value]


def _who(session: AttachSession) -> Field:
    company = session.company
    if company is None:
        return Field(9, "pid", str(session.target.pid or ""))
    return Field(9, "", f"{company.live} of {company.known} processes")


def flags(session: AttachSession, display: Display) -> list[Field]:
    """What the screen must admit: a census that failed, is cut short, or guesses sizes; a target that is silent."""
    found = []
    if session.notice:
        found.append(Field(10, "census failed:", session.notice, "bad"))
    latest = display.latest
    silence = session.silence
    if silence >= SILENT_AFTER:
        found.append(Field(10, "", f"no answer for {silence:.0f} s", "warn"))
    if latest is not None and not latest.census.complete:
        found += [Field(10, "", "*partial*", "warn"), Field(8, "", latest.census.cut)]
    if latest is not None and latest.census.sizeof_guessed:
        guessed = f"{format_count(latest.census.sizeof_guessed)} sizes guessed"
        found += [Field(3, "", "*estimated*", "warn"), Field(2, "", guessed)]
    return [field for field in found if field.value]


def _seconds(nanoseconds: int) -> str:
    seconds = nanoseconds / 1e9
    return f"{round(seconds, 1):g} s" if seconds < 9.95 else f"{seconds:.0f} s"


def figures(session: AttachSession, display: Display) -> list[Field]:
    """How the process is, and what the look at it costs."""
    fields: list[Field] = []
    latest, tick = display.latest, display.tick
    if latest is not None:
        total = latest.total
        exact = latest.census.exact and session.company is None  # a sum is of several moments
        fields += [
            Field(10, "heap", ("" if exact else "≈") + format_bytes(total.bytes), "strong"),
            Field(2, "in", f"{format_count(total.count)} objects"),
        ]
    if tick is not None and tick.rss is not None:
        shared = "" if session.company is None else " (shared pages in each)"
        fields.append(Field(9, "RSS", format_bytes(tick.rss) + shared))
    fields += flags(session, display)
    if session.target.file is not None:
        return fields + _of_file(session.target.file, display)
    if latest is None and session.forecast is not None and session.phase is AttachPhase.LIVE:
        fields += foreseen(session.forecast)
    if latest is not None:
        if session.paced is not None and session.paced.is_throttled and session.phase is AttachPhase.LIVE:
            fields.append(Field(7, "throttled to", _seconds(int(session.paced.interval * 1e9)), "warn"))
        elif display.interval_ns is not None:
            fields.append(Field(4, "every", _seconds(display.interval_ns)))
        fields.append(Field(7, "pause", format_duration_ns(latest.census.pause_ns)))
    fields += sampled(session, display)
    if recording := recording_text(session.recording_status):
        fields.append(Field(9, "", recording, "bad"))
    if display.cpu_share is not None:
        fields.append(Field(6, "agent", f"{display.cpu_share:.1%}"))
    if latest is not None:
        fields.append(Field(1, "census", f"{display.censuses} in {format_duration_ns(latest.census.duration_ns)}"))
        fields.append(Field(8, "mode", latest.census.mode))
    return fields


def _of_file(file: HeapFile, display: Display) -> list[Field]:
    """What is not known of its heap; it was not paused for it, and nothing is counted again."""
    latest = display.latest
    if not file.opaque or latest is None:
        return []
    return [Field(9, "opaque", f"{format_bytes(file.opaque)} ({file.opaque / max(latest.total.bytes, 1):.1%})", "warn")]


def sampled(session: AttachSession, display: Display) -> list[Field]:
    """How allocations are sampled, once anybody asked for it."""
    state = session.sampling.state
    if state is None or session.phase is not AttachPhase.LIVE:
        return []
    if not state.on:
        return [Field(8, "", "not sampled", "warn")] if state.text else [Field(8, "sampling", "off")]
    if is_traced(state):
        return [Field(8, "", "tracemalloc on", "warn")]
    lost = display.samples.dropped if display.samples is not None else 0
    per_second = session.sampling.samples_per_second
    figures = [f"1/{rate_text(state.interval)}"]
    if per_second is not None:  # first is the one that is fixed, for there may be room for no more
        figures.insert(0 if state.target else 1, f"{format_count(round(per_second))}/s")
    fields = [Field(8, "sampling", figures[0]), *(Field(5, "", figure) for figure in figures[1:])]
    return [*fields, Field(9, "", f"{format_count(lost)} samples lost", "warn")] if lost else fields


def foreseen(forecast: Forecast) -> list[Field]:
    """What the first census will cost, while there is none."""
    fields = [Field(9, "first census: predicted pause", format_duration_ns(forecast.pause_ns))]
    if forecast.anonymous:
        fields.append(Field(5, "huge pages", f"{forecast.huge / forecast.anonymous:.0%}"))
    return fields


class Header(TopLines):
    """The lines of a session."""

    def show(
        self, session: AttachSession, display: Display, look: ChartStyle, *, leaving: bool, held: int | None
    ) -> None:
        self.show_fields(identity(session, leaving, held), figures(session, display), look)
