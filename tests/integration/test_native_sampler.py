"""The sampler of allocations in targets that load the core themselves: it is right about what is known, on every
interpreter, and harms none of what it meets.

Nothing here goes through an agent. Everything statistical is seeded.
"""

from __future__ import annotations

import ast
import math
import os
import statistics
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from heaptop.analysis.samples.estimate import Sums, weight
from heaptop.analysis.samples.missed import MissedSamples
from heaptop.injector.agent import pacing
from tests.interpreters import NEWEST, OLDEST, SAMPLE, SUPPORTED, Interpreter, since
from tests.support import building, core_builds, native
from tests.support.building import TARGETS

pytestmark = pytest.mark.sample(2)

OVER = "another tool's hook lies over heaptop's, which stays, passing everything on"


def told(interpreter: Interpreter, program: str, *arguments: object, **environment: str) -> Any:
    interpreter.place(TARGETS / "sampling_agent.py")
    environment = {"PYTHONHASHSEED": "0", **environment}
    return native.told(interpreter, f"sampling_{program}.py", *arguments, environment=environment)


# -- what it says is so ---------------------------------------------------------------------------------------


def assert_exact(found: dict[str, Any]) -> None:
    for name, (counted, wanted, lines, callers) in found["sites"].items():
        assert counted == wanted > 0, name
        assert len(lines) == len(callers) == 1, name
    callers = {name: site[3] for name, site in found["sites"].items()}
    assert callers["small"] == callers["middle"] == callers["large"] == ["plant"]
    assert (callers["generated"], callers["called back"]) == (["plant_generated"], ["plant_in_callback"])
    source = (TARGETS / "sampling_truth.py").read_text().splitlines()
    for site in found["sites"].values():
        assert "bytes(" in source[site[2][0] - 1]
    assert found["churned"] == 300
    assert (found["freed"], found["after"]) == (100, found["left"])
    assert (found["grown"], found["clock counts bytes"], found["dropped"], found["stop"]) == (True, True, 0, "")


def test_with_every_byte_sampled_it_is_exact(interpreter: Interpreter) -> None:
    """Live bytes by site, its line and its caller; deaths; a list that grows; the clock."""
    assert_exact(told(interpreter, "truth", "exact"))


@pytest.mark.pythons(OLDEST, "3.11", "3.12", "3.13", NEWEST)
@pytest.mark.parametrize("allocator", ["debug", "malloc", "malloc_debug"])
def test_it_is_exact_over_every_allocator(interpreter: Interpreter, allocator: str) -> None:
    assert_exact(told(interpreter, "truth", "exact", PYTHONMALLOC=allocator))


@pytest.mark.pythons("3.9", "3.13")
@pytest.mark.parametrize("interval", [1000, 65536])
def test_estimates_are_unbiased(interpreter: Interpreter, interval: int) -> None:
    """Horvitz and Thompson's: the mean over many seeds is the truth, and the spread is what it should be."""
    found = told(interpreter, "truth", interval, 300)
    for name, estimates in found["estimates"].items():
        count, size = found["blocks"][name]
        chance = 1 - (1 - 1 / interval) ** size
        spread = size * math.sqrt(count * (1 - chance) / chance)
        error = statistics.mean(estimates) - found["true"][name]
        assert found["true"][name] == count * size
        assert abs(error) < 4 * spread / math.sqrt(len(estimates)) + 1e-6 * count * size, name
        if spread > size:  # else next to every block is sampled
            assert 0.8 < statistics.stdev(estimates) / spread < 1.2, name


@pytest.mark.pythons("3.8", "3.12")
def test_the_truth_lies_in_the_intervals_where_the_interval_follows_the_program(interpreter: Interpreter) -> None:
    """Of a site that allocates steadily, and of two in a burst: of bytes and, as each has blocks of one size, of these.
    In 200 runs, 93 to 97 of 100 are as good as 90 to 99.5 here."""
    found = told(interpreter, "truth", "paced", 200, pacing.__file__)
    covered = Counter[str]()
    for run in found["runs"]:
        assert len(run["allocated"]) > 2, "the interval has followed the program"
        assert run["samples"] < 5000, "in 51 MB, at 512 bytes"
        missed = MissedSamples()
        for interval, size in run["allocated"].items():
            missed.allocated(interval, size)
        for count, told_of in ((missed.born, "born"), (missed.died, "died")):
            count([interval for interval, times in run[told_of].items() for _ in range(times)])
        for name, rows in run["sampled"].items():
            sums = Sums()
            for size, interval, number in rows:
                sums.add_alike(weight(size, interval), number)
            one = sums.estimate(missed.of_all() if name == "churned" else missed.of_live())
            covered[name] += one.low <= found["true"][name] <= one.high
            assert abs(one.count - one.bytes / rows[0][0]) <= 1
    for name in found["true"]:
        assert 90 <= covered[name] / 2 <= 99.5, (name, covered)


