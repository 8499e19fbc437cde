"""What the commands use of the injector: attach, launch, diagnose, remove. Each name is one function; no state."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from heaptop.injector.diagnosis import Check, Diagnosis, diagnose
from heaptop.injector.entry.removal import remove_agent
from heaptop.injector.inspect.preflight import apart, check
from heaptop.injector.inspect.process import user_name
from heaptop.injector.preload.malloc_table import MallocTable, TableInvalid
from heaptop.injector.requests import AttachOptions, Launch
from heaptop.injector.rss import own
from heaptop.injector.session.census_policy import snapshot_shortage
from heaptop.injector.session.forecast import MemoryLimit, memory_limit
from heaptop.injector.session.session import LiveSource
from heaptop.protocol.source import Source, TargetInfo

__all__ = [
    "AttachOptions",
    "Check",
    "Diagnosis",
    "MallocTable",
    "MemoryLimit",
    "TableInvalid",
    "attach_source",
    "diagnose",
    "launch_source",
    "memory_limit",
    "remove_agent",
    "snapshot_shortage",
]


def attach_source(pid: int, options: AttachOptions) -> Source:
    """A source for the running process ``pid``. Looks at it first, and raises the TargetError that an attach would
    end with; nothing is touched before the source is opened."""
    # In this order: to look at it brings in pages of its files.
    before, seen = apart(pid, lambda: (own.before(pid), check(pid)))
    is_others = seen.facts.user != user_name(os.geteuid())
    target = TargetInfo(pid, seen.facts.command, str(seen.interpreter.version), seen.facts.user, is_others=is_others)
    return LiveSource(target, options, checked=seen, before=before)


def launch_source(
    argv: Sequence[str],
    *,
    python: str | None,
    output: Path,
    options: AttachOptions,
    force: bool = False,
    native: MallocTable | None = None,
) -> Source:
    """A source for a program that is started when the source is opened: ``["prog.py", …]`` or ``["-m", "mod", …]``,
    under ``python`` (heaptop's own by default), its output in the new file ``output``, which with ``force`` replaces
    one that is there. Its native memory is sampled into ``native``."""
    launch = Launch(tuple(argv), python or sys.executable, output, force, native)
    command = " ".join([launch.python, *argv])
    target = TargetInfo(0, command, "", user_name(os.geteuid()), note=f"output in {output}")
    return LiveSource(target, options, launch=launch, before=replace(own.NOTHING, native=native is not None))
