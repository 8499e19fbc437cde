"""Clocks that nobody has replaced, and for how long the program waits for us: the pauses that Census reports.

Between two rests the GIL may be ours all the time, and no Python code of the program's runs. That is measured by our
own CPU time: by the wall clock it would have in it how long we have waited ourselves, for the GIL or a processor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heaptop.injector.agent.base import builtin_module, is_builtin, posix, signals


def _pick_clock(own: str, clock_id: int) -> Callable[[], int]:
    """A nanosecond clock that nobody has replaced (freezegun puts Python functions into ``time``)."""
    time = builtin_module("time")
    function: Any = getattr(time, own, None)
    if is_builtin(function):
        return function  # type: ignore[no-any-return]
    by_id: Any = getattr(time, "clock_gettime_ns", None)
    if is_builtin(by_id):
        return lambda: by_id(clock_id)
    # elapsed time since boot, in ticks of 1/100 s: coarse, but true
    return lambda: int(posix.times()[4] * 1_000_000_000)


clock = _pick_clock("monotonic_ns", 1)  # CLOCK_MONOTONIC
cpu_clock = _pick_clock("thread_time_ns", 3)  # CLOCK_THREAD_CPUTIME_ID

HOLD = 500_000
"""Nanoseconds after which we rest, where we can: the next piece of work may take as long again."""
WAITED = 100_000
"""Nanoseconds: a read that takes less has not waited, and nobody else has run meanwhile."""
REST = 0.0003
"""Seconds: long enough for a thread that waits for the GIL to wake up and take it."""
REST_BUDGET = 2_000_000_000
"""Nanoseconds after which the way in has no more rests: each costs many switch intervals where many threads want the
GIL, and heaptop does not wait for ever."""


def rest(s: Any, seconds: float = REST) -> None:
    """Give the GIL back for so long."""
    end_hold(s)
    if s.core is None:
        signals.sigtimedwait((), seconds)
    else:
        s.core.rest(int(seconds * 1e9))  # should the interpreter end meanwhile, so does this thread (life.h)
    s.hold_cpu = cpu_clock()


def rest_if_due(s: Any) -> None:
    """Between two pieces of work: rest when it is time."""
    if cpu_clock() - s.hold_cpu > HOLD:
        rest(s)


def end_hold(s: Any) -> None:
    """Note for how long the program has waited since the last rest: in all, and without a clone or a stop."""
    held = cpu_clock() - s.hold_cpu
    s.gil = max(s.gil, held)
    s.longest = max(s.longest, held + s.stopped)
    s.stopped = 0


def exclude_call(s: Any, cpu: int, stopped: int) -> None:
    """The call that began at ``cpu`` of our CPU time is no work of ours: it has stopped the program for ``stopped``."""
    s.hold_cpu += cpu_clock() - cpu
    s.stopped += stopped


def longest_hold(s: Any) -> tuple[int, int]:
    """For how long the program has waited for us at a time, since this was asked last: without a clone or a stop, and
    in all."""
    end_hold(s)
    found = (s.gil, s.longest)
    s.gil = s.longest = 0
    s.hold_cpu = cpu_clock()
    return found


def pauses(s: Any, stopped: tuple[int, int]) -> dict[str, Any]:
    """The fields of Census that report the pauses since the last one."""
    gil, longest = longest_hold(s)
    return {"pause_ns": longest, "pauses": (s.start_ns, s.compile_ns, s.core_ns, gil, *stopped)}


BEGUN = cpu_clock()
"""What the bootstrap and this piece have used of it, in two holds: the bootstrap waits for the piece in between."""
