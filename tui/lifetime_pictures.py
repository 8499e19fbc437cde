"""View 6 in words and pictures: curves of survival and mortality, bands and ages over time, and what is said of each.

This module never touches a widget: it makes rows of a raster, and texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from heaptop.census.clock import size_label
from heaptop.census.generations import LifetimeBand, LifetimeChart
from heaptop.census.lifetime_table import LifetimeTable
from heaptop.census.survival import Point, Survival
from heaptop.census.units import format_count, format_duration_ns
from heaptop.tui import curves, heat
from heaptop.tui.curves import Curve, Scale
from heaptop.tui.look import Look, letter_of
from heaptop.tui.marks import about_bytes
from heaptop.tui.raster import EMPTY, INK, Run, Series
from heaptop.tui.widgets.virtual_table import clip


@dataclass(frozen=True, slots=True)
class BandRow:
    """A band by lifetime, in numbers."""

    band: LifetimeBand
    slot: int
    mean: float
    """Bytes alive, on average over the chart."""
    share: float
    """Of that mean."""


# -- words ---------------------------------------------------------------------------------------------------


def percent(point: Point) -> str:
    """``43 35–51``: the survival in per cent, and its 95 % interval."""
    return f"{point.object_survival * 100:.0f} {point.low * 100:.0f}–{point.high * 100:.0f}"


def band_name(band: LifetimeBand) -> str:
    return f"lived {band.label}" if band.fate == "died" else band.label


def said(figures: LifetimeTable, key: tuple[str, str] | None, number: int, *, wide: bool) -> str:
    """One line on one curve."""
    group = figures.group(key)
    known = None if group.few else figures.figures(key)
    counted = f"{format_count(group.deaths)} dead, {format_count(group.alive)} alive"
    name = group.name if wide or len(group.name) < 24 else clip(group.name, 24, keep_tail=True)
    if known is None:
        return f"{name}: {counted}: too few samples to say how long they live"
    median = known.median if known.median is not None else known.oldest
    took = figures.time_ns(median)
    time = f" (≈ {format_duration_ns(took)})" if took is not None else ""
    half = "half lives beyond" if known.median is not None else "more than half outlives"
    return f"{name}: {counted}, {half} ≈{size_label(median)}{time}"


def text_line(number: int, text: str, width: int, look: Look) -> list[Run]:
    letter = letter_of(number)
    return [Run(f" {letter} ", INK, number), Run(" " + look.text(clip(text, max(width - 4, 0))), EMPTY, EMPTY)]


def shape(heights: tuple[float, ...], look: Look) -> str:
    """A curve from 1 to 0 as a row of blocks, not to its own scale."""
    marks = "_.-=+*#@" if look.ascii_only else "▁▂▃▄▅▆▇█"
    return "".join(marks[round(height * (len(marks) - 1))] for height in heights)


# -- pictures ------------------------------------------------------------------------------------------------

_AGE_TICKS: Final = tuple((float(10**power), size_label(10**power)) for power in range(16))
_PERCENTS: Final = tuple((part / 100, f"{part}%") for part in (0, 25, 50, 75, 100))
_RATES: Final = tuple((10.0**power, f"{10.0**power:g}") for power in range(-9, 7))
_DECADES: Final = 4
"""Of mortality, at most: what is smaller by more is nearly nothing."""


def draw_curves(
    drawn: list[tuple[int, Survival]], variant: int, look: Look, width: int, height: int
) -> list[list[Run]]:
    """Survival over a logarithmic axis of ages, or a mortality over both axes logarithmic."""
    lines = [_curve(number, curve, variant) for number, curve in drawn]
    places = [at for line in lines for at, _ in line.points if at > 0]
    if not places:
        return []
    x = curves.log_scale(min(places), max(places), _AGE_TICKS)
    y = Scale(0.0, 1.0, _PERCENTS)
    if variant:
        heights = [value for line in lines for _, value in line.points if value > 0]
        if not heights:
            return []
        y = curves.log_scale(max(min(heights), max(heights) / 10**_DECADES), max(heights), _RATES)
    return curves.picture(lines, x, y, width, height, look.ink)


def _curve(number: int, curve: Survival, variant: int) -> Curve:
    letter = letter_of(number)
    if variant == 0:
        points = [(point.age, point.object_survival) for point in curve.points]
        return Curve(points, number, letter, [(point.age, point.low, point.high) for point in curve.points])
    if variant == 1:
        points = [(point.age, point.object_mortality * _MB) for point in curve.mortality]
        return Curve(
            points, number, letter, [(point.age, point.low * _MB, point.high * _MB) for point in curve.mortality]
        )
    risen = [(point.age, point.nursery_mortality * _MB) for point in curve.points if point.nursery_mortality > 0]
    return Curve(risen, number, letter)


_MB: Final = 10**6


def draw_ages(matrix: list[list[int]], latest: int, look: Look, width: int, height: int) -> list[list[Run]]:
    """Living bytes by time (in allocated bytes) and age."""
    if not matrix:
        return []
    return heat.picture(
        matrix, _clock_scale(latest, width // 12), _clock_scale(latest, max(height // 3, 3)), width, height, look.ink
    )


def _clock_scale(latest: int, ticks: int) -> Scale:
    """From 0 to the clock, labelled in round allocated bytes."""
    raw = latest / max(ticks, 1)
    power = 10 ** max(len(str(int(raw))) - 1, 0)
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= raw)
    return Scale(0.0, float(latest), tuple((float(at), size_label(at)) for at in range(0, latest + 1, step)))


def band_rows(chart: LifetimeChart) -> list[BandRow]:
    """The bands that hold anything, the first at the top of the table and of the chart."""
    bands = [band for band in chart.bands if any(band.bytes)]
    means = [sum(band.bytes) / len(band.bytes) for band in bands]
    whole = sum(means) or 1.0
    return [BandRow(band, slot, mean, mean / whole) for slot, (band, mean) in enumerate(zip(bands, means, strict=True))]


def band_series(chart: LifetimeChart, rows: list[BandRow]) -> Series:
    upwards = rows[::-1]
    return Series(
        times=[time / 1e9 for time in chart.times_ns],
        values=[row.band.bytes for row in upwards],
        slots=[row.slot for row in upwards],
        letters=[letter_of(row.slot) for row in upwards],
    )


def bands_said(rows: list[BandRow], group: tuple[str, str] | None) -> str:
    if not rows:
        return ""
    longest = max(rows, key=lambda row: row.share)
    name = "the whole" if group is None else clip(group[1], 30, keep_tail=True)
    alive = sum(row.band.bytes[-1] for row in rows if row.band.fate == "living")
    return f" {name}: {about_bytes(alive)} lives now; on average ≈{longest.share:.0%} is {band_name(longest.band)}"
