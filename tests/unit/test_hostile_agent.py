"""Whoever holds the agent's end of the socket may send anything, for as long as it likes: what is kept has bounds, what
is beyond them is merged and said, and deadlines hold."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heaptop.analysis.heap.history import History
from heaptop.analysis.samples import stacks
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.stacks import ReportedStacks
from heaptop.cli.terminal import ProgressLine
from heaptop.errors import ProtocolError, UnresponsiveTarget
from heaptop.protocol import bounds
from heaptop.protocol.bounds import NAME, OTHER_TYPES, MessageBounds
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.event_queue import EventQueue, weight
from heaptop.protocol.images import ImageTypes
from heaptop.protocol.messages import (
    BIRTH,
    TYPED,
    Census,
    CodeName,
    Codes,
    Memory,
    Message,
    OwnPages,
    Row,
    Sampler,
    Samples,
    StackNode,
    Stacks,
    TypeName,
    Types,
)
from heaptop.protocol.registry import REPLIES
from heaptop.protocol.source import Behind, Deliver, Event, Received, is_tick, never_behind
from heaptop.watching.source_watch import SourceWatch
from tests.fakes.source import FakeSource

pytestmark = pytest.mark.slow

FEW = 10


def named(first: int, count: int) -> Types:
    return Types(first, tuple(TypeName("hostile", f"T{first + place}") for place in range(count)))


def census(id: int, rows: tuple[Row, ...]) -> Census:
    return Census(id, id * 10**9, "clone", True, "", rows, 1, 1, 1, 1, 0)


def fed(taken: list[Message | None], *takers: Callable[[Message], None]) -> None:
    for message in taken:
        if message is not None:
            for take in takers:
                take(message)


def test_types_beyond_the_limit_are_one_other_type_and_the_census_says_so() -> None:
    gate, history, samples = MessageBounds(types=FEW), History(), SampledBlocks()
    said: list[Message] = [named(first, 7) for first in range(0, 7000, 7)]
    rows = tuple(Row(kind, kind % 3, 1, 100) for kind in range(7000))
    fed([gate.take(message) for message in [*said, census(1, rows)]], history.feed, samples.feed)
    assert len(samples.types) == FEW + 1
    snapshot = history.latest
    assert snapshot is not None
    assert snapshot.total.count == 7000
    assert snapshot.total.bytes == 700_000
    assert {cell.type for cell in snapshot.cells} == {*named(0, FEW).names, OTHER_TYPES}
    assert sum(cell.count for cell in snapshot.cells if cell.type == OTHER_TYPES) == 7000 - FEW
    assert not snapshot.census.complete
    assert "(other types)" in snapshot.census.cut


def test_types_beyond_the_limit_stay_apart_by_interpreter() -> None:
    gate = MessageBounds(types=FEW)
    rows = tuple(Row(kind, 0, 1, 100, interpreter=kind % 2) for kind in range(2 * FEW))
    gate.take(named(0, 2 * FEW))
    merged = gate.take(census(1, rows))
    assert isinstance(merged, Census)
    assert [(row.interpreter, row.count) for row in merged.rows if row.type == FEW] == [(0, FEW / 2), (1, FEW / 2)]


def test_a_census_within_the_limit_is_let_through_as_it_is() -> None:
    gate = MessageBounds(types=FEW)
    assert gate.take(named(0, FEW)) == named(0, FEW)
    whole = census(1, tuple(Row(kind, 0, 1, 100) for kind in range(FEW)))
    assert gate.take(whole) is whole


def test_the_names_of_types_take_no_more_than_their_limit() -> None:
    gate = MessageBounds(type_bytes=100)
    kept = [gate.take(Types(place, (TypeName("", "x" * 30),))) for place in range(50)]
    names = [name for each in kept if isinstance(each, Types) for name in each.names]
    assert names == [TypeName("", "x" * 30)] * 3 + [OTHER_TYPES]


def test_samples_of_types_beyond_the_limit_are_of_the_other_type() -> None:
    gate, samples = MessageBounds(types=FEW), SampledBlocks()
    sampler = Sampler(1, 1, True, 1024, 128, (1024,), 1)
    births = b"".join(BIRTH.pack(number, 0, 1, 64, kind + 1, 1, 0, 0) for number, kind in enumerate((3, 50, 99)))
    batch = Samples(1, 1, births, b"", TYPED.pack(0, 98))
    fed([gate.take(message) for message in (named(0, 100), sampler, batch)], samples.feed)
    assert [samples.type_name(sample.type) for sample in samples.live_blocks()] == [OTHER_TYPES] * 3


def test_an_open_snapshot_cannot_name_types_without_end() -> None:
    gate = MessageBounds(types=FEW)
    gate.take(ImageTypes(1, 0, named(0, FEW).names))
    with pytest.raises(ProtocolError):
        gate.take(ImageTypes(1, FEW, named(0, 1).names))
    gate = MessageBounds(type_bytes=100)
    for _ in range(5):
        gate.take(ImageTypes(1, 0, named(0, 2).names))
    with pytest.raises(ProtocolError):
        gate.take(ImageTypes(1, 0, named(0, 2).names))


def test_ranges_of_own_pages_are_bounded() -> None:
    with pytest.raises(ProtocolError):
        MessageBounds().take(Memory(1, 1, 0, own_pages=(OwnPages(1, 1, ""),) * (bounds.OWN_PAGES + 1)))


def test_code_beyond_the_limit_is_no_longer_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "CODE_BYTES", 100)
    said = ReportedStacks()
    for number in range(50):
        said.feed_codes(Codes(number, (CodeName(f"f{number:04}", "f" * 15, 1),)))
    said.feed_stacks(Stacks(1, tuple(StackNode(0, code, 1) for code in range(50))))
    assert len(said.codes) == 5
    assert [said[number] for number in (5, 6, 50)] == [5, stacks.FORGOTTEN, stacks.FORGOTTEN]


def test_fewer_codes_have_fewer_characters_too() -> None:
    said = ReportedStacks(most_codes=2)
    long = tuple(CodeName("f" * 300, f"f{number}", 1) for number in range(3))
    said.feed_codes(Codes(0, (long[0], CodeName("f", "f", 1), *long[1:], CodeName("g", "g", 1))))
    assert said.codes == [long[0], CodeName("f", "f", 1)]
    said = ReportedStacks(most_codes=2)
    said.feed_codes(Codes(0, long))
    assert said.codes == [long[0]]


def test_a_sampler_cannot_number_stacks_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "NUMBERS", 100)
    said = ReportedStacks()
    for number in range(100):
        said.feed_codes(Codes(number, (CodeName("f", "f", 1),)))
    with pytest.raises(ProtocolError):
        said.feed_codes(Codes(100, (CodeName("f", "f", 1),)))
    for number in range(1, 100):
        said.feed_stacks(Stacks(number, (StackNode(0, 0, 1),)))
    with pytest.raises(ProtocolError):
        said.feed_stacks(Stacks(100, (StackNode(0, 0, 1),)))


def test_a_recording_names_no_more_types_than_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TYPES", FEW)
    for feed in (History().feed, SampledBlocks().feed):
        with pytest.raises(ProtocolError):
            feed(named(0, FEW + 2))


def test_one_name_is_cut_where_no_honest_one_is_longer() -> None:
    long = Types(0, (TypeName("m" * 5000, "q" * 5000),))
    assert decode(encode(long), REPLIES) == Types(0, (TypeName("m" * (NAME - 1) + "…", "q" * (NAME - 1) + "…"),))


# -- what waits -----------------------------------------------------------------------------------------------


def test_who_sends_more_than_is_taken_waits() -> None:
    events = EventQueue(limit=1000)
    put = 0

    def flood() -> None:
        nonlocal put
        for number in range(100):
            events.put(Received(named(number * 100, 100)))
            put += 1

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    most = 0
    for taken in range(100):
        first = events.get(5.0)
        assert isinstance(first, Received)
        most = max(most, put - taken)
        assert isinstance(first.message, Types)
        assert first.message.first == taken * 100, "none is lost, and the order is kept"
    thread.join()
    assert most <= 1000 // weight(first) + 3


def test_what_is_dropped_is_only_what_an_agent_says() -> None:
    events = EventQueue(limit=0, patience=0.01)
    events.put(Received(named(0, 1)))
    events.put(Received(named(1, 1)))
    assert len(events) == 1
    events.close()
    source = FakeSource()
    source.open(events.put)
    source.end()
    assert len(events.drain()) == 2


def test_a_dropped_tick_does_not_wait_to_be_taken() -> None:
    """Or the source would ask for no other one, for ever."""
    said: list[Event] = []
    source = FakeSource()
    source.open(said.append)
    source.attach()
    source.tick()
    tick = next(event for event in said if is_tick(event))
    events = EventQueue(limit=0, patience=0.01)
    events.put(tick)
    events.put(tick)
    assert len(events) == 1
    assert events.is_behind()
    events.get(0)
    assert not events.is_behind()
    events.put(tick)
    events.drain()
    assert not events.is_behind()


# -- deadlines ------------------------------------------------------------------------------------------------


class Flooding(FakeSource):
    """Attaches, and says ticks without end; never a census."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.flood, daemon=True)

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver, behind)
        self.thread.start()

    def flood(self) -> None:
        self.attach()
        while not self.over.is_set():
            self.tick(census=False)

    def close(self, timeout: float = 5.0) -> None:
        self.over.set()
        self.thread.join()
        super().close(timeout)

    def census_now(self) -> None:
        """It is not counted."""


