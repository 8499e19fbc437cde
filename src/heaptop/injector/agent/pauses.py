"""The pauses that Census reports: the longest times for which the program has waited for the agent."""

from __future__ import annotations

from typing import Any

from heaptop.injector.agent.clock import cpu_clock, end_hold


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
    """The fields of Census that say what the program has felt since the last one."""
    gil, longest = longest_hold(s)
    return {"pause_ns": longest, "pauses": (s.start_ns, s.compile_ns, s.core_ns, gil, *stopped)}
