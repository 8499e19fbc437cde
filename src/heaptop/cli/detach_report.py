"""Says on stderr how processes were left, once the screen is gone. This module never detaches."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from heaptop.analysis.text.units import format_bytes, format_duration_ns
from heaptop.cli.terminal import notice
from heaptop.errors import TargetExited
from heaptop.protocol.source import Ended, TargetInfo
from heaptop.protocol.text import printable

MOST_NAMED: Final = 6  # Processes that are named in one sentence


@dataclass(frozen=True, slots=True)
class DetachOutcome:
    """A process that heaptop was in."""

    target: TargetInfo
    seconds: float  # From the agent's first word to the end of the session
    ended: Ended | None  # None where it had not ended when nobody waited for it any longer
    rss_before: int | None = None  # Its resident bytes before heaptop came; None where they are not known

    @property
    def name(self) -> str:
        """``4711 (shop)``."""
        from heaptop.injector.processes import names

        name = min(names(self.target.command.split()), key=len, default="")
        return f"{self.target.pid} ({printable(name)})" if name else str(self.target.pid)

    @property
    def is_certain(self) -> bool:
        return self.ended is not None and self.ended.error is None and self.ended.gone


def report_outcomes(partings: Sequence[DetachOutcome], fate: str = "") -> None:
    """How the processes were left; only what went wrong, where nobody reads it. ``fate``: what becomes of them now, in
    place of what stays in them."""
    for parting in partings:
        if parting.ended is not None and (remark := parting.ended.leftovers(parting.target.pid)):
            notice(remark)
    if not has_reader():
        return
    with suppress(OSError):  # the terminal may be gone by now
        for line in outcome_lines(partings, fate):
            notice(line)


def has_reader() -> bool:
    """Whether a person reads stderr: output that goes elsewhere is for a program."""
    with suppress(OSError, ValueError):
        return sys.stdout.isatty() and sys.stderr.isatty()
    return False


def outcome_lines(partings: Sequence[DetachOutcome], fate: str = "") -> list[str]:
    """One sentence or two on those that were left in order, one on each other. What a command ends with as an error is
    told as that."""
    lines = [*_in_order([parting for parting in partings if parting.is_certain], fate)]
    for parting in partings:
        error = parting.ended.error if parting.ended is not None else None
        if isinstance(error, TargetExited):
            if error.status is None:  # else its parent reports that
                lines.append(f"{error.message.rstrip('.')}, {_after(parting.seconds)} after the attach")
        elif error is not None:
            if len(partings) > 1:
                lines.append(f"{parting.name}: {error.message}")
        elif not parting.is_certain:
            lines.append(
                f"no answer from {parting.name}: it is unknown whether everything was removed. The agent exits as "
                f"soon as the interpreter runs it; `heaptop detach {parting.target.pid}` checks that and removes it"
            )
    return lines


def _in_order(partings: Sequence[DetachOutcome], fate: str) -> list[str]:
    if not partings:
        return []
    one = len(partings) == 1
    after = _after(max(parting.seconds for parting in partings))
    done = "the agent's thread has ended" if one else "the agents' threads have ended"
    if not any(parting.ended and parting.ended.left for parting in partings):
        done = f"hooks and descriptors are removed, {done}"
    lines = [f"detached from {_named(partings)} after {after}: {done}"]
    if fate:
        return [f"{lines[0]}; {fate}"]
    from heaptop.injector.inspect.process import rss_bytes
    from heaptop.injector.rss.own import kept

    stays = [size for parting in partings if (size := kept(parting.target.pid)) is not None]
    if stays:
        kept_pages = f"{format_bytes(sum(stays))} of heaptop's code and data, which the next attach reuses, and "
        freed = "what malloc keeps of the agent's freed memory"
        lines.append(
            f"until {partings[0].target.pid if one else 'they'} exit{'s' if one else ''}, this stays mapped: "
            f"{kept_pages if sum(stays) else ''}{freed}"
        )
        before = [size for parting in partings if (size := parting.rss_before)]
        now = [size for parting in partings if (size := rss_bytes(parting.target.pid))]
        if len(before) == len(now) == len(partings):
            change = f"RSS was {format_bytes(sum(before))} before the attach, and is {format_bytes(sum(now))} now"
            lines[-1] += f"; {change}, including what the program{'' if one else 's'} did meanwhile"
    return lines


def _named(partings: Sequence[DetachOutcome]) -> str:
    if len(partings) == 1:
        return partings[0].name
    pids = [str(parting.target.pid) for parting in partings[:MOST_NAMED]]
    more = len(partings) - len(pids)
    return f"{len(partings)} processes ({', '.join(pids)}{f' and {more} more' if more else ''})"


def _after(seconds: float) -> str:
    return format_duration_ns(round(seconds * 1e9))
