"""The pytest plugin over real runs of pytest: leaks fail, what is harmless passes, and the tests' process survives."""

from __future__ import annotations

from pathlib import Path

import pytest

import heaptop

pytest_plugins = ("pytester",)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LEAKS = """
import pytest

kept = []

class Session:
    def __init__(self):
        self.data = bytearray(100_000)

@pytest.mark.heap_leak
def test_leaks():
    kept.append(Session())
"""
HARMLESS = """
import functools
import logging
import warnings
import pytest

calls = set_ups = 0
filled = {}

@functools.lru_cache(2500)
def squared(number):
    return [number] * 20

@pytest.fixture
def once():
    global set_ups
    set_ups += 1

@pytest.mark.heap_leak(limit=0)
def test_a_cache_reaches_its_bound():
    global calls
    for _ in range(1000):
        calls += 1
        squared(calls)

@pytest.mark.heap_leak(limit=0)
def test_a_table_is_filled_by_its_first_use():
    import xml.dom.minidom
    for number in range(1000):
        filled.setdefault(number, [number])

@pytest.mark.heap_leak(rounds=4, warmup=3, limit=0)
def test_what_pytest_keeps_of_a_test_is_kept_once(once, caplog):
    global calls
    calls += 1
    warnings.warn("w" * 10_000)
    logging.getLogger().warning("l" * 10_000)
    assert len(caplog.records) == 1

def test_it_ran_in_all_rounds_and_its_fixture_once():
    assert calls == 1000 * 7 + 7
    assert set_ups == 1
"""
OTHERS = """
import unittest
import pytest

kept = []
rounds = 0

@pytest.mark.heap_leak(limit="1 KiB")
@pytest.mark.asyncio
async def test_awaited():
    kept.append([str(number) for number in range(1000)])

class TestCases(unittest.TestCase):
    @pytest.mark.heap_leak(limit="1 KiB")
    def test_in_a_class(self):
        kept.append([str(number) for number in range(1000)])

@pytest.mark.heap_leak
def test_not_to_be_repeated():
    global rounds
    rounds += 1
    assert rounds < 4, "the fourth time"

@pytest.mark.heap_leak(round=3)
def test_misspelt():
    pass

@pytest.mark.heap_leak
def test_skipped():
    pytest.skip("not here")
"""
FIXTURE = """
import pytest

kept = []

def test_what_is_new_is_listed(heap):
    heap.mark()
    kept.append(bytearray(300_000))
    left = heap.left()
    place = max(left.places, key=lambda place: place.bytes)
    assert left.bytes > 300_000
    assert ".kept" in place.holder
    assert place.site in ("", "test_fixture.py:7 test_what_is_new_is_listed")

def test_a_part_of_a_test_is_checked(heap):
    heap.check(lambda: bytearray(300_000))
    with pytest.raises(AssertionError, match=r"module test_fixture → \\.kept"):
        heap.check(lambda: kept.append(bytearray(300_000)), limit="100 kB")
"""
TRACED = """
import ctypes
import os
import subprocess
import sys

TRACER = '''
import ctypes, os, sys
pid, ptrace = int(sys.argv[1]), ctypes.CDLL(None).ptrace
assert ptrace(0x4206, pid, 0, 0) == 0  # PTRACE_SEIZE
print("traced", flush=True)
while os.WIFSTOPPED(status := os.waitpid(pid, 0x40000000)[1]):
    ptrace(7, pid, 0, os.WSTOPSIG(status))  # PTRACE_CONT, with its signal
'''

def pytest_sessionstart(session):
    ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
    session.tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(os.getpid())], stdout=subprocess.PIPE)
    assert session.tracer.stdout.readline()

def pytest_sessionfinish(session):
    session.tracer.kill()
    session.tracer.communicate()
"""
KILLED = """
import os
import signal
import threading
import time

import pytest

import heaptop.inside.client as client

talk = client.Helper._talk

def killing(self, command):
    if command == os.environ["KILL_AT"]:
        threading.Timer(0.05, os.kill, (self.pid, signal.SIGKILL)).start()
    return talk(self, command)

client.Helper._talk = killing

@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    end = time.monotonic() + 30
    while time.monotonic() < end:
        children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
        if not children and len(os.listdir("/proc/self/task")) == 1:
            return
        time.sleep(0.1)
    os.write(2, f"left behind: {children}, {os.listdir('/proc/self/task')}".encode())
    os._exit(9)
"""


