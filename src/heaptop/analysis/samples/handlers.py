"""The request, task or job that a stack belongs to, by the function that handles it.

Nothing of the target is asked for it: on a sampled stack there is the function of a server, framework or event loop
that calls the program's code, and below it the function that it calls. That is the **handler**: a view, a Celery task,
the coroutine of an asyncio task. So it is known of recordings too, and no path, argument or other value is read.

A stack does not distinguish one call of a handler from another, nor show what Python code does not call: the name of an
asyncio task, the URL of a request. It does not show who began a thread or a task either.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.text.code_places import CodePlaces

NO_HANDLER: Final = "(no handler)"
"""What no known server, framework or event loop called, or these do themselves; or a stack that was cut before."""

ENTRIES: Final = (
    ("request", "wsgiref/handlers.py", "run"),
    ("request", "werkzeug/serving.py", "execute"),
    ("request", "flask/app.py", "dispatch_request"),
    ("request", "gunicorn/workers/sync.py", "handle_request"),
    ("request", "gunicorn/workers/gthread.py", "handle_request"),
    ("request", "gunicorn/workers/base_async.py", "handle_request"),
    ("request", "gevent/pywsgi.py", "run_application"),
    ("request", "django/core/handlers/base.py", "_get_response"),
    ("request", "django/core/handlers/base.py", "_get_response_async"),
    ("request", "uvicorn/protocols/http/h11_impl.py", "run_asgi"),
    ("request", "uvicorn/protocols/http/httptools_impl.py", "run_asgi"),
    ("request", "starlette/routing.py", "app"),
    ("request", "fastapi/routing.py", "run_endpoint_function"),
    ("request", "aiohttp/web_app.py", "_handle"),
    ("request", "tornado/web.py", "_execute"),
    ("celery", "celery/app/trace.py", "trace_task"),
    ("asyncio", "asyncio/events.py", "_run"),
    ("asyncio", "asyncio/runners.py", "run"),  # of an event loop in C, such as uvloop's
    ("executor", "concurrent/futures/thread.py", "run"),
    ("executor", "anyio/_backends/_asyncio.py", "run"),
    ("thread", "threading.py", "_bootstrap_inner"),
)
"""What is called, the end of the file, and the function (without its class) that calls the program's code."""

STARTERS: Final = frozenset(("asyncio", "executor", "thread", "celery"))
"""Of these entries, what called them runs for as long as the loop, and has no part in what that calls. Who calls the
entry of a request may wait for the answer, as a test does."""
WORK: Final = frozenset(("request", "asyncio", "celery"))
"""Of these entries: what runs in them ends soon, and so do loops that it starts."""
_MOST_NAMES: Final = 3
_LOCAL: Final = "<locals>."


class _Handler(NamedTuple):
    """What follows from the frames of a stack up to one, from the outermost in."""

    kind: str = ""
    functions: tuple[str, ...] = ()
    """Below the innermost entry: the outermost function of the program's own, or else of a package."""
    file: str = ""  # Of the last of them
    rank: int = 0  # Whose code that is

    @property
    def is_open(self) -> bool:
        """Whether it is a function made within another, a decorator's wrapper mostly: the one that it calls is named
        with it."""
        return self.rank == _OWN and _LOCAL in self.functions[-1] and len(self.functions) < _MOST_NAMES


_LIBRARY, _PACKAGE, _OWN = 0, 1, 2
"""The standard library's code is no handler; a package's is, where there is none of one's own."""


class Handlers:
    """The handlers of stacks: worked out once a stack, as stacks come."""

    def __init__(self, samples: SampledBlocks, places: CodePlaces) -> None:
        self._samples = samples
        self._places = places
        self._handlers = [_Handler()]
        self._numbers = {_Handler(): 0}
        self._of = array("i", [0])  # by stack: a position in _handlers
        self._entries = array("i")  # by code: likewise of what such a function calls, 0 where it is no entry
        self._ranks = array("b")  # by code

    def name(self, stack: int) -> str:
        """``request create_session (shop/views.py)``, of a stack that has a frame; :data:`NO_HANDLER` without one."""
        self._extend()
        handler = self._handlers[self._of[stack]]
        if not handler.functions:
            return f"{handler.kind} {NO_HANDLER}".lstrip()
        called = " › ".join(function.rpartition(_LOCAL)[2] for function in handler.functions)
        return f"{handler.kind} {called} ({self._places.short(handler.file)})"

    def _extend(self) -> None:
        stacks, codes = self._samples.stacks, self._samples.codes
        for code in range(len(self._entries), len(codes)):
            file, function = codes[code].file, codes[code].function
            self._entries.append(self._number(_Handler(entry_of(file, function))))
            is_own, is_library = self._places.is_user(file), self._places.is_standard_library(file)
            self._ranks.append(_OWN if is_own else _LIBRARY if is_library else _PACKAGE)
        for node in range(len(self._of), len(stacks)):
            code, by = stacks.codes[node], self._of[stacks.parents[node]]
            self._of.append(self._entries[code] or (by and self._called(by, code)))

    def _called(self, number: int, code: int) -> int:
        """The handler where code of no entry is called by a stack of this one."""
        by, rank = self._handlers[number], self._ranks[code]
        file, function = self._samples.codes[code].file, self._samples.codes[code].function
        if rank > by.rank:
            return self._number(_Handler(by.kind, (function,), file, rank))
        is_name = not function.rpartition(".")[2].startswith("<")  # <genexpr>, <lambda>
        if rank == _OWN and by.is_open and is_name and function != by.functions[-1]:
            return self._number(_Handler(by.kind, (*by.functions, function), file, rank))
        return number

    def _number(self, handler: _Handler) -> int:
        number = self._numbers.setdefault(handler, len(self._handlers))
        if number == len(self._handlers):
            self._handlers.append(handler)
        return number


_BY_FUNCTION: Final[dict[str, list[tuple[str, str]]]] = {}
for _kind, _file, _name in ENTRIES:
    _BY_FUNCTION.setdefault(_name, []).append((f"/{_file}", _kind))


def entry_of(file: str, function: str) -> str:
    """What such a function calls; empty for one that is no entry."""
    ends = _BY_FUNCTION.get(function.rpartition(".")[2], ())
    return next((kind for end, kind in ends if file.endswith(end)), "")
