"""Looks before anything is touched: is this a process heaptop may and can enter, and by which backend.

Reads ``/proc`` and the target's memory, changes nothing. :func:`check` raises the error that an attach would end
with; ``heaptop doctor`` shows the same errors, because it calls the same functions.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from heaptop.errors import (
    FreeThreadedTarget,
    HeaptopError,
    InjectionDenied,
    NotPython,
    PtraceDenied,
    SeccompTarget,
    StoppedTarget,
    TargetError,
    TracedTarget,
    UnresponsiveTarget,
    UnsupportedArchitecture,
    ZombieTarget,
)
from heaptop.injector.inspect import containers, layout, privileges, proc, process
from heaptop.injector.inspect.elf import Exhausted
from heaptop.injector.inspect.interpreter import Interpreter, find_interpreter
from heaptop.injector.inspect.memory import PAGE, RemoteFault, RemoteMemory, read_mappings
from heaptop.injector.inspect.process import ProcessFacts, read_facts
from heaptop.injector.inspect.unshown import page_error, unshown_error
from heaptop.injector.machine import KNOWN

T = TypeVar("T")

PATIENCE: Final = 5.0  # Seconds to look at a process; 0.2 are needed for one with 20,000 mappings


@dataclass(frozen=True, slots=True)
class CheckedProcess:
    """A process that passed: what the backends need to know of it."""

    facts: ProcessFacts
    interpreter: Interpreter


def check(pid: int, *, enter: bool = True) -> CheckedProcess:
    """Look at ``pid``. Raises the TargetError that is in the way, if it is one that no backend can pass; of those that
    only matter to who enters it none, if nobody is to."""
    check_machine()
    return apart(pid, lambda: _check(pid, enter))


def apart(pid: int, read: Callable[[], T]) -> T:
    """What ``read`` finds out about ``pid``, in a child process: its files and memory need not answer. Raises what it
    raises, and UnresponsiveTarget."""
    try:
        return proc.within(PATIENCE, read, ("process", pid))
    except proc.TooSlow as error:
        raise unanswering(pid, str(error)) from None


def unanswering(pid: int, detail: str) -> UnresponsiveTarget:
    """The error for a process whose files do not answer."""
    return UnresponsiveTarget(
        f"Process {pid} was not checked: its files do not answer.",
        why="Its executable or a mapped file is on a file system (FUSE, NFS) that does not answer, or it has more "
        f"memory mappings than can be read in time ({detail}). Nothing was changed in it.",
        fix=f"Find the file system in `cat /proc/{pid}/mountinfo`, and retry when it answers.",
    )


def _check(pid: int, enter: bool) -> CheckedProcess:
    try:
        facts = read_facts(pid)
        check_state(facts)
        check_capabilities(facts)
        return CheckedProcess(facts, read_interpreter(facts, enter=enter))
    except HeaptopError as error:
        error.about(pid)
        raise


def check_machine() -> None:
    """heaptop itself must run where the machine code of the stub does."""
    if sys.platform != "linux" or platform.machine() not in KNOWN:
        raise UnsupportedArchitecture(
            f"This machine is {sys.platform} on {platform.machine()}; heaptop attaches on x86-64 and aarch64 Linux."
        )
    if (error := page_error(PAGE)) is not None:
        raise error
    if (contained := containers.gvisor_error()) is not None:
        raise contained


def check_state(facts: ProcessFacts) -> None:
    """Refuse a process that is a zombie, stopped, or the kernel's."""
    if facts.is_kernel_thread:
        raise NotPython(
            f"Process {facts.pid} ({facts.name}) is a kernel thread.",
            why="It runs no interpreter.",
        )
    if facts.state in "ZX" and facts.live_tid == facts.pid:
        raise ZombieTarget(f"Process {facts.pid} ({facts.name}) is a zombie.")
    if facts.state == "T":
        raise StoppedTarget(f"Process {facts.pid} ({facts.name}) is stopped (state T).")


