"""Plays a recording to a moment: what was known then, and what is missing from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from heaptop.analysis.reports.recorded import Recorded, gaps
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.recorded_times import RecordedSpan
from heaptop.analysis.text.units import format_duration_ns
from heaptop.protocol.text import printable
from heaptop.recordings.reader import Recording, naming_file

GAPS: Final = 5  # Gaps that are listed one by one


def span_of(recording: Recording) -> RecordedSpan:
    """From when to when it goes."""
    return RecordedSpan(recording.first_ns, recording.last_ns, recording.wall(recording.first_ns))


def replay_to(recording: Recording, until: int | None, user_code: Sequence[str]) -> Recorded:
    """What was known at a moment; None for the end."""
    recorded = Recorded(printable(Path(recording.path).name), notices(recording), sampling=Sampling(user_code))
    with naming_file(recording.path):
        for event in recording.events(until):
            recorded.feed(event)
    return recorded


def notices(recording: Recording) -> tuple[str, ...]:
    """What of it is damaged, left out, or was never recorded: sentences without their full stops."""
    said = list(recording.damage)
    if recording.thinned:
        said.append("older ticks were dropped during recording, to stay below its size limit")
        return tuple(said)
    span, found = span_of(recording), gaps(recording.moments)
    for begin, end in found[:GAPS]:
        lasted = format_duration_ns(end - begin)
        said.append(f"nothing was recorded from {span.clock(begin)} to {span.clock(end)} ({lasted})")
    if len(found) > GAPS:
        said.append(f"{len(found) - GAPS} more gaps")
    return tuple(said)
