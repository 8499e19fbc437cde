"""View 6 in words and pictures: curves of survival and mortality, bands and ages over time, and words about each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, log10
from typing import Final

from heaptop.analysis.lifetimes.lifetime_table import MARKS, LifetimeTable
from heaptop.analysis.samples.clock import size_label
from heaptop.analysis.samples.generations import LifetimeBand, LifetimeChart
from heaptop.analysis.samples.survival import MortalityPoint, Survival, SurvivalPoint
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns
from heaptop.tui.charts import curves, heat
from heaptop.tui.charts.chart_style import ChartStyle, letter_of
from heaptop.tui.charts.curves import Curve, Scale
from heaptop.tui.charts.marks import about_bytes
from heaptop.tui.charts.raster import AXIS, EMPTY, INK, ChartBands, StyleRun
from heaptop.tui.text import clip


@dataclass(frozen=True, slots=True)
class BandRow:
    """A band by lifetime, in numbers."""

    band: LifetimeBand
    slot: int
    mean: float  # Bytes alive, on average over the chart
    share: float  # Of that mean


# -- words ---------------------------------------------------------------------------------------------------


def percent(point: SurvivalPoint) -> str:
    """``43 35–51``: the survival in per cent, and its 95 % interval."""
    return f"{point.object_survival * 100:.0f} {point.low * 100:.0f}–{point.high * 100:.0f}"


def band_name(band: LifetimeBand) -> str:
    return f"lived {band.label}" if band.fate == "died" else band.label


def curve_lines(
    figures: LifetimeTable, keys: Sequence[tuple[str, str] | None], variant: int, width: int, look: ChartStyle
) -> list[list[StyleRun]]:
    """The curves that are drawn, in figures: a heading, and a line for each under its letter."""
    wide = width >= 120
    whole = figures.survival(keys[0], mortality=variant == 1) if variant else None
    ages = MARKS if whole is None else round_ages(whole, variant)
    titles = [(f"{'at ' if variant else '% ≥'}{size_label(age)}", 10) for age in ages]
    columns = [("Dead", 7), ("Live", 7), ("≈Median", 8), *([("≈Time", 8)] if wide else []), *titles]
    room = max(width - 5 - sum(size + 1 for _, size in columns), 8)
    heading = "".join(f" {title:>{size}}" for title, size in columns)
    lines = [[StyleRun(look.text(f"     {'Curve':<{room}}{heading}")[:width], AXIS, EMPTY)]]
    for number, key in enumerate(keys):
        group = figures.group(key)
        name = clip(group.name, room, keep_tail=True).ljust(room)
        cells = [format_count(group.deaths), format_count(group.alive)]
        if (known := None if group.few else figures.figures(key)) is None:
            cells.append("too few samples for lifetimes")
        else:
            median, sign = (known.oldest, ">") if known.median is None else (known.median, "")
            took = figures.time_ns(median)
            cells.append(sign + size_label(median))
            if wide:
                cells.append(sign + format_duration_ns(took) if took is not None else "")
            curve = figures.survival(key, mortality=variant == 1) if variant else None
            if variant:
                cells += [_rate_at(curve, variant, age) for age in ages]
            else:
                cells += [percent(point) if point is not None else "-" for point in known.marks]
        text = "".join(f" {cell:>{size}}" for cell, (_, size) in zip(cells, columns, strict=False))
        letter = StyleRun(f" {letter_of(number)} ", INK, number)
        lines.append([letter, StyleRun(look.text(f"  {name}{text}")[: max(width - 3, 0)], EMPTY, EMPTY)])
    return lines


def round_ages(curve: Survival, variant: int) -> tuple[int, ...]:
    """Three ages to say a mortality at: evenly over those that it is drawn at, each 1, 2 or 5 of its power of ten."""
    points = curve.mortality if variant == 1 else [point for point in curve.points if point.nursery_mortality > 0]
    if not points:
        return MARKS
    first, last = log10(points[0].age), log10(points[-1].age)
    found = []
    for quarter in (1, 2, 3):
        whole, part = divmod(first + (last - first) * quarter / 4, 1)
        found.append(round(max(step for step in (1, 2, 5) if log10(step) <= part + 1e-9) * 10**whole))
    return tuple(dict.fromkeys(found))


def _rate_at(curve: Survival | None, variant: int, age: float) -> str:
    """A mortality as it is drawn, per megabyte, at one age; - where the curve does not go there."""
    rate = None
    if curve is not None and variant == 1:
        rate = mortality_at(curve.mortality, age)
    elif curve is not None and (point := curve.at(age)) is not None:
        rate = point.nursery_mortality
    if rate is None:
        return "-"
    return f"{rate * _MB:.2g}" if not 0 < rate * _MB < _NEARLY_NOTHING else f"<{_NEARLY_NOTHING:g}"


def mortality_at(points: Sequence[MortalityPoint], age: float) -> float | None:
    """Between two points on a straight line of both logarithms, as it is drawn; None beside them."""
    place = bisect_left(points, age, key=lambda point: point.age)
    if place == len(points) or (not place and points[0].age != age):
        return None
    right = points[place]
    if right.age == age:
        return right.object_mortality
    left = points[place - 1]
    if left.object_mortality <= 0 or right.object_mortality <= 0:
        return None
    share = log(age / left.age) / log(right.age / left.age)
    return float(left.object_mortality * (right.object_mortality / left.object_mortality) ** share)


def shape(heights: tuple[float, ...], look: ChartStyle) -> str:
    """A curve from 1 to 0 as a row of blocks, not to its own scale."""
    marks = "_.-=+*#@" if look.ascii_only else "▁▂▃▄▅▆▇█"
    return "".join(marks[round(height * (len(marks) - 1))] for height in heights)


# -- pictures ------------------------------------------------------------------------------------------------

_AGE_TICKS: Final = tuple((float(10**power), size_label(10**power)) for power in range(16))
_PERCENTS: Final = tuple((part / 100, f"{part}%") for part in (0, 25, 50, 75, 100))
_RATES: Final = tuple((10.0**power, f"{10.0**power:g}") for power in range(-9, 7))
_NEARLY_NOTHING: Final = 0.0001
"""Of what has come to an age, the part that dies within a megabyte: smaller ones are not distinguished."""
_DECADES: Final = 4  # Of mortality, at most: what is smaller by more is nearly nothing


def draw_curves(
    drawn: list[tuple[int, Survival]], variant: int, look: ChartStyle, width: int, height: int
) -> list[list[StyleRun]]:
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
        least = max(heights) / 10**_DECADES
        y = curves.log_scale(max(min(heights), least), max(heights), _RATES)
        if min(heights) < y.low:  # what is smaller is drawn there too
            ticks = [(at, look.text(f"≤{label}") if at == y.low else label) for at, label in y.ticks]
            y = replace(y, ticks=tuple(ticks))
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


def draw_ages(matrix: list[list[int]], latest: int, look: ChartStyle, width: int, height: int) -> list[list[StyleRun]]:
    """Living bytes by time (in allocated bytes) and age."""
    if not matrix:
        return []
    x, y = _clock_scale(latest, width // 12), _clock_scale(latest, max(height // 3, 3))
    if height < 8:
        return heat.picture(matrix, x, y, width, height, look.ink)
    shades = heat.shades(matrix, y, width, height - 1, look.ink)
    legend = " shades up to: " + "  ".join(f"{shade} {format_bytes(round(most))}" for shade, most in shades)
    return [*heat.picture(matrix, x, y, width, height - 1, look.ink), [StyleRun(legend[:width], AXIS, EMPTY)]]


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


def band_series(chart: LifetimeChart, rows: list[BandRow]) -> ChartBands:
    upwards = rows[::-1]
    return ChartBands(
        times=[time / 1e9 for time in chart.times_ns],
        values=[row.band.bytes for row in upwards],
        slots=[row.slot for row in upwards],
        letters=[letter_of(row.slot) for row in upwards],
    )


def bands_text(rows: list[BandRow], group: tuple[str, str] | None) -> str:
    if not rows:
        return ""
    longest = max(rows, key=lambda row: row.share)
    name = "total" if group is None else clip(group[1], 30, keep_tail=True)
    alive = sum(row.band.bytes[-1] for row in rows if row.band.fate == "living")
    return f" {name}: {about_bytes(alive)} live now; most on average: {band_name(longest.band)} (≈{longest.share:.0%})"
