"""Figures that are costly to make: when they are made again, and how, so that making them is never felt.

:class:`Background` works in slices between which the screen has its turn. :class:`Throttled` lets what is made at once
rest; :class:`FigureMaker` does both, for figures of samples.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from time import perf_counter
from typing import Final, Generic, TypeVar

from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.messages import Sampler
from heaptop.tui.state.session import Display

T = TypeVar("T")
F = TypeVar("F")
Later = Callable[[float, Callable[[], None]], object]  # Calls a function after so many seconds

SLICE_SECONDS: Final = 0.006
PAUSE_SECONDS: Final = 0.02
REST: Final = 100  # A figure rests for so many times as long as it took to make: a percent of one core at most


def same(display: Display, before: Display | None) -> bool:
    """Whether both are of one moment: the same, or held since."""
    return display is before or (before is not None and display.held and display.tick is before.tick)


def _alike(one: Display, other: Display) -> bool:
    """Whether the sampling status is the same in both, and a recording is at one moment."""
    if one.shown is not other.shown:
        return False
    return (one.sampling_status.on, one.sampling_status.voids) == (
        other.sampling_status.on,
        other.sampling_status.voids,
    )


class Throttled(Generic[T]):
    """The last figure of one kind, and for which display it was made.

    While the display is the same nothing is made again, whatever has happened since: a paused screen does not change.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter, *, rest: int = REST) -> None:
        """``rest``: for so many times as long as it took, it rests."""
        self._clock = clock
        self._rest = rest
        self._made: tuple[Hashable, Display, T] | None = None
        self._asked: Display | None = None
        self._due = 0.0

    def has_rested(self, display: Display, key: Hashable) -> bool:
        """Whether the figure is there, and :meth:`get` would make it again only because it is of a display before: that
        may as well be done a little later, and in steps."""
        there = self._made is not None and self._made[0] == key and _alike(display, self._made[1])
        return there and not same(display, self._asked) and self._clock() >= self._due

    def get(
        self, display: Display, key: Hashable, make: Callable[[], T], *, small: bool = False, spent: float = 0.0
    ) -> T:
        """The figure for this display, or while it rests the one before; another ``key`` asks for another figure, and
        sampling that was switched on or off, or began anew, for a new one.

        What is ``small`` is made anew for every display, as a matter of course. ``spent``: seconds that were spent on
        the figure before."""
        asked, self._asked = self._asked, display
        rests = same(display, asked) or self._clock() < self._due
        if self._made is not None and self._made[0] == key and rests and _alike(display, self._made[1]):
            return self._made[2]
        began = self._clock()
        figure = make()
        took = self._clock() - began + spent
        self._due = began if small else began + took * (1 + self._rest)
        self._made = (key, display, figure)
        return figure

    def age_ns(self, display: Display) -> int:
        """By how much the figure is older than the display, by the target's clock."""
        made = self._made[1].tick if self._made is not None else None
        return max(display.tick.time_ns - made.time_ns, 0) if made is not None and display.tick is not None else 0


class Background:
    """One piece of work at a time, a few milliseconds of it in a slice."""

    def __init__(self, later: Later) -> None:
        self._later = later
        self._work: Iterator[object] | None = None
        self._done: Callable[[float], None] = lambda spent: None
        self._spent = 0.0

    @property
    def is_busy(self) -> bool:
        return self._work is not None

    def start(self, work: Iterator[object], done: Callable[[float], None], *, soon: bool = False) -> None:
        """Do this work, in place of what was begun before; ``done`` takes the seconds that it took. ``soon``: not now,
        but when the screen has had its turn."""
        self._work, self._done, self._spent = work, done, 0.0
        if soon:
            self._later(PAUSE_SECONDS, lambda: self._slice(work))
        else:
            self._slice(work)

    def drop(self) -> None:
        """It is wanted no longer."""
        self._work = None

    def _slice(self, work: Iterator[object]) -> None:
        if work is not self._work:
            return  # what was begun instead has slices of its own
        began = perf_counter()
        end = object()
        while (ended := next(work, end) is end) is False and perf_counter() < began + SLICE_SECONDS:
            pass
        self._spent += perf_counter() - began
        if work is not self._work:
            return
        if not ended:
            self._later(PAUSE_SECONDS, lambda: self._slice(work))
            return
        self._work = None
        self._done(self._spent)


class FigureMaker(Generic[F]):
    """The newest figure that is ready; the next one is made once there is something new and the last one has rested."""

    def __init__(
        self,
        make: Callable[[Sampling], F],
        later: Later,
        is_small: Callable[[F], bool],
        needed: Callable[[F], Iterator[None]],
        ready: Callable[[], None],
    ) -> None:
        """
        Args:
            make: begins a figure of what is known now.
            is_small: whether a figure is made at once, whenever there is something new.
            needed: makes ready, in steps, what the screen needs of a figure.
            ready: called when there is a figure for the first time.
        """
        self._make, self._is_small, self._needed, self._ready = make, is_small, needed, ready
        self._background = Background(later)
        self.figures: F | None = None
        self._made_ns = 0
        self._next: tuple[F, int] | None = None
        self._due = float("-inf")
        self._seen: Display | None = None
        self._said: tuple[int, Sampler | None] | None = None  # What the newest figures were made from

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
        if seen is not None and seen.sampling_status.voids != display.sampling_status.voids:
            self._due = float("-inf")  # what is shown is of what is followed no longer
        said = (sampling.samples.time_ns, sampling.samples.state)
        if not self._background.is_busy and said != self._said and perf_counter() >= self._due:
            self._said = said
            self._begin(self._make(sampling), display.now_ns)

    def drop(self) -> None:
        """What is being made is wanted no longer."""
        self._background.drop()

    def _forget(self) -> None:
        """A recording is at another moment: nothing that was made is of it."""
        self.drop()
        self._next = self.figures = self._said = None
        self._due = float("-inf")

    def _begin(self, figures: F, at: int) -> None:
        if self._is_small(figures):
            self._take(figures, at)
        else:
            self._background.start(self._needed(figures), lambda spent: self._made(figures, at, spent))

    def _made(self, figures: F, at: int, spent: float) -> None:
        self._next, self._due = (figures, at), perf_counter() + REST * spent
        if self.figures is None:
            self._take(*self._next)
            self._ready()

    def _take(self, figures: F, at: int) -> None:
        self.figures, self._made_ns, self._next = figures, at, None
