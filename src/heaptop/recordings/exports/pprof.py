"""pprof's profile (github.com/google/pprof, ``proto/profile.proto``), gzipped, with the sample types of Go's heap
profiles: ``go tool pprof -sample_index=inuse_space FILE``.

Each sample has the label ``type``, so that ``-tagfocus`` takes the objects of one type. This module never invents an
address: locations have none.
"""

from __future__ import annotations

import gzip
from typing import Final

from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.reports.stack_sums import LIVE, StackSum, stack_sums
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
_FUNCTION_ID, _FUNCTION_NAME, _FUNCTION_SYSTEM_NAME, _FUNCTION_FILE = 1, 2, 3, 4

_ALLOCATED: Final = (("alloc_objects", "count"), ("alloc_space", "bytes"))
_IN_USE: Final = (("inuse_objects", "count"), ("inuse_space", "bytes"))


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
            named = number(_FUNCTION_NAME, self.text(name)) + number(_FUNCTION_SYSTEM_NAME, self.text(name))
            out.append(block(_FUNCTION, number(_FUNCTION_ID, id) + named + number(_FUNCTION_FILE, self.text(file))))
        out += [block(_STRINGS, text.encode()) for text in self.texts]
        return b"".join(out)


def pprof(material: Material) -> bytes:
    """The profile; it opens with the sample type that was asked for."""
    recorded = material.recorded
    samples = recorded.sampling.samples
    tables = _Tables()

    def value_type(name: str, unit: str) -> bytes:
        return number(_VALUE_TYPE_NAME, tables.text(name)) + number(_VALUE_TYPE_UNIT, tables.text(unit))

    flows = not samples.only_live
    types = (*_ALLOCATED, *_IN_USE) if flows else _IN_USE
    parts = [block(_SAMPLE_TYPE, value_type(*one)) for one in types]
    sums = stack_sums(recorded, most=material.most_text)
    parts += [block(_SAMPLE, _sample(one, tables, flows)) for one in sums]
    parts += _about(recorded, material.of, tables)
    if samples.state is not None and samples.state.interval:
        parts += [block(_PERIOD_TYPE, value_type("space", "bytes")), number(_PERIOD, samples.state.interval)]
    # Texts are numbered while all else is written, so their table comes last. Without a time in gzip's header the
    # same recording gives the same file.
    return gzip.compress(b"".join([*parts, tables.encoded()]), mtime=0)


def _sample(one: StackSum, tables: _Tables, flows: bool) -> bytes:
    in_use = (one.live_count, one.live_bytes)
    values = (one.allocated_count, one.allocated_bytes, *in_use) if flows else in_use
    out = packed(_SAMPLE_LOCATIONS, [tables.location(frame) for frame in one.frames]) + packed(_SAMPLE_VALUES, values)
    if one.type is not None:
        named = number(_LABEL_KEY, tables.text("type")) + number(_LABEL_TEXT, tables.text(one_line(one.type.full)))
        out += block(_SAMPLE_LABEL, named)
    return out


def _about(recorded: Recorded, of: str, tables: _Tables) -> list[bytes]:
    """Of when it is, what it opens with, and what a reader should know."""
    shown = recorded.shown
    parts = [number(_DEFAULT_TYPE, tables.text("inuse_space" if of == LIVE else "alloc_space"))]
    notices = ["heaptop: figures are estimated from samples", f"not sampled: {NEVER_SAMPLED}", *recorded.notices]
    if shown is not None:
        begin = int(recorded.wall(shown.first_ns) * 1e9)
        parts += [number(_TIME_NANOS, begin), number(_DURATION_NANOS, shown.time_ns - shown.first_ns)]
    return [*parts, *(number(_COMMENT, tables.text(one_line(notice))) for notice in notices)]
