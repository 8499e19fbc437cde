"""heaptop: a live heap profiler for the terminal that attaches to running CPython processes.

A program may name intervals of its work for it: see :class:`phase`.
"""

from __future__ import annotations

from collections.abc import Callable

__version__ = "0.1.0"
__all__ = ["phase"]

_listener: Callable[[str, int, bool], None] | None = None
"""Set by an agent in this process while it is there: called with a phase's name, its number, and whether it begins."""

from heaptop.phases import phase  # noqa: E402 - it reads what is above
