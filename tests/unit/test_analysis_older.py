"""What is older than the sampling: it is no more sure than what is sampled, and noise is not shown as movement."""

from __future__ import annotations

from random import Random

import pytest

from heaptop.analysis.callers.producer_table import older_at
from heaptop.analysis.heap.history import Amount
from heaptop.analysis.samples.estimate import chance
from heaptop.analysis.samples.moments import Moments
from heaptop.analysis.samples.producers import NO_SITE, Sites
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.text.code_places import CodePlaces
from heaptop.protocol.messages import BIRTH, DEATH, Sampler, Samples
from tests.unit.test_analysis_sampling_status import MB, Session

INTERVAL = 65_536
BLOCK = 500


class Sampled:
    """A target that keeps ``old`` bytes from before, and beside these blocks of which some are sampled."""

    def __init__(self, old: int, *, seed: int = 7) -> None:
        self.samples = SampledBlocks()
        self.samples.feed(Sampler(1, 1, True, INTERVAL, 9, (INTERVAL,), 1, path=("/srv",)))
        self.moments = Moments(self.samples)
        self._sites = Sites(self.samples, CodePlaces((), ()))
        self.old, self.kept = old, 0
        self._random = Random(seed)
        self._clock = self._next = self._second = 0
        self._live_blocks: list[int] = []

    def keep(self, blocks: int) -> None:
        """So many blocks more."""
        self.kept += blocks
        sampled = sum(self._random.random() < chance(BLOCK, INTERVAL) for _ in range(blocks))
        self._clock += blocks * BLOCK
        births = b""
        for _ in range(sampled):
            births += BIRTH.pack(self._next, 0, self._clock, BLOCK, 0, 1, 0, 0)
            self._live_blocks.append(self._next)
            self._next += 1
        self.samples.feed(Samples(self._clock, self._clock, births, b""))

    def free_all(self) -> None:
        deaths = b"".join(DEATH.pack(number, 0, self._clock) for number in self._live_blocks)
        self.samples.feed(Samples(self._clock, self._clock, b"", deaths))
        self._live_blocks, self.kept = [], 0

    def count(self) -> tuple[int, int]:
        """A census: what is shown as older then, and its ±."""
        self._second += 1
        self.moments.count_older(Amount(1, self.old + self.kept * BLOCK))
        self.moments.take(self._second * 10**9, self._sites)
        (cell,) = [cell for cell in self.moments.records[-1].cells if not cell.counted]
        return cell.bytes, self.moments.records[-1].error


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_the_samples_is_no_movement(seed: int) -> None:
    """The old rest; what is new comes and goes, and is estimated up to a third wrong."""
    target = Sampled(20 * MB, seed=seed)
    first, _ = target.count()
    shown = []
    for second in range(60):
        target.keep(2000 + 1000 * (second % 3))
        if second % 7 == 6:
            target.free_all()
        shown.append(target.count())
    assert first == 20 * MB
    sizes = [size for size, _ in shown]
    assert len(set(sizes)) <= 4, "it moves when a sample in forty is off, no oftener"
    assert all(abs(size - 20 * MB) <= error for size, error in shown), "the truth is within what is said"


@pytest.mark.parametrize("seed", range(5))
def test_what_was_freed_of_it_is_shown(seed: int) -> None:
    target = Sampled(20 * MB, seed=seed)
    target.count()
    target.keep(3000)
    target.count()
    target.old = 5 * MB
    target.count()
    size, error = target.count()
    assert abs(size - 5 * MB) <= error < 3 * MB


def test_a_first_figure_that_was_much_too_small_is_put_right() -> None:
    """As where a recording begins: its census was counted before the samples that it begins with."""
    target = Sampled(20 * MB)
    target.old = 2 * MB
    target.count()
    target.old = 20 * MB
    size, error = target.count()
    assert abs(size - 20 * MB) <= error


def test_what_is_sampled_whole_leaves_no_doubt() -> None:
    session = Session()
    session.allocate(3)
    session.census(10)
    session.tick()
    session.tick()
    session.tick()
    session.census(10)
    assert session.sampling.moments.records[-1].error == 0


def test_hidden_bytes_are_in_blocks_and_so_in_what_was_counted() -> None:
    """A block of an instance has room for its attributes, which sys.getsizeof leaves out."""
    session = Session()
    session.allocate(3)
    session.census(9, hidden=1)
    assert session.bands[NO_SITE] == (None, 7)


def test_view_2_says_the_same_doubt() -> None:
    target = Sampled(20 * MB)
    target.keep(3000)
    size, error = target.count()
    older = older_at(target.samples, target.moments.records)
    assert older is not None
    assert (older.live.low, older.live.bytes, older.live.high) == (size - error, size, size + error)


def test_it_was_there_before_the_first_census_too() -> None:
    session = Session()
    session.allocate(3)
    session.tick()
    session.tick()
    session.census(10)
    session.tick()
    moments = session.sampling.moments.records
    assert [sum(cell.bytes for cell in moment.cells) // MB for moment in moments] == [10, 10]


def test_what_was_sampled_for_long_before_a_first_census_stays() -> None:
    session = Session()
    session.allocate(3)
    for _ in range(5):
        session.tick()
    session.census(10)
    moments = session.sampling.moments.records
    assert [sum(cell.bytes for cell in moment.cells) // MB for moment in moments] == [3, 3, 3, 3, 3, 10]
