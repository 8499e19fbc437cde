"""Which thread of the target to ask: looks at ``/proc/PID/task``, and at what the kernel knows of a thread.

A thread is *blocked* when it sleeps in one of the system calls below, with the same arguments and the same count of
voluntary switches in two samples 3 ms apart. Such a thread holds no lock of libc that a pthread_create takes, so it
may run one. On musl two exceptions are left out: a fork holds such a lock while it waits for others of libc's, and a
dlopen while it reads the library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from heaptop.errors import AlreadyAttached
from heaptop.injector.inspect import proc
from heaptop.injector.inspect.interpreter import LIBC_FILES
from heaptop.injector.inspect.memory import read_mappings
from heaptop.injector.inspect.process import stat_fields
from heaptop.injector.machine import MACHINE

GET_ROBUST_LIST: Final = MACHINE.calls["get_robust_list"]
SAMPLE_GAP: Final = 0.003
READ, FUTEX = MACHINE.numbers("read", "futex")

BLOCKING: Final = MACHINE.numbers(
    "futex",
    "restart_syscall",  # what a restarted sleep shows; without it an attach takes a second
    *("nanosleep", "clock_nanosleep"),
    *("select", "pselect6"),
    *("poll", "ppoll"),
    *("wait4", "waitid"),
    *("accept", "accept4"),
    *("read", "recvfrom", "recvmsg"),
    "pause",  # restarted by the kernel unless a handler ran (ERESTARTNOHAND)
    *("epoll_wait", "epoll_pwait", "epoll_pwait2"),  # they show EINTR
    "rt_sigtimedwait",  # it shows EINTR
)
"""System calls that a thread may be taken from, the best first."""

AGENT_NAME: Final = "heaptop fd="
"""How the agent's thread is named (``/proc/PID/task/TID/comm``); its descriptor's number follows."""

NAMING: Final = """\
try:
    M=__spec__.__init__.__globals__["sys"].modules
    T,P=M["_thread"],M["posix"]
    C="{prefix}"if {descriptor}<10000 else"{long}"
    if hasattr(T,"set_name"):T.set_name(C+"{descriptor}")
    else:
        F=P.open("/proc/thread-self/comm",P.O_WRONLY)
        P.write(F,(C+"{descriptor}").encode()[:15])
        P.close(F)
except(OSError,KeyError):pass
"""
"""3.14 has ``_thread.set_name``; before it the kernel's file must do, which a bare chroot does not have."""


LONG_NAME: Final = "heaptop "  # For numbers of five to seven digits, which fit the kernel's 15 bytes only so

ENDED_NAME: Final = "heaptop ended"
AGENT_NAMES: Final = re.compile(f"{AGENT_NAME}([0-9]{{1,4}})|{LONG_NAME}([0-9]{{5,7}})")


def thread_name(descriptor: int) -> bytes:
    """The agent's thread name for its session's descriptor, within the kernel's 15 bytes."""
    return f"{AGENT_NAME if descriptor < 10_000 else LONG_NAME}{descriptor}".encode()[:15]


def naming(descriptor: int) -> str:
    """Python source that names the thread that runs it so: for the backends without a stub."""
    return NAMING.format(prefix=AGENT_NAME, long=LONG_NAME, descriptor=descriptor)


def tracers(pid: int) -> set[int]:
    """The processes that trace threads of ``pid``, as far as they are to be seen from here."""
    found = set()
    for tid in thread_ids(pid):
        with contextlib.suppress(OSError):
            status = proc.text(f"/proc/{pid}/task/{tid}/status")
            found.add(int(status.partition("\nTracerPid:")[2].split(maxsplit=1)[0]))
    return found - {0}


_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class _Sample:
    call: str
    switches: str


