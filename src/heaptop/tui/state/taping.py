"""What the screen says of a recording of its session: what becomes of it, in a notice, and how it stands.

This module never draws, and never writes a file: the source does, where it can be recorded.
"""

from __future__ import annotations

from heaptop.analysis.text.units import format_bytes
from heaptop.protocol.source import Taping

UNRECORDABLE = "this session cannot be recorded"


def news(before: Taping | None, now: Taping | None) -> str:
    """What a person has to be told; empty where all goes on as it was."""
    if now is None or now is before:
        return ""
    if now.error:
        return f"the recording {now.path} ended: {now.error}"
    if not now.on:
        return f"recorded: {now.path}, {format_bytes(now.bytes)}"
    if before is None or not before.on or before.path != now.path:
        return f"recording into {now.path}"
    if now.thinned and not before.thinned:
        return "the recording is as large as it may be: older ticks are left out from now on"
    return ""


def standing(taping: Taping | None) -> str:
    """``● rec 1.2 MiB``; empty where nothing is recorded now."""
    return f"● rec {format_bytes(taping.bytes)}" if taping is not None and taping.on else ""
