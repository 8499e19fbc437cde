"""Bands over time as one SVG element: a stacked area, an axis of bytes, an axis of the time of day.

Colours are in the picture, lines and text go by the page's style.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Final

from heaptop.analysis.bands.bands import BandChart
from heaptop.analysis.text.recorded_times import RecordedSpan
from heaptop.analysis.text.units import format_bytes
from heaptop.recordings.exports.stack_names import one_line

COLOURS: Final = (
    "#5aa9e6", "#f2a65a", "#7bc47f", "#e57373", "#b39ddb", "#d4b483", "#f48fb1", "#4db6ac", "#dce775", "#ff8a65",
    "#c2c6cc",
)  # fmt: skip
"""Of bands from the bottom; the last one is *other*. Letters tell them apart too."""

_WIDTH, _HEIGHT = 1000, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 10, 24
_HOUR_NS: Final = 3_600_000_000_000  # From so long a time on, the times of day have no seconds
_TALL: Final = 14.0  # A band that is as tall as this somewhere has its letter there


def band_picture(chart: BandChart, span: RecordedSpan, title: str) -> str:
    """The element. The chart has two times or more, which rise."""
    first, last = chart.times_ns[0], chart.times_ns[-1]
    most = max((total.bytes for total in chart.totals), default=0) or 1

    def x(time_ns: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (time_ns - first) / (last - first)

    def y(size: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * size / most

    across = [x(time) for time in chart.times_ns]
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">']
    below = [0] * len(across)
    for place, band in enumerate(chart.bands):
        above = [low + size for low, size in zip(below, band.bytes, strict=True)]
        upper, lower = [y(size) for size in above], [y(size) for size in below]
        colour = COLOURS[-1 if band.is_rest else place % (len(COLOURS) - 1)]
        name = escape(one_line(band.name))
        path = _area(across, upper, lower)
        parts.append(
            f'<path d="{path}" fill="{colour}"><title>{name}, at last {format_bytes(band.bytes[-1])}</title></path>'
        )
        parts += _letter("~" if band.is_rest else chr(ord("A") + place), across, upper, lower)
        below = above
    for size in _ticks(most):
        height = y(size)
        parts.append(f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{format_bytes(size)}</text>')
    for step in range(7):
        time = first + (last - first) * step // 6
        anchor = "start" if step == 0 else "end" if step == 6 else "middle"
        words = span.clock(time, seconds=last - first < _HOUR_NS)
        parts.append(f'<text x="{x(time):.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{words}</text>')
    return "".join([*parts, "</svg>"])


def _ticks(most: int) -> range:
    """Round sizes from 0 up to that, five at most above 0."""
    steps = (part * 1024**power for power in range(7) for part in (1, 2, 5, 10, 20, 50, 100, 200, 500))
    return range(0, most + 1, next(step for step in steps if most <= 5 * step))


def _area(across: Sequence[float], upper: Sequence[float], lower: Sequence[float]) -> str:
    there = " ".join(f"L{at:.1f} {height:.1f}" for at, height in zip(across, upper, strict=True))
    back = " ".join(f"L{at:.1f} {height:.1f}" for at, height in reversed(list(zip(across, lower, strict=True))))
    return f"M{there[1:]} {back}Z"


def _letter(letter: str, across: Sequence[float], upper: Sequence[float], lower: Sequence[float]) -> list[str]:
    """Where the band is tallest between its neighbours, and not at an end of the picture."""
    tallest, at, height = 0.0, 0.0, 0.0
    for (a, b), (top_a, top_b), (low_a, low_b) in zip(pairwise(across), pairwise(upper), pairwise(lower), strict=True):
        tall = min(low_a, low_b) - max(top_a, top_b)
        if tall > tallest and across[0] + _TALL < (a + b) / 2 < across[-1] - _TALL:
            tallest, at, height = tall, (a + b) / 2, (min(low_a, low_b) + max(top_a, top_b)) / 2
    if tallest < _TALL:
        return []
    style = 'style="fill:#111" text-anchor="middle" pointer-events="none"'
    return [f'<text x="{at:.1f}" y="{height + 4:.1f}" {style}>{letter}</text>']
