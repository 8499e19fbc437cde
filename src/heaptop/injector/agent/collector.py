"""Collections of garbage: those that the interpreter makes, and one that a person asks for.

Finalizers run on the agent's thread in the second, which is why ``threading`` and the names of threads matter here.
"""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import allocated_blocks, builtin_module, gc, is_builtin, posix, read_proc, signals
from heaptop.injector.agent.clock import clock, cpu_clock, exclude_call
from heaptop.injector.agent.fork_warning import remove_identical
from heaptop.injector.agent.values import take_all
from heaptop.injector.agent.wire import WORK, send

MAX_EVENTS = 4096
EVENT_FIELDS = 7


def make_gc_callback(s: Any) -> Any:
    """The function for ``gc.callbacks`` where there is no core. It runs on whichever thread collects, so it is short
    and never raises. But with a signal waiting, the program's handler runs where a Python function begins, and what it
    raises in a callback of the collector is lost to the program. The core's function is in C, for that reason."""

    def heaptop_gc(phase: str, info: dict[str, int]) -> None:
        try:
            if posix.getpid() != s.pid:
                s.leave()
            elif phase == "start":
                s.collections += 1
                s.gc_start = clock()
            elif len(s.events) >= MAX_EVENTS * EVENT_FIELDS:
                s.dropped += 1
            else:
                generation = info["generation"]
                row = (
                    s.gc_start,
                    generation,
                    info["collected"],
                    info["uncollectable"],
                    clock() - s.gc_start,
                    allocated_blocks(s) if generation == 2 else None,
                    s.core.sample_clock() if s.sampling else None,
                )
                # flat, so that no tracked tuple is left behind in the middle of a collection
                s.events.extend(row)
        except BaseException:
            s.dropped += 1

    return heaptop_gc


def watch_collections(s: Any) -> None:
    """Put a callback in, unless there is one, or a core on its way; the core's, as soon as there is a core."""
    before = s.callback
    if s.library or s.core_watches or (before is not None and s.core is None):
        return
    if s.core is None:
        s.callback = make_gc_callback(s)
    else:
        try:
            s.core.gc_watch(s.leave, sys.getallocatedblocks)
        except MemoryError:
            return  # the next request tries again
        s.core_watches = True
        s.callback = s.core.heaptop_gc
    gc.callbacks.append(s.callback)
    if before is not None:
        remove_identical(gc.callbacks, before)


def begun_collections(s: Any) -> int:
    """How many have begun since there is a callback."""
    return int(s.core.gc_begun()) if s.core_watches else int(s.collections)


def ended_collections(s: Any) -> tuple[list[Any], int]:
    """Rows of what has ended since the last time, and how many had no room."""
    events, dropped = take_all(s.events), s.dropped
    rows = [events[i : i + EVENT_FIELDS] for i in range(0, len(events), EVENT_FIELDS)]
    if s.core_watches:
        noted, more = s.core.gc_read()
        rows += noted
        dropped += more
    new, s.dropped_sent = dropped - s.dropped_sent, dropped
    return rows, new


MAX_RENAMING = 100


def collect(s: Any, number: int) -> None:
    """Have garbage collected in full, as a person has asked, and answer with Collected. The program's finalizers run
    here: while one of them waits, so do we, and ticks with us."""
    run: Any = gc.collect
    if not is_builtin(run):
        raise RuntimeError("the program has replaced gc.collect")
    was_known = known_to_threading()
    cpu = cpu_clock()
    try:
        reply = collected(run)
    finally:
        exclude_call(s, cpu, 0)  # Collected reports how long that was
        rename_new_threads()
        if known_to_threading() and not was_known:
            forget_by_threading()
    reply["id"] = number
    send(s, "collected", reply)


WORK["collect?"] = collect


def collected(run: Any) -> dict[str, int]:
    """What ``run``, which is ``gc.collect``, has found, by the interpreter's own sum: it returns 0 also where another
    thread is collecting, and has done nothing then."""
    for _ in range(200):
        before, begin = gc.get_stats()[2], clock()
        run()
        end, after = clock(), gc.get_stats()[2]
        if after["collections"] > before["collections"]:
            break
        signals.sigtimedwait((), 0.01)
    else:
        raise RuntimeError("the interpreter was collecting all the time")
    reply = {"time_ns": begin, "duration_ns": end - begin}
    reply.update([(name, after[name] - before[name]) for name in ("collected", "uncollectable")])
    return reply


def rename_new_threads() -> None:
    """Give threads that finalizers have started here the main thread's name. They have ours, by which heaptop would
    take them for an agent; one that has it still may start another, so it is looked until none is found."""
    own, usual = read_proc("/proc/thread-self/comm")[:-1], read_proc("/proc/self/comm")[:-1]
    if not own or not usual or own == usual:
        return
    if b"\nSeccomp:\t0\n" not in read_proc("/proc/thread-self/status"):
        return  # a filter may kill for what follows: then they keep our name
    for _ in range(MAX_RENAMING):
        try:
            ours = posix.readlink("/proc/thread-self").rpartition("/")[2]
            tids = posix.listdir("/proc/self/task")
        except OSError:
            return
        files = ["/proc/self/task/" + tid + "/comm" for tid in tids if tid != ours]
        named = [file for file in files if read_proc(file)[:-1] == own]
        for file in named:
            rename(file, usual)
        if not named:
            return


def rename(file: str, name: bytes) -> None:
    try:
        fd = posix.open(file, posix.O_WRONLY | posix.O_CLOEXEC)
        try:
            posix.write(fd, name)
        finally:
            posix.close(fd)
    except OSError:
        pass  # it is gone


def known_threads() -> Any:
    """``threading``'s own table of threads, by their idents; None where there is none, or not the usual one."""
    module = sys.modules.get("threading")
    found = module.__dict__.get("_active") if type(module) is type(sys) else None
    return found if type(found) is dict else None


def own_ident() -> Any:
    """This thread's, as ``threading`` knows it; None where the program has replaced the function that returns it."""
    function: Any = getattr(builtin_module("_thread"), "get_ident", None)
    return function() if is_builtin(function) else None


def known_to_threading() -> bool:
    """Whether ``threading`` has an entry for this thread, which it did not start: it makes one, for good, when code
    that runs here asks for the current thread."""
    table = known_threads()
    return table is not None and own_ident() in table


def forget_by_threading() -> None:
    """Take that entry out: another thread may have our ident once we are gone."""
    known_threads().pop(own_ident(), None)
