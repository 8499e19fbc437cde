"""What the kernel lets a process make no more of than a number, and whether heaptop leaves it enough of each.

What heaptop takes of memory mappings, processes, descriptors or address space, the program cannot have: where it is
near such a limit, its own next thread, file or array would fail. Reads ``/proc`` and control groups only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from heaptop.errors import InjectionDenied
from heaptop.injector.inspect import privileges, proc
from heaptop.injector.inspect.memory import count_mappings
from heaptop.injector.inspect.threads import thread_ids
from heaptop.injector.session import control_groups
from heaptop.injector.session.control_groups import groups_of, read
from heaptop.protocol.text import printable

MAPPINGS_LEAST: Final = 256  # Of vm.max_map_count, for the target itself and some 40 of heaptop's
TASKS_LEAST: Final = 8  # Processes and threads: heaptop's are the agent's, a census, and a snapshot
DESCRIPTORS_LEAST: Final = 16  # At most four of them are heaptop's, at the attach
SPACE_LEAST: Final = 256 << 20
"""Bytes of address space. A session was seen to take 80 MiB for good, most of them glibc's heap for the agent's thread,
and 225 MiB for a moment, for the marks of a census in the stopped process."""
SPACES: Final = (("Max address space", "VmSize", "-v"), ("Max data size", "VmData", "-d"))
"""Limits of it, what of a process's status counts for each, and the option of ``ulimit``."""


def refusal(pid: int) -> InjectionDenied | None:
    """Why an attach may leave the program too little; None when there is enough of each for both."""
    return _of_mappings(pid) or _of_tasks(pid) or _of_descriptors(pid) or _of_space(pid)


def _refused(pid: int, what: str, why: str, fix: str) -> InjectionDenied:
    return InjectionDenied(
        f"Process {pid} has too {what} for an attach.",
        why=why,
        fix=f"{fix}. Or count a copy of its memory: `heaptop census {pid} --no-inject`.",
    )


# -- memory mappings ----------------------------------------------------------------------------------------


def mappings(task: Path) -> int:
    """How many mappings there are, by the folder of a thread in ``/proc``; 0 where that cannot be read."""
    try:
        return count_mappings(task / "maps")
    except OSError:
        return 0


def _of_mappings(pid: int) -> InjectionDenied | None:
    most = read(control_groups.PROC / "sys" / "vm" / "max_map_count")
    have = next((found for task in _tasks(pid) if (found := mappings(task))), 0)
    if not most.isdigit() or have + MAPPINGS_LEAST <= int(most):
        return None
    return _refused(
        pid,
        "many memory mappings",
        f"It has {have:,} of at most {int(most):,} (vm.max_map_count), and heaptop adds up to 40: the next one "
        "that the program makes might fail.",
        f"Raise the limit: `sudo sysctl vm.max_map_count={2 * int(most)}`",
    )


def _tasks(pid: int) -> list[Path]:
    """The folders of its threads: a leader that has exited shows neither memory nor files."""
    return [control_groups.PROC / f"{pid}" / "task" / f"{tid}" for tid in thread_ids(pid)]


# -- processes and threads ----------------------------------------------------------------------------------


def shortage_of_tasks(pid: int) -> str:
    """Why no clone may be made, as a sentence without its full stop; empty where the program has enough left."""
    for left, limit in _tasks_left(pid):
        if left < TASKS_LEAST:
            return f"only {left} more processes or threads may be made ({limit}), which the program may need"
    return ""


def _of_tasks(pid: int) -> InjectionDenied | None:
    for left, limit in _tasks_left(pid):
        if left < TASKS_LEAST:
            return _refused(
                pid,
                "few processes and threads left",
                f"Only {left} more may be made ({limit}), and heaptop makes up to 3: the next one that the program "
                "makes might fail.",
                "Raise the limit (the container's pids limit, TasksMax of systemd, `prlimit --nproc`)",
            )
    return None


