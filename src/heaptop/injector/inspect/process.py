"""What the kernel reports about a process, in ``/proc``: read before anything else, and by ``doctor``.

Nothing here touches the target; nothing here knows Python.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heaptop.errors import ProcessNotFound
from heaptop.injector.inspect import proc
from heaptop.protocol.text import printable

CAP_SYS_PTRACE: Final = 19
NAMESPACES: Final = ("mnt", "pid", "net", "user")
FLAGS, START_TIME = 6, 19  # Places in stat_fields(): fields 9 and 22 of proc(5)
PF_KTHREAD: Final = 0x00200000
MOST_CHILDREN: Final = 1 << 12  # `linux/sched.h`


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One look at ``/proc/PID``."""

    pid: int
    name: str  # The kernel's 15-character name of the leader, printable; so are the other texts
    state: str  # R, S, D, T, t, Z, X, I: the leader's
    tracer: int
    nspid: int  # Its pid as it sees it itself
    uids: tuple[int, int, int, int]  # Real, effective, saved, file system
    gids: tuple[int, int, int, int]
    is_kernel_thread: bool
    seccomp: int  # 0 none, 1 strict, 2 filter
    shadow_stack: bool
    """The processor compares return addresses with a second stack (user-space shadow stacks, Linux 6.6)."""
    start: int  # Clock ticks since boot: distinguishes a pid's owners
    live_tid: int  # The leader, or another thread when the leader has exited
    command: str
    executable: str
    image: str  # Tells the program that runs from one that an exec puts in its place: see image()

    @property
    def user(self) -> str:
        return user_name(self.uids[1])


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def read_facts(pid: int) -> ProcessFacts:
    """Facts of ``pid``. Raises ProcessNotFound when it is gone."""
    try:
        status = _status(pid)
        # A zombie leader with live threads is how the kernel shows a process whose main thread has exited.
        tids = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
        fields = stat_fields(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessNotFound(f"There is no process {pid}.") from None
    if int(status["Tgid"]) != pid:
        raise ProcessNotFound(
            f"{pid} is a thread of process {status['Tgid']}, not a process.",
            why="Threads share one heap, which belongs to their process.",
            fix=f"Name the process: `heaptop attach {status['Tgid']}`.",
        )
    state = status["State"][0]
    others = [tid for tid in tids if tid != pid]
    return ProcessFacts(
        pid=pid,
        name=status["Name"],
        state=state,
        tracer=int(status["TracerPid"]),
        nspid=int(status.get("NSpid", str(pid)).split()[-1]),
        uids=_four(status["Uid"]),
        gids=_four(status["Gid"]),
        is_kernel_thread=bool(int(fields[FLAGS]) & PF_KTHREAD),
        seccomp=int(status.get("Seccomp", "0")),
        shadow_stack="shstk" in status.get("x86_Thread_features", "").split(),
        start=int(fields[START_TIME]),
        live_tid=others[0] if state in "ZX" and others else pid,
        command=command_line(pid) or status["Name"],
        executable=_link(f"/proc/{pid}/exe"),
        image=image(pid, others[0] if state in "ZX" and others else pid),
    )


def _status(pid: int) -> dict[str, str]:
    lines = proc.text(f"/proc/{pid}/status").split("\n")
    return {key: printable(value.strip()) for key, _, value in (line.partition(":") for line in lines)}


def _four(text: str) -> tuple[int, int, int, int]:
    real, effective, saved, filesystem = (int(part) for part in text.split())
    return real, effective, saved, filesystem


def real_user(pid: int) -> int:
    """The real uid of ``pid``, which a program that is set-user-ID leaves as it is. Raises OSError."""
    return _four(_status(pid)["Uid"])[0]


STACK_SIZE, SMALL_STACK_SIZE = 8 << 20, 1 << 20


def agent_stack_size(pid: int) -> int:
    """Bytes of stack for a thread that runs Python in ``pid``, whatever the program's own default is.

    8 MiB is what most programs have by default, and what CPython's limit of recursion in C is made for; only what is
    used of it becomes resident. Not so where memory is locked (mlockall): there 1 MiB must do, which is more than the
    agent and compiling it take.
    """
    is_locked = int(_status(pid).get("VmLck", "0").split()[0])
    return SMALL_STACK_SIZE if is_locked else STACK_SIZE


def _link(path: str) -> str:
    try:
        return proc.link(path)
    except OSError:
        return ""


def stat_fields(path: str) -> list[str]:
    """Fields of a ``stat`` file from the state (field 3) on: the name before it may hold anything."""
    return proc.text(path).rpartition(")")[2].split()


def start_time(pid: int) -> int:
    """When ``pid`` started, in clock ticks since boot."""
    return int(stat_fields(f"/proc/{pid}/stat")[START_TIME])


def command_line(pid: int) -> str:
    """The command line, printable and shortened; empty for kernel threads and zombies."""
    try:
        return " ".join(proc.arguments(pid))
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """Processes that ``pid`` has started and not waited for; empty where the kernel does not say."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that ended meanwhile
            found += map(int, proc.text(file).split()[:MOST_CHILDREN])
    return found


def image(pid: int, live_tid: int) -> str:
    """The auxiliary vector, in hexadecimal: where the kernel placed the program, its loader, stack and vDSO.

    Of two programs with the same one, addresses in the first are right for the second. Empty when it may not be read.
    """
    try:
        return proc.read(f"/proc/{pid}/task/{live_tid}/auxv").hex()
    except OSError:
        return ""


def rss_bytes(pid: int) -> int | None:
    """Resident bytes of ``pid``; None when it is gone."""
    try:
        pages = int(proc.text(f"/proc/{pid}/statm").split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def is_same_process(pid: int, start: int) -> bool:
    """Whether ``pid`` is still the process that started at ``start`` and has not become a zombie."""
    try:
        fields = stat_fields(f"/proc/{pid}/stat")
    except OSError:
        return False
    return int(fields[START_TIME]) == start and fields[0] not in "ZX"


def pid_namespace(pid: int | str = "self") -> int:
    """The inode of a process's pid namespace; 0 when it cannot be read."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


def foreign_namespaces(pid: int) -> tuple[str, ...]:
    """Which of the target's namespaces are not heaptop's own."""
    foreign = []
    for name in NAMESPACES:
        theirs, ours = _link(f"/proc/{pid}/ns/{name}"), _link(f"/proc/self/ns/{name}")
        if theirs and theirs != ours:
            foreign.append(name)
    return tuple(foreign)


def capabilities() -> int:
    """heaptop's own effective capabilities, as a bit set."""
    return int(_status(os.getpid())["CapEff"], 16)


def has_capability(number: int) -> bool:
    return bool(capabilities() >> number & 1)


def ptrace_scope() -> int | None:
    """Yama's ``ptrace_scope`` (0 to 3); None where the kernel has no Yama."""
    try:
        return int(proc.text("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return None


def wait_until(condition: Callable[[], bool], timeout: float, step: float = 0.001) -> bool:
    """Poll ``condition`` until it is true or ``timeout`` seconds have passed; whether it became true."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(step)
        step = min(step * 1.5, 0.05)
    return True
