"""The palettes: text that can be read, bands that can be told apart, also by who sees some colours alike.

Contrast is WCAG 2's; colours as others see them are by Machado, Oliveira and Fernandes (2009), at full severity;
differences are CIE 1976, of which 2 or 3 can just be seen.
"""

from __future__ import annotations

from itertools import combinations

import pytest

from heaptop.analysis.rss.memory import NAMES as NAMES_OF_USES
from heaptop.tui.charts.palette import ANSI, COLOUR_BLIND, DARK, LIGHT, MONO, PALETTES, REST_SLOT, Palette
from heaptop.tui.views.memory.memory_tables import slots

RGB = tuple[float, float, float]
EXACT = pytest.mark.parametrize("palette", [DARK, LIGHT, COLOUR_BLIND], ids=lambda palette: palette.name)
"""Palettes whose colours are heaptop's; those of the others are the terminal's."""
TEXT, SHAPE = 4.5, 3.0
"""The least contrast of words, and of what is seen as a shape."""
GROUNDS = ("background", "surface", "panel")

SEEN = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without red": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998),
    ),
    "without green": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881),
    ),
    "without blue": (
        (1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900),
    ),
}  # fmt: skip
XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
WHITE = (0.95047, 1.0, 1.08883)


def linear(colour: str) -> RGB:
    def channel(at: int) -> float:
        value = int(colour[at : at + 2], 16) / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return channel(1), channel(3), channel(5)


def times(matrix: tuple[tuple[float, ...], ...], colour: RGB) -> RGB:
    x, y, z = (sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)
    return x, y, z


def contrast(one: str, other: str) -> float:
    dark, light = sorted(times(XYZ, linear(colour))[1] for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def difference(one: str, other: str, seen: str) -> float:
    def lab(colour: str) -> RGB:
        red, green, blue = (min(1.0, max(0.0, value)) for value in times(SEEN[seen], linear(colour)))
        ratios = (value / white for value, white in zip(times(XYZ, (red, green, blue)), WHITE, strict=True))
        x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in ratios)
        return 116 * y - 16, 500 * (x - y), 200 * (y - z)

    return sum((a - b) ** 2 for a, b in zip(lab(one), lab(other), strict=True)) ** 0.5


def test_the_measures_are_right() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21, abs=0.01)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert difference("#000000", "#ffffff", "all colours") == pytest.approx(100, abs=0.1)
    assert difference("#ff0000", "#00ff00", "all colours") == pytest.approx(170.6, abs=0.5)
    assert difference("#c05000", "#708000", "without green") < 20 < difference("#c05000", "#708000", "all colours")


@EXACT
@pytest.mark.parametrize("ground", GROUNDS)
def test_words_can_be_read_on_every_ground(palette: Palette, ground: str) -> None:
    theme = palette.theme
    on = getattr(theme, ground)
    names = ("foreground", "secondary", "accent", "warning", "error", "success")
    tones = {name: getattr(theme, name) for name in names}
    tones |= {"grown": palette.grown, "shrunk": palette.shrunk}
    assert {name: contrast(colour, on) for name, colour in tones.items() if contrast(colour, on) < TEXT} == {}


@EXACT
def test_axes_can_be_read(palette: Palette) -> None:
    assert contrast(palette.rest, palette.theme.background) >= TEXT


@EXACT
def test_bands_stand_out_and_so_do_the_letters_in_them(palette: Palette) -> None:
    for band in (*palette.bands, palette.rest):
        assert contrast(band, palette.theme.background) >= SHAPE, band
        assert contrast(palette.ink, band) >= TEXT, band


@pytest.mark.parametrize("palette", [DARK, LIGHT, COLOUR_BLIND, ANSI], ids=lambda palette: palette.name)
def test_no_two_uses_of_resident_memory_share_a_colour(palette: Palette) -> None:
    assert len({palette.band(slot) for slot in slots("use").values()}) == len(NAMES_OF_USES)


@EXACT
def test_no_two_bands_look_alike(palette: Palette) -> None:
    for one, other in combinations((*palette.bands, palette.rest), 2):
        assert difference(one, other, "all colours") >= 20, (one, other)


@pytest.mark.parametrize("seen", SEEN)
def test_colour_blind_readers_tell_all_bands_apart(seen: str) -> None:
    for one, other in combinations((*COLOUR_BLIND.bands, COLOUR_BLIND.rest), 2):
        assert difference(one, other, seen) >= 10, (one, other)
    assert difference(COLOUR_BLIND.grown, COLOUR_BLIND.shrunk, seen) >= 20


NAMES = {"default"} | {
    bright + name
    for bright in ("", "bright_")
    for name in ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
}


def test_ansi_has_the_terminals_own_colours_only() -> None:
    colours = (*ANSI.bands, ANSI.rest, ANSI.ink, ANSI.grown, ANSI.shrunk)
    assert set(colours) <= NAMES - {"default"}
    assert len({*ANSI.bands, ANSI.rest}) == len(ANSI.bands) + 1
    theme = ANSI.theme
    own = (theme.primary, theme.secondary, theme.warning, theme.error, theme.success, theme.accent, theme.foreground)
    assert {str(colour).removeprefix("ansi_") for colour in own} <= NAMES
    assert theme.background == theme.surface == theme.panel == "ansi_default"


def test_mono_has_no_colour() -> None:
    assert {*MONO.bands, MONO.rest, MONO.ink, MONO.grown, MONO.shrunk} == {"default"}
    theme = MONO.theme
    tones = {theme.primary, theme.secondary, theme.warning, theme.error, theme.success, theme.accent, theme.foreground}
    assert tones == {theme.background, theme.surface, theme.panel} == {"ansi_default"}


def test_slots_beyond_the_last_colour_begin_anew() -> None:
    for palette in PALETTES.values():
        assert palette.band(len(palette.bands)) == palette.bands[0]
        assert palette.band(REST_SLOT) == palette.rest
