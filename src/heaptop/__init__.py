"""heaptop: a live heap profiler for the terminal that attaches to running CPython processes.

A program may name intervals of its work for it: see :class:`phase`, and :func:`log_phases` for its own log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__version__ = "0.1.0"
__all__ = ["log_phases", "phase"]

_listener: Callable[[str, int, bool], None] | None = None
"""Set by an agent in this process while it is there: called with a phase's name, its number, and whether it begins."""

from heaptop.phases import log_phases, phase  # noqa: E402 - it reads what is above


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext heaptop`` calls it: the magics ``%heap`` and ``%%heap``."""
    from heaptop.inside import notebook  # noqa: PLC0415 - for IPython only

    notebook.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext heaptop`` calls it."""
    from heaptop.inside import notebook  # noqa: PLC0415 - for IPython only

    notebook.unload(shell)
