"""A source that waits for its turn: it is made when it is told to begin, and ends once, whatever happens meanwhile."""

from __future__ import annotations

import threading

from heaptop.errors import AttachCancelled, HeaptopError, PtraceDenied
from heaptop.protocol.deferred import DeferredSource
from heaptop.protocol.source import Attached, Ended, Event, TargetInfo
from tests.fakes.source import FakeSource

TARGET = TargetInfo(4711, "python shop.py", "3.12", "alice")


class Machine:
    """Makes the source when it is told to, and keeps what is delivered."""

    def __init__(self, error: Exception | None = None, *, held: bool = False) -> None:
        self.error = error
        self.made = FakeSource()
        self.events: list[Event] = []
        self.resumed = threading.Event()
        if not held:
            self.resumed.set()
        self.connecting = threading.Event()
        self.late = DeferredSource(TARGET, self.connect)
        self.late.open(self.events.append)

    def connect(self) -> FakeSource:
        self.connecting.set()
        assert self.resumed.wait(30)
        if self.error is not None:
            raise self.error
        return self.made

    def settle(self) -> None:
        for thread in threading.enumerate():
            if thread.name == "heaptop-late":
                thread.join(30)

    @property
    def errors(self) -> list[HeaptopError | None]:
        return [event.error for event in self.events if isinstance(event, Ended)]


def test_nothing_is_made_before_it_is_told_to_begin() -> None:
    machine = Machine()
    assert not machine.connecting.is_set()
    assert not machine.late.begun
    assert machine.late.target is TARGET
    machine.late.census_now()
    machine.late.begin()
    machine.late.begin()
    machine.settle()
    assert machine.late.begun
    machine.made.attach()
    assert [type(event) for event in machine.events] == [Attached]
    machine.late.census_now()
    assert machine.made.census_requests == 1
    machine.late.close()
    assert machine.made.closed
    assert machine.errors == [None]


def test_what_cannot_be_made_is_how_it_ends() -> None:
    machine = Machine(PtraceDenied("It is not yours."))
    machine.late.begin()
    machine.settle()
    [error] = machine.errors
    assert isinstance(error, PtraceDenied)
    machine.late.close()
    assert len(machine.errors) == 1


def test_a_fault_of_our_own_is_told_too() -> None:
    machine = Machine(ValueError("no"))
    machine.late.begin()
    machine.settle()
    [error] = machine.errors
    assert error is not None
    assert error.message == "heaptop failed: ValueError: no."


def test_it_can_be_cancelled_and_closed_before_it_begins() -> None:
    cancelled, closed = Machine(), Machine()
    cancelled.late.cancel()
    closed.late.close()
    for machine in (cancelled, closed):
        machine.late.begin()
        machine.settle()
        assert not machine.connecting.is_set()
        assert machine.late.begun
    assert isinstance(cancelled.errors[0], AttachCancelled)
    assert closed.errors == [None]


def test_what_is_closed_while_it_is_made_is_never_opened() -> None:
    machine = Machine(held=True)
    machine.late.begin()
    assert machine.connecting.wait(30)
    machine.late.close()
    machine.resumed.set()
    machine.settle()
    assert machine.errors == [None]
    machine.late.close()
    assert not machine.made.closed, "it was never open"
