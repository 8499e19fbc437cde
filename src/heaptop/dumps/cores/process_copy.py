"""A live process in place of a core: its memory, copied while it stands still. No code runs in it.

``injector/entry/memory_copy`` copies, in a process made for it. Here is the copy then, as what a core file is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import heaptop
from heaptop.dumps.cores.elf_core import CoreFile, CoreSegment, MappedFile, entry_in
from heaptop.dumps.reader import SHARE, available_memory
from heaptop.errors import ImageRefused
from heaptop.injector.entry.memory_copy import CopyPlan
from heaptop.injector.entry.plan import HelperReport
from heaptop.injector.inspect.preflight import check, tracer_error
from heaptop.injector.inspect.process import ProcessFacts

LAUNCHER: Final = (
    "import sys; sys.path.append(sys.argv[1]); from heaptop.injector.entry.memory_copy import main; main()"
)
PATIENCE: Final = 120.0
"""Seconds beyond the budget after which the process that copies is ended: it makes room for the copy first."""


@dataclass(frozen=True, slots=True)
class ProcessCopy:
    """What was copied, and of whom."""

    core: CoreFile
    fd: int
    zeros: int  # Of what is zero: mapped, it takes no memory when it is read, as a hole of a memfd would
    facts: ProcessFacts
    stopped_ns: int
    running: int  # Threads that were in no system call


@contextmanager
def copied(pid: int, budget: float) -> Iterator[ProcessCopy]:
    """Stop the process for ``budget`` seconds at most, and copy its memory. Errors: TargetError, OutOfResources."""
    checked = check(pid, enter=False)
    if (error := tracer_error(checked.facts)) is not None:
        raise error
    fd = os.memfd_create("heaptop-copy", os.MFD_CLOEXEC)
    zeros = os.open("/dev/zero", os.O_RDONLY | os.O_CLOEXEC)
    try:
        facts = checked.facts
        found = _copy(facts, fd, budget)
        yield ProcessCopy(_core(facts, found), fd, zeros, facts, found["stopped_ns"], found["running"])
    finally:
        os.close(fd)
        os.close(zeros)


def _copy(facts: ProcessFacts, fd: int, budget: float) -> dict[str, Any]:
    """What the process that copies reports."""
    plan = CopyPlan(
        pid=facts.pid,
        start=facts.start,
        image=facts.image,
        live_tid=facts.live_tid,
        budget_ns=int(budget * 1e9),
        memory=int(available_memory() * SHARE),
        fd=fd,
        owner=os.getpid(),
    )
    packages = Path(heaptop.__file__).resolve().parent.parent
    command = [sys.executable, "-I", "-S", "-B", "-c", LAUNCHER, str(packages)]
    try:
        # Where heaptop is interrupted it kills that process, and the kernel releases the target.
        done = subprocess.run(
            command,
            input=json.dumps(asdict(plan)).encode() + b"\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[fd],
            start_new_session=True,
            timeout=budget + PATIENCE,
            check=False,
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        raise ImageRefused(
            f"The memory of process {facts.pid} cannot be copied.",
            why="The process that copies it ended without an answer: for want of memory, or because a page of the "
            "target did not come. Nothing was changed.",
            fix="Retry, or write a core file and give that in place of PID: `gcore -o core PID`.",
        ).about(facts.pid) from None
    if found["event"] == "error":
        raise HelperReport.decode(done.stdout).to_error()
    return found


def _core(facts: ProcessFacts, found: dict[str, Any]) -> CoreFile:
    stored = [
        CoreSegment(start, end, flags, offset, end - start)
        for start, end, flags, offset in found["ranges"]
    ]
    absent = [CoreSegment(start, end, flags, 0, 0) for start, end, flags in found["absent"]]
    return CoreFile(
        path="",
        size=found["size"],
        wall=found["wall"],
        segments=tuple(sorted([*stored, *absent], key=lambda each: each.start)),
        files=tuple(
            MappedFile(start, end, offset, os.fsdecode(bytes.fromhex(path)))
            for start, end, offset, path in found["files"]
        ),
        pid=facts.pid,
        command=facts.command,
        entry=entry_in(bytes.fromhex(facts.image)),
        missing=found["unread"],
        is_copy=True,
    )