def _tasks_left(pid: int) -> Iterator[tuple[int, str]]:
    """How many processes and threads may be made under each limit, which is named."""
    for group in groups_of(pid, "pids"):
        with suppress(ValueError):
            left = int(read(group.folder / "pids.max")) - int(read(group.folder / "pids.current"))
            yield max(0, left), f"pids.max of {printable(group.name)}"
    limit = _limit(pid, "Max processes")
    if limit is not None and limit - TASKS_LEAST < _all_tasks() and (user := _limited_user(pid)) is not None:
        yield max(0, limit - _tasks_of(user)), "RLIMIT_NPROC"


def _all_tasks() -> int:
    """Of the machine."""
    try:
        return int(read(control_groups.PROC / "loadavg").split()[3].partition("/")[2])
    except (IndexError, ValueError):
        return 0


def _limited_user(pid: int) -> int | None:
    """Whose processes count for the limit; None where it does not apply: to root, and with two capabilities. Both are
    those of the machine: root of a user namespace is another user there (a rootless container)."""
    status = _status(pid)
    is_machines = read(control_groups.PROC / f"{pid}" / "uid_map").split()[:2] in ([], ["0", "0"])
    try:
        user, effective = int(status["Uid"].split()[0]), int(status["CapEff"], 16)
    except (KeyError, IndexError, ValueError):
        return None
    exempts = 1 << privileges.SYS_ADMIN | 1 << privileges.SYS_RESOURCE
    return None if is_machines and (user == 0 or effective & exempts) else user


def _tasks_of(user: int) -> int:
    """Threads of all processes of a user."""
    count = 0
    for name in os.listdir(control_groups.PROC):
        if name.isdigit():
            status = _status(int(name))
            if status.get("Uid", "-1").split()[0] == f"{user}":
                count += int(status.get("Threads", "1"))
    return count


# -- descriptors --------------------------------------------------------------------------------------------


def _of_descriptors(pid: int) -> InjectionDenied | None:
    limit = _limit(pid, "Max open files")
    if limit is None or (left := limit - _descriptors(pid, limit)) >= DESCRIPTORS_LEAST:
        return None
    return _refused(
        pid,
        "few descriptors left",
        f"It may open only {max(0, left)} more files (RLIMIT_NOFILE), and heaptop needs up to 4: the next one that the "
        "program opens might fail.",
        f"Raise the limit: `prlimit --pid {pid} --nofile={2 * limit}`",
    )


def _descriptors(pid: int, limit: int) -> int:
    """How many it has, or as many as it may have at most where its table is far smaller than the limit."""
    status = _status(pid)
    room = status.get("FDSize", "")
    if room.isdigit() and 0 < int(room) <= limit - DESCRIPTORS_LEAST:
        return int(room)
    return next((found for task in _tasks(pid)[:2] if (found := _below(task / "fd", limit))), 0)


def _below(folder: Path, limit: int) -> int:
    """How many descriptors the limit counts: it is on their numbers, and may have been lowered since."""
    try:
        return sum(int(name) < limit for name in os.listdir(folder))
    except OSError:
        return 0


# -- address space ------------------------------------------------------------------------------------------


def status_size(pid: int, name: str) -> int:
    """Bytes of a line of its status; 0 where there is none."""
    for task in _tasks(pid):
        if size := _status(pid, task / "status").get(name, ""):
            return int(size.split()[0]) << 10
    return 0


def _of_space(pid: int) -> InjectionDenied | None:
    for name, counted, option in SPACES:
        limit = _limit(pid, name)
        if limit is not None and (left := max(0, limit - status_size(pid, counted))) < SPACE_LEAST:
            return _refused(
                pid,
                "little address space left",
                f"It may take only {left >> 20} MiB more (`ulimit {option}`), and a session takes up to 225 MiB: "
                "the program might get no memory.",
                "Raise the limit (`prlimit --as`, `--data`)",
            )
    return None


# -- files --------------------------------------------------------------------------------------------------


def _limit(pid: int, name: str) -> int | None:
    """The limit that is in force; None where there is none."""
    for line in read(control_groups.PROC / f"{pid}" / "limits").split("\n"):
        if line.startswith(name):
            soft = line.removeprefix(name).split()[:1]
            return int(soft[0]) if soft and soft[0].isdigit() else None
    return None


def _status(pid: int, file: Path | None = None) -> dict[str, str]:
    try:
        text = proc.text(file or control_groups.PROC / f"{pid}" / "status")
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.split("\n"))}