@pytest.fixture
def plugged(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder for tests, where pytest loads this heaptop's plugin and no others."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(heaptop.__file__).parents[1]))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return pytester


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "heaptop.inside.pytest_plugin", "-p", "no:cacheprovider", *arguments)


def test_a_leak_fails_with_its_type_line_and_holder(plugged: pytest.Pytester) -> None:
    plugged.makepyfile(test_shop=LEAKS)
    result = run(plugged)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "each of 5 rounds left ≥9*.* KiB behind; the limit is 64.0 KiB a round",
            "*1. test_shop.Session: ≥1 object, ≥9*.* KiB a round including everything new there",
            "*all held by module test_shop → .kept (list)",
            "*at each check: 2, 3, 4, 5, 6, 7",
        ]
    )
    # A Session is small, so that there may be no sample of one: its data has the line that made it.
    own, indirect = r"at test_shop\.py:11 test_leaks", r"near test_shop\.py:7 Session\.__init__ \(indirect samples\)"
    result.stdout.re_match_lines([rf"\s+allocated ({own}|{indirect})$"])


def test_caches_first_uses_and_what_pytest_keeps_do_not_fail(plugged: pytest.Pytester) -> None:
    plugged.makepyfile(HARMLESS)
    run(plugged).assert_outcomes(passed=4, warnings=1)


def test_awaited_tests_and_those_of_unittest_run_in_rounds(plugged: pytest.Pytester) -> None:
    plugged.makepyfile(test_others=OTHERS)
    result = run(plugged, "-p", "pytest_asyncio.plugin")
    result.assert_outcomes(failed=4, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*allocated * test_others.py:10 test_awaited*",
            "*allocated * test_others.py:15 TestCases.test_in_a_class*",
            "*AssertionError: the fourth time*",
            "heap_leak takes rounds=, limit= and warmup=, and nothing else",
        ]
    )


def test_the_fixture_lists_what_is_new_and_checks_a_part_of_a_test(plugged: pytest.Pytester) -> None:
    plugged.makepyfile(test_fixture=FIXTURE)
    run(plugged).assert_outcomes(passed=2)


def test_nothing_of_heaptop_is_loaded_where_it_is_not_used(plugged: pytest.Pytester) -> None:
    plugged.makepyfile(
        "import sys\n"
        "def test_loaded():\n"
        "    assert {name for name in sys.modules if name.startswith('heaptop.')} == "
        "{'heaptop.phases', 'heaptop.inside', 'heaptop.inside.pytest_plugin'}\n"
    )
    run(plugged).assert_outcomes(passed=1)


def test_the_report_has_what_each_test_left_whichever_worker_ran_it(plugged: pytest.Pytester) -> None:
    plugged.makepyfile(
        "kept = []\n"
        "def test_large(): kept.append(bytearray(3_000_000))\n"
        "def test_many(): kept.append([str(number) for number in range(10_000)])\n"
        "def test_nothing(): pass\n"
        "def test_freed(): bytearray(3_000_000)\n"
    )
    result = run(plugged, "-p", "xdist", "-n", "2", "--heap-report")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "*heap report*",
            "*+2.8* MiB *bytearray +2.86 MiB*::test_large",
            "*+*KiB *+10,* str +*KiB *::test_many",
            "half of all tests left *",
            "counted 4 times in *",
        ]
    )


@pytest.mark.parametrize(
    ("arguments", "outcomes"),
    [((), {"passed": 1, "skipped": 1, "warnings": 1}), (("--heap-strict",), {"failed": 2})],
)
def test_where_it_cannot_attach_a_test_runs_once_and_says_so(
    plugged: pytest.Pytester, arguments: tuple[str, ...], outcomes: dict[str, int]
) -> None:
    plugged.makeconftest(TRACED)
    plugged.makepyfile(LEAKS + "\n\ndef test_marks(heap):\n    assert len(kept) == 1\n    heap.mark()\n")
    result = run(plugged, "-rs", *arguments)
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(["*traced by*"])


@pytest.mark.sample(3)
@pytest.mark.parametrize("command", ["attach", "begin", "check", "last", "count", "detach"])
def test_the_run_survives_a_helper_that_is_killed(
    plugged: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("KILL_AT", command)
    plugged.makeconftest(KILLED)
    plugged.makepyfile(LEAKS + "\n\ndef test_goes_on():\n    assert kept\n")
    result = run(plugged, *(["--heap-report"] if command == "count" else []))
    assert result.ret in (0, 1), result.stderr.str()
    outcomes = result.parseoutcomes()
    assert outcomes.get("passed", 0) + outcomes.get("failed", 0) == 2
