"""The pure parts of the widgets: sparklines, bars, clipped texts, header fields, letters, themes, the inbox."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.bands.bands import bands
from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.heap.history import Cell, History
from heaptop.errors import UsageError
from heaptop.protocol.messages import CensusRequest, Failure, TickRequest, TypeName
from heaptop.protocol.source import Attached, Ended, Received, TargetInfo, Waiting
from heaptop.tui.charts.palette import ANSI, COLOUR_BLIND, DARK, LIGHT, MONO, PALETTES, choose
from heaptop.tui.charts.sparkline import meter, sparkline
from heaptop.tui.state.drill import Level, exact_term, into
from heaptop.tui.state.inbox import Inbox
from heaptop.tui.state.session import AttachSession, Display
from heaptop.tui.state.sheet import CellText, change_title
from heaptop.tui.text import clip
from heaptop.tui.views.bands.view import BandLetters, band_series
from heaptop.tui.widgets.header import SILENT_AFTER, figures, flags
from heaptop.tui.widgets.top_lines import Field, fitting
from tests.fakes.source import FakeAgent
from tests.tui.support import on_stage

TARGET = TargetInfo(pid=1, command="python shop.py", python="3.12.1", user="alice")

# -- sparklines and bars -------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 2**60), max_size=40), st.integers(0, 30), st.booleans())
def test_a_sparkline_has_its_width(values: list[int], width: int, ascii_only: bool) -> None:
    text = sparkline(values, width, ascii_only=ascii_only)
    assert len(text) == width
    assert not ascii_only or text.isascii()


def test_a_sparkline_shows_the_shape_of_the_last_values() -> None:
    assert sparkline([9, 9, 0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5], 4) == "  ▁▁"
    assert sparkline([0, 0], 4) == "  ▁▁"
    assert sparkline([1_000_000, 1_000_024, 1_000_000, 1_000_048], 4) == "▁▁▁▁", "a few bytes are no rise"
    assert sparkline([1_000_000, 1_005_000], 2) == "▁▄", "half a percent is half as high"
    assert sparkline([1_000_000, 1_010_200], 2) == "▁█"
    assert sparkline([], 3) == "   "


@given(st.floats(-1, 2, allow_nan=False), st.integers(0, 60), st.booleans())
def test_a_bar_has_its_width(share: float, width: int, ascii_only: bool) -> None:
    assert len(meter(share, width, ascii_only=ascii_only)) == width


def test_a_bar_fills_its_share_of_the_width() -> None:
    assert meter(0.5, 4) == "██  "
    assert meter(0.53, 4) == "██▏ "
    assert meter(1, 3) == "███"
    assert meter(0.5, 4, ascii_only=True) == "##  "


# -- texts ---------------------------------------------------------------------------------------------------


@given(st.text(max_size=30), st.integers(0, 40), st.integers(-50, 50), st.booleans())
def test_a_clipped_text_fits(text: str, width: int, shift: int, keep_tail: bool) -> None:
    shown = clip(text, width, shift=shift, keep_tail=keep_tail)
    assert len(shown) <= width
    assert len(text) > width or shown == text


@given(st.text(max_size=30), st.lists(st.text(max_size=20), max_size=3), st.integers(0, 8), st.integers(0, 40))
def test_a_text_is_cut_to_the_longest_piece_that_fits(text: str, shorter: list[str], indent: int, width: int) -> None:
    shown = CellText(text, shorter=tuple(shorter), indent=indent).fit(width, keep_tail=False)
    assert len(shown) <= width
    fitting = [each for each in [text, *shorter] if len(each) <= width]
    assert not fitting or any(shown.startswith(each) for each in fitting)


def test_a_piece_leaves_out_what_is_said_elsewhere_first_and_keeps_its_end() -> None:
    first = "    ▾ closure of app.deliver: envelope"
    piece = CellText(f"{first} · app.py:4  Envelope", shorter=(f"{first}  Envelope", first), indent=6)
    assert piece.fit(60, keep_tail=False) == piece.text
    assert piece.fit(50, keep_tail=False) == f"{first}  Envelope"
    assert piece.fit(47, keep_tail=False) == f"{first}  Envelo…"
    assert piece.fit(40, keep_tail=False) == first
    assert piece.fit(32, keep_tail=False) == "    ▾ closure …deliver: envelope"
    assert piece.fit(8, keep_tail=False) == "    ▾ c…"


def test_clipped_texts_say_where_they_are_cut() -> None:
    assert clip("shop.models.Session", 10) == "shop.mode…"
    assert clip("shop.models.Session", 10, keep_tail=True) == "…s.Session"
    assert clip("shop.models.Session", 10, shift=5) == "…odels.Se…"
    assert clip("shop.models.Session", 10, shift=-99, keep_tail=True) == "shop.mode…"


FIELDS = [Field(9, "pid", "4242"), Field(1, "in", "10 objects"), Field(5, "", "live")]


@given(st.integers(0, 60))
def test_header_fields_fit_and_the_least_important_go_first(width: int) -> None:
    kept = fitting(FIELDS, width)
    assert sum(field.width for field in kept) + 2 * max(0, len(kept) - 1) <= width
    dropped = [field for field in FIELDS if field not in kept]
    assert all(lost.rank < field.rank for lost in dropped for field in kept)
    assert width < 29 or kept == FIELDS


# -- letters -------------------------------------------------------------------------------------------------


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), max_size=5), max_size=12), st.integers(1, 10))
def test_a_band_keeps_its_letter_while_it_is_drawn(steps: list[set[str]], colours: int) -> None:
    slots, before = BandLetters(), dict[str, int]()
    for names in steps:
        now = slots.assign(sorted(names), colours)
        assert set(now) == names
        assert all(0 <= slot < max(5, colours) for slot in now.values())
        assert len(set(now.values())) == len(now), "no two bands have one letter"
        assert all(now[name] == slot for name, slot in before.items() if name in now)
        before = dict(now)


def test_a_band_that_comes_back_has_its_letter_again_unless_others_needed_it() -> None:
    slots = BandLetters()
    assert slots.assign(["str", "dict"], 4) == {"str": 0, "dict": 1}
    assert slots.assign(["str", "list"], 4) == {"str": 0, "list": 2}
    assert slots.assign(["int", "list"], 4) == {"int": 3, "list": 2}
    assert slots.assign(["dict", "str"], 4) == {"dict": 1, "str": 0}
    assert slots.assign(["dict", "set"], 4) == {"dict": 1, "set": 2}, "list has gone longest"


@pytest.mark.parametrize(
    ("seconds", "title"),
    [
        (0.04, "<0.1s"),
        (0.05, "0.1s"),
        (1.0, "1s"),
        (1.14, "1.1s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (119.4, "119s"),
        (599.0, "599s"),
        (1190.0, "20m"),
        (35_990.0, "600m"),
        (36_000.0, "10h"),
    ],
)
def test_a_change_says_since_when(seconds: float, title: str) -> None:
    assert change_title(round(seconds * 1e9)) == f"Change {title}"
    assert change_title(round(seconds * 1e9), "≈Change ") == f"≈Change {title}"


@pytest.mark.parametrize("before", ["Change ", "Change ≤"])
def test_a_change_between_no_two_moments_has_no_time(before: str) -> None:
    assert change_title(0, before) == "Change"


def test_the_chart_that_is_drawn_sums_to_the_census() -> None:
    agent, history = FakeAgent(), History()
    for number in range(9):
        agent.advance()
        for message in agent.answer(CensusRequest(number)):
            history.feed(message)
    chart = bands(tuple(history.records), "type", EVERYTHING, 6)
    series = band_series(chart, BandLetters().assign([band.name for band in chart.bands if not band.is_rest], 10))
    for at, snapshot in enumerate(history.records):
        assert sum(values[at] for values in series.values) == snapshot.total.bytes
    assert series.letters[-1] == "~"
    assert len(set(series.letters)) == len(series.letters)


# -- drilling ------------------------------------------------------------------------------------------------

qualnames = st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="._<> ,"), min_size=1)


@given(qualnames, st.text("abc._", min_size=1))
def test_the_term_for_a_band_is_a_filter_that_lets_it_through(qualname: str, module: str) -> None:
    cell = Cell(TypeName(module, qualname), 2, 1, 1)
    for key, name in (("type", cell.type.full), ("module", module), ("generation", "gen 2")):
        where = parse_filter(exact_term(key, name))
        assert where.matches(cell)
        assert not where.matches(Cell(TypeName("other", "Other"), 1, 1, 1))


def test_levels_end_where_nothing_is_left_to_cut_by() -> None:
    level = Level("module")
    keys = []
    names = {"module": "shop", "type": "shop.Session", "generation": "gen 2"}
    while level is not None:
        keys.append(level.key)
        level = into(level, names[level.key])  # type: ignore[assignment]  # None ends the loop
    assert keys == ["module", "type", "generation"]


# -- colours -------------------------------------------------------------------------------------------------


def test_which_palette_is_used() -> None:
    assert choose(None, {}) is DARK
    assert choose(None, {"HEAPTOP_THEME": "light"}) is LIGHT
    assert choose("ansi", {"HEAPTOP_THEME": "light"}) is ANSI
    assert choose("ansi", {"NO_COLOR": "1"}) is MONO
    assert choose("colour-blind", {"NO_COLOR": ""}) is COLOUR_BLIND, "an empty NO_COLOR does not count"


def test_an_unknown_theme_lists_those_that_are_there() -> None:
    with pytest.raises(UsageError, match="no theme called 'neon'") as caught:
        choose("neon", {})
    assert all(name in caught.value.help_text for name in PALETTES)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", [DARK, LIGHT, COLOUR_BLIND], ids=lambda palette: palette.name)
def test_letters_can_be_read_on_every_band(palette) -> None:  # type: ignore[no-untyped-def]
    for colour in (*palette.bands, palette.rest):
        light, dark = sorted((_luminance(colour), _luminance(palette.ink)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, f"{palette.ink} on {colour} (WCAG 2.1, large text)"


# -- the inbox -----------------------------------------------------------------------------------------------


def test_a_burst_wakes_the_app_once_and_keeps_its_order() -> None:
    woken: list[bool] = []
    inbox = Inbox(lambda: woken.append(True))
    events = [Waiting("looking", 0.1), Waiting("looking", 0.2), Ended(None)]
    for event in events:
        inbox.receive(event)
    assert len(woken) == 1
    assert inbox.drain() == events[1:], "of several waits in a row only the last matters"
    assert inbox.drain() == []
    inbox.receive(events[0])
    assert len(woken) == 2


def test_while_a_tick_waits_no_other_is_wanted() -> None:
    inbox = Inbox(lambda: None)
    assert not inbox.is_behind()
    agent = FakeAgent()
    for request in (TickRequest(1), CensusRequest(2)):
        for message in agent.answer(request):
            inbox.receive(Received(message))
        assert inbox.is_behind()
        inbox.drain()
        assert not inbox.is_behind()
    inbox.receive(Waiting("looking", 0.1))
    assert not inbox.is_behind()


async def test_the_screen_tells_its_source_when_it_is_behind() -> None:
    async with on_stage(censuses=1) as stage:
        assert stage.source.behind == stage.live.state.inbox.is_behind
        assert not stage.source.behind()


# -- what the header admits ------------------------------------------------------------------------------------


def test_a_silent_target_is_said_to_be_silent() -> None:
    now = [100.0]
    session = AttachSession(TARGET, clock=lambda: now[0])
    session.feed(Attached(TARGET, FakeAgent().hello(), "ptrace", 0))
    now[0] += SILENT_AFTER - 0.1
    assert flags(session, Display()) == []
    now[0] += 8.1
    assert [field.value for field in flags(session, Display())] == ["no answer for 12 s"]
    session.feed(Received(Failure(1, "out of memory in the target")))
    assert [field.value for field in flags(session, Display())] == ["out of memory in the target"]


def test_figures_of_python_mode_are_approximate() -> None:
    session = AttachSession(TARGET)
    for message in FakeAgent().answer(CensusRequest(1)):
        session.feed(Received(message))
    (heap,) = (field for field in figures(session, Display.of(session)) if field.label == "heap")
    assert heap.value.startswith("≈")
