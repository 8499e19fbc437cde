"""The pytest plugin: marker ``heap_leak``, fixture ``heap``, option ``--heap-report``.

pytest loads this module with every run; ``suite`` and all else of heaptop is loaded where one of these is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from heaptop.inside.suite import Heap, HeapSuite

MARKER: Final = "heap_leak"
_NAME: Final = "heaptop-suite"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("heaptop", "the heap of the process that runs the tests")
    group.addoption("--heap-report", action="store_true", help="report what each test left on the heap")
    group.addoption(
        "--heap-strict", action="store_true", help="fail where heaptop cannot attach, instead of continuing without it"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(rounds=5, limit='64 KiB', warmup=2): run the test in rounds; it fails where more than the limit "
        "stays on the heap in each of them",
    )
    if config.getoption("--heap-report"):
        _suite(config)


def pytest_collection_finish(session: pytest.Session) -> None:
    if any(item.get_closest_marker(MARKER) for item in session.items):
        _suite(session.config)


@pytest.fixture
def heap(request: pytest.FixtureRequest) -> Iterator[Heap]:
    """The heap of the process that runs the test: ``heap.check(function)``, or ``heap.mark()`` and ``heap.left()``."""
    suite = _suite(request.config)
    yield suite.heap()
    suite.release()


def _suite(config: pytest.Config) -> HeapSuite:
    from heaptop.inside.suite import HeapSuite  # noqa: PLC0415 - most runs need none of it

    suite: HeapSuite | None = config.pluginmanager.get_plugin(_NAME)
    if suite is None:
        suite = HeapSuite(config, MARKER)
        config.pluginmanager.register(suite, _NAME)
    return suite
