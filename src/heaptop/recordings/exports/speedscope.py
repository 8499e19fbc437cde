"""speedscope's JSON (speedscope.app, ``file-format-spec.ts``): a sampled profile whose weights are bytes.

The samples of the profile are stacks, not moments.
"""

from __future__ import annotations

import json

from heaptop import __version__
from heaptop.analysis.reports.stack_sums import stack_sums
from heaptop.analysis.samples.producers import Frame
from heaptop.recordings.exports.material import Material
from heaptop.recordings.exports.stack_names import frame_name, one_line

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
"""The name by which its readers know the format; nothing is fetched from there."""


def speedscope(material: Material) -> bytes:
    """One profile of what was asked for, the largest stack first."""
    recorded, of = material.recorded, material.of
    numbers: dict[tuple[str, str, int], int] = {}
    frames: list[dict[str, object]] = []

    def number(frame: Frame) -> int:
        key = (frame.function, frame.file or frame.short, frame.line)
        if key not in numbers:
            numbers[key] = len(frames)
            said: dict[str, object] = {"name": frame_name(frame)}
            if frame.file:
                said["file"] = one_line(frame.file)
            if frame.line:
                said["line"] = frame.line
            frames.append(said)
        return numbers[key]

    sums = [one for one in stack_sums(recorded, most=material.most_text) if one.bytes(of)]
    profile = {
        "type": "sampled",
        "name": f"{recorded.name}: {of}",
        "unit": "bytes",
        "startValue": 0,
        "endValue": sum(one.bytes(of) for one in sums),
        "samples": [[number(frame) for frame in reversed(one.frames)] for one in sums],
        "weights": [one.bytes(of) for one in sums],
    }
    document = {
        "$schema": SCHEMA,
        "exporter": f"heaptop {__version__}",
        "name": recorded.name,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [profile],
    }
    return json.dumps(document).encode()
