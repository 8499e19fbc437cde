"""Words that a person chooses among: on the command line, in heaptop.toml, on screen.

It imports nothing of heaptop, so that `heaptop --help` is quick.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MODES: Final = ("clone", "stop", "python")
"""How a heap is counted, best first: in a copy-on-write clone, while the target runs; in the target itself, while it
stands still; by the agent's Python in slices, while the heap moves."""

THEMES: Final = ("dark", "light", "ansi", "colour-blind", "mono")
UNITS: Final = ("binary", "decimal")  # Bytes in KiB, or in kB
TIMES: Final = ("elapsed", "clock", "utc")  # Moments: since the attach, as the time of day here, or in UTC

DUMP_SUFFIX: Final = ".heapdump"  # Of a file's name: a heap dump

MIN_GROWTH: Final = 64 << 10
"""Bytes that a leak has grown by, at least, to be an exit code: a few KiB of weak references in a hunt of half a minute
are no reason to stop a release."""


class SamplingRate(NamedTuple):
    """How densely allocations are sampled."""

    interval: int  # Bytes from one sample to the next, on average; 0 for no sampling
    target: int = 0  # Samples a second: the interval follows the program, from `interval` on. 0: it stays.


NOT_SAMPLED: Final = SamplingRate(0)
ADAPTIVE: Final = SamplingRate(64 << 10, 200)  # The default
HUNTING: Final = SamplingRate(ADAPTIVE.interval, 1000)  # Likewise during a leak hunt
ROUNDS: Final = SamplingRate(1 << 10, 1000)
"""Likewise while a program does rounds of work for a hunt: a round may be short, and its lines are wanted."""
COST_OF_SAMPLE: Final = 10e-6
"""Seconds of CPU time that a sample costs the target at most, with 128 frames, its death and its way to heaptop."""

GUARD_ACTIONS: Final = ("report", "hunt", "record", "dump", "alertmanager")
"""What a guard does when a trigger fires: each of them writes a report."""
GUARD_QUOTA: Final = 500_000_000  # Bytes of all files of guards in its folder
LEAST_QUOTA: Final = 5_000_000

TIMEOUT: Final = 300.0
"""Seconds that a command waits for all its answers together, beside the time that it was asked to let pass."""
