"""The sample shop leaks sessions, and nothing else, up to its limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from heaptop.demo.shop import catalogue, server, sessions
from heaptop.demo.shop.models import Session


@pytest.fixture(autouse=True)
def shop() -> Iterator[None]:
    catalogue.load()
    yield
    catalogue.PRODUCTS.clear()
    catalogue.page.cache_clear()
    sessions.ACTIVE.clear()


def test_every_visitor_stays() -> None:
    running = server.Server(rate=server.SESSION_BYTES * 100, limit=1e9)
    for expected in (100, 200, 300):
        running.tick(1.0)
        assert len(sessions.ACTIVE) == expected
    session = next(iter(sessions.ACTIVE.values()))
    assert isinstance(session, Session)
    assert session.history


def test_it_stops_at_its_limit() -> None:
    running = server.Server(rate=server.SESSION_BYTES * 1_000, limit=server.SESSION_BYTES * 50)
    running.tick(1.0)
    assert len(sessions.ACTIVE) == 50
    running.tick(1.0)
    assert len(sessions.ACTIVE) == 50


def test_a_pause_is_not_made_up_for() -> None:
    running = server.Server(rate=server.SESSION_BYTES * 100, limit=1e9)
    running.tick(3_600.0)
    assert len(sessions.ACTIVE) == 100


def test_the_page_cache_is_bounded() -> None:
    for number in range(5_000):
        catalogue.page(number)
    info = catalogue.page.cache_info()
    assert info.currsize == info.maxsize == 2_000
