"""What a person is asked before something is done to their process, and what follows from yes and from no."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from heaptop.analysis.samples.tracing import COST, ENDS, TELLS, TELLS_NOT
from heaptop.analysis.text.units import format_bytes, format_duration_ns
from heaptop.protocol.images import FIRST_ID
from heaptop.protocol.messages import Decision
from heaptop.protocol.source import Forecast, TargetInfo

Answer = Callable[[bool], str | None]  # Does what yes or no means. The outcome, in words.


@dataclass(frozen=True)
class Confirmation:
    """A question that keys y and n answer. Two are the same where they read the same."""

    title: str
    text: str
    answer: Answer = field(compare=False)
    drop: Callable[[], str | None] | None = field(default=None, compare=False)
    """What Esc does; None: only y and n are answers."""
    stop: Callable[[], str | None] | None = field(default=None, compare=False)  # What s does; None: it is no answer


def pause_question(
    pid: int, asked: Decision, seen: Forecast | None, answer: Answer, stop: Callable[[], str | None]
) -> Confirmation:
    """Whether the target may be stopped for so long, or, with ``stop``, for the other pause that is offered."""
    if asked.request >= FIRST_ID:
        return _snapshot_question(pid, asked, seen, answer)
    pause, budget = format_duration_ns(asked.pause_ns), format_duration_ns(asked.budget_ns)
    how = {
        "clone": "The census would run in a copy-on-write clone: the pause is the time to copy its page tables.",
        "stop": "The census would run in the process itself, which stays stopped until it is done.",
    }.get(asked.mode, "")
    other = f"s   count in the process itself (mode stop): about {format_duration_ns(asked.stop_ns)}"
    lines = [
        f"The next census would pause the process for about {pause}; the budget (--pause-budget) is {budget}.",
        *(line for line in (how, f"No clone: {asked.reason}." if asked.reason else "", _size(seen)) if line),
        "",
        "y   allow it, and later pauses up to twice as long",
        *([other] if asked.stop_ns else []),
        "n   count in slices of a few milliseconds: slower, estimated",
        "q   detach and quit",
    ]
    title = f"Pause process {pid} for {pause}?"
    return Confirmation(title, "\n".join(lines), answer, stop=stop if asked.stop_ns else None)


def _snapshot_question(pid: int, asked: Decision, seen: Forecast | None, answer: Answer) -> Confirmation:
    pause, budget = format_duration_ns(asked.pause_ns), format_duration_ns(asked.budget_ns)
    lines = [
        f"The snapshot would pause the process for about {pause}; the budget (--pause-budget) is {budget}.",
        "It needs a copy-on-write clone: the pause is the time to copy the page tables of all memory, however few the "
        "objects are. Each check of a leak hunt is a snapshot.",
        *([_size(seen)] if seen else []),
        "",
        "y   allow it, and later pauses up to twice as long",
        "n   no snapshots in this session; censuses continue",
        "q   detach and quit",
    ]
    return Confirmation(f"Pause process {pid} for {pause} for a snapshot?", "\n".join(lines), answer)


def _size(seen: Forecast | None) -> str:
    return f"RSS {format_bytes(seen.rss)}, {format_bytes(seen.huge)} of it in huge pages." if seen else ""


def tracer_question(pid: int, why: str, answer: Answer) -> Confirmation:
    """Whether tracemalloc may be switched on; ``why`` there is no native core, a sentence without its full stop."""
    lines = [
        *([f"The native core is not loaded: {why}.", ""] if why else []),
        f"tracemalloc can be switched on instead. {TELLS}",
        f"While it is on, {COST}.",
        f"{TELLS_NOT}.",
        f"{ENDS}.",
        "",
        "y   switch it on; key r, or detaching, switches it off",
        "n   leave it off",
        "q   detach and quit",
    ]
    title = f"Switch tracemalloc on in process {pid}?"
    return Confirmation(title, "\n".join(lines), answer, lambda: answer(False))


def sampling_question(target: TargetInfo, change: str, answer: Answer) -> Confirmation:
    """Whether sampling of another user's process may be changed."""
    lines = [
        f"The process runs as {target.user}, not as you, and sampling costs it CPU and memory.",
        "",
        f"y   change to {change}; heaptop does not ask again about this process",
        "n   leave it as it is",
        "q   detach and quit",
    ]
    title = f"Change sampling in process {target.pid} of user {target.user}?"
    return Confirmation(title, "\n".join(lines), answer, lambda: answer(False))


def values_question(pid: int, answer: Answer) -> Confirmation:
    """Whether values may be shown."""
    lines = [
        "Lengths, types and attribute names are always shown. Values are not: a heap holds passwords, tokens and "
        "other people's data, and terminals are logged and read by others.",
        "",
        "With y, heaptop shows str, bytes and number values, and dict keys, of the object on screen. It reads them "
        "from the clone; no code of the program runs. V hides them again.",
        "",
        "y   show values",
        "n   leave them hidden",
        "q   detach and quit",
    ]
    return Confirmation(f"Show values of process {pid}?", "\n".join(lines), answer, lambda: answer(False))


def collect_question(pid: int, name: str, answer: Answer, drop: Callable[[], str]) -> Confirmation:
    """Whether garbage may be collected before a mark of this name."""
    lines = [
        f"A full collection first keeps garbage out of mark {name!r}: the next check then finds no objects that only "
        "wait for the collector.",
        "",
        "But it changes the program: the collection stops all of its threads until it is done, and runs finalizers "
        "of garbage (__del__, weakref callbacks) on heaptop's thread.",
        "",
        "y   collect, then mark",
        "n   mark without collecting",
        "Esc cancel",
        "q   detach and quit",
    ]
    return Confirmation(f"Run a full collection in process {pid}?", "\n".join(lines), answer, drop)
