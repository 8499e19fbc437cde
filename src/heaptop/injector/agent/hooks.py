"""What the agent puts into the program, and takes out again: at its end, and in a forked child."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import FUNCTION, gc, posix
from heaptop.injector.agent.core import drop_core
from heaptop.injector.agent.counting import drop_lists
from heaptop.injector.agent.fork_warning import current_filters, keep_filters_first, make_filters, remove_identical
from heaptop.injector.agent.loader import check_socket
from heaptop.injector.agent.phases import listen_to_phases, make_listener
from heaptop.injector.agent.sampler import stop_sampling
from heaptop.injector.agent.tracer import stop_tracing
from heaptop.injector.agent.values import joined


def install(s: Any) -> None:
    """Put the warnings filters in, once what a fork has left here of another agent is out."""
    for callback in gc.callbacks[:]:
        if type(callback) in (FUNCTION, type(len)) and callback.__name__ == "heaptop_gc":
            callback("start", {})  # else it would leave at the next collection, and close the core that is ours by then
    s.leave = make_leave(s)
    s.listener = make_listener(s)
    listen_to_phases(s)
    if sys.version_info >= (3, 12):
        s.filters = make_filters(s.pid)
        keep_filters_first(s)
        boot = globals().get("BOOT")
        if boot is not None and boot["E"] is not None:
            remove_identical(boot["F"], boot["E"])


def uninstall(s: Any) -> None:
    """Take out what :func:`install` put in; safe to call twice, and in any state."""
    s.attached = False
    s.left = joined(stop_sampling(s), stop_tracing(s))
    drop_core(s)
    if s.phase_module is not None and s.phase_module.__dict__.get("_listener") is s.listener:
        s.phase_module.__dict__["_listener"] = None
    s.phase_module = s.listener = None
    if s.callback is not None:
        remove_identical(gc.callbacks, s.callback)
    if s.filters:
        last = current_filters()
        for filters in s.filter_lists + ([] if last is None else [last]):
            for each in s.filters:
                remove_identical(filters, each)
        boot = globals().get("BOOT")
        if boot is not None and boot["E"] is not None and last is not None and posix.getpid() == s.pid:
            boot["F"] = last  # the bootstrap takes it out with its last line
            last.insert(0, boot["E"])
    s.callback = s.leave = None  # both functions know s: this breaks the cycle
    s.filters = []
    s.filter_lists = []


def make_leave(s: Any) -> Any:
    """What the core's callback calls in a fork's child."""

    def heaptop_leave() -> None:
        leave_child(s)

    return heaptop_leave


def leave_child(s: Any) -> None:
    """In a forked child, where our thread does not exist: unhook, and close our socket if it is still that."""
    if not s.attached:
        return
    s.attached = False  # at once: two threads may come here
    if s.core is not None:
        s.core.abort()  # the clone is not this process's: it lets go of what it has of it
        if s.hooked:
            s.core.sample_leave()
    s.sampling = s.hooked = s.snapshot_open = False
    uninstall(s)
    try:
        check_socket(s)
        posix.close(s.fd)
    except (OSError, EOFError):
        pass
    if s.counting is not None:
        drop_lists(s.counting)
        s.counting = None
