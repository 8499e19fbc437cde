"""A run of tests whose heap is looked at: tests in rounds, what each test left behind, and the table of that."""

from __future__ import annotations

import contextlib
import gc
import logging
import time
import warnings
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Any, Final, NoReturn

import pytest
from _pytest.logging import LogCaptureHandler

from heaptop.errors import UsageError
from heaptop.inside.client import Found, Helper, HelperFailed
from heaptop.inside.report import HeapReport
from heaptop.inside.rounds import RoundsPlan, failure, hunt_over, notice

LOST: Final = "heaptop's helper process was lost, and was started again"


class HeapWarning(pytest.PytestWarning):
    """A test ran without what was wanted of heaptop."""


class HeapSuite:
    """One run of pytest, or what one worker of pytest-xdist runs; pytest calls its hooks."""

    def __init__(self, config: pytest.Config, marker: str) -> None:
        self._marker = marker
        self._is_strict = bool(config.getoption("--heap-strict"))
        self._counts = bool(config.getoption("--heap-report"))
        self._helper: Helper | None = None
        self._counted_by: Helper | None = None  # Who has counted before, so that its next census is compared with that
        self._refusal = ""  # Why tests are not counted
        self._report = HeapReport()

    def helper(self) -> Helper:
        """The helper process, started where there is none. Raises HelperFailed."""
        if self._helper is not None and not self._helper.is_usable:
            self._helper.close()
            self._helper = None
        if self._helper is None:
            self._helper = Helper()
        return self._helper

    def heap(self) -> Heap:
        """For one test."""
        return Heap(self)

    def release(self) -> None:
        """End what one test began; detach, unless tests are counted."""
        if self._helper is not None and self._helper.is_usable:
            with contextlib.suppress(HelperFailed):  # it has exited, which comes to the same
                self._helper.end() if self._counts else self._helper.detach()

    def refuse(self, error: HelperFailed) -> NoReturn:
        """End a test that is nothing without heaptop."""
        if self._is_strict:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Start the helper process, which loads heaptop while fixtures are set up; count what there is before."""
        if self._counts and self._counted_by is None and not self._refusal:
            self._count()
        elif item.get_closest_marker(self._marker):
            with contextlib.suppress(HelperFailed):  # the call reports it
                self.helper()
        if self._refusal and self._is_strict:
            pytest.fail(self._refusal, pytrace=False)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """After the test has run once as usual, run it in rounds."""
        marker = item.get_closest_marker(self._marker)
        if marker is None or _has_failed(item):
            return
        plan = _plan(marker)
        try:
            found = hunt_over(self.helper(), plan, lambda: _run_again(item))
        except HelperFailed as error:
            if self._is_strict:
                pytest.fail(str(error), pytrace=False)
            item.warn(HeapWarning(f"{self._marker}: no leak hunt. {error}"))
            return
        finally:
            self.release()
        if text := notice(found, plan):
            item.add_report_section("call", self._marker, text)
        if text := failure(found, plan):
            pytest.fail(text, pytrace=False)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """Put into the last report of a test, which a worker sends, what the test left."""
        outcome = yield
        if call.when == "teardown" and self._counts:
            left = None if self._refusal else self._count()
            outcome.get_result().heaptop = left or {"refusal": self._refusal or LOST}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what this process or a worker has counted."""
        left = getattr(report, "heaptop", None)
        if left is not None:
            self._report.add(report.nodeid, left)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._counts:
            terminalreporter.section("heap report")
            for line in self._report.lines():
                terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        if self._helper is not None:
            self._helper.close()

    def _count(self) -> dict[str, Any] | None:
        """What has come to stay since the last time; None where there was none."""
        began = time.perf_counter()
        try:
            helper = self.helper()
            helper.attach()
            gc.collect()
            counted = helper.count()
        except HelperFailed as error:
            self._refusal = str(error)
            return {"refusal": self._refusal}
        is_next, self._counted_by = self._counted_by is helper, helper
        return {**asdict(counted), "seconds": time.perf_counter() - began} if is_next else None


class Heap:
    """The heap of the process that runs a test. Where heaptop cannot attach, its methods skip the test."""

    def __init__(self, suite: HeapSuite) -> None:
        self._suite = suite
        self._is_marked = False

    def check(self, function: Callable[[], object], *, rounds: int = 5, limit: str | int = "64 KiB") -> None:
        """Call ``function`` once, and in rounds; AssertionError where more than the limit stays in each of them."""
        __tracebackhide__ = True
        plan = RoundsPlan.of(rounds, limit)
        function()
        try:
            found = hunt_over(self._suite.helper(), plan, function)
        except HelperFailed as error:
            self._suite.refuse(error)
        self._suite.release()
        if text := failure(found, plan):
            raise AssertionError(text)

    def mark(self) -> None:
        """Compare with this moment from now on."""
        try:
            helper = self._suite.helper()
            helper.attach()
            helper.begin(names=True)
            gc.collect()
            helper.check()
        except HelperFailed as error:
            self._suite.refuse(error)
        self._is_marked = True

    def left(self) -> Found:
        """What is new since the mark and still there; garbage is collected first."""
        if not self._is_marked:
            raise UsageError("There is no mark to compare with.", fix="Call heap.mark() before.")
        self._is_marked = False
        gc.collect()
        try:
            found = self._suite.helper().check(last=True)
        except HelperFailed as error:
            self._suite.refuse(error)
        assert found is not None
        return found


def _plan(marker: pytest.Mark) -> RoundsPlan:
    if marker.args or not {"rounds", "limit", "warmup"}.issuperset(marker.kwargs):
        pytest.fail(f"{marker.name} takes rounds=, limit= and warmup=, and nothing else", pytrace=False)
    wrong = ""
    try:
        return RoundsPlan.of(**marker.kwargs)
    except UsageError as error:
        wrong = f"{marker.name}: {error.message} {error.fix}"
    pytest.fail(wrong, pytrace=False)


def _has_failed(item: pytest.Item) -> bool:
    """Whether it is a test of ``unittest`` that has failed: that raises nothing, and pytest looks here later."""
    return bool(getattr(item, "_excinfo", None))


def _run_again(item: pytest.Item) -> None:
    """Once more, without what pytest would keep of it: its warnings and log records have been kept once."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogCaptureHandler):
            handler.clear()
    with warnings.catch_warnings(record=True):
        item.runtest()
