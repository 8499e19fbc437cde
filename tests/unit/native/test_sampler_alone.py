"""The sampler's tables without an interpreter: what the countdown and the clock say on the average over many seeds, and
a lock that whoever has it does not give back."""

from __future__ import annotations

import ctypes
import math
import statistics
import sysconfig

import pytest

from tests.support.building import library_with
from tests.support.core_builds import SANITIZED, STRICT, sanitized_throughout

KB, MB = 1 << 10, 1 << 20


class Drawn(ctypes.Structure):
    """As in the source, in bytes."""

    _fields_ = [(name, ctypes.c_double) for name in ("allocated", "estimate", "clock", "own", "first")]
    allocated: float
    estimate: float
    clock: float
    own: float
    first: float


class Paced(ctypes.Structure):
    """As in the source, in bytes but for ``samples``."""

    _fields_ = [(name, ctypes.c_double) for name in ("allocated", "estimate", "own", "samples", "interval")]
    allocated: float
    estimate: float
    own: float
    samples: float
    interval: float


@pytest.fixture(scope="module")
def alone() -> ctypes.CDLL:
    options = [option for option in STRICT if option not in ("-fvisibility=hidden", "-std=gnu11")]
    options += [f"-I{sysconfig.get_path('include')}", "-DPy_LIMITED_API=0x03080000", "-lm"]
    loaded = ctypes.CDLL(
        str(library_with("sampling_alone.c", options=[*options, *(SANITIZED if sanitized_throughout() else ())]))
    )
    loaded.lost_in_wait.argtypes, loaded.lost_in_wait.restype = [ctypes.c_uint64] * 2, ctypes.c_int64
    loaded.draw.argtypes = [ctypes.c_uint64] * 4 + [ctypes.c_int] * 2 + [ctypes.c_uint64, ctypes.c_void_p]
    loaded.pace.argtypes = [ctypes.c_uint64] * 2 + [ctypes.c_uint32, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p]
    return loaded


def drawn(
    alone: ctypes.CDLL, times: int, interval: int, other: int, again: int, threads: int, count: int, size: int
) -> list[Drawn]:
    found = []
    for seed in range(1, times + 1):
        found.append(Drawn())
        alone.draw(seed, interval, other, again, threads, count, size, ctypes.byref(found[-1]))
    return found


def assert_unbiased(errors: list[float], scale: float) -> None:
    """Within four standard errors; ``scale`` is of one error, so that a spread of nearly nothing is no failure."""
    assert abs(statistics.fmean(errors)) < 4 * statistics.stdev(errors) / math.sqrt(len(errors)) + 1e-3 * scale


@pytest.mark.parametrize("interval", [64 * KB, 512 * KB, 2 * MB, 64 * MB])
@pytest.mark.parametrize("other", [0, 64 * KB, 4 * MB])
@pytest.mark.parametrize(("threads", "count", "size"), [(50, 20, 5000), (3, 2000, 2000), (4, 10, 3 * MB)])
def test_bytes_and_clock_are_right_on_the_average(
    alone: ctypes.CDLL, interval: int, other: int, threads: int, count: int, size: int
) -> None:
    """For threads that end before they have met a mark, also where the rate changes under them."""
    found = drawn(alone, 400, interval, other, 0, threads, count, size)
    scale = statistics.fmean(each.allocated for each in found)
    assert_unbiased([each.estimate - each.allocated for each in found], scale)
    assert_unbiased([each.clock - each.allocated for each in found], scale)


@pytest.mark.parametrize("again", [64 * KB, 2 * MB])
def test_a_session_after_another(alone: ctypes.CDLL, again: int) -> None:
    found = drawn(alone, 400, 64 * KB, 0, again, 1, 2000, 2000)
    scale = statistics.fmean(each.allocated for each in found)
    assert_unbiased([each.estimate - each.allocated for each in found], scale)
    assert_unbiased([each.own - each.allocated for each in found], scale)


