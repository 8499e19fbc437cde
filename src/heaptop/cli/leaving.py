"""Says on stderr what a detach had to leave in a process. This module never detaches."""

from __future__ import annotations

from heaptop.cli.terminal import say
from heaptop.protocol.source import Ended


def say_what_stays(ended: Ended | None, pid: int) -> None:
    """One remark, where the agent could not take out all that it had put in; nothing otherwise."""
    if ended is not None and ended.left:
        say(f"not all of heaptop could be taken out of process {pid}, which goes on: {ended.left}")
