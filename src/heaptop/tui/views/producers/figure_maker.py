"""Figures of samples that take long to make: in small steps between which the screen has its turn, and with rests.

This module never draws; it is told what of a figure the screen needs, and says when the first one is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Final, Generic, TypeVar

from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.messages import Sampler
from heaptop.tui.state.pacing import REST, same
from heaptop.tui.state.session import Display

SLICE_SECONDS: Final = 0.006
PAUSE_SECONDS: Final = 0.02

F = TypeVar("F")


class FigureMaker(Generic[F]):
    """The newest figure that is ready; the next one is made once there is something new and the last one has rested."""

    def __init__(
        self,
        make: Callable[[Sampling], F],
        later: Callable[[float, Callable[[], None]], object],
        is_small: Callable[[F], bool],
        needed: Callable[[F], Iterator[None]],
        ready: Callable[[], None],
    ) -> None:
        """
        Args:
            make: begins a figure of what is known now.
            later: calls a function after so many seconds.
            is_small: whether a figure is made at once, whenever there is something new.
            needed: makes ready, in steps, what the screen needs of a figure.
            ready: called when there is a figure for the first time.
        """
        self._make, self._later, self._is_small, self._needed, self._ready = make, later, is_small, needed, ready
        self.figures: F | None = None
        self._made_ns = 0
        self._next: tuple[F, int] | None = None
        self._work: Iterator[None] | None = None
        self._spent = 0.0
        self._due = float("-inf")
        self._seen: Display | None = None
        self._said: tuple[int, Sampler | None] | None = None
        """What the newest figures were made from."""

    def age_ns(self, display: Display) -> int:
        """By how much the figures are older than the display, by the target's clock."""
        return max(display.now_ns - self._made_ns, 0) if display.tick is not None and self._made_ns else 0

    def prepare(self, display: Display, sampling: Sampling) -> None:
        """Take figures that have become ready, and begin to make new ones where it is time to."""
        seen, self._seen = self._seen, display
        if same(display, seen):
            return  # held, or only drawn again: nothing moves
        if seen is not None and seen.shown is not display.shown:
            self._forget()
        if self._next is not None:
            self._take(*self._next)
        if seen is not None and seen.standing.voids != display.standing.voids:
            self._due = float("-inf")  # what is shown is of what is followed no longer
        said = (sampling.samples.time_ns, sampling.samples.state)
        if self._work is None and said != self._said and perf_counter() >= self._due:
            self._said = said
            self._begin(self._make(sampling), display.now_ns)

    def drop(self) -> None:
        """What is being made is wanted no longer."""
        self._work = None

    def _forget(self) -> None:
        """A recording is at another moment: nothing that was made is of it."""
        self._work = self._next = self.figures = self._said = None
        self._due = float("-inf")

    def _begin(self, figures: F, at: int) -> None:
        self._spent = 0.0
        if self._is_small(figures):
            self._take(figures, at)
        else:
            self._work = self._making(figures, at)
            self._step(self._work)

    def _take(self, figures: F, at: int) -> None:
        self.figures, self._made_ns, self._next = figures, at, None

    def _making(self, figures: F, at: int) -> Iterator[None]:
        yield from self._needed(figures)
        self._next = (figures, at)

    def _step(self, work: Iterator[None]) -> None:
        """A few milliseconds of work, and the rest when the screen has had its turn."""
        if work is not self._work:
            return  # it is wanted no longer; what is made instead has steps of its own
        began = perf_counter()
        while self._work is not None:
            if next(work, self) is self:
                self._work = None
            if perf_counter() >= began + SLICE_SECONDS:
                break
        self._spent += perf_counter() - began
        if self._work is not None:
            self._later(PAUSE_SECONDS, partial(self._step, work))
            return
        self._due = perf_counter() + REST * self._spent
        if self.figures is None and self._next is not None:
            self._take(*self._next)
            self._ready()
