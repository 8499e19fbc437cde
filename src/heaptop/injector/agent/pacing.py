"""Which sampling interval comes next, where it follows the program: as many samples a second whatever it allocates.

What decides is the number of bytes that were allocated, not which of them were sampled: no block's chance depends on
luck with others, and estimates stay right on average. Powers of two, and none for less than a factor of two, so that a
session has few different intervals. ``bench/sampled.py`` reads this file too, so it imports nothing.
"""

from __future__ import annotations

LEAST_INTERVAL = 512
MOST_INTERVAL = 4 << 20
"""Bytes. The core doubles the interval by itself up to here as well (SAMPLE_COARSEST)."""
LIVE_ROOM = 300_000
"""Live samples that there is room for in the core's tables, and to spare. The more there are, the fewer are taken, so
that a leak of days never fills them."""
STEP = 8
"""How many times as fine an interval may be as the last one."""
QUOTA = 2
"""Seconds' worth of samples after which the core doubles the interval by itself, until the next choice."""


def next_interval(interval: int, rate: float, target: int, live: int) -> int:
    """The interval to come.

    Args:
        interval: the one in force.
        rate: bytes a second that were allocated since the last choice.
        target: samples a second.
        live: samples that live.
    """
    wanted = max(target * (1.0 - live / LIVE_ROOM), 1.0)
    if rate > 2.0 * wanted * interval:  # at once: each sample costs the program
        while rate > wanted * interval and interval < MOST_INTERVAL:
            interval *= 2
    else:  # not in one go: after a pause the program may go on as before
        finest = interval // STEP
        while 2.0 * rate < wanted * interval and interval > finest:
            interval //= 2
    return min(max(interval, LEAST_INTERVAL), MOST_INTERVAL)
