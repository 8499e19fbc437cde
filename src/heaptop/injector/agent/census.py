"""The census in the best mode that can be had: in a clone, while the target stands still, or in slices."""

from __future__ import annotations

from typing import Any

from heaptop.injector.agent.base import posix
from heaptop.injector.agent.clock import clock, cpu_clock, exclude_call, pauses, rest, rest_if_due
from heaptop.injector.agent.core import core_failure, send_core
from heaptop.injector.agent.outbox import send_reliably
from heaptop.injector.agent.own import core_options
from heaptop.injector.agent.sampler import send_samples, watch_tracing
from heaptop.injector.agent.slices import census_in_slices
from heaptop.injector.agent.tick import memory_blocks
from heaptop.injector.agent.values import bounded, joined, text_field
from heaptop.injector.agent.wire import WORK, array_size, send

WALL = 0x40000000
"""``__WALL`` of wait(2): a clone that sends no signal at its end is waited for with nothing less."""
MAX_CRASHES = 3
CLONE_TIME = 30_000_000_000
"""Nanoseconds that a count in a clone may take, and :data:`CLONE_RATE` more for each memory block."""
CLONE_RATE = 1_000
CLONE_PATIENCE = 1_000_000_000
"""Nanoseconds after which the core has ended a clone whose time is over."""
STOP_LEAST = 1_000_000
"""Nanoseconds that a count in the target itself takes, however few objects there are."""
STOP_RATE = 100
"""Nanoseconds that it is expected to take for each memory block, before there was one."""
STOP_MARGIN = 2
"""How many times as long it may take as was expected, where it was preferred to a clone."""


def census(s: Any, number: int) -> None:
    """Count the heap in the best mode that can be had, and answer with Types and Census, or with Decision."""
    mode, reason = text_field(s, "mode"), text_field(s, "reason")
    watch_tracing(s)
    if mode != "python" and s.core is None:
        mode, reason = "python", s.core_reason
    if mode != "python" and census_preferred_stopped(s, number, reason):
        return
    if mode == "clone":
        reason = census_in_clone(s, number)
        if not reason:
            return
        mode = "python" if s.crashes else "stop"
    if mode == "stop":
        stopped = census_stopped(s, number, reason)
        if not stopped:
            return
        reason = stopped
    census_in_slices(s, number, reason)


WORK["census?"] = census


def census_in_clone(s: Any, number: int) -> str:
    """Count in a clone of the process; why that cannot be, or an empty text when the request was answered.

    A clone that fails is a failed census: the next one is counted in a clone again. After some failures in a row
    they are taken for a fault of the core's, which then counts no more in this session.
    """
    if s.crashes >= MAX_CRASHES:
        return str(s.core_reason)
    begin, cpu = clock(), cpu_clock()
    limit = CLONE_TIME + CLONE_RATE * memory_blocks(s)
    try:
        child, pause, pause_cpu = begin_clone(s, limit)
    except (OSError, RuntimeError, MemoryError) as error:
        return "no clone could be made: " + core_failure(error)
    try:
        wait_for_clone(s, child, begin + limit + CLONE_PATIENCE)
        types, rows, stats = s.core.end()
    except MemoryError as error:
        return "a clone could not count: %s" % error
    except RuntimeError as error:
        s.clones_cpu += clock() - begin  # what it used is not known any more: at most a core all the time
        s.crashes += 1
        s.core_reason = "%d censuses in a clone failed in a row, the last one: %s" % (s.crashes, core_failure(error))
        if s.crashes == MAX_CRASHES:
            send_core(s, number, False, False)
        raise
    finally:
        s.core.abort()  # nothing, when it has ended
    s.crashes = 0
    s.clones_cpu += stats["cpu_ns"]
    cpu = cpu_clock() - cpu + stats["cpu_ns"]
    send_counted(s, number, "clone", "", types, rows, stats, begin, (pause, pause_cpu), cpu)
    return ""


def begin_clone(s: Any, limit: int) -> tuple[int, int, int]:
    """(pid of the clone, which may live for ``limit`` ns; nanoseconds of pause; of these, our CPU time). While the
    interpreter collects, its lists are not to be read."""
    for _ in range(200):
        options = core_options(s, limit)
        rest(s)  # the pause shall have nothing else in it
        cpu = cpu_clock()
        try:
            _, child, pause = s.core.begin(s.type_count, options)
        except BlockingIOError:
            rest(s, 0.002)
            continue
        used = cpu_clock() - cpu
        exclude_call(s, cpu, pause)
        return int(child), int(pause), min(int(pause), used)
    raise RuntimeError("the interpreter was collecting all the time")


def wait_for_clone(s: Any, child: int, end: int) -> None:
    """Rest until the clone has ended or its time is over, and answer ticks meanwhile; only the core buries it."""
    seconds = 0.001
    while clock() < end:
        rest(s, seconds)  # at once: the clone was pause enough
        try:
            if posix.waitid(posix.P_PID, child, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT | WALL) is not None:
                return
        except OSError:  # no child any more; or no such wait in this kernel, or under this filter: the core waits
            return
        seconds = min(1.5 * seconds, 0.01)
        s.serve_meanwhile(s)


