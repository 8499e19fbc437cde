"""Words on tracemalloc, which is used where there is no native core: what it costs, and what it does not know.

:mod:`heaptop.analysis.samples.sampled_blocks` keeps what was traced.
"""

from __future__ import annotations

from typing import Final

COST: Final = (
    "allocating code takes 2.6 to 5.7 times its CPU time, a pure allocation loop up to 11 times; each live block "
    "takes about 100 bytes more; switching it off pauses the program 0.1 s per million of them; each census takes "
    "5 to 40 times as long"
)
"""What it costs the target while it is on. The first by bench/ and the prototypes, the others as they were measured
with four frames of a stack, on 3.8 to 3.13."""

TELLS: Final = "It records file and line of live allocations made while it is on."
TELLS_NOT: Final = "tracemalloc has no lifetimes, no block sizes and no freed memory"

ENDS: Final = "It is switched off at detach, even if the program called tracemalloc.start() meanwhile"
"""That call does nothing while it is on, so it cannot be noticed; what the program asks of tracemalloc then fails."""
