"""What a census in a clone will cost the target, before there was one: its pause, and whether there is memory for it;
and the limit of its memory.

Reads ``/proc`` only, from outside the target; nothing here knows Python or decides anything.

A clone copies page tables, not pages: the pause follows the number of pages that are anonymous (those of files are
found again in the page cache), and one huge page is one entry for 512 small ones. It copies the list of mappings, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from heaptop.errors import InjectionDenied
from heaptop.injector.inspect import proc
from heaptop.injector.inspect.threads import thread_ids
from heaptop.injector.session import control_groups, limits
from heaptop.injector.session.control_groups import ControlGroup, groups_of, is_hidden, read
from heaptop.injector.session.limits import mappings
from heaptop.protocol.source import Forecast
from heaptop.protocol.text import printable

NS_PER_SMALL_BYTE: Final = 30e6 / (1 << 30)  # 15 to 40 ms a GiB of 4 KiB pages were measured
NS_PER_HUGE_BYTE: Final = 1e6 / (1 << 30)
LEAST_NS: Final = 300_000
NS_PER_MAPPING: Final = 2500  # 2,600 were measured where half of the mappings had a page of their own
USUAL_MAPPINGS: Final = 500  # Whose cost is in LEAST_NS: most are of files
REMEMBERED: Final = 5  # Pauses that are kept to expect the next by
ENOUGH: Final = 3  # Measured pauses that show that the forecast was too low; fewer may all be due to the machine's load

Files = tuple[str, str, str]
"""Names of a group's files: its limit, its use, and of memory.stat what the kernel drops first."""
FILES: Final[dict[int, Files]] = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
HIGH: Final = ("memory.high",)  # Of version 2: beyond it the kernel slows the group down and takes its memory back
CLONE_SHARE: Final = 1 / 16
"""Of the anonymous memory, what a clone is taken to need: its tables, and copies of the pages that change meanwhile."""
CLONE_LEAST: Final = 32 << 20
ATTACH_LEAST: Final = 8 << 20
"""What an attach and a census in the stopped process are taken to need: 2.6 MiB were seen."""
SLICES_LEAST: Final = 16 << 20
SLICES_PART: Final = 6  # Of resident memory: the lists of 1.5 million objects were an eighth of what their process had
ROOM_FOR_TABLES: Final = 2  # Of what is left, the tables of a snapshot may take one part in so many


def forecast(pid: int) -> Forecast | None:
    """The forecast for ``pid``; None when it is gone. Where the kernel does not report what is in huge pages (before
    Linux 4.14), as if nothing were."""
    for tid in thread_ids(pid):  # a leader that has exited shows no memory
        task = Path(f"/proc/{pid}/task/{tid}")
        sizes = _sizes(task / "smaps_rollup") or _sizes_in_pages(task / "statm")
        if rss := sizes.get("Rss", 0):
            anonymous, huge = sizes.get("Anonymous", rss), sizes.get("AnonHugePages", 0)
            return Forecast(rss, anonymous, huge, pause_ns(anonymous, huge, mappings(task)))
    return None


def _sizes(file: Path) -> dict[str, int]:
    try:
        return rollup(proc.text(file))
    except (OSError, ValueError):
        return {}


def _sizes_in_pages(file: Path) -> dict[str, int]:
    try:
        return {"Rss": int(proc.text(file).split()[1]) * os.sysconf("SC_PAGE_SIZE")}
    except (OSError, ValueError, IndexError):
        return {}


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


def pause_ns(anonymous: int, huge: int, mapped: int = 0) -> int:
    """How long the target will be paused for the copy of its page tables and of its list of ``mapped`` mappings."""
    pages = max(anonymous - huge, 0) * NS_PER_SMALL_BYTE + huge * NS_PER_HUGE_BYTE
    return int(LEAST_NS + pages + max(mapped - USUAL_MAPPINGS, 0) * NS_PER_MAPPING)