class Still(FakeSource):
    """Attaches, and says nothing: the process was stopped."""

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver, behind)
        self.attach()


@pytest.mark.parametrize("kind", [Flooding, Still])
def test_the_time_for_answers_ends_also_while_others_come(kind: type[FakeSource]) -> None:
    with (
        pytest.raises(UnresponsiveTarget, match=r"did not take a census within 0\.2 s"),
        SourceWatch(kind(), ProgressLine(), timeout=0.2) as watch,
    ):
        watch.census()


def test_what_a_command_was_asked_to_let_pass_is_not_counted_as_time_for_answers() -> None:
    with SourceWatch(Flooding(), ProgressLine(), timeout=0.3) as watch:
        began = time.monotonic()
        watch.wait(0.5, lambda left: "")
        assert time.monotonic() - began >= 0.5
        with pytest.raises(UnresponsiveTarget):
            watch.census()


# -- in a process that may not take more ----------------------------------------------------------------------

CAPPED = Path(__file__).parents[1] / "targets" / "hostile" / "endless.py"


@pytest.mark.sample(2)
@pytest.mark.parametrize("what", ["types", "codes", "stacks", "restarts", "phases", "collections", "censuses"])
def test_memory_is_bounded_whatever_comes_without_end(what: str) -> None:
    """A child with little address space, and limits a hundredth as large: without any it runs out of memory."""
    root = Path(__file__).parents[2]
    child = subprocess.run(
        [sys.executable, str(CAPPED), what], cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    assert child.returncode == 0, child.stderr[-2000:]
    assert child.stdout.startswith("kept "), child.stdout