def check_capabilities(facts: ProcessFacts) -> None:
    """Who traces by capability needs the others that heaptop keeps too, to open what belongs to the target's user."""
    own = process.capabilities()
    if os.geteuid() in facts.uids or not own >> privileges.SYS_PTRACE & 1:
        return
    missing = [name for name, number in privileges.NAMES.items() if not own >> number & 1]
    if missing:
        raise PtraceDenied(
            f"No permission to attach to process {facts.pid} ({facts.name}) of {facts.user}.",
            why=f"heaptop has CAP_SYS_PTRACE, but not {', '.join(missing)}: it opens files of another user's process.",
            fix=containers.elsewhere(facts)
            if containers.in_container()
            else f"Add {', '.join(missing)} to the capabilities of heaptop's unit.",
        )


def read_interpreter(facts: ProcessFacts, *, enter: bool = True) -> Interpreter:
    """The interpreter in the target; PtraceDenied when its memory may not even be read. ``enter``: as for
    :func:`check`."""
    pid = facts.pid
    if (sandbox := containers.sandbox_error(facts, containers.arguments_of(pid))) is not None:
        raise sandbox
    try:
        mappings = read_mappings(pid, facts.live_tid)
        with RemoteMemory(pid, facts.live_tid, bring_in=True) as memory:
            found = find_interpreter(pid, memory, mappings, facts.executable)
        _check_shown(found, enter)
        if found.free_threaded and (enter or not found.version.facts.free_threaded):
            raise free_threaded_error(pid, found)
        return found
    except PermissionError:
        raise denied(facts) from None
    except (proc.TooLarge, Exhausted):
        raise InjectionDenied(
            f"Process {pid} ({facts.name}) has more memory mappings or symbols than heaptop reads.",
            why="No interpreter has so many. A hostile program may have them, to block a profiler.",
            fix="Start the program with the agent in it instead: `heaptop run -- prog.py`.",
        ) from None
    except (FileNotFoundError, ProcessLookupError, RemoteFault):
        read_facts(pid)  # gone: its own error is the better one
        raise denied(facts) from None


def _check_shown(found: Interpreter, enter: bool) -> None:
    """Refuse what was not shown on this machine."""
    unshown = {
        "to Python on musl": found.musl,
        f"to Python {found.version}": found.version.pair not in layout.SHOWN_ELSEWHERE,
        "with --no-inject": not enter,
    }
    for what, applies in unshown.items():
        if applies and (error := unshown_error(what)) is not None:
            raise error


def denied(facts: ProcessFacts) -> PtraceDenied:
    """Why the kernel refuses, and what to type: by owner, capability, Yama and dumpability."""
    pid, mine = facts.pid, os.geteuid()
    what = f"No permission to read process {pid} ({facts.name})."
    scope = process.ptrace_scope()
    contained = containers.in_container()
    sudo = containers.elsewhere(facts) if contained else f"Run heaptop as root: `sudo heaptop attach {pid}`."
    run = "Or start the program with the agent in it: `heaptop run -- prog.py`."
    if scope == 3:
        return PtraceDenied(what, why="kernel.yama.ptrace_scope is 3: no tracing until the next boot.", fix=run)
    if process.has_capability(process.CAP_SYS_PTRACE):
        return PtraceDenied(
            what,
            why="heaptop has CAP_SYS_PTRACE here, but the process runs in a user namespace or under a security "
            "module (SELinux, AppArmor) that ignores it.",
            fix="Run heaptop as root on the host, outside containers.",
        )
    if mine == 0:
        return PtraceDenied(
            what,
            why="This root has no CAP_SYS_PTRACE, the default in containers.",
            fix=containers.elsewhere(facts)
            if contained
            else "Start the container with `docker run --cap-add=SYS_PTRACE …` (Kubernetes: "
            "`securityContext.capabilities.add: [SYS_PTRACE]`), or run heaptop on its host.",
        )
    if mine not in facts.uids:
        return PtraceDenied(what, why=f"It belongs to {facts.user}; you are {process.user_name(mine)}.", fix=sudo)
    if scope == 2:
        return PtraceDenied(
            what, why="kernel.yama.ptrace_scope is 2: tracing needs CAP_SYS_PTRACE.", fix=f"{sudo} {run}"
        )
    if scope == 1:
        return PtraceDenied(
            what,
            why="kernel.yama.ptrace_scope is 1: without CAP_SYS_PTRACE a process can trace only its children.",
            fix=f"{sudo} Or, until the next boot: `sudo sysctl kernel.yama.ptrace_scope=0`. {run}",
        )
    return PtraceDenied(
        what,
        why="It is yours, but it changed its user, dropped privileges or made itself undumpable (prctl "
        "PR_SET_DUMPABLE), so only root can read it.",
        fix=sudo,
    )


