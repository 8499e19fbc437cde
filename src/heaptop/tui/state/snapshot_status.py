"""The screen's words for the open snapshot: how far it is, how old it is, what it costs, and what it asks."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.snapshot.building import progress_words
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns
from heaptop.protocol.images import Image
from heaptop.protocol.source import ImageCost
from heaptop.tui.state.snapshot_client import SnapshotClient, SnapshotStage

OLD_SECONDS: Final = 10  # From so many seconds on the age of the snapshot is shown


FOREVER: Final = 1e9  # Seconds: a snapshot that stays so long is that of a heap dump


def building_words(client: SnapshotClient) -> str:
    """``finding dominators, 43 %, about 5 s left``"""
    if client.progress is None:
        return "cloning the process"
    return progress_words(client.progress, client.age, client.pace.left, client.objects)


def seconds(time: float) -> str:
    return format_duration_ns(int(time) * 1_000_000_000) if time >= 1 else "0 s"


def snapshot_words(image: Image, cost: ImageCost | None, age: float, left: float) -> str:
    """What one looks at: how old it is, what it does not know, what it costs and has cost, how much it is of. On a
    narrow screen the last parts are left out."""
    own = image.memory if cost is None else cost.own
    copied = ""
    gaps = "".join(f" · {gap}" for gap in image.gaps)
    if cost is not None:
        copied = f"copied {format_bytes(cost.copied)}, " if cost.copied is not None else "copied unknown, "
    stays = f"snapshot {seconds(age)} old, closes in {seconds(left)}" if left < FOREVER else "snapshot in a file"
    return (
        f"{stays}{gaps} · {copied}tables {format_bytes(own)} · "
        f"pause {format_duration_ns(image.pause_ns)} · {format_count(image.objects)} objects, "
        f"{format_bytes(image.bytes)}"
    )


def age_words(client: SnapshotClient) -> str:
    """For who asks something of a snapshot that is not fresh; empty for none of that."""
    is_old = client.stage is SnapshotStage.OPEN and client.age >= OLD_SECONDS
    return "snapshot data; press o to refresh" if is_old else ""


def next_step(client: SnapshotClient) -> str:
    """What leads to a snapshot where there is none any more; empty where nothing does."""
    return "" if client.over else "press o for another one" if client.is_closed else "press o to retry"


def stage_words(client: SnapshotClient) -> str:
    """Why the snapshot cannot be asked; empty where it can."""
    if client.stage is SnapshotStage.BUILDING:
        return "The snapshot is being built."
    if client.stage is SnapshotStage.GONE:
        further = next_step(client)
        return f"No snapshot is open: {client.why}." + (f" {further[0].upper()}{further[1:]}." if further else "")
    return "No snapshot is open: press o to take one." if client.stage is SnapshotStage.NONE else ""


def snapshot_status(client: SnapshotClient | None, *, has_rows: bool = False) -> str:
    """The line under the title of a view that shows the snapshot. ``has_rows``: something that it answered is shown."""
    if client is None or client.stage is SnapshotStage.NONE:
        return "no snapshot yet: press o to take one"
    if client.stage is SnapshotStage.BUILDING:
        return f"snapshot: {building_words(client)} · {seconds(client.age)} · x cancels"
    if client.stage is SnapshotStage.GONE:
        age = f" · rows are of {seconds(client.age)} ago" if has_rows and client.is_closed else ""
        return f"no snapshot: {client.why}{age}" + (f" · {next_step(client)}" if next_step(client) else "")
    assert client.image is not None
    words = snapshot_words(client.image, client.cost, client.age, client.left)
    asked = f"{building_words(client)}, x cancels · " if client.is_busy and client.progress else ""
    return asked + words
