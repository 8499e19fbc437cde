"""Which processes are attached to: rules, and the choice by them.

This module reads no process and no file: what is known of processes is given to it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

MIN_RSS: Final = 50_000_000
MIN_AGE: Final = 60.0  # Seconds: what ends sooner is not worth an attach

ProcessKey = tuple[int, int]  # Pid and start: what names a process forever


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """A Python process of this host, as far as rules consider it."""

    pid: int
    start: int  # When it began, in the kernel's ticks since boot: a clock that is set does not change it
    user: str
    command: str
    name: str  # Of its script, module or program; empty where it has none
    rss: int
    age: float  # Seconds
    cgroup: str = ""  # Its path, without the mount point
    unit: str = ""  # The systemd unit, such as `shop.service`; empty where it is in none
    container: str = ""  # The container's id, 64 hexadecimal digits; empty outside of containers
    pod: str = ""  # The name of its Kubernetes pod, as the process's environment has it; empty where that is not known

    @property
    def key(self) -> ProcessKey:
        return self.pid, self.start


@dataclass(frozen=True, slots=True)
class SelectRule:
    """One ``[[select]]``: a process must match all that it states."""

    name: str = ""  # The service that matching processes belong to; empty: each goes by its unit or its own name
    command: re.Pattern[str] | None = None
    user: str = ""
    cgroup: re.Pattern[str] | None = None
    unit: str = ""  # A name, or a pattern such as `shop@*.service`
    container: str = ""  # The beginning of an id
    pod: str = ""  # A name, or a pattern such as `shop-*`
    min_rss: int = 0
    min_age: float = 0.0
    exclude: bool = False

    def matches(self, seen: SeenProcess) -> bool:
        """Whether it is about this process, whatever its size and age."""
        return (
            (self.command is None or self.command.search(seen.command) is not None)
            and (not self.user or self.user == seen.user)
            and (self.cgroup is None or self.cgroup.search(seen.cgroup) is not None)
            and (not self.unit or fnmatchcase(seen.unit, self.unit))
            and (not self.container or seen.container.startswith(self.container))
            and (not self.pod or (bool(seen.pod) and fnmatchcase(seen.pod, self.pod)))
        )

    def is_met_by(self, seen: SeenProcess) -> bool:
        """Whether the process is also large and old enough."""
        return seen.rss >= self.min_rss and seen.age >= self.min_age and self.matches(seen)


@dataclass(frozen=True, slots=True)
class ChosenProcess:
    """A process to attach to, and the service that it belongs to."""

    seen: SeenProcess
    service: str

    @property
    def key(self) -> ProcessKey:
        return self.seen.key


DEFAULT_RULE: Final = SelectRule(min_rss=MIN_RSS, min_age=MIN_AGE)  # Where no rule chooses processes
PID: Final = "{pid}"  # In the name of a rule: each process is a service of its own
NAMELESS: Final = "python"  # The service of a process that has no name


def choose(
    rules: Sequence[SelectRule],
    processes: Iterable[SeenProcess],
    limit: int,
    held: Collection[ProcessKey] = (),
) -> list[ChosenProcess]:
    """At most ``limit`` of them: those that are ``held`` already as long as a rule matches, whatever their size is now,
    then the largest, of equally large ones the youngest. A process that any excluding rule is met by is never chosen;
    of the others, the first rule counts.
    """
    excluding = [rule for rule in rules if rule.exclude]
    including = [rule for rule in rules if not rule.exclude] or [DEFAULT_RULE]
    kept: list[ChosenProcess] = []
    new: list[ChosenProcess] = []
    for seen in processes:
        if any(rule.is_met_by(seen) for rule in excluding):
            continue
        is_held = seen.key in held
        fits = SelectRule.matches if is_held else SelectRule.is_met_by
        rule = next((rule for rule in including if fits(rule, seen)), None)
        if rule is not None:
            (kept if is_held else new).append(ChosenProcess(seen, _service(rule, seen)))
    return [*sorted(kept, key=_largest_first), *sorted(new, key=_largest_first)][:limit]


def _largest_first(chosen: ChosenProcess) -> tuple[int, int, int]:
    """Of equally large ones the youngest comes first: of workers that come and end, the oldest would end during its
    attach, and then the next."""
    return -chosen.seen.rss, -chosen.seen.start, chosen.seen.pid


def _service(rule: SelectRule, seen: SeenProcess) -> str:
    return rule.name.replace(PID, str(seen.pid)) or _own_service(seen)


def _own_service(seen: SeenProcess) -> str:
    """Of a unit that is a service the unit's name. A container's id changes with each release, and a user's own systemd
    has programs of all kinds: their names are not used."""
    if seen.unit.endswith(".service") and not is_user_manager(seen.unit):
        return seen.unit.removesuffix(".service")
    return seen.name or NAMELESS


# -- control groups ------------------------------------------------------------------------------------------

_CONTAINER: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_UNITS: Final = (".service", ".scope")


def cgroup_path(text: str) -> str:
    """The path of a process by its ``/proc/PID/cgroup`` (cgroups(7)): of several hierarchies (version 1), the deepest
    one. A name may contain every character but a newline and a slash."""
    paths = [line.split(":", 2)[2] for line in text.split("\n") if line.count(":") >= 2]
    return max(paths, key=lambda path: (path.count("/"), len(path), path), default="")


def unit_of(path: str) -> str:
    """The innermost systemd unit of a control group that is a service or a scope; empty for none. Of a user's own
    systemd it is that: which units there are below it, and their names, the user chooses."""
    parts = path.split("/")
    own = (part for part in parts if is_user_manager(part))
    return next(own, "") or next((part for part in reversed(parts) if part.endswith(_UNITS)), "")


def is_user_manager(unit: str) -> bool:
    """Whether it is a user's own systemd, such as ``user@1000.service``."""
    return unit.startswith("user@") and unit.endswith(".service")


def container_of(path: str) -> str:
    """The id of the innermost container: Docker, containerd, CRI-O and Podman all put it into the path."""
    found = _CONTAINER.findall(path)
    return found[-1] if found else ""
