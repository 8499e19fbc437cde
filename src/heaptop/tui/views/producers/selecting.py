"""What the views of producers and sizes sum up: all samples, or those alone that the filter's lifetime leaves.

Where much lives, what lives longer is worked out in small steps, and not at every tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.filters.selection import selected
from heaptop.analysis.samples.clock import LifetimeBound
from heaptop.analysis.samples.long_lived import LongLived
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.tracing import TELLS_NOT
from heaptop.tui.state.background import FigureMaker
from heaptop.tui.state.session import Display

SMALL: Final = 4000  # With no more living samples than this it is done at once, whenever there is something new


def check_bound(display: Display, where: Filter) -> None:
    """Whether what is shown knows of lifetimes, where the filter asks for one.

    Raises:
        UsageError: it does not.
    """
    if display.sampling is not None and display.sampling.samples.is_traced:
        selected(display.sampling, where)


class SampleSelector:
    """The samples of one view's figures."""

    def __init__(self, later: Callable[[float, Callable[[], None]], object], ready: Callable[[], None]) -> None:
        """
        Args:
            later: calls a function after so many seconds.
            ready: called when there are samples, where there were none yet.
        """
        self._later, self._ready = later, ready
        self._maker: FigureMaker[SampledBlocks] | None = None
        self._bound: LifetimeBound | None = None  # Which it makes samples of
        self._small = True

    def samples(self, display: Display, where: Filter) -> SampledBlocks | None:
        """None while they are worked out for the first time, and where nothing is known of lifetimes."""
        sampling = display.sampling
        if sampling is None or where.lifetime is None:
            self._drop()
            return display.samples
        if sampling.samples.is_traced:
            return None
        if where.lifetime != self._bound or self._maker is None:
            self._drop()
            self._maker = FigureMaker(
                partial(selected, where=where), self._later, lambda made: self._small, _work, self._ready
            )
            self._bound = where.lifetime
        self._small = sampling.samples.live_block_count <= SMALL
        self._maker.prepare(display, sampling)
        return self._maker.figures

    def nothing(self, display: Display, where: Filter) -> str:
        """The reason why there is no row, of a target that is or was sampled."""
        if where.lifetime is None:
            return f"No sample matches {where}." if where else "Waiting for the first samples."
        if display.sampling is not None and display.sampling.samples.is_traced:
            return f"{TELLS_NOT}."
        if self._maker is None or self._maker.figures is None:
            return "Computing lifetimes."
        return f"No live sample matches {where}."

    def age_ns(self, display: Display) -> int:
        """By how much they are older than the display, by the target's clock."""
        return self._maker.age_ns(display) if self._maker is not None else 0

    def _drop(self) -> None:
        if self._maker is not None:
            self._maker.drop()
            self._maker = None


def _work(samples: SampledBlocks) -> Iterator[None]:
    if isinstance(samples, LongLived):
        yield from samples.work()
