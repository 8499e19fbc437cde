"""Fixtures of the screen's tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's own choice of colours does not reach the tests."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("HEAPTOP_THEME", raising=False)
