"""The live screen: one source's events become figures on views, and keys become what views and controllers do.

Events come from a Source's thread, and are drawn at most ten times a second, however fast they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from heaptop.errors import HeaptopError
from heaptop.protocol.source import Source
from heaptop.tui.keys.bindings import QUESTION, Key, bindings
from heaptop.tui.keys.hint import Hint, hint_words
from heaptop.tui.screens.acting import ActingScreen
from heaptop.tui.screens.live_commands import commands_of
from heaptop.tui.screens.live_keys import footer_keys, help_page, keys_now
from heaptop.tui.screens.question import QuestionControl
from heaptop.tui.screens.saving_control import SavingControl
from heaptop.tui.screens.table_screen import PaletteCommand
from heaptop.tui.screens.view_switch import ViewSwitch
from heaptop.tui.state.control.hunt import HuntControl
from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.state.control.recording import RecordingControl
from heaptop.tui.state.control.sampling import SamplingControl
from heaptop.tui.state.control.snapshot import SnapshotControl
from heaptop.tui.state.control.status_line import StatusLine
from heaptop.tui.state.hunting import Hunting
from heaptop.tui.state.hunting_words import WHERE
from heaptop.tui.state.messages import (
    EventsArrived,
    FilterAccepted,
    FilterEdited,
    HeadingClicked,
    PromptClosed,
    SubjectChosen,
    ViewChanged,
)
from heaptop.tui.state.session import OVER, AttachSession
from heaptop.tui.state.snapshot_client import SnapshotClient
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.views.base import View
from heaptop.tui.views.leaks.view import LeaksView
from heaptop.tui.widgets.cursor import Cursor
from heaptop.tui.widgets.filter_bar import FilterBar
from heaptop.tui.widgets.footer import Footer
from heaptop.tui.widgets.header import Header
from heaptop.tui.widgets.help_screen import HelpPage
from heaptop.tui.widgets.notice_line import NoticeLine
from heaptop.tui.widgets.panel import Panel, panel_page
from heaptop.tui.widgets.prompt_bar import PromptBar

DRAW_SECONDS: Final = 0.1  # Shortest time between two drawings


class LiveScreen(ActingScreen):
    """Header, filter bar, a view or a panel, footer. Keys act on the view that is shown, or on a controller."""

    KEYS: ClassVar[Sequence[Key]] = LIVE
    SHOWN: ClassVar[Mapping[str, type[View]]] = VIEWS  # The views that it has
    STATE: ClassVar[type[LiveState]] = LiveState
    LEAVING: ClassVar[str] = "detaches and quits"
    BINDINGS: ClassVar[list[BindingType]] = bindings(key for key in LIVE if key.group != QUESTION)
    DEFAULT_CSS = """
    LiveScreen { background: $background; }
    LiveScreen Panel { display: none; }
    """

    def __init__(self, source: Source, *, way_back: bool, user_code: Sequence[str] = ()) -> None:
        """``way_back``: whether Esc has a picker to go back to, once the session is over."""
        super().__init__()
        self.state = state = self.STATE(source, user_code)
        state.view = lambda: self.view
        snapshot = SnapshotControl(state, [view.NUMBER for view in self.SHOWN.values() if view.FROZEN])
        go_to_list = lambda: self.call_later(self.heaptop.close_live, self)  # noqa: E731
        self.views = ViewSwitch(state, snapshot, self.SHOWN, go_to_list if way_back else None)
        self._controls = (
            *(self.views, snapshot, SamplingControl(state), HuntControl(state), RecordingControl(state)),
            *(SavingControl(self), state),
        )
        self._way_back = way_back
        state.wake = lambda: self.post_message(EventsArrived())
        self._drawn_at = float("-inf")
        self.draw_due = False
        self._hint = Hint()
        self.questions = QuestionControl(self)

    @property
    def session(self) -> AttachSession:
        return self.state.session

    @property
    def client(self) -> SnapshotClient:
        return self.state.client

    @property
    def hunting(self) -> Hunting:
        return self.state.hunting

    @property
    def view(self) -> View:
        return self.views.view

    @property
    def parts(self) -> Sequence[object]:
        return self.view, *self._controls

    @property
    def status(self) -> StatusLine:
        return self.state.status

    @property
    def table(self) -> Cursor:
        return self.view.table

    def compose(self) -> ComposeResult:
        yield Header()
        yield PromptBar(self.state)
        yield NoticeLine(id="hint", warns=False)
        yield NoticeLine(id="note")
        yield Panel()
        yield from self.views.make().values()
        yield Footer((), self.look)

    def on_mount(self) -> None:
        self._draw()
        self.set_interval(1.0, self.second)
        self.state.open()

    def on_key(self, event: events.Key) -> None:
        if self._hint.press(event.key):
            self.call_after_refresh(self._draw_words)

    # -- events ----------------------------------------------------------------------------------------------

    def on_events_arrived(self) -> None:
        wait = self._drawn_at + DRAW_SECONDS - monotonic()
        if wait <= 0:
            self._take_events()
            return
        if self.state.client.is_busy:  # its next query waits for this answer: a mark takes more than a hundred
            self.state.take_events()
        if not self.draw_due:
            self.draw_due = True
            self.set_timer(wait, self._take_events)

    def _take_events(self) -> None:
        self.draw_due = False
        self.state.take_events()
        self._draw()
        if self.is_mounted:  # a tab that nobody has looked at yet takes no messages: they would be kept until then
            self.call_after_refresh(self.session.sampling.work_in)

    def second(self) -> None:
        """Do what no event calls for: graph censuses, and how long a silence is."""
        self.state.second()
        if self.session.phase in OVER and self.state.held is None and self.view.age_ns:
            self._draw()  # nothing comes any more: what rested when the last of it came is made of that now
        else:
            self._draw_words()

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        self._drawn_at = monotonic()
        self.state.refresh()
        self._draw_panel()
        if not self.state.paneled:
            self.view.show(self.state.display, self.look)
        self._draw_words()
        self.questions.show()

    def _draw_panel(self) -> None:
        state = self.state
        state.choose_panel()
        panel = self.query_one(Panel)
        panel.display, self.query_one(FilterBar).display = state.paneled, not state.paneled
        self.views.show()
        title, text, bad = panel_page(state, way_back=self._way_back)
        panel.show(title, text, self.look, bad=bad)

    def _draw_words(self) -> None:
        state, bar = self.state, self.query_one(FilterBar)
        found = self.hunting.take_notice()
        state.status.show_notice(found.removesuffix(WHERE) if self.view.NAME == LeaksView.NAME else found)
        self.query_one(Header).show(self.session, state.display, self.look, leaving=state.leaving, held=state.waiting)
        self.query_one("#hint", NoticeLine).show(self._hint_words, self.look)
        self.query_one("#note", NoticeLine).show("" if state.paneled else self.note, self.look)
        left, right = self.words
        right = state.right_words(right, self.size.width - len(left) - len(right) - 12)
        prompt = state.prompts.open
        words = state.status.arrange(
            left, right, self.view.filtered, self.view.notice, width=self.size.width, hidden=state.paneled,
            typing=prompt is not None, alone=prompt is not None and not prompt.CHANGES_VIEW,
        )  # fmt: skip
        fix = state.prompts.fix(self.look.key)
        self.show_keys(state.prompts.keys or self._footer_keys, fix or words.footer)
        what, place = state.prompts.wrong
        bar.show(words.left, words.right, self.look, filtered=words.filtered, error=what, place=place)

    @property
    def words(self) -> tuple[str, str]:
        """What is shown, behind the number of its view and the view that has led there; and how much of it, or what is
        under the mouse."""
        left, right = self.view.words
        return self.views.title + left, self.view.pointed or right

    @property
    def _hint_words(self) -> str:
        """What a new user needs first, for a while; it begins with the first figures."""
        state = self.state
        if state.paneled or state.display.latest is None or not self._hint.is_on(self.heaptop.take_hint):
            return ""
        return hint_words(self.KEYS, leaving=self.LEAVING)

    @property
    def note(self) -> str:
        """What must be known of all that the view shows."""
        return self.view.note

    def redraw(self) -> None:
        """Something changed without an event."""
        self._draw()

    def restyle(self) -> None:
        self.view.restyle()
        self._draw()

    def moved(self) -> None:
        self.view.moved()
        self._draw_words()

    @on(ViewChanged)
    @on(HeadingClicked)
    @on(FilterEdited)
    @on(FilterAccepted)
    def redraw_words(self) -> None:
        self._draw_words()

    # -- help and keys ---------------------------------------------------------------------------------------

    @property
    def help_page(self) -> HelpPage:
        return self.help_of(self.views.name)

    def help_of(self, name: str) -> HelpPage:
        """The help page of a view; of the one that is shown with what must be known of it now."""
        view = self.views.views[name]
        snapshot = f"{view.note[:1].upper()}{view.note[1:]}." if view.FROZEN and view.note else ""
        known = (snapshot, view.notices, self.session.notices)
        return help_page(view, self.KEYS, known if view is self.view else ())

    @property
    def _footer_keys(self) -> Sequence[Key]:
        return footer_keys(self.state, self.view)

    @property
    def keys_now(self) -> Sequence[Key]:
        return keys_now(self.state, self.view, self.KEYS)

    def commands(self) -> Iterator[PaletteCommand]:
        return commands_of(self)

    def acts(self, action: str) -> bool:
        """The text of a panel can be read, and closed, also where the views cannot be seen."""
        return super().acts(action) or (self.state.paneled and action == "back")

    def on_row_chosen(self) -> None:
        self.act("drill")

    def on_subject_chosen(self, event: SubjectChosen) -> None:
        self.views.explore(event.subject)
        self._draw()

    def on_prompt_closed(self, event: PromptClosed) -> None:
        self.set_focus(None)
        self._draw()
        if event.then is not None:
            event.then()
            self._draw()

    def on_screen_resume(self) -> None:
        self._draw()

    def resumed(self, seconds: float) -> None:
        self.state.resumed(seconds)
        self._draw_words()

    def begin_leaving(self) -> None:
        """Show it; the detach itself may take a moment."""
        self.state.leaving = True
        self._draw()

    def detach_and_wait(self) -> HeaptopError | None:
        """As :meth:`LiveState.detach_and_wait`: for a thread, it blocks."""
        return self.state.detach_and_wait()