def census_preferred_stopped(s: Any, number: int, reason: str) -> bool:
    """Count while the target stands still, where heaptop expects that to be a far shorter pause than a clone; whether
    the request was answered. What crashed in a clone is not tried so, and figures are those of a clone."""
    limit = bounded(s.request.get("stop_ns"), 0, 0, 1 << 62)
    if s.crashes or s.clone_knows_more or not 0 < STOP_MARGIN * expected_stop(s) <= limit:
        return False
    try:
        count_stopped(s, number, reason, limit, True)
        return True
    except TimeoutError:
        s.stop_rate = expected_rate(s, STOP_MARGIN * limit)
    except RuntimeError:
        s.clone_knows_more = True
    except (OSError, MemoryError):
        pass  # the next time it may be possible
    rest(s)
    return False


def census_stopped(s: Any, number: int, reason: str) -> str:
    """Count while the target stands still; why that cannot be, or an empty text when the request was answered."""
    expected = expected_stop(s)
    if not expected:
        return joined(reason, "the pause cannot be predicted")
    budget = bounded(s.request.get("budget_ns"), 100_000_000, 0, 1 << 62)
    if expected <= budget:
        if s.crashes:
            return joined(reason, str(s.core_reason))
        try:
            count_stopped(s, number, reason, budget, False)
            return ""
        except TimeoutError:
            s.stop_rate = expected_rate(s, STOP_MARGIN * budget)
            expected = expected_stop(s)
        except (OSError, RuntimeError, MemoryError) as error:
            return joined(reason, "not stopped either: " + core_failure(error))
    fields = {"request": number, "mode": "stop", "reason": reason, "pause_ns": expected, "budget_ns": budget}
    send(s, "decision", fields)
    return ""


def expected_stop(s: Any) -> int:
    """Nanoseconds that a count in the target itself is expected to take; 0 where that cannot be known."""
    blocks = memory_blocks(s)
    return STOP_LEAST + int(blocks * s.stop_rate) if blocks else 0


def expected_rate(s: Any, pause: int) -> float:
    """The rate by which a count is expected to take so long."""
    return pause / max(memory_blocks(s), 1)


def count_stopped(s: Any, number: int, reason: str, limit: int, as_clone: bool) -> None:
    """Count while the target stands still, for ``limit`` nanoseconds at most, and answer. Raises what the core does:
    TimeoutError after that time, and with ``as_clone`` RuntimeError where a clone would know more."""
    begin, cpu = clock(), cpu_clock()
    for _ in range(200):
        options = core_options(s, limit)
        if as_clone:
            options["as_clone"] = True
        rest(s)
        stop_cpu = cpu_clock()
        try:
            types, rows, stats = s.core.stop(s.type_count, options)
            break
        except BlockingIOError:  # the interpreter collects: its lists are not to be read
            rest(s, 0.002)
    else:
        raise BlockingIOError(11, "the interpreter was collecting all the time")
    # By the core's own clock: when it is back, whoever has waited for the GIL runs first, and not we.
    pause, used = stats["pause_ns"], cpu_clock() - stop_cpu
    exclude_call(s, stop_cpu, pause)
    s.stop_rate = expected_rate(s, min(pause, used))
    send_counted(s, number, "stop", reason, types, rows, stats, begin, (pause, min(pause, used)), cpu_clock() - cpu)


def send_counted(
    s: Any,
    number: int,
    mode: str,
    reason: str,
    types: bytes,
    rows: bytes,
    stats: dict[str, Any],
    begin: int,
    pause: tuple[int, int],
    cpu: int,
) -> None:
    """What the core has counted, as Types and Census; its msgpack goes into the messages as it is. ``pause``: by the
    clock, and of that our CPU time."""
    rest_if_due(s)
    s.typed = s.typed + stats["typed"]
    new = array_size(types)
    if new:
        first = s.type_count
        s.unread.append((first, types))
        s.type_count += new
        send_reliably(s, "types", {"first": first, "names": types})
        rest_if_due(s)
    send_samples(s)
    rest_if_due(s)
    reply = {
        "id": number,
        "time_ns": begin,
        "mode": mode,
        "mode_reason": reason,
        "complete": bool(stats["complete"]),
        "cut": stats["cut"],
        "rows": rows,
        "duration_ns": clock() - begin,
        "cpu_ns": cpu,
        "agent_bytes": stats["child_bytes"],
        "sizeof_guessed": stats["sizeof_guessed"],
        "owned": stats["owned"],
        "mapped": stats["mapped"],
        "at_least": stats["at_least"],
    }
    reply.update(pauses(s, pause))
    send(s, "census", reply)
