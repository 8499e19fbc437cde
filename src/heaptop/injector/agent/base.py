"""The builtin modules that the agent uses, without leaving them in the target, and some of its types."""

from __future__ import annotations

from typing import Any

# Nothing is imported: a program may have replaced `__import__`, and its finders (sys.meta_path) are asked for any name.
# Python that is not ours would run, with its locks, on the agent's thread. The import system's globals are not kept: a
# census leaves out what the agent's names lead to.
sys: Any = __spec__.__init__.__globals__["sys"]  # type: ignore[misc]
importing: Any = __spec__.__init__.__globals__["_imp"]  # type: ignore[misc]
Namespace: Any = type(sys.implementation)

IMPORTED: list[Any] = []
"""Modules that the program had not imported: see :func:`clear_modules`."""


def builtin_module(name: str) -> Any:
    """A builtin module, without leaving an entry in ``sys.modules`` that was not there before."""
    found = sys.modules.get(name)
    if found is None:
        found = importing.create_builtin(Namespace(name=name, origin="built-in"))
        importing.exec_builtin(found)
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
signals: Any = sys.modules["_signal"]  # never a new one, which forgets the handlers of the program's signals
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
    return sys.getallocatedblocks()  # type: ignore[no-any-return]


def may_have_interpreters() -> bool:
    """Whether the program may have made interpreters from Python; those that C code makes are not seen. To list them is
    not safe: that writes into their states, which may just be freed."""
    return "_interpreters" in sys.modules or "_xxsubinterpreters" in sys.modules
