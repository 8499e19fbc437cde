"""pprof's profile (github.com/google/pprof, ``proto/profile.proto``), gzipped, with the sample types of Go's heap
profiles: ``go tool pprof -sample_index=inuse_space FILE``.

Each sample has the label ``type``, so that ``-tagfocus`` takes the objects of one type. Locations have none.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.reports.stack_sums import LIVE, MOST_TEXT, StackSum, stack_sums
from heaptop.analysis.samples.producers import Frame
from heaptop.analysis.samples.sampling import NEVER_SAMPLED
from heaptop.recordings.exports.material import Material
from heaptop.recordings.exports.protobuf import block, number, packed
from heaptop.recordings.exports.stack_names import one_line

# Fields of profile.proto, by message.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 4, 5, 6
_TIME_NANOS, _DURATION_NANOS, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT_TYPE = 9, 10, 11, 12, 13, 14
_VALUE_TYPE_NAME, _VALUE_TYPE_UNIT = 1, 2
_SAMPLE_LOCATIONS, _SAMPLE_VALUES, _SAMPLE_LABEL = 1, 2, 3
_LABEL_KEY, _LABEL_TEXT = 1, 2
_LOCATION_ID, _LOCATION_LINE = 1, 4
_LINE_FUNCTION, _LINE_NUMBER = 1, 2
_FUNCTION_ID, _FUNCTION_NAME, _FUNCTION_FILE = 1, 2, 4

_ALLOCATED: Final = (("alloc_objects", "count"), ("alloc_space", "bytes"))
_IN_USE: Final = (("inuse_objects", "count"), ("inuse_space", "bytes"))
NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class _Tables:
    """Texts, functions and locations, each once, with their numbers."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {"": 0}  # the format wants the empty one first
        self.functions: dict[tuple[str, str], int] = {}
        self.locations: dict[tuple[int, int], int] = {}

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def location(self, frame: Frame) -> int:
        name = one_line(frame.function) if frame.function else one_line(frame.short)
        function = self.functions.setdefault((name, frame.file and one_line(frame.file)), len(self.functions) + 1)
        return self.locations.setdefault((function, frame.line), len(self.locations) + 1)

    def encoded(self) -> bytes:
        out = []
        for (function, line), id in self.locations.items():
            at = number(_LINE_FUNCTION, function) + number(_LINE_NUMBER, line)
            out.append(block(_LOCATION, number(_LOCATION_ID, id) + block(_LOCATION_LINE, at)))
        for (name, file), id in self.functions.items():
            # Without a system name: pprof would take <module> and <lambda> out of it, as C++ templates.
            named = number(_FUNCTION_ID, id) + number(_FUNCTION_NAME, self.text(name))
            out.append(block(_FUNCTION, named + number(_FUNCTION_FILE, self.text(file))))
        out += [block(_STRINGS, text.encode()) for text in self.texts]
        return b"".join(out)


def pprof(material: Material) -> bytes:
    """The profile; it opens with the sample type that was asked for."""
    recorded = material.recorded
    profile = ProfileWriter(flows=not recorded.sampling.samples.only_live)
    profile.add(recorded, most_text=material.most_text)
    shown = recorded.shown
    if shown is None:
        return profile.content(material.of)
    begin = int(recorded.wall(shown.first_ns) * 1e9)
    return profile.content(material.of, begin, shown.time_ns - shown.first_ns)


class ProfileWriter:
    """A profile of one process, or of several that are added one after another."""

    def __init__(self, *, flows: bool, typed: bool = True) -> None:
        """``flows``: with what was allocated too; it is 0 for a process of which only what lives is known. ``typed``:
        with the label ``type``."""
        self._flows = flows
        self._typed = typed
        self._tables = _Tables()
        self._samples: list[bytes] = []
        self._notices = dict.fromkeys(("heaptop: figures are estimated from samples", f"not sampled: {NEVER_SAMPLED}"))
        self._interval = 0

    def add(
        self,
        recorded: Recorded,
        labels: Mapping[str, str] = NO_LABELS,
        most_text: int = MOST_TEXT,
        *,
        older: bool = True,
        change: Callable[[Sequence[StackSum]], Sequence[StackSum]] | None = None,
    ) -> int:
        """All stacks of a process, each with these labels; returns how many characters they take, written out.
        ``older``: as :func:`stack_sums` takes it. ``change`` makes of these stacks what is written.

        Raises:
            RecordingTooLarge: written out they would take more than ``most_text`` characters.
        """
        samples = recorded.sampling.samples
        sums: Sequence[StackSum] = stack_sums(recorded, older=older, most=most_text)
        if change is not None:
            sums = change(sums)
        self._samples += [block(_SAMPLE, self._sample(one, labels)) for one in sums]
        self._notices.update(dict.fromkeys(recorded.notices))
        if self._flows and samples.only_live:
            self._notices[f"{recorded.name}: what was allocated is not known"] = None
        if not self._interval and samples.state is not None:
            self._interval = samples.state.interval
        return sum(one.text for one in sums)

    def add_notice(self, text: str) -> None:
        """Add a comment, such as what is missing."""
        self._notices[text] = None

    def content(self, of: str, begin_ns: int = 0, duration_ns: int = 0) -> bytes:
        """The file. ``begin_ns`` is in nanoseconds since 1970."""
        text = self._tables.text
        types = (*_ALLOCATED, *_IN_USE) if self._flows else _IN_USE
        parts = [block(_SAMPLE_TYPE, self._value_type(*one)) for one in types]
        parts += self._samples
        parts.append(number(_DEFAULT_TYPE, text("inuse_space" if of == LIVE else "alloc_space")))
        parts += [number(_TIME_NANOS, begin_ns), number(_DURATION_NANOS, duration_ns)]
        parts += [number(_COMMENT, text(one_line(notice))) for notice in self._notices]
        if self._interval:
            parts += [block(_PERIOD_TYPE, self._value_type("space", "bytes")), number(_PERIOD, self._interval)]
        # Texts are numbered while all else is written, so their table comes last. Without a time in gzip's header the
        # same recording gives the same file.
        return gzip.compress(b"".join([*parts, self._tables.encoded()]), mtime=0)

    def _value_type(self, name: str, unit: str) -> bytes:
        return number(_VALUE_TYPE_NAME, self._tables.text(name)) + number(
            _VALUE_TYPE_UNIT, self._tables.text(unit)
        )

    def _sample(self, one: StackSum, labels: Mapping[str, str]) -> bytes:
        tables = self._tables
        in_use = (one.live_count, one.live_bytes)
        values = (one.allocated_count, one.allocated_bytes, *in_use) if self._flows else in_use
        locations = [tables.location(frame) for frame in one.frames]
        out = packed(_SAMPLE_LOCATIONS, locations) + packed(_SAMPLE_VALUES, values)
        named = {**labels, "type": one.type.full} if one.type is not None and self._typed else labels
        for key, value in named.items():
            label = number(_LABEL_KEY, tables.text(key)) + number(_LABEL_TEXT, tables.text(one_line(value)))
            out += block(_SAMPLE_LABEL, label)
        return out
