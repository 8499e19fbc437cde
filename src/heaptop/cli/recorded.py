"""What the commands that read a recording find in it: the moment that was typed, its course, its jumps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from heaptop.analysis.reports.census_timeline import CensusTimeline, spread
from heaptop.analysis.reports.jumps import Jump, RecordedJump, counted_ns, jumps, largest
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.source import Received
from heaptop.recordings.reader import Recording, naming_file
from heaptop.recordings.replay_to import replay_to, span_of
from heaptop.watching.progress import ProgressReport

JUMPS: Final = 3  # How many are reported, the largest: each takes some seeks
LATE: Final = 64
"""Moments at most by which one looks further: a census is recorded once it was taken, on a busy machine many seconds
later."""
NEARLY: Final = 0.8  # Of a jump: it is in one half of its time where that has so much of it
SITES: Final = 30  # Moments at which it is looked who had allocated what lives: each is a seek


def moment_of(recording: Recording, text: str | None) -> int | None:
    """What was typed for a moment, on the target's clock; None for the end.

    Raises:
        UsageError: it is no time, or none of this recording.
    """
    return None if text is None else span_of(recording).moment(text)


def course_of(
    recording: Recording, recorded: Recorded, user_code: Sequence[str], progress: ProgressReport
) -> CensusTimeline:
    """How it went up to the moment that it was played to, with who had allocated what lived."""
    course = CensusTimeline.of(recorded)
    times = spread([time for time in recording.moments if time <= recorded.time_ns], SITES)
    for done, time in enumerate(times, 1):
        progress.show(f"reading the recording: moment {done} of {len(times)}")
        course.add_sites(_sampled(recording, time, user_code))
    progress.clear()
    return course


def jumps_of(
    recording: Recording, recorded: Recorded, course: CensusTimeline, user_code: Sequence[str], progress: ProgressReport
) -> list[RecordedJump]:
    """The largest jumps up to the moment it was played to, each as closely as the recording knows it."""
    ticked = [(tick.time_ns, tick.rss) for tick in recorded.history.ticks if tick.rss is not None]
    heap = [(point.time_ns, point.total.bytes) for point in course.points]
    found = largest(jumps(heap, ticked), JUMPS)
    told = []
    for done, jump in enumerate(found, 1):
        progress.show(f"reading the recording: jump {done} of {len(found)}")
        told.append(_closer(recording, jump, user_code))
    progress.clear()
    return told


def _closer(recording: Recording, jump: Jump, user_code: Sequence[str]) -> RecordedJump:
    """The shortest part of the jump that has nearly all of it, with what was sampled in that time."""
    closest = _halved(recording, jump, user_code)
    if jump.is_rss:
        return closest
    # A census is known some ticks after it was taken. What was sampled meanwhile is of the jump, too.
    counted = bisect_right(recording.moments, closest.begin_ns) - 1
    early = replay_to(recording, recording.moments[max(counted, 0)], user_code)
    return RecordedJump(replace(closest.before, sampling=early.sampling, shown=early.shown), closest.after)


def _halved(recording: Recording, jump: Jump, user_code: Sequence[str]) -> RecordedJump:
    """Halve the time of the jump, as long as one half has nearly all of it."""
    moments = recording.moments
    first = max(bisect_right(moments, jump.begin_ns) - 1, 0)
    last = min(bisect_left(moments, jump.end_ns), len(moments) - 1)
    closest = RecordedJump(*(replay_to(recording, moments[place], user_code) for place in (first, last)))
    if jump.is_rss:
        return closest
    if closest.end_ns < jump.end_ns:
        last = _first_showing(jump.end_ns, recording, last, len(moments) - 1)
    if closest.begin_ns < jump.begin_ns:
        first = min(_first_showing(jump.begin_ns, recording, first, last), last - 1)
    closest = RecordedJump(*(replay_to(recording, moments[place], user_code) for place in (first, last)))
    while last - first > 1:
        middle = (first + last) // 2
        between = replay_to(recording, moments[middle], user_code)
        early, late = RecordedJump(closest.before, between), RecordedJump(between, closest.after)
        half = max(early, late, key=lambda part: part.bytes)
        if half.bytes < NEARLY * closest.bytes:
            break
        first, last = (first, middle) if half is early else (middle, last)
        closest = half
    return closest


def _first_showing(time_ns: int, recording: Recording, begin: int, end: int) -> int:
    """Return the first of these moments that has the census of that time, or the last of them."""
    seen_ns = lambda moment: counted_ns(replay_to(recording, moment, ()))  # noqa: E731
    return bisect_left(recording.moments, time_ns, begin, min(begin + LATE, end), key=seen_ns)


def _sampled(recording: Recording, until: int, user_code: Sequence[str]) -> Sampling:
    sampling = Sampling(user_code)
    with naming_file(recording.path):
        for event in recording.events(until):
            if isinstance(event, Received):
                sampling.feed(event.message)
    return sampling
