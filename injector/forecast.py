"""What a census in a clone will cost the target, before there was one: its pause, and whether there is memory for it.

Reads ``/proc`` only, from outside the target; nothing here knows Python or decides anything.

A clone copies page tables, not pages: the pause follows the number of pages that are anonymous (those of files are
found again in the page cache), and one huge page is one entry for 512 small ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from heaptop.protocol.source import Forecast

NS_PER_SMALL_BYTE: Final = 30e6 / (1 << 30)
"""15 to 40 ms a GiB of 4 KiB pages were measured."""
NS_PER_HUGE_BYTE: Final = 1e6 / (1 << 30)
LEAST_NS: Final = 300_000
REMEMBERED: Final = 5
"""Pauses that are kept to expect the next by."""

CGROUPS: Final = Path("/sys/fs/cgroup")
VERSION_1: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
VERSION_2: Final = ("memory.max", "memory.current", "inactive_file")
CLONE_SHARE: Final = 1 / 16
"""Of the anonymous memory, what a clone is taken to need: its tables, and copies of the pages that change meanwhile."""
CLONE_LEAST: Final = 32 << 20


def forecast(pid: int) -> Forecast | None:
    """The forecast for ``pid``; None where its ``smaps_rollup`` may not be read."""
    try:
        sizes = rollup(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except (OSError, ValueError):
        return None
    anonymous, huge = sizes.get("Anonymous", 0), sizes.get("AnonHugePages", 0)
    return Forecast(sizes.get("Rss", 0), anonymous, huge, pause_ns(anonymous, huge), headroom(pid))


def rollup(text: str) -> dict[str, int]:
    """Bytes by name from the text of an ``smaps_rollup`` (proc(5)). Raises ValueError when it is none."""
    sizes = {}
    for line in text.splitlines()[1:]:
        name, _, rest = line.partition(":")
        number, unit = rest.split()
        if unit != "kB":
            raise ValueError(f"{line!r} is not in kB")
        sizes[name] = int(number) << 10
    return sizes


def pause_ns(anonymous: int, huge: int) -> int:
    """How long the target will stand still for the copy of its page tables."""
    return int(LEAST_NS + max(anonymous - huge, 0) * NS_PER_SMALL_BYTE + huge * NS_PER_HUGE_BYTE)


@dataclass(slots=True)
class PauseModel:
    """The pause to expect, from the forecast at first and from what was measured as soon as there is something.

    A pause is lengthened by whatever else the machine does, never shortened: so it is the lower middle of the last few.
    """

    forecast: Forecast | None
    pauses: list[int] = field(default_factory=list)
    at_rss: int = 0

    def measure(self, pause: int, rss: int | None) -> None:
        self.pauses = [*self.pauses[1 - REMEMBERED :], pause]
        self.at_rss = rss or 0

    def expect(self, rss: int | None) -> int:
        """Nanoseconds; 0 where nothing is known."""
        if not self.pauses:
            return self.forecast.pause_ns if self.forecast else 0
        middle = sorted(self.pauses)[(len(self.pauses) - 1) // 2]
        return int(middle * max(1.0, rss / self.at_rss)) if rss and self.at_rss else middle


def shortage(seen: Forecast) -> str:
    """Why there is too little memory for a clone, as a sentence without its full stop; empty when there is enough."""
    need = CLONE_LEAST + int(seen.anonymous * CLONE_SHARE)
    if seen.headroom is None or seen.headroom >= need:
        return ""
    return f"only {seen.headroom >> 20} MiB of memory are free, and a clone may need {need >> 20} MiB"


def headroom(pid: int) -> int | None:
    """Bytes that the process may still take: the least of what the machine and its control groups have left."""
    left = [_available(), *_cgroup_left(pid)]
    known = [size for size in left if size is not None]
    return min(known) if known else None


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
    return sizes.get("MemAvailable")


def _cgroup_left(pid: int) -> list[int | None]:
    """What each control group that the process is in has left below its limit, of version 2 and of version 1."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return []
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        root = CGROUPS if not controllers else CGROUPS / "memory"
        names = VERSION_2 if not controllers else VERSION_1
        if (controllers and "memory" not in controllers.split(",")) or ".." in path:  # of another cgroup namespace
            continue
        folder = root / path.lstrip("/")
        left += [_group_left(each, names) for each in (folder, *folder.parents) if each.is_relative_to(root)]
    return left


def _group_left(folder: Path, names: tuple[str, str, str]) -> int | None:
    """Pages of files that nobody uses count as free: the kernel drops them first."""
    limit, current, unused = names
    try:
        allowed = (folder / limit).read_text().strip()
        if allowed == "max":
            return None
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, int(allowed) - int((folder / current).read_text()) + int(stat.get(unused, "0")))
    except (OSError, ValueError):
        return None
