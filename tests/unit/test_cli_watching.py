"""What a command that watches takes, and when it asks for no more."""

from __future__ import annotations

from collections.abc import Callable

from heaptop.analysis.samples.sampling import Sampling
from heaptop.cli.terminal import ProgressLine
from heaptop.protocol.messages import Message
from heaptop.protocol.source import Behind, Deliver, never_behind
from heaptop.watching.source_watch import SourceWatch
from tests.fakes.source import FakeSource

MOST = 200
"""Ticks that a source in these tests says before it gives up."""


class Talkative(FakeSource):
    """Says more each time that something it said is taken, unless those who listen are behind."""

    def __init__(self) -> None:
        super().__init__()
        self.behind: Behind = never_behind
        self.asked = 0
        """Ticks that were said by the time a census was asked for."""
        self.said = 0

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver, behind)
        self.behind = behind
        self.attach()
        self.go_on()

    def go_on(self) -> None:
        assert self.said < MOST, "it listens on and on"
        self.said += 1
        self.tick(census=False)

    def census_now(self) -> None:
        self.asked = self.said


class Busy(SourceWatch):
    """``after`` what was said was taken in, which took its time, there is something else."""

    after: Callable[[], None]

    def _take(self, message: Message) -> None:
        super()._take(message)
        self.after()


def watched(source: Talkative, after: Callable[[], None]) -> Busy:
    watch = Busy(source, ProgressLine(), Sampling())
    watch.after = after
    return watch


def test_a_process_that_always_says_more_is_left_when_the_time_is_over() -> None:
    source = Talkative()
    with watched(source, source.go_on) as watch:
        watch.sample(0.0)
        assert 0 < source.asked < MOST
        watch.wait(0.0, lambda left: "")


def test_nothing_more_is_asked_for_while_a_tick_waits() -> None:
    source = Talkative()
    seen: list[bool] = []
    with watched(source, lambda: seen.append(source.behind())) as watch:
        source.go_on()
        assert source.behind()
        watch.sample(0.0)
        assert not source.behind()
        assert seen == sorted(seen, reverse=True), "until the second tick was taken"
        assert seen[0]
