"""A page of text in the middle of the screen: the wait for an attach, what a person must decide, errors in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Center, Middle, VerticalScroll
from textual.widgets import Static

from heaptop.analysis.text.units import format_bytes, format_duration_ns
from heaptop.tui.charts.look import Look

if TYPE_CHECKING:
    from heaptop.errors import HeaptopError
    from heaptop.protocol.messages import Decision
    from heaptop.protocol.source import TargetInfo
    from heaptop.tui.state.opening import Opening
    from heaptop.tui.state.session import Session


def waiting_text(session: Session, *, leaving: bool) -> tuple[str, str]:
    """Title and text of the wait: what goes on, for how long, and how to stop it."""
    phase = "giving up, and taking the request back" if leaving else session.waiting.phase
    return attaching_text(session.target, phase, session.waiting.seconds, session.target.note)


def attaching_text(
    target: TargetInfo | Opening, phase: str = "attaching", seconds: float = 0.0, note: str = ""
) -> tuple[str, str]:
    """The same, of what is known before there is a session."""
    lines = [
        target.command,
        (f"Python {target.python}, " if target.python else "") + f"user {target.user}" + (f". {note}" if note else ""),
        "",
        f"{phase}: {seconds:.0f} s",
        "",
        "Esc gives up, q gives up and quits; either leaves nothing behind in the process.",
    ]
    return f"Attaching to process {target.pid}" if target.pid else "Starting the program", "\n".join(lines)


def decision_text(session: Session, decision: Decision) -> tuple[str, str]:
    """Title and text of the question whether the target may be stopped for so long."""
    pause, budget = format_duration_ns(decision.pause_ns), format_duration_ns(decision.budget_ns)
    how = {
        "clone": "It would be counted in a copy-on-write clone: the pause is for the copy of its page tables.",
        "stop": "It would be counted in the process itself, which stands still for as long as that takes.",
    }.get(decision.mode, "")
    seen = session.forecast
    size = f"RSS {format_bytes(seen.rss)}, {format_bytes(seen.huge)} of it in huge pages." if seen else ""
    lines = [
        f"The next count would stop the process for about {pause}; the budget (--pause-budget) is {budget}.",
        *(line for line in (how, f"No clone, because: {decision.reason}." if decision.reason else "", size) if line),
        "",
        "y   stop it; later counts too, and for twice as long at most",
        "n   count in slices of a few milliseconds: slower, and approximate",
        "q   detach and quit",
    ]
    return f"May process {session.target.pid} be stopped for {pause}?", "\n".join(lines)


def error_text(error: HeaptopError, *, way_back: str) -> tuple[str, str]:
    """Title and text of an error: what happened, why, and what to type."""
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in type(error).__name__).strip()
    keys = f"Esc {way_back}, q quits." if way_back else "q quits."
    return words.capitalize(), f"{error.help_text}\n\n{keys}"


class Panel(Middle):
    """Shown in place of a view."""

    DEFAULT_CSS = """
    Panel { height: 1fr; align: center middle; background: $background; }
    Panel Center { height: auto; }
    Panel VerticalScroll {
        width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 1 2;
        border: round $secondary; border-title-color: $accent; border-title-style: bold;
    }
    Panel.bad VerticalScroll { border: round $error; border-title-color: $error; }
    Panel.-ascii VerticalScroll { border: ascii $secondary; }
    Panel Static { width: 1fr; height: auto; }
    """

    def compose(self) -> ComposeResult:
        with Center(), VerticalScroll(can_focus=False):
            yield Static("", markup=False)

    def show(self, title: str, text: str, look: Look, *, bad: bool = False) -> None:
        self.set_class(bad, "bad")
        self.set_class(look.ascii_only, "-ascii")
        self.query_one(VerticalScroll).border_title = look.text(title)
        static = self.query_one(Static)
        if static.content != look.text(text):
            static.update(look.text(text))
