"""Words that a person chooses among: on the command line, in heaptop.toml, on screen.

It imports nothing of heaptop, so that `heaptop --help` is quick.
"""

from __future__ import annotations

from typing import Final

MODES: Final = ("clone", "stop", "python")
"""How a heap is counted, best first: in a copy-on-write clone, while the target goes on; in the target itself, while it
stands still; by the agent's Python in slices, while the heap moves."""

THEMES: Final = ("dark", "light", "ansi", "colour-blind", "mono")
UNITS: Final = ("binary", "decimal")
"""Bytes in KiB, or in kB."""
TIMES: Final = ("elapsed", "clock", "utc")
"""Moments: since the attach, as the time of day here, or in UTC."""

MIN_GROWTH: Final = 64 << 10
"""Bytes that a leak has grown by, at least, to be an exit code: a few KiB of weak references in a hunt of half a minute
are no reason to stop a release."""
