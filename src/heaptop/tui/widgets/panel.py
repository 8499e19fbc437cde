"""A page of text in the middle of the screen: the wait for an attach, a question, an error in full."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult
from textual.containers import Center, Middle, VerticalScroll
from textual.widgets import Static

from heaptop.tui.charts.chart_style import ChartStyle

if TYPE_CHECKING:
    from heaptop.errors import HeaptopError
    from heaptop.protocol.source import TargetInfo
    from heaptop.tui.state.control.live_state import LiveState
    from heaptop.tui.state.opening import Opening
    from heaptop.tui.state.session import AttachSession

_PARTS: Final = re.compile("PyPy|PyInstaller|[A-Z][a-z]*")
_WORDS: Final = {
    "Dump": "heap dump",
    "Image": "snapshot",
    "PyInstaller": "PyInstaller",
    "PyPy": "PyPy",
    "Python": "Python",
}


def waiting_text(session: AttachSession, *, leaving: bool) -> tuple[str, str]:
    """Title and text of the wait: what continues, for how long, and how to stop it."""
    if session.target.file is not None or session.path:
        return reading_text(session)
    phase = "cancelling the attach" if leaving else session.waiting.phase
    return attaching_text(session.target, phase, session.waiting.seconds, session.target.note)


def reading_text(session: AttachSession) -> tuple[str, str]:
    """Of a file that is read in place of an attach."""
    target, waiting = session.target, session.waiting
    doing = f"{waiting.phase}: {waiting.seconds:.0f} s" if waiting.seconds else "reading"
    lines = [target.command, f"Python {target.python}", "", doing, "", "q quits."]
    return target.note if target.file is not None else f"Recording {session.path}", "\n".join(lines)


def attaching_text(
    target: TargetInfo | Opening, phase: str = "attaching", seconds: float = 0.0, note: str = ""
) -> tuple[str, str]:
    """The same, of what is known before there is a session. Below a second there is no time: while heaptop loads
    nothing counts, and 0 s would be wrong."""
    lines = [
        target.command,
        (f"Python {target.python}, " if target.python else "") + f"user {target.user}" + (f". {note}" if note else ""),
        "",
        f"{phase}: {seconds:.0f} s" if seconds >= 1 else phase,
        "",
        "Esc cancels, q cancels and quits; both leave nothing behind in the process.",
    ]
    return f"Attaching to process {target.pid}" if target.pid else "Starting the program", "\n".join(lines)


def error_text(error: HeaptopError, *, way_back: str) -> tuple[str, str]:
    """Title and text of an error: what happened, why, and what to type."""
    keys = f"Esc {way_back}, q quits." if way_back else "q quits."
    return error_title(type(error)), f"{error.help_text}\n\n{keys}"


def error_title(kind: type[HeaptopError]) -> str:
    """The class's name in words, those of the screens: ``ImageLost`` is *Snapshot lost*."""
    words = [_WORDS.get(part, part.lower()) for part in _PARTS.findall(kind.__name__)]
    title = " ".join(words)
    return title[0].upper() + title[1:]


def panel_page(live: LiveState, *, way_back: bool) -> tuple[str, str, bool]:
    """Title and text of what is in place of a view, and whether it is an error; empty where nothing is."""
    session = live.session
    if session.phase.value == "waiting":
        return *waiting_text(session, leaving=live.leaving), False
    if not live.has_failed or session.error is None:
        return "", "", False
    back = "goes back to the list" if way_back else ""
    back = "shows what was received" if session.history.records else back
    return *error_text(session.error, way_back=back), True


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

    def show(self, title: str, text: str, look: ChartStyle, *, bad: bool = False) -> None:
        self.set_class(bad, "bad")
        self.set_class(look.ascii_only, "-ascii")
        self.query_one(VerticalScroll).border_title = look.text(title)
        static = self.query_one(Static)
        if static.content != look.text(text):
            static.update(look.text(text))
