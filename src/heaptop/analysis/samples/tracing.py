"""What is to be said of tracemalloc, which stands in where there is no native core: what it costs, and cannot tell.

This module never computes a figure: :mod:`heaptop.analysis.samples.samples` keeps what was traced.
"""

from __future__ import annotations

from typing import Final

COST: Final = (
    "the program's code that allocates takes 2.6 to 5.7 times its CPU time, a loop that does nothing else up to 11 "
    "times; each living block takes some 100 bytes more, and to switch it off stops the program for 0.1 s for each "
    "million of them; each count of the heap takes 5 to 40 times as long"
)
"""What it costs the target while it is on. The first by bench/ and the prototypes, the others as they were measured
with four frames of a stack, on 3.8 to 3.13."""

TELLS: Final = "It tells file and line of what was allocated since and lives."
TELLS_NOT: Final = "tracemalloc does not tell lifetimes, sizes of blocks, nor what was freed"

ENDS: Final = "It is switched off at the end, even if the program has called tracemalloc.start() meanwhile"
"""That call does nothing while it is on, so nobody can see it; what the program asks of tracemalloc then fails."""
