"""Fixtures for every test: interpreters to run targets on, how many cycles to do, and a clean end."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from heaptop.injector.session import conversation
from tests import interpreters
from tests.interpreters import Interpreter
from tests.support import core_builds, leftovers, sample


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stress", action="store_true", help="run the stress tests, and every loop in full length")
    parser.addoption("--whole", action="store_true", help="run what is long whole: all cases, on all their Pythons")


# Machines are busy: no test is about how long it takes. What is sanitized takes several times as long as what is not,
# and is tried a second time.
settings.register_profile("heaptop", deadline=None, max_examples=40)
settings.register_profile("whole", deadline=None)
settings.register_profile("sanitized", deadline=None, max_examples=30)
settings.register_profile("quick", deadline=None, max_examples=15)  # make quick
settings.load_profile("sanitized" if core_builds.sanitized_throughout() else "heaptop")

IGNORED_IN_THE_BACKGROUND = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def pytest_configure(config: pytest.Config) -> None:
    if _is_whole(config) and not config.getoption("--hypothesis-profile") and not core_builds.sanitized_throughout():
        settings.load_profile("whole")
    os.environ["HEAPTOP_CONFIG"] = os.devnull  # the reader's own settings do not reach the tests, nor what they start
    for number in IGNORED_IN_THE_BACKGROUND:  # by nohup, or by a shell's &: what the tests start would ignore it too
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    config.addinivalue_line(
        "markers",
        "pythons(*names, stress=names): the interpreters of the fixture `interpreter`; the latter under --whole",
    )
    config.addinivalue_line(
        "markers", "sample(part, least=1): takes long; one case in so many runs without --whole, or so many cases"
    )
    config.addinivalue_line("markers", "stress: takes minutes; runs with --stress only")
    config.addinivalue_line("markers", "slow: starts processes, or takes seconds; not in make quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--stress"):
        for item in items:
            if item.get_closest_marker("stress"):
                item.add_marker(pytest.mark.skip(reason="a stress test: make stress"))
    if not _is_whole(config):
        kept = sample.on_few_pythons(items, _test, _case, _python, interpreters.MUSL)
        kept = sample.cases(kept, _part, lambda item: item.nodeid, _least)
        config.hook.pytest_deselected(items=[*set(items).difference(kept)])
        items[:] = kept


def _is_whole(config: pytest.Config) -> bool:
    return bool(config.getoption("--whole") or config.getoption("--stress"))


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _python(item: pytest.Item) -> str:
    """The interpreter of that fixture, or an empty text."""
    called = getattr(item, "callspec", None)
    return called.params.get("interpreter", "") if called else ""


def _case(item: pytest.Item) -> str:
    """What the values of a test's other parameters are called."""
    return f"-{item.nodeid.partition('[')[2][:-1]}-".replace(f"-{_python(item)}-", "-", 1)


def _part(item: pytest.Item) -> int:
    mark = item.get_closest_marker("sample")
    return mark.args[0] if mark else 1


def _least(item: pytest.Item) -> int:
    mark = item.get_closest_marker("sample")
    return mark.kwargs.get("least", 1) if mark else 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``interpreter`` runs over all supported ones, or over those of the nearest ``pythons`` mark."""
    if "interpreter" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("pythons")
        names: Sequence[str] = mark.args if mark else interpreters.SUPPORTED
        if mark and _is_whole(metafunc.config):
            names = mark.kwargs.get("stress", names)
        metafunc.parametrize("interpreter", names, indirect=True)


@pytest.fixture
def interpreter(request: pytest.FixtureRequest) -> Interpreter:
    """An interpreter for a target; missing is a skip, or a failure where HEAPTOP_REQUIRE_PYTHONS names it."""
    try:
        return interpreters.get(request.param)
    except interpreters.MissingInterpreter as missing:
        if missing.required:
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def is_whole(request: pytest.FixtureRequest) -> bool:
    """Whether what is long runs whole, and not by a sample of its own."""
    return _is_whole(request.config)


@pytest.fixture
def cycles(request: pytest.FixtureRequest) -> int:
    """How many times a test attaches and detaches: a bounded share, or all of it under --stress."""
    return 200 if request.config.getoption("--stress") else 5


@pytest.fixture
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions in this process tick ten times as often: what waits for ticks does little else."""
    monkeypatch.setattr(conversation, "TICK_INTERVAL", 0.1)


@pytest.fixture(scope="session")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders, each new. Not those of ``tmp_path``: to make one, pytest reads the names of all that it has made."""
    folder = tmp_path_factory.mktemp("states")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def state_of_its_own(states: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What heaptop keeps for its user from one attach to the next is no test's business but its own."""
    folder = next(states)
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))


@pytest.fixture(scope="session", autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Fails the session when a process that it started outlives it, and ends that process."""
    watcher = leftovers.start_session()
    mark = os.environ[leftovers.VARIABLE]
    yield
    left = leftovers.outliving(mark)
    watcher.communicate()  # the end of its stdin: it kills what is left, and ends
    del os.environ[leftovers.VARIABLE]
    assert not left, f"left running by the tests: {left}"


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times of day are the same everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
