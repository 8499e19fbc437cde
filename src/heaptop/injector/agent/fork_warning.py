"""The filters that keep CPython's warning at a fork quiet, where it comes because of the agent's thread (3.12 on)."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import builtin_module


def make_filters(pid: int) -> list[Any]:
    """The entries for ``warnings.filters``, with the text of posixmodule.c.

    A plain text is compared as a whole, by C (``Python/_warnings.c``, check_matched). For an object with a ``match``
    in Python the handler of a signal that came during the fork would run in there, and the interpreter would drop what
    it raises: the program would miss a SIGTERM. So what a program with threads of its own would be warned of without
    us is quiet too.
    """
    text = "This process (pid=%d) is multi-threaded, use of %s() may lead to deadlocks in the child."
    return [("ignore", text % (pid, call), DeprecationWarning, None, 0) for call in ("fork", "forkpty")]


def current_filters() -> Any:
    """The list that the interpreter looks warnings up in, now (``catch_warnings`` swaps it)."""
    warnings = sys.modules.get("warnings")
    found = getattr(warnings, "filters", None)
    if type(found) is not list:
        found = getattr(builtin_module("_warnings"), "filters", None)
    return found if type(found) is list else None


def keep_filters_first(s: Any) -> None:
    """Have our entries in front: a ``simplefilter("error")`` of the application would make its fork raise.

    ``_filters_mutated`` is not called on purpose. It only empties the registries of warnings already shown, and
    they would be shown again; an entry that says "ignore" is never registered there.
    """
    filters = current_filters()
    if filters is None or [id(each) for each in filters[: len(s.filters)]] == [id(each) for each in s.filters]:
        return
    for each in s.filters:
        remove_identical(filters, each)
    filters[:0] = s.filters
    if not any(known is filters for known in s.filter_lists):
        s.filter_lists = [*s.filter_lists[-7:], filters]


def remove_identical(items: list[Any], item: Any) -> None:
    """Remove every entry that is ``item`` itself; ``list.remove`` would compare, and run somebody's ``__eq__``."""
    for i in range(len(items) - 1, -1, -1):
        if i < len(items) and items[i] is item:
            del items[i]