def tracer_error(facts: ProcessFacts) -> TracedTarget | None:
    """The error for a process that another tracer holds, naming it; None when there is none."""
    if not facts.tracer:
        return None
    try:
        who = process.command_line(facts.tracer) or read_facts(facts.tracer).name
    except TargetError:
        who = "it runs in another pid namespace"
    return TracedTarget(
        f"Process {facts.pid} is traced by process {facts.tracer} ({who}).",
        fix=f"End the tracer (`kill {facts.tracer}`, or its own detach command), then attach again.",
    )


def free_threaded_error(pid: int, found: Interpreter) -> FreeThreadedTarget:
    """The error for a build that no agent may run in, with what heaptop can do in its place."""
    error = FreeThreadedTarget(f"Process {pid} runs a free-threaded build of Python {found.version}.")
    if found.version.facts.free_threaded:
        error.fix = f"Count a copy of its memory, with no code run in it: `heaptop census {pid} --no-inject`."
    return error


def shadow_stack_error(facts: ProcessFacts) -> InjectionDenied | None:
    """The error for a process whose calls heaptop cannot return from by ptrace; None where it can."""
    if not facts.shadow_stack:
        return None
    return InjectionDenied(
        f"Process {facts.pid} ({facts.name}) runs with a shadow stack.",
        why="The processor would kill it at the return from a call that heaptop makes in one of its threads.",
        fix="Start the program with the agent in it: `heaptop run -- prog.py`, or without shadow stacks "
        "(GLIBC_TUNABLES=glibc.cpu.x86_shstk=off). Or count a copy of its memory, with no code run in it: "
        f"`heaptop census {facts.pid} --no-inject`.",
    )


def seccomp_error(facts: ProcessFacts, allow: bool, *, traced: bool = True) -> SeccompTarget | None:
    """None when there is no filter, when it can be suspended for the moment, or when the user overrides.

    ``traced`` is whether it is by ptrace that heaptop would come: no other way can suspend a filter.
    """
    if facts.seccomp == 0 or allow or (traced and facts.seccomp != 1 and can_suspend_seccomp()):
        return None
    mode = "strict mode" if facts.seccomp == 1 else "a filter"
    error = SeccompTarget(f"Process {facts.pid} ({facts.name}) runs under seccomp ({mode}).")
    if not traced:
        error.why = "PEP 768 runs a script in the program under its filter, which may kill it."
        error.fix = (
            "If you know that the filter allows reading files, socket, connect and clone: `heaptop attach PID "
            "--allow-seccomp`."
        )
    elif os.geteuid() == 0 or containers.in_container():
        error.why = (
            "The filter may kill it for the system calls of an attach (mmap, socketpair). Only root of the host with "
            "CAP_SYS_ADMIN, and under no filter itself, can suspend it for that moment."
        )
        error.fix = (
            f"{containers.elsewhere(facts)}\nOr take censuses in Python mode, if you know that the filter allows mmap, "
            "socketpair, clone and nanosleep, as the default profiles of Docker and Podman do:\n"
            f"  heaptop attach {facts.pid} --allow-seccomp"
        )
    return error


def can_suspend_seccomp() -> bool:
    """PTRACE_O_SUSPEND_SECCOMP needs CAP_SYS_ADMIN of the host's user namespace, and a tracer that is under no filter
    itself; to check the system calls made meanwhile needs Linux 5.3 (PTRACE_GET_SYSCALL_INFO)."""
    release = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    return (
        release >= (5, 3)
        and privileges.helper_has(privileges.SYS_ADMIN)
        and containers.is_initial("user")
        and read_facts(os.getpid()).seccomp == 0
    )
