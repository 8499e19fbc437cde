"""What others chose as names never moves a terminal's cursor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heaptop.protocol.text import printable


@given(st.text(st.characters()))
def test_a_name_that_others_chose_stays_as_long_and_moves_no_cursor(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown.encode().decode() == shown
    assert len(shown) == len(text)
    assert all(b in (a, " ") for a, b in zip(text, shown, strict=True))
    assert printable("größe 日本") == "größe 日本"
