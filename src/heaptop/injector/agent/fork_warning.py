"""The filter that keeps CPython's warning at a fork quiet, where it comes because of the agent's thread (3.12 on)."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import Namespace, builtin_module, posix, read_proc


def make_matcher(s: Any) -> Any:
    """What stands for a regular expression in our warnings filter; only its ``match`` is ever called.

    It matches the warning that 3.12+ gives at fork because of *our* thread: when the process has exactly one
    other. With more of its own, the application would have been warned without us, and is.
    """
    text = "This process (pid=%d) is multi-threaded, use of " % s.pid

    def match(message: str) -> bool:
        try:
            return (
                s.attached
                and message.startswith(text)
                and posix.getpid() == s.pid
                and b"\nThreads:\t2\n" in read_proc("/proc/self/status")
            )
        except BaseException:
            return False

    return Namespace(match=match)


def current_filters() -> Any:
    """The list that the interpreter looks warnings up in, now (``catch_warnings`` swaps it)."""
    warnings = sys.modules.get("warnings")
    found = getattr(warnings, "filters", None)
    if type(found) is not list:
        found = getattr(builtin_module("_warnings"), "filters", None)
    return found if type(found) is list else None


def keep_filter_first(s: Any) -> None:
    """Have our entry in front: a ``simplefilter("error")`` of the application would make its fork raise.

    ``_filters_mutated`` is not called on purpose. It only empties the registries of warnings already shown, and
    they would be shown again; an entry that says "ignore" is never registered there.
    """
    if s.filter is None:
        return
    filters = current_filters()
    if filters is None or (filters and filters[0] is s.filter):
        return
    remove_identical(filters, s.filter)
    filters.insert(0, s.filter)
    if not any(known is filters for known in s.filter_lists):
        s.filter_lists = [*s.filter_lists[-7:], filters]


def remove_identical(items: list[Any], item: Any) -> None:
    """Remove every entry that is ``item`` itself; ``list.remove`` would compare, and run somebody's ``__eq__``."""
    for i in range(len(items) - 1, -1, -1):
        if i < len(items) and items[i] is item:
            del items[i]
