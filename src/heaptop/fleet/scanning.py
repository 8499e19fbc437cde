"""The Python processes of this host, as the rules consider them. Reads ``/proc``; touches nothing."""

from __future__ import annotations

import os
import re
import time
from typing import Final

from heaptop.fleet.selection import SeenProcess, cgroup_path, container_of, unit_of
from heaptop.injector.inspect import proc
from heaptop.injector.inspect.process import START_TIME, stat_fields
from heaptop.injector.processes import PythonProcess, names, python_processes
from heaptop.protocol.text import LONGEST, printable

PARENT: Final = 1  # Its place among the fields of a `stat` file
POD_PATIENCE: Final = 0.2  # Seconds for a process's environment; less than a millisecond is usual
_OF_POD: Final = re.compile(r"kubepods|/pod[0-9a-f-]{32,36}/")
"""In control groups of pods. Where heaptop is in a pod itself, paths are relative to its own, and may begin below
kubepods."""
_HOSTNAME: Final = b"HOSTNAME="
_POD_NAME: Final = re.compile(rb"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def seen_processes() -> list[SeenProcess]:
    """Every Python process that this user can see, without any heaptop and what this one has started."""
    found = []
    with proc.Reader(_environ) as reader:
        for process in python_processes():
            try:
                fields = stat_fields(f"/proc/{process.pid}/stat")
            except OSError:
                continue  # it ended meanwhile
            if int(fields[PARENT]) != os.getpid():
                found.append(_seen(process, int(fields[START_TIME]), reader))
    return found


def _seen(process: PythonProcess, start: int, reader: proc.Reader[int, bytes]) -> SeenProcess:
    path = _cgroup(process.pid)
    return SeenProcess(
        pid=process.pid,
        start=start,
        user=process.user,
        command=process.command,
        name=min(names(process.argv), key=lambda name: (len(name), name), default=""),
        rss=process.rss,
        age=max(time.clock_gettime(time.CLOCK_BOOTTIME) - start / os.sysconf("SC_CLK_TCK"), 0.0),
        cgroup=path,
        unit=unit_of(path),
        container=container_of(path),
        pod=_pod(process.pid, reader) if _OF_POD.search(path) else "",
    )


def _environ(pid: int) -> bytes:
    return proc.read(f"/proc/{pid}/environ")


def _pod(pid: int, reader: proc.Reader[int, bytes]) -> str:
    """The kubelet gives each container its pod's name as HOSTNAME. The process may have changed it."""
    try:
        variables = reader.ask(pid, POD_PATIENCE, ("environ", pid)).split(b"\0")
    except OSError:
        return ""  # it ended meanwhile, or does not let it be read
    name = next((each.removeprefix(_HOSTNAME) for each in variables if each.startswith(_HOSTNAME)), b"")
    return name.decode() if _POD_NAME.fullmatch(name) else ""


def _cgroup(pid: int) -> str:
    try:
        return printable(cgroup_path(proc.text(f"/proc/{pid}/cgroup")), LONGEST)
    except OSError:
        return ""  # it ended meanwhile, or this kernel has no control groups
