"""The live screen of one of several processes: a tab among others, that continues while another one is examined.

:class:`~heaptop.tui.screens.tabs.Tabs` decides which tab attaches next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from heaptop.protocol.source import Source
from heaptop.tui.keys.bindings import SEVERAL, Key, bindings
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.screens.question import QuestionControl
from heaptop.tui.state.messages import TabChosen
from heaptop.tui.state.session import AttachPhase
from heaptop.tui.views import LIVE
from heaptop.tui.widgets.filter_bar import FilterBar
from heaptop.tui.widgets.help_screen import HelpPage
from heaptop.tui.widgets.panel import Panel
from heaptop.tui.widgets.tabs_line import TabsLine

if TYPE_CHECKING:
    from heaptop.tui.screens.tabs import Tabs

MARKS = (
    "In the line of tabs, ▲ and ▼ mean that a heap grew or shrank by more than 1 % over the last ten censuses; ○ "
    "not attached yet, × could not attach, † exited, ? asks a question. Each process has its own views, filters "
    "and marks. q detaches from all of them."
)


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


class TabScreen(LiveScreen):
    """A tab. It is fed whether it is shown or not, and drawn only while it is."""

    KEYS: ClassVar[Sequence[Key]] = (*SEVERAL, *LIVE)
    BINDINGS: ClassVar[list[BindingType]] = bindings(SEVERAL)

    def __init__(self, tabs: Tabs, source: Source, wake: Callable[[], object], user_code: Sequence[str] = ()) -> None:
        super().__init__(source, way_back=False, user_code=user_code)
        self.tabs = tabs
        self.state.wake = wake
        self.questions = QuestionControl(self, tabs.step)

    def compose(self) -> ComposeResult:
        yield TabsLine()
        yield from super().compose()

    def open(self) -> None:
        """Open the source: its events are fed to this screen from now on."""
        self.state.open()

    @property
    def is_shown(self) -> bool:
        """It is what the person looks at, perhaps below a page of help."""
        return self.is_mounted and self in self.app.screen_stack

    def arrived(self) -> None:
        """The source has put events into the inbox."""
        if self.is_shown:
            self.on_events_arrived()
        else:
            self._take_events()

    def _take_events(self) -> None:
        super()._take_events()
        self.tabs.took(self)

    def _draw(self) -> None:
        if self.is_shown:
            super()._draw()

    def _draw_words(self) -> None:
        if self.is_shown:
            super()._draw_words()
            self._draw_tabs()

    def show_news(self, text: str) -> None:
        """Say it for some seconds."""
        self.state.status.show_notice(text)
        self._draw()

    def redraw_tabs(self) -> None:
        """Another tab has something new on the line."""
        if self.is_shown:
            self._draw_tabs()

    def _draw_tabs(self) -> None:
        self.query_one(TabsLine).show(self.tabs.line, self.tabs.shown, self.look)

    def second(self) -> None:
        if self.is_shown:
            super().second()

    def on_screen_suspend(self) -> None:
        if not self.is_shown:
            self.state.graph.turn(False, None)  # nobody looks at what graph censuses would tell

    def _draw_panel(self) -> None:
        super()._draw_panel()
        if self.session.phase is AttachPhase.WAITING and not self.tabs.has_begun(self):
            self.query_one(Panel).show(*self._waiting_words(), self.look)

    def _waiting_words(self) -> tuple[str, str]:
        target = self.session.target
        about = f"{target.command}\nPython {target.python or '?'}, user {target.user}"
        if self.tabs.is_asked(self):
            turn = "heaptop attaches to one process after the other, so that their pauses do not coincide."
            return f"Process {target.pid} waits for its turn", f"{about}\n\n{turn}"
        asks = "Enter attaches to it; Tab goes to the next one."
        return f"Process {target.pid} started later and is not attached", f"{about}\n\n{asks}"

    @property
    def _footer_keys(self) -> Sequence[Key]:
        keys = super()._footer_keys
        views = [key for key in keys if key.group == "Views"]
        return [*views, *SEVERAL, *(key for key in keys if key not in views)]

    def help_of(self, name: str) -> HelpPage:
        page = super().help_of(name)
        return replace(page, first=_paragraphs(page.first, self.tabs.notices), words=_paragraphs(page.words, MARKS))

    # -- keys ------------------------------------------------------------------------------------------------

    def action_tab(self, step: int) -> None:
        if not self.query_one(FilterBar).editing:
            self.tabs.step(step)

    def acts(self, action: str) -> bool:
        waits = self.session.phase is AttachPhase.WAITING and not self.tabs.has_begun(self)
        return super().acts(action) or (action == "drill" and waits)

    def on_tab_chosen(self, event: TabChosen) -> None:
        self.tabs.show(event.number)

    def action_drill(self) -> None:
        if self.session.phase is AttachPhase.WAITING and not self.tabs.has_begun(self):
            self.tabs.begin(self)
        else:
            self.act("drill")

    def action_back(self) -> None:
        if self.session.phase is not AttachPhase.WAITING or self.tabs.has_begun(self):
            self.act("back")
