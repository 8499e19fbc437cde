"""The same for asyncio: :func:`attach` gives a process whose methods are awaited.

    async with aio.attach(4711) as process:
        findings = await process.hunt(seconds=30)

Each call runs on one thread that belongs to the process. A cancelled call has ended when the cancellation returns.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from heaptop.analysis.rss.memory import MemoryByUse
from heaptop.analysis.snapshot.retained import RetainedRow
from heaptop.analysis.snapshot.waste import WasteReport
from heaptop.api import process
from heaptop.api.figures import AllocationSite, CensusTable, Dominator, KeptBy
from heaptop.api.snapshot import HeapSnapshot
from heaptop.protocol.findings import Findings
from heaptop.watching.queries import ALL

AGAIN: Final = 0.05
"""Seconds between two attempts to cancel a call."""

T = TypeVar("T")
Call = Callable[..., Any]


class AsyncSnapshot:
    """As :class:`heaptop.api.HeapSnapshot`."""

    now: HeapSnapshot
    """What needs no waiting: ``count``, ``bytes``, ``references``, ``pause``, ``gaps``."""

    def __init__(self, snapshot: HeapSnapshot, owner: AsyncProcess) -> None:
        self.now = snapshot
        self._owner = owner

    async def why(self, name: str, most: int = ALL) -> KeptBy:
        return await self._owner._call(self.now.why, name, most)

    async def retainers(self, name: str, number: int = 3) -> tuple[RetainedRow, ...]:
        return await self._owner._call(self.now.retainers, name, number)

    async def dominators(self, name: str = "", most: int = 20, below: int = 0) -> tuple[Dominator, ...]:
        return await self._owner._call(self.now.dominators, name, most, below)

    async def waste(self, where: str = "") -> WasteReport:
        return await self._owner._call(self.now.waste, where)


class AsyncProcess:
    """As :class:`heaptop.api.Process`, which is :attr:`process`."""

    process: process.Process

    def __init__(self, pid: int, options: dict[str, Any]) -> None:
        self._pid = pid
        self._options = options
        self._thread = ThreadPoolExecutor(1, f"heaptop {pid}")
        self._is_attached = False

    async def _call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run it on the thread of the process."""
        job = self._thread.submit(function, *arguments, **named)
        running = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if job.cancel():  # it had not begun: another call runs
                raise
            while not running.done():  # a cancellation between two questions to the process is lost
                self.process.cancel()
                with contextlib.suppress(asyncio.CancelledError):  # cancelled once more
                    await asyncio.wait([running], timeout=AGAIN)
            running.exception()  # it was cancelled, or had ended: nobody waits for it
            raise

    async def __aenter__(self) -> AsyncProcess:
        try:
            self.process = await asyncio.get_running_loop().run_in_executor(
                self._thread, lambda: process.attach(self._pid, **self._options)
            )
            await self._call(self._enter)
        except BaseException as error:
            if self._is_attached:  # it was cancelled when that had succeeded
                await self.__aexit__(type(error), error, error.__traceback__)
            self._thread.shutdown(wait=False)
            raise
        return self

    def _enter(self) -> None:
        self.process.__enter__()
        self._is_attached = True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            await self._call(self.process.__exit__, kind, error, at)
        finally:
            self._thread.shutdown(wait=False)

    async def census(self, by: str = "type", where: str = "") -> CensusTable:
        return await self._call(self.process.census, by, where)

    async def watch(self, every: float = 10.0, by: str = "type", where: str = "") -> AsyncIterator[CensusTable]:
        censuses = self.process.watch(every, by, where)
        while (census := await self._call(next, censuses, None)) is not None:
            yield census

    async def memory(self) -> MemoryByUse:
        return await self._call(self.process.memory)

    async def sites(self, seconds: float = 10.0, by: str = "producer") -> tuple[AllocationSite, ...]:
        return await self._call(self.process.sites, seconds, by)

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncSnapshot]:
        opened = self.process.snapshot()
        snapshot = await self._call(opened.__enter__)
        try:
            yield AsyncSnapshot(snapshot, self)
        finally:
            await self._call(opened.__exit__, None, None, None)

    async def hunt(self, seconds: float = 30.0, marks: int = 4, *, collect: bool = False) -> Findings:
        return await self._call(self.process.hunt, seconds, marks, collect=collect)

    async def record(self, path: str | Path, seconds: float, *, every: float = 10.0, force: bool = False) -> None:
        await self._call(self.process.record, path, seconds, every=every, force=force)


def attach(pid: int, **options: Any) -> AsyncProcess:
    """A running process, to be attached to by ``async with``; options as of :func:`heaptop.api.attach`."""
    return AsyncProcess(pid, options)
