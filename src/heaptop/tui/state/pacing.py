"""When a figure that is costly to make is made again: never so often that making it is felt.

This module never draws; the time that a figure takes is measured by the clock it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import perf_counter
from typing import Final, Generic, TypeVar

from heaptop.tui.state.session import Display

T = TypeVar("T")

REST: Final = 100
"""A figure rests for so many times as long as it took to make: a percent of one core at most."""


def same(display: Display, before: Display | None) -> bool:
    """Whether both are of one moment: the same, or held since."""
    return display is before or (before is not None and display.held and display.tick is before.tick)


def _alike(one: Display, other: Display) -> bool:
    """Whether sampling stands the same in both, and a recording is at one moment."""
    if one.shown is not other.shown:
        return False
    return (one.standing.on, one.standing.voids) == (other.standing.on, other.standing.voids)


class Paced(Generic[T]):
    """The last figure of one kind, and for which display it was made.

    While the display is the same nothing is made again, whatever has happened since: a paused screen stands still.
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