@pytest.mark.sample(2)
@pytest.mark.pythons("3.8", "3.11", "3.12", "3.13")
def test_sanitizers_find_nothing(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(core_builds.SANITIZED_VARIABLE, "1")
    variables = core_builds.sanitizer_variables()
    assert_exact(told(interpreter, "truth", "exact", **variables))
    assert told(interpreter, "hazards", "cycles", 5, **variables) == {"same": 5, "births": True}
    assert told(interpreter, "hazards", "traced_on_and_off", 6, **variables) == {"births": True}
    assert told(interpreter, "hazards", "fresh_code", 600, **variables)["alive"] == 0
    assert told(interpreter, "hazards", "fresh_names_when_full", 600, **variables)["alive"] == 0


# -- what it meets --------------------------------------------------------------------------------------------


def hazard(interpreter: Interpreter, name: str, *arguments: object) -> Any:
    return told(interpreter, "hazards", name, *arguments)


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_put_in_and_taken_out_under_load(interpreter: Interpreter) -> None:
    """A hundred times; each time the allocators are what they were, byte for byte."""
    assert hazard(interpreter, "cycles", 100) == {"same": 100, "births": True}


def test_a_forked_child_is_not_sampled_until_it_is_asked_for(interpreter: Interpreter) -> None:
    """The child samples nothing and works, and can be sampled anew, twice; the parent goes on."""
    found = hazard(interpreter, "fork")
    assert found["status"] == 0
    assert ast.literal_eval(found["child"]) == (True, True, "", True, True, "")
    assert found["parent"] == (True, "", True)


@pytest.mark.pythons("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")  # the other two see no /proc
def test_a_fork_whose_agent_leaves(interpreter: Interpreter) -> None:
    """The child has the allocators it would have had, no table, and no reference to code; and can be sampled anew."""
    found = hazard(interpreter, "fork_leave")
    assert found["status"] == 0
    assert ast.literal_eval(found["child"]) == ((True, 0, True, True), (True, ""), True)
    assert found["parent"] == (True, "", True)


@pytest.mark.pythons("3.8", "3.13")
def test_forks_at_any_moment(interpreter: Interpreter, cycles: int) -> None:
    assert hazard(interpreter, "fork_often", 4 * cycles) == {"statuses": {0}, "stop": ""}


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_threads_that_come_and_go(interpreter: Interpreter) -> None:
    """The gap that each one drew is not what it allocated: with it the clock would run four times as fast."""
    found = hazard(interpreter, "threads", 400)
    assert 0.7 < found["clock"] < 2  # a thread allocates more than what is counted here
    assert 0.7 < found["estimate"] < 1.3
    assert found["stop"] == ""


GOOD_INTERPRETERS = {"failures": [], "elsewhere": True, "own": True, "stop": ("", True), "again": (True, "")}


def test_other_interpreters_under_the_same_lock(interpreter: Interpreter) -> None:
    """Their code is not held: their samples are another interpreter's."""
    assert hazard(interpreter, "interpreters", "shared") == GOOD_INTERPRETERS


@pytest.mark.pythons(*since("3.12"))
def test_other_interpreters_with_locks_of_their_own(interpreter: Interpreter) -> None:
    assert hazard(interpreter, "interpreters", "own") == GOOD_INTERPRETERS


def test_the_interpreter_ends_meanwhile(interpreter: Interpreter) -> None:
    assert hazard(interpreter, "exiting") == {"births": True}


@pytest.mark.pythons("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
def test_the_interpreter_ends_and_another_begins(interpreter: Interpreter) -> None:
    """What was held of the first one is gone with it; and until somebody samples again, nothing is sampled."""
    program = building.embedding("sampling_again.c", interpreter)
    done = subprocess.run(
        [program, TARGETS / "sampling_again.py", native.core()],
        env={**os.environ, "PYTHONHOME": str(Path(interpreter.path).parent.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = [ast.literal_eval(line) for line in done.stdout.splitlines()]
    assert [(turn["on"], turn["births"]) for turn in found] == [(False, True)] * 3
    assert found[1]["stop"] == ""


@pytest.mark.parametrize("depth", [50, 1024])
def test_stacks_are_as_deep_as_the_limit_says(interpreter: Interpreter, depth: int) -> None:
    assert hazard(interpreter, "deep", depth) == {"stacks": 10, "lengths": True, "stop": ""}


def test_what_finds_no_room_in_full_tables_is_counted(interpreter: Interpreter) -> None:
    """What finds no room is counted; the limit is kept; and there is room again when blocks are freed."""
    found = hazard(interpreter, "full", 20_000_000)
    assert (found["dropped"], found["bytes"], found["stop"]) == (True, True, "")
    assert found["notes"] == ["the sampler's tables are full: of what is new, not all is followed"]
    assert found["full, empty, again"] == (True, True, True)


def test_code_that_nobody_else_holds_is_let_go_of(interpreter: Interpreter) -> None:
    """A program may make the same function for each task; what becomes of it is the program's."""
    found = hazard(interpreter, "fresh_code", 2000)
    assert (found["alive"], found["codes"]) == (0, [["tasks.py", "task", 1]])
    assert found["sites"] == {("task", 2)}
    assert (found["nodes"], found["deaths"], found["stop"]) == (True, True, "")


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_code_for_which_there_is_no_room_is_let_go_of(interpreter: Interpreter) -> None:
    found = hazard(interpreter, "fresh_names_when_full", 2000)
    assert found["full"]
    assert found["notes"] == ["the sampler's tables are full: of what is new, not all is followed"]
    assert (found["alive"], found["stop"]) == (0, "")


def test_allocations_that_fail_are_none(interpreter: Interpreter) -> None:
    assert hazard(interpreter, "refused") == {"moved": True, "went on": True, "samples": True, "stop": ""}


@pytest.mark.pythons("3.8", "3.13")
def test_samples_that_are_read_in_pieces_are_complete(interpreter: Interpreter) -> None:
    assert hazard(interpreter, "unread", 50) == {"births": True, "deaths": True, "stop": ""}


def test_another_rate_and_depth(interpreter: Interpreter) -> None:
    found = hazard(interpreter, "rates")
    assert (found["intervals"], found["seen"], found["depths"]) == ([1, 65536], [1, 65536], True)
    assert (found["now"], found["stop"], found["off"]) == ((1, 1, True), "", False)
    interval, depth = "the interval is not between 1 byte and 1 TiB", "the depth is not between 1 and 1024 frames"
    assert found["refused"] == [interval, interval, depth, depth]


# -- other tools in the allocators ----------------------------------------------------------------------------


def test_a_hook_that_was_there_before_stays_below(interpreter: Interpreter) -> None:
    assert hazard(interpreter, "traced_before") == {"sampled": (True, ""), "same": True, "first": True}


def test_a_hook_that_comes_later_stays_above_without_harm(interpreter: Interpreter) -> None:
    """It is sampled below it; and where it outlives the session, ours stays without harm, and goes at the next end."""
    assert hazard(interpreter, "traced_after") == {
        "covered": (True, True, True),
        "uncovered": (False, 0, True),
        "end": ("", True),
        "stays": OVER,
        "again": (True, OVER),
        "gone": ("", True),
    }


def test_a_hook_below_that_takes_ours_out(interpreter: Interpreter) -> None:
    """All samples are void, which is said; and a new hook is put over what is there then."""
    assert hazard(interpreter, "traced_below_us_stops") == {
        "before": True,
        "lost": True,
        "void": (1, 0, 1),
        "after": (1, True),
        "stop": ("", True),
        "again": (True, ""),
    }


def test_a_hook_that_comes_and_goes(interpreter: Interpreter) -> None:
    assert hazard(interpreter, "traced_on_and_off", 60) == {"births": True}


def test_hooks_that_would_count_twice(interpreter: Interpreter) -> None:
    """Sampling ends, and why is said."""
    found = hazard(interpreter, "twice", interpreter.place(building.library("sampling_tool.c")))
    assert (found["covered"], found["left out"]) == (True, (1, True, True))
    assert found["twice"] == (False, "other tools' hooks in the allocators call heaptop's twice")
    assert (found["stop"], found["same"], found["again"]) == ("", True, (True, ""))
