"""What the front end is given where it is to show several processes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heaptop.protocol.deferred import DeferredSource
from heaptop.protocol.source import Source


@dataclass(frozen=True)
class MemberProcess:
    """One of the processes."""

    source: Source  # What a screen shows: it is opened at once, and delivers nothing before `late` has begun
    late: DeferredSource  # What is inside of it, and begins the attach
    name: str  # What one calls the process; may be empty
    asked: bool = True  # It is attached to when its turn comes; else only once a person wants it


@dataclass(frozen=True)
class FamilyChanges:
    """What has become of a family of processes."""

    new: Sequence[MemberProcess]  # Those that have started since the last look, and are not attached to yet
    alive: frozenset[int]  # Pids of all that are there


@dataclass(frozen=True)
class Several:
    """The processes that are to be shown together."""

    title: str  # What they are in all: the command of the first
    members: Sequence[MemberProcess]
    look: Callable[[], FamilyChanges] | None = None  # Where others may come: called every few seconds, in a thread
