"""Paths that are too long: the file's name and its line are what is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.text import clip, clip_parts, elide

SITE = "shop/api/v2/orders/views.py:88 create_session"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (45, "shop/api/v2/orders/views.py:88 create_session"),
        (44, "shop/…/v2/orders/views.py:88 create_session"),
        (42, "shop/…/orders/views.py:88 create_session"),
        (36, "shop/…/views.py:88 create_session"),
        (32, "…/views.py:88 create_session"),
        (26, "…/views.py:88 create_sess…"),
        (18, "…/views.py:88 cre…"),
        (14, "…/views.py:88…"),
        (13, "views.py:88 …"),
        (12, "views.py:88…"),
        (8, "…s.py:88"),
        (2, "…8"),
        (1, "v"),
        (0, ""),
    ],
)
def test_folders_go_first_and_then_what_stands_behind(width: int, shown: str) -> None:
    assert elide(SITE, width) == shown
    if width:
        assert clip(SITE, width, keep_tail=True) in (shown, SITE[:width])


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("/usr/lib/python3/dist-packages/yaml/loader.py:12", 24, "/…/yaml/loader.py:12"),
        ("/app.py:7 main", 12, "…/app.py:7 …"),
        ("views.py:88 create_session", 14, "views.py:88 c…"),
    ],
)
def test_a_long_path_keeps_its_file_and_line(text: str, width: int, shown: str) -> None:
    assert elide(text, width) == shown


def test_names_of_types_keep_their_end() -> None:
    assert clip("shop.models.Session", 10, keep_tail=True) == "…s.Session"
    assert clip("relay.py:117 Relay.deliver", 22, keep_tail=True) == "relay.py:117 ….deliver", "the line is kept"
    assert clip(SITE, 20, shift=-5, keep_tail=True) == "…ews.py:88 create_s…"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("module __main__ .AUDIT", 20, "module …ain__ .AUDIT"),
        ("frame work() local seen", 20, "frame …() local seen"),
        ("leaky.py:14 render.<locals>.<genexpr>", 30, "leaky.py:14 …locals>.<genexpr>"),
        ("closure of f: x", 15, "closure of f: x"),
        ("a.long.word.first and then", 20, "…word.first and then"),
    ],
)
def test_of_several_words_the_first_stays(text: str, width: int, shown: str) -> None:
    assert len(clip(text, width, keep_tail=True)) <= width
    assert clip(text, width, keep_tail=True) == shown


PART = st.text("abc", min_size=1, max_size=6)


@given(st.lists(PART, max_size=5), PART, st.integers(1, 9999), st.text("xy ", max_size=12), st.integers(0, 60))
def test_it_fits_and_keeps_name_and_line(folders: list[str], file: str, line: int, rest: str, width: int) -> None:
    name = f"{file}.py:{line}"
    text = "".join(f"{folder}/" for folder in folders) + name + (f" {rest}" if rest else "")
    shown = elide(text, width)
    assert len(shown) <= width
    if len(text) <= width:
        assert shown == text
    elif folders and width >= len(name):
        assert name in shown
        assert width < 2 or "…" in shown or shown in text
    in_ascii = ChartStyle.of(DARK, ascii_only=True).text(shown)
    assert in_ascii.isascii()
    assert len(in_ascii) == len(shown)


@given(st.text(max_size=40), st.integers(0, 50))
def test_whatever_it_is_given_fits(text: str, width: int) -> None:
    assert len(elide(text, width)) <= width


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (35, "snapshot 3 s old · pause 3 ms · 2 B"),
        (34, "snapshot 3 s old · pause 3 ms · …"),
        (32, "snapshot 3 s old · …"),
        (20, "snapshot 3 s old · …"),
        (12, "snapshot 3 …"),
    ],
)
def test_of_a_line_of_parts_whole_ones_are_shown(width: int, shown: str) -> None:
    assert clip_parts("snapshot 3 s old · pause 3 ms · 2 B", width) == shown