def thread_ids(pid: int) -> list[int]:
    """The target's threads, lowest first; empty when it is gone."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []


def robust_list(tid: int) -> int:
    """The address that a thread gave to set_robust_list(2), in its descriptor on glibc; 0 when there is none, or it may
    not be asked."""
    head, size = ctypes.c_uint64(0), ctypes.c_size_t(0)
    failed = _libc.syscall(GET_ROBUST_LIST, ctypes.c_int(tid), ctypes.byref(head), ctypes.byref(size))
    return 0 if failed else head.value


def agent_thread(pid: int) -> tuple[int, int] | None:
    """(tid, descriptor) of an agent's thread in the target, by its name; None when there is none.

    Never the first thread, though a child that the agent's thread forked has the name. A program can give the name to
    any other: :func:`heaptop.injector.entry.hijack.agent_state` looks behind it.
    """
    return next(iter(agent_threads(pid)), None)


def agent_error(pid: int) -> AlreadyAttached | None:
    """The error for a process with a thread that is named as an agent's; None when there is none.

    A program may give the name to a thread of its own. What is behind it takes a copy of the thread's socket, which
    an attach makes, and a mere look does not.
    """
    agent = agent_thread(pid)
    if agent is None:
        return None
    return AlreadyAttached(
        f"Another heaptop seems to be attached to process {pid}.",
        why=f"Thread {agent[0]} has the name of its agent. If the program gave a thread of its own that name, an "
        "attach finds out. Only one profiler can attach at a time; two would count each other and "
        "change the same hooks.",
    )


def agent_threads(pid: int) -> list[tuple[int, int]]:
    """As :func:`agent_thread`, all there are."""
    found = []
    for tid in thread_ids(pid):
        if tid == pid:
            continue
        try:
            name = proc.name(f"/proc/{pid}/task/{tid}/comm").strip()
        except OSError:
            continue
        if match := AGENT_NAMES.fullmatch(name):
            found.append((tid, int(match[1] or match[2])))
    return found


def only_ended(pid: int) -> bool:
    """Whether no agent's thread runs in the target, and one sleeps there until the process exits (``life.c``)."""
    names = set()
    for tid in thread_ids(pid):
        with contextlib.suppress(OSError):
            names.add(proc.name(f"/proc/{pid}/task/{tid}/comm").strip())
    return ENDED_NAME in names and not any(AGENT_NAMES.fullmatch(name) for name in names)


def _sample(pid: int, tid: int) -> _Sample | None:
    """The thread's system call and switch count if it sleeps in a call; None when it runs or is gone."""
    folder = f"/proc/{pid}/task/{tid}"
    try:
        call = proc.text(f"{folder}/syscall")
        if call.startswith("running") or stat_fields(f"{folder}/stat")[0] != "S":
            return None
        status = proc.text(f"{folder}/status")
    except (OSError, IndexError):
        return None
    return _Sample(call, status.rpartition("\nvoluntary_ctxt_switches:")[2].split()[0])


def _libc_memory(pid: int, tid: int) -> list[range]:
    """Where the C library's code and data are, and the bss that follows."""
    found: list[range] = []
    try:
        for mapping in read_mappings(pid, tid):
            is_bss = bool(found) and not mapping.path and mapping.start == found[-1].stop
            if is_bss or os.path.basename(mapping.path).startswith(LIBC_FILES):
                found.append(range(mapping.start, mapping.end))
    except (OSError, proc.TooLarge):
        pass
    return found


def _may_hold_libcs_lock(pid: int, tid: int, call: str) -> bool:
    """Whether a thread that sleeps in ``call`` may be in the middle of musl's fork or dlopen."""
    number, first = call.split()[:2]
    if int(number) == FUTEX:
        return any(int(first, 16) in part for part in _libc_memory(pid, tid))
    if int(number) != READ:
        return False
    try:
        path = os.readlink(f"/proc/{pid}/task/{tid}/fd/{int(first, 16)}")
    except OSError:
        return True
    return path.startswith("/") and not path.startswith("/dev/")


def blocked_threads(pid: int, *, musl: bool = False) -> list[int]:
    """Threads that can be taken safely, the best first; the agent's own thread is never among them."""
    agents = {tid for tid, _ in agent_threads(pid)}
    tids = [tid for tid in thread_ids(pid) if tid not in agents]
    first = {tid: _sample(pid, tid) for tid in tids}
    time.sleep(SAMPLE_GAP)
    ranked: list[tuple[int, int]] = []
    for tid, before in first.items():
        if before is None or before != _sample(pid, tid):
            continue
        number = int(before.call.split()[0])
        if number in BLOCKING and not (musl and _may_hold_libcs_lock(pid, tid, before.call)):
            ranked.append((BLOCKING.index(number), tid))
    return [tid for _, tid in sorted(ranked)]


@dataclass(frozen=True, slots=True)
class TriggerChoice:
    """How to trigger the stub: ``thread`` on a blocked thread, or ``pending`` through the main thread's eval loop."""

    trigger: str
    tid: int


def choose(
    pid: int, *, prefer_thread: bool = False, musl: bool = False, foreign: Collection[int] = ()
) -> TriggerChoice:
    """A blocked main thread cannot run a pending call, so the native thread is started at once; otherwise the
    pending call is queued from whichever thread can be stopped. ``prefer_thread`` is the escalation. Never one of the
    ``foreign``, unless there is no other."""
    blocked = [tid for tid in blocked_threads(pid, musl=musl) if tid not in foreign]
    if blocked and (pid in blocked or prefer_thread):
        return TriggerChoice("thread", blocked[0])
    tids = [tid for tid in thread_ids(pid) if tid not in foreign]
    return TriggerChoice("pending", blocked[0] if blocked else pid if pid in tids else min(tids, default=pid))
