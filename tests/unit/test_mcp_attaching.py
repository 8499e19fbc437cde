"""Calls of tools, as far as they need no process: two at once, one per process, each ended with its cancellation."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import CancelledError

import pytest

pytest.importorskip("mcp", reason="the extra heaptop[mcp] is not installed")
import anyio

from heaptop import api
from heaptop.errors import HeaptopError, ProcessNotFound, TargetError
from heaptop.mcp import attaching as module
from heaptop.mcp.attaching import AT_ONCE, Attaching, ToolCall

NOBODY = 4_194_305
"""A pid above the largest that Linux gives."""


class FakeProcess:
    """Attached to within ``with``; counts how many are, of one pid and of all."""

    now: dict[int, int]
    most: list[int]

    def __init__(self, pid: int, now: dict[int, int], is_others: bool = False) -> None:
        self.pid = pid
        self.is_others = is_others
        self.now = now
        self.cancelled = threading.Event()

    def __enter__(self) -> FakeProcess:
        self.now[self.pid] = self.now.get(self.pid, 0) + 1
        return self

    def __exit__(self, *error: object) -> None:
        self.now[self.pid] -= 1

    def cancel(self) -> None:
        self.cancelled.set()


async def quiet(passed: float, waits_for: str) -> None:
    """Progress that nobody wants."""


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """How often each pid is attached to now."""
    now: dict[int, int] = {}
    monkeypatch.setattr(api, "attach", lambda pid, **options: FakeProcess(pid, now))
    monkeypatch.setattr(module, "real_user", lambda pid: os.geteuid())
    return now


async def test_one_attach_per_process_and_two_at_once(attached: dict[int, int]) -> None:
    seen: list[tuple[int, int]] = []
    others = threading.Event()

    def work(process: api.Process) -> int:
        seen.append((max(attached.values()), sum(attached.values())))
        others.wait(0.05)
        return process.pid

    calls = Attaching()
    answers = await asyncio.gather(*(calls.attached(pid, work, quiet) for pid in (1, 1, 2, 3, 2, 1)))
    assert answers == [1, 1, 2, 3, 2, 1]
    assert max(of_one for of_one, _ in seen) == 1
    assert max(of_all for _, of_all in seen) <= AT_ONCE
    assert set(attached.values()) == {0}


async def test_a_cancelled_call_has_detached_when_it_returns(attached: dict[int, int]) -> None:
    began = threading.Event()

    def work(process: api.Process) -> None:
        began.set()
        assert isinstance(process, FakeProcess)
        assert process.cancelled.wait(30)
        process.cancelled.clear()  # as the next question to a process does
        assert process.cancelled.wait(30), "a cancellation is repeated"
        raise CancelledError

    calls = Attaching()
    async with anyio.create_task_group() as group:
        group.start_soon(calls.attached, 5, work, quiet)
        assert await asyncio.to_thread(began.wait, 30)
        assert attached == {5: 1}
        group.cancel_scope.cancel()
    assert attached == {5: 0}
    assert await calls.attached(5, lambda process: process.pid, quiet) == 5, "the next one is not held up"


async def test_closing_ends_all_calls(attached: dict[int, int]) -> None:
    began = threading.Event()

    def job(call: ToolCall) -> None:
        began.set()
        while True:
            call.check()

    calls = Attaching()
    waiting = asyncio.create_task(calls.work(job, quiet))
    assert await asyncio.to_thread(began.wait, 30)
    await calls.close()
    with pytest.raises(HeaptopError, match="the server ends"):
        await waiting


async def test_a_call_that_is_cancelled_twice_has_ended_too() -> None:
    began, ended = threading.Event(), threading.Event()

    def job(call: ToolCall) -> None:
        began.set()
        try:
            while True:
                call.check()
        finally:
            time.sleep(0.2)  # a detach takes its time
            ended.set()

    waiting = asyncio.create_task(Attaching().work(job, quiet))
    assert await asyncio.to_thread(began.wait, 30)
    waiting.cancel()
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()


async def test_progress_is_reported_and_a_client_that_is_gone_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPORTED", 0.01)
    reported: list[tuple[float, str]] = []

    def job(call: ToolCall) -> None:
        call.show("working")
        while True:
            call.check()

    async def report(passed: float, waits_for: str) -> None:
        reported.append((passed, waits_for))
        if len(reported) == 3:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await Attaching().work(job, report)
    times = [passed for passed, _ in reported]
    assert times == sorted(set(times))
    assert reported[-1][1] == "working"


async def test_a_process_of_another_user_is_refused_before_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    now: dict[int, int] = {}

    def attach(pid: int, **options: object) -> FakeProcess:
        looked.append(pid)
        return FakeProcess(pid, now, is_others=True)

    monkeypatch.setattr(api, "attach", attach)
    monkeypatch.setattr(module, "real_user", lambda pid: os.geteuid() + 1)
    with pytest.raises(TargetError, match="belongs to another user"):
        await Attaching().attached(9, lambda process: process.pid, quiet)
    assert looked == []
    assert await Attaching(any_user=True).attached(9, lambda process: process.pid, quiet) == 9


async def test_a_pid_that_another_users_process_gets_meanwhile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    now: dict[int, int] = {}
    monkeypatch.setattr(api, "attach", lambda pid, **options: FakeProcess(pid, now, is_others=True))
    monkeypatch.setattr(module, "real_user", lambda pid: os.geteuid())
    with pytest.raises(TargetError, match="belongs to another user"):
        await Attaching().attached(9, lambda process: process.pid, quiet)
    assert now == {}


async def test_no_process_is_not_found() -> None:
    with pytest.raises(ProcessNotFound):
        await Attaching().attached(NOBODY, lambda process: process.pid, quiet)
