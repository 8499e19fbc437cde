"""Fixtures of the screen's tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from heaptop.tui.screens import live, table_screen, tabs
from heaptop.tui.state import background
from heaptop.tui.state.control import status_line
from tests.tui.idle import idle


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's own choice of colours does not reach the tests."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("HEAPTOP_THEME", raising=False)


@pytest.fixture(autouse=True)
def pilot_waits_no_longer_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key's end is when the app is idle. Then no widget has a message left: Textual's pilot asks each one, which is
    most of what a key takes."""

    async def nothing_is_left(pilot: Pilot[Any], timeout: float = 30.0) -> bool:
        await idle()
        return True

    for module in ("app", "pilot"):
        monkeypatch.setattr(f"textual.{module}.wait_for_idle", idle)
    monkeypatch.setattr(Pilot, "_wait_for_screen", nothing_is_left)


@pytest.fixture(autouse=True)
def figures_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are for a person's sake. On a loaded machine less is done in each, and there are more of them."""
    monkeypatch.setattr(background, "SLICE_SECONDS", 60.0)


@pytest.fixture(autouse=True)
def all_is_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes while a person has had no time to read is not put off: tests wait for it again and again."""
    monkeypatch.setattr(live, "DRAW_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def notices_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a test that is slow has seen them."""
    monkeypatch.setattr(status_line, "NOTICE_SECONDS", 60.0)


@pytest.fixture(autouse=True)
def nothing_is_over_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the time for the second of two keys, nor a tab's turn: tests of them go by what is said and done."""
    monkeypatch.setattr(table_screen, "PREFIX_SECONDS", 60.0)
    monkeypatch.setattr(tabs, "TURN_SECONDS", 600.0)


@pytest.fixture(autouse=True, scope="package")
def style_sheets_are_parsed_once() -> Iterator[None]:
    """Each app parses the same ones: Textual forgets them with the app, and has more of them than it remembers."""
    parse, known = Stylesheet._parse_rules, {}

    def parse_once(self: Stylesheet, *sheet: Any, **named: Any) -> Any:
        by_variables = known.setdefault((sheet, *named.items()), [])
        for variables, rules in by_variables:
            if variables == self._variables:
                return rules
        rules = parse(self, *sheet, **named)
        by_variables.append((self._variables.copy(), rules))
        return rules

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Stylesheet, "_parse_rules", parse_once)
        yield


@pytest.fixture(autouse=True, scope="package")
def garbage_is_seldom_collected() -> Iterator[None]:
    """An app is garbage as a whole, after its test; to look for it after each takes a sixth of the time."""
    usual = gc.get_threshold()
    gc.set_threshold(usual[0], usual[1], 400)
    yield
    gc.set_threshold(*usual)
