"""What a person is asked before something is done to their process, and what follows from yes and from no."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from heaptop.analysis.samples.tracing import COST, ENDS, TELLS, TELLS_NOT
from heaptop.analysis.text.units import format_bytes, format_duration_ns
from heaptop.protocol.messages import Decision
from heaptop.protocol.source import Forecast

Answer = Callable[[bool], str | None]
"""Does what yes or no means. What that came to, in words."""


@dataclass(frozen=True)
class Confirmation:
    """A question that keys y and n answer. Two are the same where they read the same."""

    title: str
    text: str
    answer: Answer = field(compare=False)
    drop: Callable[[], str | None] | None = field(default=None, compare=False)
    """What Esc does; None: only y and n are answers."""


def pause_question(pid: int, asked: Decision, seen: Forecast | None, answer: Answer) -> Confirmation:
    """Whether the target may be stopped for so long."""
    pause, budget = format_duration_ns(asked.pause_ns), format_duration_ns(asked.budget_ns)
    how = {
        "clone": "It would be counted in a copy-on-write clone: the pause is for the copy of its page tables.",
        "stop": "It would be counted in the process itself, which stands still for as long as that takes.",
    }.get(asked.mode, "")
    size = f"RSS {format_bytes(seen.rss)}, {format_bytes(seen.huge)} of it in huge pages." if seen else ""
    lines = [
        f"The next count would stop the process for about {pause}; the budget (--pause-budget) is {budget}.",
        *(line for line in (how, f"No clone, because: {asked.reason}." if asked.reason else "", size) if line),
        "",
        "y   stop it; later counts too, and for twice as long at most",
        "n   count in slices of a few milliseconds: slower, and approximate",
        "q   detach and quit",
    ]
    return Confirmation(f"May process {pid} be stopped for {pause}?", "\n".join(lines), answer)


def tracer_question(pid: int, why: str, answer: Answer) -> Confirmation:
    """Whether tracemalloc may be switched on; ``why`` there is no native core, a sentence without its full stop."""
    lines = [
        *([f"The native core cannot be used there: {why}.", ""] if why else []),
        f"tracemalloc can be switched on in its place. {TELLS}",
        f"While it is on, {COST}.",
        f"{TELLS_NOT}.",
        f"{ENDS}.",
        "",
        "y   switch it on; key r, and leaving, switch it off again",
        "n   leave it",
        "q   detach and quit",
    ]
    title = f"May tracemalloc be switched on in process {pid}?"
    return Confirmation(title, "\n".join(lines), answer, lambda: answer(False))


def values_question(pid: int, answer: Answer) -> Confirmation:
    """Whether values may be shown."""
    lines = [
        "Lengths, types and names of attributes are always shown. Values are not: a heap holds passwords, tokens and "
        "what belongs to other people, and a terminal is read over shoulders and kept in logs.",
        "",
        "With y, texts, bytes and numbers of exactly these types, and keys of dicts, are shown for the object that is "
        "looked at. They are read from the frozen copy; no code of the program runs. Key V hides them again.",
        "",
        "y   show values",
        "n   leave them hidden",
        "q   detach and quit",
    ]
    return Confirmation(f"May values of process {pid} be shown?", "\n".join(lines), answer, lambda: answer(False))


def collect_question(pid: int, name: str, answer: Answer, drop: Callable[[], str]) -> Confirmation:
    """Whether garbage may be collected before a mark of this name."""
    lines = [
        f"Mark {name!r} would then hold nothing that is garbage already, and what the next look finds is not "
        "merely waiting for the collector.",
        "",
        "But it acts on the program: a full collection stops all of its threads for as long as it takes, and runs the "
        "finalizers (__del__, weakref callbacks) of what is garbage, on heaptop's thread.",
        "",
        "y   collect in full, then mark",
        "n   mark as it is",
        "Esc no mark",
        "q   detach and quit",
    ]
    return Confirmation(f"May garbage be collected in process {pid}?", "\n".join(lines), answer, drop)