def test_a_session_after_a_much_coarser_one(alone: ctypes.CDLL) -> None:
    """A thread takes part as soon as it has allocated a MiB, whatever the rate was before."""
    found = drawn(alone, 100, 64 * KB, 0, 4096 * MB, 1, 2000, 2000)
    assert 0 < max(each.first for each in found) <= MB + 4000
    assert max(abs(each.own - each.allocated) for each in found) <= MB


@pytest.mark.parametrize("other", [0, 8 * KB, 16 * MB])
def test_the_clock_of_one_thread_is_exact(alone: ctypes.CDLL, other: int) -> None:
    for each in drawn(alone, 50, 64 * MB, other, 0, 1, 3000, 3000):
        assert each.own == each.allocated


def test_a_lock_that_is_not_given_back(alone: ctypes.CDLL) -> None:
    """Births are dropped and counted, a death is found missing, and the end waits for another time."""
    assert f"{alone.stuck_here():b}" == "1" * 10


@pytest.mark.parametrize("interval", [1, 64 * KB, 64 * MB])
@pytest.mark.parametrize("other", [4 * KB, 8 * MB])
def test_what_is_allocated_while_another_has_the_lock_is_counted(alone: ctypes.CDLL, interval: int, other: int) -> None:
    assert alone.lost_in_wait(interval, other) == 0


def test_a_lock_that_is_left_in_another_process(alone: ctypes.CDLL) -> None:
    assert alone.stuck_in_child() == 0


def test_a_fork_by_a_signal_handler_at_any_instruction_of_a_sample(alone: ctypes.CDLL) -> None:
    """The child returns there, and its program runs on, without samples."""
    assert alone.forked_in_samples() == 0


def test_types_of_an_earlier_session_are_nobodys(alone: ctypes.CDLL) -> None:
    """A clone may count for seconds, and sampling go off and on meanwhile."""
    assert f"{alone.told_late():b}" == "1" * 5


def test_sizes_that_nobody_can_have_are_not_counted(alone: ctypes.CDLL) -> None:
    assert f"{alone.enormous():b}" == "1" * 6


def paced(alone: ctypes.CDLL, seed: int, interval: int, quota: int, count: int, size: int) -> Paced:
    found = Paced()
    alone.pace(seed, interval, quota, count, size, ctypes.byref(found))
    return found


def test_a_burst_is_sampled_more_coarsely_before_the_agent_looks_again(alone: ctypes.CDLL) -> None:
    """A gigabyte at one sample in 512 bytes would be two million samples. They are at most four quotas instead: one, a
    half, a quarter, and an eighth for each further doubling."""
    quota = 400
    for seed in range(1, 6):
        burst = paced(alone, seed, 512, quota, 500_000, 2000)
        doubled = int(math.log2(burst.interval / 512))
        assert burst.interval == 512 << doubled
        limits = [max(quota >> time, quota // 8) for time in range(doubled + 1)]
        assert sum(limits[:-1]) <= burst.samples < sum(limits) or burst.interval == 4 * MB
        assert burst.samples < 4 * quota
        assert 1 * MB <= burst.interval <= 4 * MB
        assert burst.own == burst.allocated


def test_the_interval_is_not_doubled_for_ever_nor_without_a_quota(alone: ctypes.CDLL) -> None:
    assert paced(alone, 1, 2 * MB, 5, 100_000, 8000).interval == 4 * MB
    assert paced(alone, 1, 512, 0, 10_000, 2000).interval == 512


@pytest.mark.parametrize(("quota", "count", "size"), [(1, 3000, 2000), (5, 300, 2000), (20, 20_000, 400)])
def test_estimates_are_right_on_the_average_where_samples_decide_on_the_interval(
    alone: ctypes.CDLL, quota: int, count: int, size: int
) -> None:
    found = [paced(alone, seed, 512, quota, count, size) for seed in range(1, 1001)]
    scale = statistics.fmean(each.allocated for each in found)
    assert_unbiased([each.estimate - each.allocated for each in found], scale)
