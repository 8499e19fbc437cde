"""Fixtures of the screen's tests."""

from __future__ import annotations

import pytest

from tests.tui.idle import idle


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's own choice of colours does not reach the tests."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("HEAPTOP_THEME", raising=False)


@pytest.fixture(autouse=True)
def pilot_waits_no_longer_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key's end is when the app is idle."""
    for module in ("app", "pilot"):
        monkeypatch.setattr(f"textual.{module}.wait_for_idle", idle)
