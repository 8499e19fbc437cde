"""What the screen says of the open snapshot: how far it is, how old it is, what it costs, and what it asks.

This module never asks the snapshot for anything.
"""

from __future__ import annotations

from typing import Final

from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns
from heaptop.protocol.images import Image, Progress
from heaptop.protocol.source import ImageCost
from heaptop.tui.state.desk import Desk, Stage

OLD_SECONDS: Final = 10
"""From so many on it is said how old the snapshot is that somebody asks of."""


def progress_words(progress: Progress | None) -> str:
    """``finding dominators, 43 %``"""
    if progress is None:
        return "making a frozen copy"
    part = f", {progress.done / progress.total:.0%}" if progress.total else ""
    return f"{progress.phase}{part}"


def seconds(time: float) -> str:
    return format_duration_ns(int(time) * 1_000_000_000) if time >= 1 else "0 s"


def image_words(image: Image, cost: ImageCost | None, age: float, left: float) -> str:
    """What one looks at: how old it is, what it costs and has cost, how much it is of."""
    own = image.memory if cost is None else cost.own
    copied = ""
    if cost is not None:
        copied = f"copied {format_bytes(cost.copied)}, " if cost.copied is not None else "copied unknown, "
    return (
        f"frozen {seconds(age)} ago, closes in {seconds(left)} · {copied}tables {format_bytes(own)} · "
        f"pause {format_duration_ns(image.pause_ns)} · {format_count(image.objects)} objects, "
        f"{format_bytes(image.bytes)}"
    )


def age_words(desk: Desk) -> str:
    """For who asks something of a snapshot that is not fresh; empty for none of that."""
    is_old = desk.stage is Stage.OPEN and desk.age >= OLD_SECONDS
    return "this is of the snapshot that is open, and not of now: o freezes another one" if is_old else ""


def way_on(desk: Desk) -> str:
    """What leads to a snapshot where there is none any more; empty where nothing does."""
    return "" if desk.over else "key o freezes another one" if desk.is_shut else "key o tries again"


def stage_words(desk: Desk) -> str:
    """Why the snapshot cannot be asked; empty where it can."""
    if desk.stage is Stage.BUILDING:
        return "The snapshot is being built."
    if desk.stage is Stage.GONE:
        further = way_on(desk)
        return f"No snapshot is open: {desk.why}." + (f" {further[0].upper()}{further[1:]}." if further else "")
    return "No snapshot is open. Key o freezes one." if desk.stage is Stage.NONE else ""


def desk_words(desk: Desk | None, *, has_rows: bool = False) -> str:
    """The line under the title of a view that shows the snapshot. ``has_rows``: something that it answered is shown."""
    if desk is None or desk.stage is Stage.NONE:
        return "no snapshot yet: key o freezes one"
    if desk.stage is Stage.BUILDING:
        return f"building the snapshot: {progress_words(desk.progress)} · {seconds(desk.age)} · x gives up"
    if desk.stage is Stage.GONE:
        age = f" · rows are of {seconds(desk.age)} ago" if has_rows and desk.is_shut else ""
        return f"no snapshot: {desk.why}{age}" + (f" · {way_on(desk)}" if way_on(desk) else "")
    assert desk.image is not None
    words = image_words(desk.image, desk.cost, desk.age, desk.left)
    gaps = "".join(f" · {gap}" for gap in desk.image.gaps)
    asked = f"{progress_words(desk.progress)}, x gives up · " if desk.is_busy and desk.progress else ""
    return asked + words + gaps
