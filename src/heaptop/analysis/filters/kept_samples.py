"""The part of the living sampled blocks that some retainer keeps, as samples that tables of producers can be made of.

A snapshot of the object graph has for each stack how many of its sampled blocks are kept, and not which: so each of the
stack's figures is shared out by bytes. It knows blocks that are objects; tables and buffers go with the objects of
their stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.filters.predicates import NameTerm
from heaptop.analysis.heap.graph_history import unit_label
from heaptop.analysis.samples.estimate import Sums
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.stacks import FORGOTTEN
from heaptop.analysis.samples.tallies import Tally
from heaptop.errors import UsageError
from heaptop.protocol.images import Blocks, Unit

MOST_ASKED: Final = 4000  # Retainers that one question has room for


@dataclass(frozen=True, slots=True)
class KeptBlocks:
    """A graph census of the sampled blocks that the retainers of one term keep, maybe with others."""

    term: NameTerm
    time_ns: int
    retainers: int  # How many there are
    parts: Mapping[int, float] | None = None
    """By our number of a stack, the part of its sampled bytes, 0 to 1; None where no retainer fits, or nothing was
    said."""
    failure: str = ""  # Why there is no answer, in a few words


def retainer_term(where: Filter, what: str = "Producers") -> NameTerm | None:
    """What a filter asks of retainers: ``what`` (plural, at the beginning of a sentence) is restricted to what some of
    them keep. None where it asks nothing of them.

    Raises:
        UsageError: a snapshot cannot be asked for that.
    """
    if "retainer" not in where.attributes:
        return None
    term = where.alternatives("retainer")
    if term is None:
        raise UsageError(
            f"{what} accept one retainer term, not under 'not' and not under 'or' with others.",
            why="A snapshot reports what a set of retainers keeps, alone or with others.",
            fix="Write alternatives with a comma: retainer:cache,sessions.",
        )
    if where.lifetime is not None:
        raise UsageError(
            "lifetime and retainer do not go together.",
            why="A snapshot reports how many of a stack's sampled blocks are kept, not which.",
            fix="Leave lifetime or retainer out.",
        )
    return term


def matching(term: NameTerm, units: Sequence[Unit]) -> tuple[int, ...]:
    """The addresses of the retainers that fit, the first :data:`MOST_ASKED`; a frame itself has none."""
    fitting = [unit.address for unit in units if unit.address and term.fits((unit_label(unit),))]
    return tuple(fitting[:MOST_ASKED])


def parts_of(kept: Blocks, everything: Blocks, stack_of: Callable[[int], int]) -> dict[int, float]:
    """The part of each stack; ``stack_of`` as :meth:`SampledBlocks.stack_of`."""
    some, whole = _by_stack(kept, stack_of), _by_stack(everything, stack_of)
    return {stack: min(size / whole[stack], 1.0) for stack, size in some.items() if size and whole[stack]}


def _by_stack(blocks: Blocks, stack_of: Callable[[int], int]) -> Counter[int]:
    found = Counter[int]()
    for row in blocks.rows:
        found[stack_of(row.stack)] += row.bytes
    del found[FORGOTTEN]
    return found


class KeptSamples(SampledBlocks):
    """Samples of which a part is kept, at the moment this is made."""

    def __init__(self, samples: SampledBlocks, parts: Mapping[int, float]) -> None:
        """``parts`` as :attr:`KeptBlocks.parts`."""
        super().__init__()
        self.share_names(samples)
        self._made = [
            _part(tally, parts[tally.stack])
            for tally in samples.tallies()
            if tally.live.samples and tally.stack in parts
        ]

    @property
    def only_live(self) -> bool:
        return True

    def tallies(self) -> Iterable[Tally]:
        return self._made

    @property
    def tally_count(self) -> int:
        return len(self._made)


def _part(tally: Tally, part: float) -> Tally:
    """So much of what lives of it."""
    made = Tally(tally.stack, tally.type, tally.bin)
    samples, *parts = (round(each * part) for each in tally.live.parts)
    made.live = Sums.made_of((max(samples, 1), *parts))
    return made
