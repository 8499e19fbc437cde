"""Sampling that is switched off, on again, or whose samples become void: what is said of what is not followed."""

from __future__ import annotations

import pytest

from heaptop.analysis.bands.table import table
from heaptop.analysis.callers.producer_table import older_at
from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.lifetimes.live_groups import volume_by_age
from heaptop.analysis.samples.producers import NO_SITE, live_total
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.messages import (
    BIRTH,
    Census,
    CodeName,
    Codes,
    Message,
    Row,
    Sampler,
    Samples,
    StackNode,
    Stacks,
    Tick,
    TypeName,
    Types,
)

SECOND = 10**9
MB = 10**6


class Session:
    """What a target says, a message a second. Its blocks of 1 MB are all sampled, and none is freed."""

    def __init__(self, *, ticks: int = 0) -> None:
        self.sampling = Sampling()
        self.second = 0
        self.epoch = 0
        self.clock = 0
        self.born = 0
        self.say(Types(0, (TypeName("", "bytes"),)))
        for _ in range(ticks):
            self.tick()
        self.on()
        self.say(Codes(0, (CodeName("/srv/app.py", "load", 1),)))
        self.say(Stacks(1, (StackNode(0, 0, 7),)))

    @property
    def now(self) -> int:
        self.second += 1
        return self.second * SECOND

    def say(self, message: Message) -> None:
        self.sampling.feed(message)

    def on(self) -> None:
        self.epoch += 1
        if not self.sampling.on:
            self.clock = self.born = 0
        self.say(Sampler(1, self.now, True, 1, 9, (1,), self.epoch, path=("/srv",)))

    def off(self) -> None:
        self.say(Sampler(2, self.now, False, 0, 9, (), self.epoch))

    def void(self) -> None:
        """Somebody has put older allocators back."""
        self.epoch += 1
        self.say(Sampler(1, self.now, True, 1, 9, (1,), self.epoch, "another took the hooks out", path=("/srv",)))

    def allocate(self, blocks: int) -> None:
        records = b""
        for _ in range(blocks):
            self.clock += MB
            records += BIRTH.pack(self.born, 1, self.clock, MB, 1, 1, 0, 0)
            self.born += 1
        self.say(Samples(self.now, self.clock, records, b""))

    def tick(self) -> None:
        self.say(Tick(1, self.now, 10**8, 10, True, (0, 0, 0), 0, 1, 1))

    def census(self, megabytes: int, hidden: int = 0) -> None:
        """It holds so much in all, in 17 objects."""
        rows = (Row(0, 2, 17, megabytes * MB, hidden * MB),)
        self.say(Census(1, self.now, "clone", True, "", rows, 1, 1, 1, 1, 0))
        self.tick()

    @property
    def bands(self) -> dict[str, tuple[int | None, int]]:
        """Count and megabytes of each band by producer, at the last moment."""
        rows = table(self.sampling.moments.records, "producer", EVERYTHING)
        return {row.name: (row.count, row.bytes // MB) for row in rows}


LOAD = "app.py:7 load"


def test_what_is_older_than_the_attach_has_no_number_of_blocks() -> None:
    session = Session()
    session.allocate(3)
    session.census(10)
    assert session.bands == {NO_SITE: (None, 7), LOAD: (3, 3)}


def test_where_sampling_began_later_the_rest_is_not_older_than_the_attach() -> None:
    session = Session(ticks=5)
    session.census(10)
    assert session.bands == {NO_SITE: (None, 10)}


def test_off_and_on_nothing_is_said_to_be_older_than_the_attach_that_is_not() -> None:
    session = Session()
    session.allocate(3)
    session.census(10)
    session.off()
    session.on()
    session.tick()
    assert session.bands == {}, "nobody knows what was allocated and freed meanwhile, until the next census"
    session.allocate(2)
    session.census(12)
    assert session.bands == {NO_SITE: (None, 10), LOAD: (2, 2)}


def test_void_samples_are_among_what_is_not_followed_at_once() -> None:
    session = Session()
    session.allocate(3)
    session.census(10)
    session.void()
    session.tick()
    assert session.bands == {NO_SITE: (None, 10)}
    session.allocate(1)
    session.census(11)
    assert session.bands == {NO_SITE: (None, 10), LOAD: (1, 1)}


def test_void_before_any_census_nothing_is_known_of_the_rest() -> None:
    session = Session()
    session.allocate(3)
    session.tick()
    session.void()
    session.tick()
    assert session.bands == {}


def test_switched_off_what_lived_stays_as_it_was() -> None:
    session = Session()
    session.allocate(3)
    session.census(10)
    lives = live_total(session.sampling.samples)
    session.off()
    assert live_total(session.sampling.samples) == lives
    assert session.sampling.samples.live_block_count == 3
    session.on()
    assert session.sampling.samples.live_block_count == 0
    (tally,) = session.sampling.samples.tallies()
    assert (tally.lost.rounded_bytes, tally.live.rounded_bytes) == (3 * MB, 0)


def test_no_older_row_while_nothing_is_sampled() -> None:
    session = Session()
    session.allocate(3)
    session.census(10)
    samples, moments = session.sampling.samples, session.sampling.moments.records
    older = older_at(samples, moments)
    assert older is not None
    assert (older.name, older.live.bytes) == (NO_SITE, 7 * MB)
    session.off()
    assert older_at(samples, moments) is None


def test_the_status_of_sampling_follows_what_was_sampled() -> None:
    fresh = Sampling().sampling_status
    assert (fresh.on, fresh.since_ns, fresh.ever_on) == (False, None, False)
    session = Session()
    on = session.sampling.sampling_status
    assert (on.on, on.since_ns, on.void_ns) == (True, SECOND, None)
    session.tick()
    session.void()
    void = session.sampling.sampling_status
    assert (void.on, void.since_ns, void.why) == (True, SECOND, "another took the hooks out")
    assert void.void_ns == session.second * SECOND
    session.off()
    off = session.sampling.sampling_status
    since = session.second * SECOND
    session.off()
    assert session.sampling.sampling_status == off
    assert (off.on, off.since_ns, off.ever_on) == (False, since, True)


def test_what_was_refused_from_the_beginning_has_no_figures_of_an_earlier_moment() -> None:
    sampling = Sampling()
    sampling.feed(Sampler(1, 5, False, 0, 9, (), 0, "there is no core"))
    sampling_status = sampling.sampling_status
    assert (sampling_status.on, sampling_status.ever_on, sampling_status.why) == (False, False, "there is no core")


@pytest.mark.parametrize("pause", [1, 1000])
def test_a_rate_is_that_of_what_was_sampled(pause: int) -> None:
    """2 MB a second, and nobody knows what while it is off."""
    session = Session()
    for _ in range(4):
        session.allocate(2)
    assert session.sampling.timeline.bytes_in(SECOND) == 2 * MB
    session.off()
    session.second += pause
    session.on()
    session.allocate(2)
    assert session.sampling.timeline.bytes_in(SECOND) == 2 * MB


def test_what_is_born_after_a_pause_was_not_born_before_it() -> None:
    session = Session()
    session.allocate(2)
    session.off()
    session.second += 1000
    session.on()
    on = session.second * SECOND
    session.allocate(2)
    timeline = session.sampling.timeline
    born = timeline.time_ns(timeline.clock(MB))
    assert born is not None
    assert born >= on


@pytest.mark.parametrize("asked", ["at once", "later"])
def test_what_was_made_void_is_gone_through_in_parts(asked: str) -> None:
    """And whoever asks for figures has all of it."""
    session = Session()
    session.allocate(7_000)
    session.tick()
    session.void()
    if asked == "later":
        for _ in range(5):
            session.tick()
    lost = session.sampling.lives.ended(("site", LOAD))
    assert lost == (7_000, 7_000 * MB)
    chart = session.sampling.lifetime_bands.chart(("size", "> 2048"))
    assert chart is not None
    (band,) = (band for band in chart.bands if any(band.bytes))
    assert (band.fate, band.bytes[0], band.bytes[-1]) == ("lost", 7_000 * MB, 7_000 * MB if asked == "at once" else 0)
    assert sum(volume_by_age(session.sampling)[-1]) == pytest.approx(7_000 * MB, rel=0.01)


def test_samples_that_are_made_void_again_wait_for_nobody() -> None:
    session = Session()
    for _ in range(3):
        session.allocate(4_000)
        session.tick()
        session.void()
        session.born = 0
    assert session.sampling.lives.ended() == (12_000, 12_000 * MB)
