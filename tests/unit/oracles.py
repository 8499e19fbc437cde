"""What is computed fast elsewhere, once more and plainly: what the tests compare with."""

from __future__ import annotations

from dataclasses import dataclass

from heaptop.analysis.samples.estimate import Estimate, Sums
from heaptop.analysis.samples.producers import Frame, Sites
from heaptop.analysis.samples.sampled_blocks import SampledBlocks


@dataclass(frozen=True, slots=True)
class StackRow:
    """One whole stack and what it allocated that lives."""

    stack: int
    frames: tuple[Frame, ...]
    """Innermost first."""
    live: Estimate


def stacks_of(samples: SampledBlocks, sites: Sites, key: str, name: str) -> list[StackRow]:
    """The whole stacks of one site, function or module, the largest first."""
    sums: dict[int, Sums] = {}
    for tally in samples.tallies():
        if tally.live.samples and sites.name(tally.stack, key) == name:
            sums.setdefault(tally.stack, Sums()).merge(tally.live)
    rows = [StackRow(stack, sites.frames(stack), one.estimate()) for stack, one in sums.items()]
    return sorted(rows, key=lambda row: (-row.live.bytes, row.stack))


def by_lifetime(matrix: list[list[int]]) -> None:
    """Turn populations by generation into populations by eventual lifetime, in place and in linear time.

    Args:
        matrix: square; ``matrix[x][y]`` is what census ``x`` counted of generation ``y``: 0 for ``y > x``, and from
            ``x = y`` on never more than the census before. Afterwards it is what census ``y`` counted of those whose
            lifetime was to be ``x``: that live ``x`` censuses after the first that saw them, and no more. Those that
            the last census sees die then.

    "New dimensions", figs 8 to 10. In the stored text of fig. 10 ``A[x,y] := s`` stands outside the inner loop, and
    the outer loop begins at 1; the figure's own result, and fig. 7, need it inside. Row 0 needs no phase III: a
    lifetime of 0 is one census.
    """
    size = len(matrix)
    for y in range(size):  # I: matrix[x][y] is what of generation y was seen by census x last
        for x in range(y, size - 1):
            matrix[x][y] -= matrix[x + 1][y]
    for y in range(1, size):  # II: a shear; matrix[x][y] is what of generation y had the lifetime x
        for x in range(y, size):
            matrix[x - y][y] = matrix[x][y]
        for x in range(size - y, size):
            matrix[x][y] = 0
    for x in range(1, size):  # III: along a row, the last x + 1 generations are alive
        born = list(matrix[x])
        alive = born[0]
        for y in range(1, size):
            alive += born[y]
            if y > x:
                alive -= born[y - x - 1]
            matrix[x][y] = alive
