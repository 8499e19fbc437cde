"""The colours: one :class:`Palette` a theme, each with a Textual theme for the frame and colours for the bands.

A palette is chosen by ``--theme``, by ``HEAPTOP_THEME``, by ``heaptop.toml``, or for one session in the command
palette; NO_COLOR overrides them all with :data:`MONO`, which has none. A test measures them: the contrast of text, of
bands and of the letters in them, and how far apart bands are for every kind of colour vision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from textual.theme import Theme

from heaptop.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False)
class Palette:
    """What one theme looks like."""

    name: str
    description: str
    theme: Theme
    bands: tuple[str, ...]
    """A colour a slot, as Rich names them; neighbours differ in hue and in lightness. As many as view 9 has rows."""
    rest: str
    ink: str  # Colour of a letter drawn into a band
    grown: str
    shrunk: str

    def band(self, slot: int) -> str:
        """The colour of a slot; slots beyond the last colour start over (their letters still differ)."""
        return self.rest if slot == REST_SLOT else self.bands[slot % len(self.bands)]


REST_SLOT: Final = 99  # The slot of everything that has no band of its own

DARK: Final = Palette(
    name="dark",
    description="Soft colours on a dark ground",
    theme=Theme(
        name="heaptop-dark",
        primary="#5aa2e0",
        secondary="#8391a6",
        accent="#f0a35e",
        warning="#e8c15a",
        error="#e5707a",
        success="#62c192",
        foreground="#d5dae2",
        background="#12161c",
        surface="#181d25",
        panel="#222934",
        dark=True,
        variables={"footer-key-foreground": "#f0a35e", "footer-background": "#181d25"},
    ),
    bands=(
        "#4f97d7", "#eda65a", "#53b08c", "#d76a74", "#9f86d6",
        "#d6c255", "#58bccb", "#d988bd", "#94b35a", "#b58a68", "#d63ccd",
    ),
    rest="#758092",
    ink="#10141a",
    grown="#eda65a",
    shrunk="#53b08c",
)  # fmt: skip

LIGHT: Final = Palette(
    name="light",
    description="Deeper colours on a light ground",
    theme=Theme(
        name="heaptop-light",
        primary="#2464a4",
        secondary="#5a6677",
        accent="#a24c1b",
        warning="#865d00",
        error="#b3303c",
        success="#1d724d",
        foreground="#1d232b",
        background="#fafaf7",
        surface="#f1f1ec",
        panel="#e4e4dd",
        dark=False,
        variables={"footer-key-foreground": "#a24c1b", "footer-background": "#f1f1ec"},
    ),
    bands=(
        "#3a78b8", "#af6112", "#2f8461", "#c44e59", "#7f62b8",
        "#8e730b", "#22818d", "#b85093", "#637e29", "#8f6a4c", "#2e27c9",
    ),
    rest="#6d7480",
    ink="#ffffff",
    grown="#a24c1b",
    shrunk="#1d724d",
)  # fmt: skip

COLOUR_BLIND: Final = Palette(
    name="colour-blind",
    description="Okabe and Ito's colours, distinguishable with any kind of colour vision",
    theme=Theme(
        name="heaptop-colour-blind",
        primary="#56b4e9",
        secondary="#8a93a0",
        accent="#e69f00",
        warning="#f0e442",
        error="#ed6900",
        success="#00a477",
        foreground="#dcdfe4",
        background="#111418",
        surface="#181c22",
        panel="#232932",
        dark=True,
        variables={"footer-key-foreground": "#e69f00", "footer-background": "#181c22"},
    ),
    bands=(
        "#007bc0", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
        "#f0e442", "#a4e490", "#75b44f", "#bf5a56", "#cce3bd",
    ),
    rest="#b2b2b2",
    ink="#000000",
    grown="#e69f00",
    shrunk="#56b4e9",
)  # fmt: skip

_ANSI_VARIABLES: Final = {
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "border-blurred": "ansi_bright_black",
    "block-cursor-foreground": "ansi_black",
    "block-cursor-background": "ansi_white",
    "input-cursor-background": "ansi_white",
    "input-cursor-foreground": "ansi_black",
    "input-cursor-text-style": "none",
    "input-selection-background": "ansi_bright_blue",
    "input-selection-foreground": "ansi_black",
    "screen-selection-background": "ansi_bright_blue",
    "screen-selection-foreground": "ansi_black",
}


def _ansi_theme(name: str, colours: str = "blue cyan yellow red green") -> Theme:
    """``colours``: of what is plain, quiet, to be noticed, wrong and well."""
    blue, cyan, yellow, red, green = (f"ansi_{colour}" for colour in colours.split())
    return Theme(
        name=name,
        primary=blue,
        secondary=cyan,
        warning=yellow,
        error=red,
        success=green,
        accent=yellow,
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        dark=True,
        ansi=True,
        variables=_ANSI_VARIABLES,
    )


ANSI: Final = Palette(
    name="ansi",
    description="The terminal's own 16 colours",
    theme=_ansi_theme("heaptop-ansi"),
    bands=(
        "bright_blue", "yellow", "green", "red", "magenta",
        "cyan", "bright_yellow", "bright_magenta", "bright_green", "bright_red", "bright_cyan",
    ),
    rest="bright_black",
    ink="black",
    grown="yellow",
    shrunk="green",
)  # fmt: skip

MONO: Final = Palette(
    name="mono",
    description="No colours at all: textures and letters",
    theme=_ansi_theme("heaptop-mono", "default default default default default"),
    bands=("default",),
    rest="default",
    ink="default",
    grown="default",
    shrunk="default",
)

PALETTES: Final[dict[str, Palette]] = {p.name: p for p in (DARK, LIGHT, ANSI, COLOUR_BLIND, MONO)}


def choose(name: str | None, environ: Mapping[str, str]) -> Palette:
    """The palette to start with. NO_COLOR (set and not empty) wins, then ``name``, then HEAPTOP_THEME.

    Raises:
        UsageError: there is no palette of that name.
    """
    if environ.get("NO_COLOR"):
        return MONO
    wanted = name or environ.get("HEAPTOP_THEME") or DARK.name
    if wanted not in PALETTES:
        raise UsageError(
            f"There is no theme called {wanted!r}.",
            why="A theme comes from --theme or from the environment variable HEAPTOP_THEME.",
            fix=f"Use one of: {', '.join(PALETTES)}.",
        )
    return PALETTES[wanted]
