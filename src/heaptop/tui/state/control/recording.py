"""The recording of a session: its key, and its status."""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import TYPE_CHECKING

from heaptop.analysis.text.recorded_times import file_name
from heaptop.analysis.text.units import format_bytes
from heaptop.errors import HeaptopError
from heaptop.protocol.source import Recordable, RecordingStatus

if TYPE_CHECKING:
    from heaptop.tui.state.control.live_state import LiveState

UNRECORDABLE = "this session cannot be recorded"


def recording_notice(before: RecordingStatus | None, now: RecordingStatus | None) -> str:
    """What a person has to know; empty where all continues as it was."""
    if now is None or now is before:
        return ""
    if now.error:
        return f"the recording {now.path} ended: {now.error}"
    if not now.on:
        return f"recorded: {now.path}, {format_bytes(now.bytes)}"
    if before is None or not before.on or before.path != now.path:
        return f"recording into {now.path}"
    if now.thinned and not before.thinned:
        return "the recording reached its size limit: older ticks are dropped from now on"
    return ""


def recording_text(recording_status: RecordingStatus | None) -> str:
    """``● rec 1.2 MiB``; empty where nothing is recorded now."""
    return (
        f"● rec {format_bytes(recording_status.bytes)}" if recording_status is not None and recording_status.on else ""
    )


class RecordingControl:
    """Begins and ends a recording of the session."""

    def __init__(self, live: LiveState, clock: Callable[[], float] = time) -> None:
        self._live = live
        self._clock = clock

    def action_record(self) -> str | None:
        """Record from now on, into a new file in the current directory; or end that."""
        live, source = self._live, self._live.source
        if not isinstance(source, Recordable):
            live.status.show_notice(UNRECORDABLE)
        elif live.session.recording_status is not None and live.session.recording_status.on:
            source.end_recording()
        elif live.unavailable:
            return live.unavailable
        else:
            try:
                source.begin_recording(file_name(live.session.target.pid, self._clock()))
            except HeaptopError as error:
                live.status.show_notice(error.message)
        return None
