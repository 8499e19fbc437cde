"""The control groups of a process, of version 1 and of version 2, as far as heaptop sees them.

Reads ``/proc`` and ``/sys/fs/cgroup`` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heaptop.injector.inspect import proc

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group, or one that it is in."""

    folder: Path
    name: str  # Its path, below where its kind is mounted
    version: int  # 1, or 2


def read(file: Path) -> str:
    """A file's text; empty where it cannot be read. Only newlines are cut off: a group's name may end in blanks."""
    try:
        return proc.text(file).rstrip("\n")
    except OSError:
        return ""


def groups_of(pid: int, controller: str) -> list[ControlGroup]:
    """The control groups that may limit what ``controller`` is about (``memory``, ``pids``), the innermost first."""
    found = []
    for path, version in _named(pid, controller):
        root = _root(version, controller)
        if (below := _below(root, path)) is not None:
            inner = [each for each in (root / below, *(root / below).parents) if each.is_relative_to(root)]
            names = ["" if each == root else f"{each.relative_to(root)}" for each in inner]
            found += [ControlGroup(each, f"/{name}", version) for each, name in zip(inner, names, strict=True)]
    return found


def is_hidden(pid: int, controller: str) -> bool:
    """Whether a control group that may limit that is out of heaptop's sight."""
    return any(_below(_root(version, controller), path) is None for path, version in _named(pid, controller))


def _root(version: int, controller: str) -> Path:
    return CGROUPS if version == 2 else CGROUPS / controller


def _named(pid: int, controller: str) -> Iterator[tuple[str, int]]:
    """The paths of its groups, with their versions. The name of a group may contain every character but a newline and
    a slash."""
    for line in read(PROC / f"{pid}" / "cgroup").split("\n"):
        _, controllers, path = line.split(":", 2) if line.count(":") > 1 else ("", "", "")
        if path and (not controllers or controller in controllers.split(",")):
            yield path, 1 if controllers else 2


def _below(root: Path, path: str) -> str | None:
    """The place of a group below the folder where control groups are mounted; None where it is not there.

    Both the path and what is mounted are named as heaptop's namespace of control groups sees them: out of it leads
    ``..``, and a container that has the host's folder sees the mount of that as ``/../..``. There, a group inside the
    namespace is in a folder whose name nobody gives. Without a namespace, a container may see its own group only."""
    mounted = _mounted(root).rstrip("/")
    if mounted:
        if not f"{path}/".startswith(f"{mounted}/"):
            return None
        path = path[len(mounted) :]
    return None if ".." in path.split("/") else path.lstrip("/")


def _mounted(folder: Path) -> str:
    """The control group that is mounted there; empty without one."""
    mounts = [line.split(" ") for line in read(PROC / "self" / "mountinfo").split("\n")]
    return next((fields[3] for fields in reversed(mounts) if fields[4:5] == [str(folder)]), "")  # the last lies on top