@dataclass(slots=True)
class PauseModel:
    """The pause to expect, from the forecast at first and from what was measured as soon as there is something.

    A pause is lengthened by whatever else the machine does, never shortened: so it is the lower middle of the last few,
    and it is above the forecast only when several were.
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
        measured = int(middle * max(1.0, rss / self.at_rss)) if rss and self.at_rss else middle
        if self.forecast is None or len(self.pauses) >= ENOUGH:
            return measured
        return min(measured, int(self.forecast.pause_ns * max(1.0, (rss or 0) / self.forecast.rss)))

    def anonymous(self, rss: int | None) -> int:
        """Bytes of anonymous memory, taken to have grown as ``rss`` has; 0 where nothing is known."""
        seen = self.forecast
        return int(seen.anonymous * max(1.0, (rss or 0) / seen.rss)) if seen else 0


# -- room for a clone ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Headroom:
    """What a process may still take of memory."""

    left: int | None = None  # Bytes; None where it is unknown
    together: bool = False
    """Whether the kernel, when a control group has no memory left, ends all of its processes and not only the clone
    (``memory.oom.group``)."""
    promises: int | None = None
    """Bytes that the kernel still promises beside a clone (``vm.overcommit_memory=2``); None without such a limit."""
    tasks: str = ""  # Why no clone may be made for want of processes; empty where there is no such reason

    @property
    def for_tables(self) -> int | None:
        """What the tables of a snapshot, or of samples, may take; None where it is unknown."""
        return self.left // ROOM_FOR_TABLES if self.left is not None else None

    def shortage(self, anonymous: int, tables: int = 0) -> str:
        """Why that is too little for a clone of ``anonymous`` bytes with ``tables`` of its own, as a sentence without
        its full stop; empty when it is enough."""
        copies = int(anonymous * (1 if self.together else CLONE_SHARE))
        need = max(CLONE_LEAST + copies + tables, tables * ROOM_FOR_TABLES)
        if self.tasks:
            return self.tasks
        if self.promises is not None and self.promises < need:
            return (
                f"the kernel would promise other programs only {self.promises >> 20} MiB beside a clone, which may "
                f"need {need >> 20} MiB more (vm.overcommit_memory=2)"
            )
        if self.left is None or self.left >= need:
            return ""
        missing = -(-(need - self.left) >> 20)
        words = (
            f"only {self.left >> 20} MiB of memory are free, and a clone may need {need >> 20} MiB ({missing} MiB more)"
        )
        return words + (", or the kernel kills the whole control group (memory.oom.group)" if self.together else "")

    def shortage_of_slices(self, rss: int | None) -> str:
        """Why that is too little for a census in slices, whose lists of objects are in the target itself, as a sentence
        without its full stop; empty when it is enough."""
        need = SLICES_LEAST + (rss or 0) // SLICES_PART
        if self.left is None or self.left >= need:
            return ""
        return f"only {self.left >> 20} MiB of memory are free, and a census in slices may need {need >> 20} MiB"


def room(pid: int, *, in_use: bool = False) -> Headroom:
    """The least of what the machine and the control groups of ``pid`` have left. ``in_use``: with what the kernel would
    take back of file pages in use, and of its own caches, before it ended a process."""
    groups = groups_of(pid, "memory")
    left = [_meminfo("MemAvailable"), *(_group_left(each, FILES[each.version], in_use=in_use) for each in groups)]
    together = any(read(each.folder / "memory.oom.group") == "1" for each in groups)
    least = min((size for size in left if size is not None), default=None)
    return Headroom(least, together, _promises(pid), limits.shortage_of_tasks(pid))


def _promises(pid: int) -> int | None:
    """Bytes that the kernel would still promise once it has promised a clone of ``pid`` as much as the process may
    write to; None where it promises more than there is (``vm.overcommit_memory`` 0 and 1)."""
    if read(control_groups.PROC / "sys" / "vm" / "overcommit_memory") != "2":
        return None
    limit, promised = _meminfo("CommitLimit"), _meminfo("Committed_AS")
    if limit is None or promised is None:
        return None
    return max(0, limit - promised - limits.status_size(pid, "VmData"))


def attach_refusal(pid: int) -> InjectionDenied | None:
    """Why heaptop's code might have the kernel end the process, or refuse it memory; None when there is enough."""
    left = room(pid, in_use=True).left
    if left is None or left >= ATTACH_LEAST:
        return limits.refusal(pid)
    return InjectionDenied(
        f"Process {pid} has too little memory left for an attach.",
        why=f"Only {left >> 20} MiB are free for it, and heaptop needs up to {ATTACH_LEAST >> 20} MiB: "
        "the kernel might end the process.",
        fix=f"Raise the limit of its control group, or count a copy: `heaptop census {pid} --no-inject`.",
    )


