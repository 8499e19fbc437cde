"""Names that a program gives to intervals of its own work: ``with heaptop.phase("load"): …``.

The program imports this, not heaptop's user. Without an agent in the process it does nothing but look whether there is
one; an agent makes itself the listener (``heaptop._listener``), and informs heaptop, which draws phases over its
charts. With :func:`log_phases` the program's own log records name them, whether there is an agent or not.
This module never starts a thread, reads a clock, or keeps anything of a phase that has ended. It is of Python 3.8, as
programs may be, and so is the package's ``__init__``.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import heaptop

if TYPE_CHECKING:
    from typing import TypeAlias

F = TypeVar("F", bound="Callable[..., Any]")

_Entered: TypeAlias = "tuple[phase, int, _Entered] | None"

_numbers = itertools.count(1)
"""One for each time that a phase begins: its end has the same. Taking the next one is atomic."""

_entered: ContextVar[_Entered] = ContextVar("heaptop.phases", default=None)
"""What this thread or task is in, innermost first: so one object may be used by several of them at a time."""

_is_logged = False  # Whether phases are noted for log records, too


class phase:
    """A phase named ``name``, as a context manager (``with`` and ``async with``) or a decorator. Raises
    :class:`TypeError` for a name that is no str.

    It lasts as the clock on the wall does, whoever runs meanwhile:

    - of a ``with`` or ``async with`` block, from its beginning to its end, exceptions included;
    - of a decorated function, for each call by itself;
    - of a decorated ``async`` function, from when its coroutine is first run until it is done, waiting included;
    - of a decorated generator, or ``async`` generator, from when it is first asked for an item until it is exhausted or
      closed, with all that its consumer does between two items.

    Phases may nest, and any number of threads and tasks may be in phases of one name, or in one object, at a time. A
    phase that began before an agent came is not seen.
    """

    __slots__ = ("_open", "name")

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a phase is named by a str, not {type(name).__name__}")
        self.name = name
        self._open: list[int] | None = None  # Numbers of phases that have begun and not ended

    def __enter__(self) -> phase:
        listener = heaptop._listener
        if listener is not None or _is_logged:
            number = next(_numbers)
            if self._open is None:
                self._open = []
            self._open.append(number)
            _entered.set((self, number, _live_blocks(_entered.get())))
            if listener is not None:
                listener(self.name, number, True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._open:
            self._end()

    async def __aenter__(self) -> phase:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def __call__(self, function: F) -> F:
        import inspect  # noqa: PLC0415 - expensive, and for decorators only

        if inspect.isasyncgenfunction(function):
            wrapped = _async_generator(self.name, function)
        elif inspect.iscoroutinefunction(function):
            wrapped = _coroutine(self.name, function)
        elif inspect.isgeneratorfunction(function):
            wrapped = _generator(self.name, function)
        else:
            wrapped = _function(self.name, function)
        return cast(F, functools.wraps(function)(wrapped))

    def _end(self) -> None:
        number = self._leave()
        listener = heaptop._listener
        if number is not None and listener is not None:
            listener(self.name, number, False)

    def _leave(self) -> int | None:
        """The number to end: of this thread or task if it began here, else (a generator that goes from one task to
        another) the last one. None where another thread was faster."""
        number = _take(self)
        numbers = self._open or []
        try:
            if number is None:
                return numbers.pop()
            numbers.remove(number)
        except (IndexError, ValueError):
            return None
        return number


def log_phases() -> Callable[[Any], bool]:
    """A filter for handlers of ``logging``, which passes all records and gives each ``heaptop_phase``: the names of the
    phases that its thread or task is in, outermost first, as ``import > parse``; empty in none.

    Phases that begin from now on are noted, also where there is no agent. A task that was made in a phase is in it
    until that ends; a thread begins in none. A record that has a ``heaptop_phase`` keeps it, so the handlers of a
    ``QueueListener`` may have the filter as well.
    """
    global _is_logged  # noqa: PLW0603 - a program asks for it once, and phases look at it each time
    _is_logged = True
    return _name_phases


def _name_phases(record: Any) -> bool:
    if not hasattr(record, "heaptop_phase"):
        names = []
        entry = _live_blocks(_entered.get())
        while entry is not None:
            names.append(entry[0].name)
            entry = _live_blocks(entry[2])
        record.heaptop_phase = " > ".join(reversed(names))
    return True


def _live_blocks(entry: _Entered) -> _Entered:
    """Without those on top that ended elsewhere: in a generator that another task or thread went on with."""
    while entry is not None and entry[1] not in (entry[0]._open or ()):
        entry = entry[2]
    return entry


def _take(wanted: phase) -> int | None:
    """Take the innermost entry of a phase out of what this thread or task is in; its number."""
    passed: list[tuple[phase, int]] = []
    entry = _live_blocks(_entered.get())
    while entry is not None:
        found, number, entry = entry
        entry = _live_blocks(entry)
        if found is wanted:
            for one in reversed(passed):
                entry = (*one, entry)
            _entered.set(entry)
            return number
        passed.append((found, number))
    return None


def _function(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if heaptop._listener is None and not _is_logged:
            return function(*args, **kwargs)
        with phase(name):
            return function(*args, **kwargs)

    return wrapped


def _coroutine(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        with phase(name):
            return await function(*args, **kwargs)

    return wrapped


def _generator(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with phase(name):
            return (yield from function(*args, **kwargs))

    return wrapped


def _async_generator(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapped(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        items = function(*args, **kwargs)
        with phase(name):
            try:
                item = await items.__anext__()
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await items.aclose()
                        raise
                    except BaseException as error:
                        item = await items.athrow(error)
                    else:
                        item = await items.asend(sent)
            except StopAsyncIteration:
                return

    return wrapped
