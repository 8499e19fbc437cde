"""Containers: whether heaptop runs in one, what to type for one beside a process, and sandboxes that are none.

A container shares the host's kernel, and heaptop works there as far as its rights go. gVisor is a kernel of its own in
a program, and Kata Containers runs a virtual machine: from outside, neither has a process of Python's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from heaptop.errors import InjectionDenied, NotPython
from heaptop.injector.inspect import proc

if TYPE_CHECKING:
    from heaptop.injector.inspect.process import ProcessFacts

_INITIAL: Final = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD}  # Inodes of the host's namespaces: `linux/proc_ns.h`
_GVISOR_VERSION: Final = "#1 SMP Sun Jan 10 15:06:54 PST 2016"
"""What gVisor has in uname, whatever its release: ``LinuxVersion`` in its ``pkg/sentry``."""
_KATA: Final = re.compile(r"(^|[ =,:])(/run/vc/|sandbox-[0-9a-f]{64})")
_MONITORS: Final = ("qemu-system-", "cloud-hypervisor", "firecracker", "stratovirt", "dragonball")


def is_initial(namespace: str) -> bool:
    """Whether heaptop's own namespace of that kind (``pid``, ``user``) is the host's."""
    try:
        return os.stat(f"/proc/self/ns/{namespace}").st_ino == _INITIAL[namespace]
    except OSError:
        return True


def in_container() -> bool:
    """Whether the processes that heaptop sees are a container's: its root is not the host's, and has no sudo."""
    return not is_initial("pid")


def kubectl_profile(facts: ProcessFacts) -> str:
    """The least profile of ``kubectl debug`` that attaches to the process: *general* adds CAP_SYS_PTRACE, *sysadmin* is
    privileged, which suspending a filter and opening another user's files need."""
    return "sysadmin" if facts.seccomp or facts.uids[1] else "general"


def elsewhere(facts: ProcessFacts) -> str:
    """What to do where heaptop in a container has too few rights: commands, a line each. A root of a user namespace has
    too few whatever it is given there."""
    if not is_initial("user"):
        return "Run heaptop as root on the host, outside of user namespaces: `heaptop ps` lists the process there."
    profile = kubectl_profile(facts)
    rights = "--cap-add=SYS_PTRACE" if profile == "general" else "--privileged"
    attach = f"heaptop attach {facts.pid}"
    return (
        "Run heaptop as root on the host, where `heaptop ps` lists the process, or in a container beside this one:\n"
        f"  docker run -it --rm {rights} --pid=container:NAME {attach}\n"
        f"  kubectl debug -it POD --profile={profile} --image=heaptop --target=CONTAINER -- {attach}"
    )


def gvisor_error() -> InjectionDenied | None:
    """The error inside gVisor; None elsewhere."""
    system = os.uname()
    if system.version != _GVISOR_VERSION and "gvisor" not in system.release:
        return None
    return InjectionDenied(
        "This container runs in gVisor (runsc), which is not a Linux kernel.",
        why="gVisor implements ptrace and /proc only in part, and heaptop is untested there.",
        fix="Run the program in a container of another runtime class (runc, crun), and attach there.",
    )


def sandbox_error(facts: ProcessFacts, arguments: Sequence[str]) -> NotPython | None:
    """The error for a process that is a sandbox around others, seen from the host; None for any other."""
    program = os.path.basename(facts.executable.removesuffix(" (deleted)"))
    if program == "runsc" or os.path.basename(arguments[0] if arguments else "").startswith("runsc-"):
        return NotPython(
            f"Process {facts.pid} ({facts.name}) is a sandbox of gVisor (runsc).",
            why="The programs in it run on a kernel of gVisor's own, so the host has no process for them.",
            fix="Run the program in a container of another runtime class (runc, crun), and attach there.",
        )
    if program.startswith(_MONITORS) and _KATA.search(" ".join(arguments)):
        return NotPython(
            f"Process {facts.pid} ({facts.name}) is a virtual machine of Kata Containers.",
            why="The programs in it run on a kernel of their own, so the host has no process for them.",
            fix="Run heaptop inside the virtual machine, in a container of the pod:\n"
            "  kubectl debug -it POD --profile=sysadmin --image=heaptop --target=CONTAINER -- heaptop attach 1",
        )
    return None


def arguments_of(pid: int) -> Sequence[str]:
    """The command line; empty where it may not be read."""
    try:
        return proc.arguments(pid)
    except OSError:
        return ()