# -- the limit that ends it ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """How much memory a process may take, and how near it is to that."""

    bytes: int  # The smallest limit of its control groups, or all memory of the machine
    of: str  # Which one: `memory.max of /pod/app`, or `the machine`, and whether there may be another
    left: int | None
    """Bytes that it may still take before the first of its limits, the machine's free memory among them."""
    pressure: float | None = None
    """Per cent of the last ten seconds in which some thread of its control group (without one, of the machine) waited
    for memory; None before Linux 4.20 and in version 1."""


def memory_limit(pid: int) -> MemoryLimit | None:
    """The limit for ``pid`` now; None where not even the machine's memory can be read. A group that has no limit has
    ``max`` there, or in version 1 a number beyond all memory."""
    found: list[tuple[int, str, int | None]] = []
    if (whole := _meminfo("MemTotal")) is not None:
        machine = "the machine; that of its control group is not visible" if is_hidden(pid, "memory") else "the machine"
        found.append((whole, machine, _meminfo("MemAvailable")))
    groups = groups_of(pid, "memory")
    for group in groups:
        names = FILES[group.version]
        for name in (names[0], *(HIGH if group.version == 2 else ())):
            with suppress(ValueError):
                of = printable(f"{name} of {group.name}")
                found.append((int(read(group.folder / name)), of, _group_left(group, (name, *names[1:]))))
    if not found:
        return None
    size, of, _ = min(found, key=lambda each: each[0])
    left = min((room for _, _, room in found if room is not None), default=None)
    own = [each.folder / "memory.pressure" for each in groups if each.version == 2]
    return MemoryLimit(size, of, left, _pressure([*own[:1], control_groups.PROC / "pressure" / "memory"]))


def _pressure(files: Sequence[Path]) -> float | None:
    """Of the first that is there: pressure stall information, as ``some avg10=1.23 avg60=…``."""
    for file in files:
        if found := re.search(r"^some avg10=(\d{1,3}\.\d+)", read(file)):
            return float(found[1])
    return None


# -- files --------------------------------------------------------------------------------------------------


def _meminfo(name: str) -> int | None:
    try:
        lines = proc.text(control_groups.PROC / "meminfo").splitlines()
    except OSError:
        return None
    sizes = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
    return sizes.get(name)


def _group_left(group: ControlGroup, names: Files, *, in_use: bool = False) -> int | None:
    """Pages of files that are not in use count as free: the kernel drops them first."""
    limit, current, unused = names
    try:
        allowed = proc.text(group.folder / limit).strip()
        if allowed == "max":
            return None
        stat = dict(line.split() for line in proc.text(group.folder / "memory.stat").splitlines())
        free = int(allowed) - int(proc.text(group.folder / current)) + int(stat.get(unused, "0"))
        if in_use:  # a half, as in the kernel's MemAvailable
            caches = unused.replace("inactive", "active"), "slab_reclaimable"
            free += sum(int(stat.get(name, "0")) for name in caches) // 2
        return max(0, free)
    except (OSError, ValueError):
        return None
