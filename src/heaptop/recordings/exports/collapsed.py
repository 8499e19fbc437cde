"""Collapsed stacks: a line each, outermost frame first, and bytes: ``main (app.py:14);views (views.py:88) 81920``.

As Brendan Gregg's ``stackcollapse`` scripts write them, for flamegraph.pl, inferno, speedscope and others. The format
has no place for how sure a figure is.
"""

from __future__ import annotations

from collections import Counter

from heaptop.analysis.reports.stack_sums import stack_sums
from heaptop.recordings.exports.material import Material
from heaptop.recordings.exports.stack_names import frame_name


def collapsed(material: Material) -> bytes:
    """The lines, the most bytes first."""
    lines: Counter[str] = Counter()
    for one in stack_sums(material.recorded, most=material.most_text):
        # a semicolon ends a frame
        names = [frame_name(frame).replace(";", ":") for frame in reversed(one.frames)]
        lines[";".join(names)] += one.bytes(material.of)
    found = sorted(lines.items(), key=lambda line: (-line[1], line[0]))
    return "".join(f"{stack} {size}\n" for stack, size in found if size).encode()
