"""A target that cannot answer yet: heaptop says so and counts, and what was cancelled never runs later."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

import pytest

from heaptop.errors import AttachCancelled, InterpreterBusy
from heaptop.protocol.source import Waiting
from tests.interpreters import SAMPLE, SUPPORTED, Interpreter
from tests.support.attaching import attach_once, is_held, opened, resting
from tests.support.processes import EXIT_CODE, Facts, Target, difference, eventually, running

HELD: Final = ["3.8", "3.11-debian", "3.12", "3.14"]


def end_call(target: Target) -> None:
    """Until the target has ended the call it is in."""
    until = len(target.said()) + 1
    target.write(b".")
    assert eventually(lambda: len(target.said()) >= until)


@contextlib.contextmanager
def ending_calls(target: Target) -> Iterator[None]:
    """One after another ends, for as long as the block takes."""
    over = threading.Event()

    def end() -> None:
        while not over.wait(0.02):
            target.write(b".")

    thread = threading.Thread(target=end)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def check_undisturbed(target: Target, before: Facts) -> None:
    """No thread, descriptor or tracer is there, nor comes when the interpreter runs again.

    A native thread that waits for the GIL cannot be taken out of that; it sees that it was cancelled and ends, without
    a line of Python, as soon as it gets it. Its descriptor does not wait for that.
    """
    assert [each for each in difference(before, Facts.of(target.pid)) if not each.startswith("thread ")] == []
    for _ in range(3):
        assert not is_held(target.pid)
        end_call(target)
        assert difference(before, resting(target.pid)) == []
    assert difference(before, resting(target.pid)) == []


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
@pytest.mark.parametrize("gil", ["kept", "given back"])
def test_waiting_is_told_and_cancelling_leaves_nothing(interpreter: Interpreter, gil: str) -> None:
    with running(interpreter, "calling", gil) as target:
        before = Facts.of(target.pid)
        end_call(target)
        with opened(target.pid) as attachment:
            if gil == "kept":
                waiting = attachment.event(Waiting)
                while waiting.phase != "waiting for the interpreter":
                    waiting = attachment.event(Waiting)
                later = attachment.event(Waiting)
                assert later.seconds > waiting.seconds >= 0
            attachment.source.cancel()
            if gil == "kept":
                assert isinstance(attachment.error(), AttachCancelled)
        if gil == "given back":
            assert difference(before, resting(target.pid)) == [], "already in the middle of a call"
        check_undisturbed(target, before)
        with ending_calls(target):
            attach_once(target.pid, census=gil != "kept")  # a census needs the GIL many times, each a call apart
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert set(target.said()) == {"called"}
        assert target.stderr() == ""


@pytest.mark.pythons(*HELD)
def test_busy_for_longer_than_one_waits(interpreter: Interpreter) -> None:
    with running(interpreter, "calling", "kept") as target:
        before = Facts.of(target.pid)
        end_call(target)
        with opened(target.pid, wait=0.1) as attachment:
            assert isinstance(attachment.error(), InterpreterBusy)
        check_undisturbed(target, before)
        with ending_calls(target):
            attach_once(target.pid)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons(*HELD)
def test_cancelled_again_and_again_with_calls_still_queued(interpreter: Interpreter, cycles: int) -> None:
    """A pending call has 32 places; what is queued already is not queued again."""
    with running(interpreter, "calling", "kept") as target:
        before = Facts.of(target.pid)
        for _ in range(min(cycles, 40)):
            with opened(target.pid, wait=0.05) as attachment:
                time.sleep(0.05)
                attachment.source.cancel()
        check_undisturbed(target, before)
        with ending_calls(target):
            attach_once(target.pid)
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""
