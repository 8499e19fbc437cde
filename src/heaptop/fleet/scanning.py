"""The Python processes of this host, as the rules consider them. Reads ``/proc``; touches nothing."""

from __future__ import annotations

import os
import time

import psutil

from heaptop.fleet.selection import ProcessKey, SeenProcess, cgroup_path, container_of, unit_of
from heaptop.injector.inspect import proc
from heaptop.injector.processes import PythonProcess, names, python_processes
from heaptop.protocol.text import LONGEST, printable


def seen_processes() -> list[SeenProcess]:
    """Every Python process that this user can see, without any heaptop and what this one has started."""
    now, own = time.time(), os.getpid()
    return [_seen(process, now) for process in python_processes() if _parent(process.pid) != own]


def is_same(key: ProcessKey) -> bool:
    """Whether the process still runs, and its pid belongs to no other one."""
    pid, created = key
    try:
        return psutil.Process(pid).create_time() == created
    except psutil.Error:
        return False


def _seen(process: PythonProcess, now: float) -> SeenProcess:
    path = _cgroup(process.pid)
    return SeenProcess(
        pid=process.pid,
        created=process.created,
        user=process.user,
        command=process.command,
        name=min(names(process.argv), key=lambda name: (len(name), name), default=""),
        rss=process.rss,
        age=max(now - process.created, 0.0),
        cgroup=path,
        unit=unit_of(path),
        container=container_of(path),
    )


def _cgroup(pid: int) -> str:
    try:
        return printable(cgroup_path(proc.text(f"/proc/{pid}/cgroup")), LONGEST)
    except OSError:
        return ""  # it ended meanwhile, or this kernel has no control groups


def _parent(pid: int) -> int:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return 0
