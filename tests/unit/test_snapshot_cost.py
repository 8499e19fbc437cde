"""What an open snapshot costs: when it is looked at, whose figure is whose, and when it is too much."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

from heaptop.injector.session.forecast import CLONE_LEAST, Headroom
from heaptop.injector.session.snapshot_cost import SHARE, SnapshotCost, excess, private_bytes
from heaptop.protocol.images import FIRST_ID, CloseRequest, Image, ImageGone, ImageMemory, ImageRequest, Progress
from heaptop.protocol.messages import Failure
from heaptop.protocol.source import ImageCost

MIB = 1 << 20
IMAGE = Image(FIRST_ID, 3, 0, 0, 0, 60_000_000_000, 77, 40 * MIB, 0, 0, 0, (), 0, True)


class Outside:
    """A clone that is looked at, and the time that takes."""

    def __init__(self, *private: int | None) -> None:
        self.now = 100.0
        self.takes = 0.0
        self.private = iter(private)

    def look(self, pid: int) -> int | None:
        assert pid == IMAGE.pid
        self.now += self.takes
        return next(self.private)

    def watch(self) -> SnapshotCost:
        return SnapshotCost(self.look, lambda: self.now)


def test_of_none_nothing_is_said() -> None:
    assert Outside().watch().cost() is None


def test_what_it_had_at_first_are_its_tables_and_what_it_gets_are_copies() -> None:
    outside = Outside(30 * MIB, 30 * MIB, 35 * MIB)
    watch = outside.watch()
    watch.take(IMAGE)
    outside.now += 10
    assert watch.cost() == ImageCost(3, 30 * MIB, 0, 50.0)
    assert watch.cost() == ImageCost(3, 30 * MIB, 5 * MIB, 50.0)


def test_it_has_no_more_tables_than_it_says() -> None:
    watch = Outside(50 * MIB, 50 * MIB).watch()
    watch.take(IMAGE)
    assert watch.cost() == ImageCost(3, 40 * MIB, 10 * MIB, 60.0)


def test_copies_that_cannot_be_seen_are_not_said_to_be_none() -> None:
    watch = Outside(None, None).watch()
    watch.take(IMAGE)
    assert watch.cost() == ImageCost(3, 40 * MIB, None, 60.0)


def test_what_cannot_be_seen_from_outside_the_clone_says() -> None:
    watch = Outside(None, None).watch()
    watch.take(IMAGE)
    watch.take(ImageMemory(3, 30 * MIB))
    watch.take(ImageMemory(3, 37 * MIB))
    assert watch.cost() == ImageCost(3, 30 * MIB, 7 * MIB, 60.0)


def test_a_large_one_is_looked_at_seldom() -> None:
    outside = Outside(MIB, 2 * MIB)
    outside.takes = 0.1
    watch = outside.watch()
    watch.take(IMAGE)
    outside.now += 0.1 / SHARE - 0.2
    first = watch.cost()
    outside.now += 0.2
    second = watch.cost()
    assert first is not None
    assert second is not None
    assert (first.copied, second.copied) == (0, MIB)


def test_one_that_is_built_is_known_by_its_tables_until_there_is_none() -> None:
    watch = Outside().watch()
    watch.on_request(ImageRequest(FIRST_ID, 1))
    assert watch.cost() == ImageCost(0, 0, None, 0.0)
    watch.take(Progress(FIRST_ID, "searching", 1, 2, 9 * MIB))
    watch.take(Progress(FIRST_ID + 1, "answering", 1, 2, MIB))
    watch.take(Failure(FIRST_ID + 1, "another one's"))
    assert watch.cost() == ImageCost(0, 9 * MIB, None, 0.0)
    watch.take(Failure(FIRST_ID, "cancelled"))
    assert watch.cost() is None


def test_what_is_gone_costs_nothing() -> None:
    watch = Outside(MIB).watch()
    watch.take(IMAGE)
    watch.take(ImageGone(3, "its time was over"))
    assert watch.cost() is None


def test_it_may_hold_half_of_what_there_would_be_without_it() -> None:
    cost = ImageCost(3, 40 * MIB, 60 * MIB, 10.0)
    assert excess(cost, Headroom()) == ""
    assert excess(cost, Headroom(100 * MIB)) == ""
    assert "it used 100 MiB of memory and only 99 MiB were left" in excess(cost, Headroom(100 * MIB - 1))


def test_where_its_copies_are_not_known_there_must_be_room_for_some() -> None:
    cost = ImageCost(3, 0, None, 10.0)
    assert excess(cost, Headroom(CLONE_LEAST)) == ""
    assert excess(cost, Headroom(CLONE_LEAST - 1)) != ""


@pytest.fixture
def child() -> Iterator[int]:
    """That has written 16 MiB of its own."""
    reader, writer = os.pipe()
    gc.disable()  # a collection writes to every object here, and leaves the child the old pages alone
    pid = os.fork()
    if pid == 0:
        block = bytearray(b"x") * (16 * MIB)
        os.write(writer, b"." if block else b"")
        signal.pause()
        os._exit(0)
    try:
        assert os.read(reader, 1) == b"."
        yield pid
    finally:
        gc.enable()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)


def test_private_is_what_a_child_has_written(child: int) -> None:
    held = private_bytes(os.getpid(), child)
    assert held is not None
    assert 16 * MIB < held < 32 * MIB


def test_nothing_is_known_of_what_is_no_child(child: int) -> None:
    assert private_bytes(os.getpid(), os.getpid()) is None
    assert private_bytes(child, child) is None


def test_an_image_is_no_longer_waited_for_whose_end_failed_but_its_cost_is_still_known() -> None:
    """Nobody knows whether it is there."""
    watch = Outside(30 * MIB, 30 * MIB, 30 * MIB).watch()
    watch.take(IMAGE)
    watch.on_close(CloseRequest(5))
    watch.take(Failure(4, "another request"))
    assert watch.is_open
    watch.take(Failure(5, "out of memory in the target"))
    assert (watch.is_open, watch.is_there, watch.cost() is not None) == (False, True, True)
    watch.take(IMAGE)
    assert watch.is_open, "the next one"
