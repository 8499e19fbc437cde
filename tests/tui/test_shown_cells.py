"""What is sent to the terminal makes it show what was drawn, and nothing is sent twice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region, Size
from textual.strip import Strip

from heaptop.tui.terminal.shown_cells import ShownCells
from tests.support.pty_terminal import Screen

WIDTH, HEIGHT = 12, 3
SIZE = Size(WIDTH, HEIGHT)
TRUE = ColorSystem.TRUECOLOR
STYLES = (
    None,
    Style(),
    Style(bold=True),
    Style(reverse=True, bold=True),
    Style(color="#102030"),
    Style(color="#102030", bgcolor="#405060"),
    Style(color="#112131", bgcolor="#405060", dim=True),
    Style(bgcolor="#405060"),
    Style(color="red", bgcolor="bright_blue"),
    Style(color="color(200)", bgcolor="color(17)"),
    Style(color="bright_green"),
)


@st.composite
def lines(draw: st.DrawFn) -> Strip:
    """A line of single and wide characters in all sorts of colours."""
    segments, length = [], 0
    while length < WIDTH:
        wide = length + 2 <= WIDTH and draw(st.integers(0, 5)) == 0
        plain = st.sampled_from(["a", " ", "xy", "▆", "│b"])
        text = draw(st.sampled_from("日本語")) if wide else draw(plain)[: WIDTH - length]
        segments.append(Segment(text, draw(st.sampled_from(STYLES))))
        length += 2 if wide else len(text)
    return Strip(segments, WIDTH)


pictures = st.lists(lines(), min_size=HEIGHT, max_size=HEIGHT)


def whole(strips: list[Strip]) -> LayoutUpdate:
    return LayoutUpdate([[strip] for strip in strips], Region(0, 0, WIDTH, HEIGHT))


def alone(strips: list[Strip]) -> Screen:
    """A terminal to which only this was written."""
    screen = Screen(WIDTH, HEIGHT)
    screen.feed(ShownCells().update(whole(strips), SIZE, TRUE).encode())
    return screen


@given(st.lists(pictures, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_after_each_frame_the_terminal_shows_what_was_drawn(frames: list[list[Strip]]) -> None:
    shown, screen = ShownCells(), Screen(WIDTH, HEIGHT)
    for frame in frames:
        screen.feed(shown.update(whole(frame), SIZE, TRUE).encode())
        assert screen.text == "\n".join(strip.text.rstrip() for strip in frame)
        assert screen.checks == alone(frame).checks
        assert shown.update(whole(frame), SIZE, TRUE) == "", "it stands there"


@given(lines())
@settings(max_examples=40, deadline=None)
def test_colours_are_those_of_the_style(strip: Strip) -> None:
    screen = alone([strip] * HEIGHT)
    at = 0
    for text, style, _ in strip:
        wanted = Screen(WIDTH, 1)
        wanted.feed((style.render("x", color_system=TRUE) if style else "x").encode())
        for _ in range(Segment(text).cell_length):
            assert screen.checks[0][at] == wanted.checks[0][0]
            at += 1


places = st.tuples(st.integers(0, HEIGHT - 1), st.integers(0, WIDTH), st.integers(0, WIDTH))


@given(pictures, pictures, st.lists(places))
@settings(max_examples=60, deadline=None)
def test_a_part_is_drawn_as_far_as_it_goes(
    before: list[Strip], after: list[Strip], parts: list[tuple[int, int, int]]
) -> None:
    """Of plain characters: where a wide one is cut, what stands there is not told."""
    narrow = str.maketrans({"日": "1 ", "本": "2 ", "語": "3 "})
    before, after = ([Strip([Segment(strip.text.translate(narrow))]) for strip in each] for each in (before, after))
    shown, screen = ShownCells(), Screen(WIDTH, HEIGHT)
    screen.feed(shown.update(whole(before), SIZE, TRUE).encode())
    spans = [(y, min(a, b), max(a, b)) for y, a, b in parts]
    screen.feed(shown.update(ChopsUpdate([{0: s} for s in after], spans, [[WIDTH]] * HEIGHT), SIZE, TRUE).encode())
    wanted = [list(strip.text) for strip in before]
    for y, left, right in spans:
        wanted[y][left:right] = after[y].text[left:right]
    assert screen.lines == ["".join(line).rstrip() for line in wanted]


def test_only_what_has_changed_is_sent() -> None:
    shown, style = ShownCells(), Style(color="#102030", bgcolor="#405060")
    shown.update(whole([Strip([Segment("heap 12 MiB ", style)])] * HEIGHT), SIZE, TRUE)
    sent = shown.update(whole([Strip([Segment(f"heap {n} MiB ", style)]) for n in (12, 13, 12)]), SIZE, TRUE)
    assert sent == "\x1b[2;7H\x1b[38;2;16;32;48;48;2;64;80;96m3\x1b[0m"


def test_what_was_forgotten_or_has_another_size_is_sent_anew() -> None:
    shown, frame = ShownCells(), whole([Strip([Segment("x" * WIDTH)])] * HEIGHT)
    everything = shown.update(frame, SIZE, TRUE)
    shown.forget()
    assert shown.update(frame, SIZE, TRUE) == everything
    assert shown.update(frame, Size(WIDTH, HEIGHT + 1), TRUE) == everything


def test_more_than_the_terminal_has_room_for_is_cut() -> None:
    screen = Screen(5, 2)
    screen.feed(ShownCells().update(whole([Strip([Segment("0123456789ab")])] * HEIGHT), Size(5, 2), TRUE).encode())
    assert screen.lines == ["01234", "01234"]
