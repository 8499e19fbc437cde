"""The builtin modules that the agent uses, without leaving them in the target, and some of its types."""

from __future__ import annotations

import sys
from typing import Any

IMPORTED: list[Any] = []
"""Modules that the program had not imported: see :func:`clear_modules`."""


def builtin_module(name: str) -> Any:
    """A builtin module, without leaving an entry in ``sys.modules`` that was not there before."""
    found = sys.modules.get(name)
    if found is None:
        found = __import__(name)
        sys.modules.pop(name, None)
        IMPORTED.append(found)
    return found


def clear_modules() -> None:
    """A module and its functions hold one another: without this they would stay until the program collects garbage.
    Whoever has imported the same meanwhile has a module of its own. The last that is done: nothing works after it.

    No ``itertools`` is among them: its types would stay all the same, for a type is always part of a cycle.
    """
    for module in IMPORTED:
        module.__dict__.clear()


gc = builtin_module("gc")
posix = builtin_module("posix")
signals = builtin_module("_signal")
importing = builtin_module("_imp")
Namespace: Any = type(sys.implementation)
CODE = type(builtin_module.__code__)
FUNCTION = type(builtin_module)


def read_proc(file: str) -> bytes:
    """The beginning of a file of /proc, by calls that the target's filters were asked about: nothing here lists a
    directory or reads a link, for which a filter may kill. Empty where it cannot be read."""
    try:
        fd = posix.open(file, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            return posix.read(fd, 1 << 14)  # type: ignore[no-any-return]
        finally:
            posix.close(fd)
    except OSError:
        return b""


def is_builtin(function: Any) -> bool:
    """Whether it is C's own, and nobody has put a Python function in its place."""
    return type(function) is type(len)


def allocated_blocks(s: Any) -> int | None:
    """``sys.getallocatedblocks()``; None where there may be other interpreters and Python is 3.12 or later: it reads
    the arenas of all, also while one with a GIL of its own frees them, and the process would crash."""
    if s.core is not None:
        return s.core.blocks(sys.getallocatedblocks)  # type: ignore[no-any-return]
    if sys.version_info >= (3, 12) and may_have_interpreters():
        return None
    return sys.getallocatedblocks()


def may_have_interpreters() -> bool:
    """Whether the program may have made interpreters from Python; those that C code makes are not seen. To list them is
    not safe: that writes into their states, which may just be freed."""
    return "_interpreters" in sys.modules or "_xxsubinterpreters" in sys.modules
