"""``heaptop.api.aio``, as far as it needs no process: whatever is cancelled has ended when the cancellation returns."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import CancelledError

import pytest

from heaptop.api import aio, process


class FakeProcess:
    """Takes its time to attach, to answer and to detach."""

    def __init__(self) -> None:
        self.began, self.cancelled = threading.Event(), threading.Event()
        self.state = "detached"
        self.was_cancelled = False

    def __enter__(self) -> FakeProcess:
        self.state = "attaching"
        self.began.set()
        time.sleep(0.2)
        self.began.clear()
        self.state = "attached"
        return self

    def __exit__(self, *error: object) -> None:
        self.state = "detaching"
        time.sleep(0.2)
        self.state = "detached"

    def cancel(self) -> None:
        self.cancelled.set()

    def census(self, by: str, where: str) -> None:
        self.cancelled.clear()
        self.began.set()
        assert self.cancelled.wait(5)
        self.cancelled.clear()  # as the next question of the same call does
        assert self.cancelled.wait(5)
        self.was_cancelled = True
        raise CancelledError


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeProcess:
    made = FakeProcess()
    monkeypatch.setattr(process, "attach", lambda pid, **options: made)
    return made


async def cancel_twice(task: asyncio.Task[None], fake: FakeProcess) -> None:
    """While it is busy, and while it waits for the end of that."""
    assert await asyncio.to_thread(fake.began.wait, 30)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_attach_that_is_cancelled_when_it_has_succeeded_detaches(fake: FakeProcess) -> None:
    async def attach() -> None:
        async with aio.attach(1):
            pytest.fail("it was cancelled")

    await cancel_twice(asyncio.create_task(attach()), fake)
    assert fake.state == "detached"


async def test_a_call_that_is_cancelled_twice_has_ended_and_detaches(fake: FakeProcess) -> None:
    async def count() -> None:
        async with aio.attach(1) as attached:
            await attached.census()

    task = asyncio.create_task(count())
    while fake.state != "attached":
        await asyncio.sleep(0.01)
    await cancel_twice(task, fake)
    assert fake.state == "detached"
    assert fake.was_cancelled


async def test_a_call_that_waits_for_its_turn_is_cancelled_without_the_one_that_runs(fake: FakeProcess) -> None:
    async with aio.attach(1) as attached:
        running = asyncio.create_task(attached.census())
        while not fake.began.is_set():
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(attached.census(), 0.1)
        assert not fake.cancelled.is_set()
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
