"""Attaches for one call of a tool: one attach at a time to a process, at most two at once, each ended with its call."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import anyio

from heaptop import api
from heaptop.errors import HeaptopError, ProcessNotFound, TargetError
from heaptop.injector.inspect.process import real_user

AT_ONCE: Final = 2
REPORTED: Final = 1.0  # Seconds between two reports of progress
AGAIN: Final = 0.05  # Seconds between two attempts to cancel a call

T = TypeVar("T")
Report = Callable[[float, str], Awaitable[None]]  # Sends progress: seconds so far, and what is being waited for


class ToolCall:
    """One piece of work on a thread, which another thread may cancel."""

    def __init__(self) -> None:
        self.waits_for = ""
        self.process: api.Process | None = None
        self._cancelled = False

    def show(self, text: str) -> None:
        """Note what is being waited for."""
        self.waits_for = text

    def cancel(self) -> None:
        """Have it end soon. Repeat it until it has: a cancellation between two questions to the process is lost."""
        self._cancelled = True
        if self.process is not None:
            self.process.cancel()

    def check(self) -> None:
        """Raise CancelledError once it was cancelled."""
        if self._cancelled:
            raise CancelledError


class Attaching:
    """Who may be attached to, and how many at once."""

    def __init__(self, *, any_user: bool = False, options: dict[str, Any] | None = None) -> None:
        """``options``: of :func:`heaptop.api.attach`."""
        self.options = options or {}
        self.any_user = any_user
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._calls: set[ToolCall] = set()

    async def attached(self, pid: int, work: Callable[[api.Process], T], report: Report) -> T:
        """Attach, work, detach. A cancelled call has detached when the cancellation returns.

        Raises TargetError also for a process of another user, unless those are allowed.
        """

        def job(call: ToolCall) -> T:
            self.refuse_others(pid)
            process = api.attach(pid, progress=call.show, **self.options)
            if process.is_others and not self.any_user:  # the pid was given to another process meanwhile
                raise _others(pid)
            call.process = process
            call.check()
            with process:
                return work(process)

        lock = self._locks.setdefault(pid, asyncio.Lock())
        async with lock:
            return await self.work(job, report)

    async def work(self, job: Callable[[ToolCall], T], report: Report) -> T:
        """Run a job on a thread, as one of those at once. A cancelled one has ended when the cancellation returns."""
        async with self._at_once:
            call, begin = ToolCall(), time.monotonic()
            running = asyncio.get_running_loop().run_in_executor(None, job, call)
            self._calls.add(call)
            try:
                while not running.done():
                    await asyncio.wait([running], timeout=REPORTED)
                    if not running.done():
                        await report(time.monotonic() - begin, call.waits_for)
                return _result(running)
            finally:
                # Whoever cancels again, by anyio or by asyncio, waits for the end, too.
                with anyio.CancelScope(shield=True):
                    while not running.done():
                        call.cancel()
                        with suppress(asyncio.CancelledError):
                            await asyncio.wait([running], timeout=AGAIN)
                self._calls.discard(call)
                running.exception()  # it was raised above, or nobody waits for it any more

    async def close(self) -> None:
        """Cancel all calls, and return when those that attach have ended."""
        while True:
            for call in self._calls:
                call.cancel()
            # One without a process attaches to none any more: it looks whether it was cancelled.
            if all(call.process is None for call in self._calls):
                return
            await asyncio.sleep(AGAIN)

    def refuse_others(self, pid: int) -> None:
        """Raise TargetError for a process of another user, unless those are allowed; ProcessNotFound for none."""
        try:
            is_own = real_user(pid) == os.geteuid()
        except OSError:
            raise ProcessNotFound(f"There is no process {pid}.") from None
        if not is_own and not self.any_user:
            raise _others(pid)


def _result(ended: asyncio.Future[T]) -> T:
    """What it came to. Raises HeaptopError where :meth:`Attaching.close` has cancelled it: its client still waits."""
    try:
        return ended.result()
    except asyncio.CancelledError:
        raise HeaptopError("The call was cancelled: the server ends.") from None


def _others(pid: int) -> TargetError:
    return TargetError(
        f"Process {pid} belongs to another user.",
        why="This server attaches to processes of its own user only.",
        fix="The user can allow it: start the server with `heaptop mcp --any-user`.",
    )
