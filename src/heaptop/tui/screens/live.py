"""The live screen: one source's events become figures on views, and keys become what the views do.

This module never reads a socket: events come through an :class:`~heaptop.tui.state.inbox.Inbox` from a Source's
thread, and are drawn at most ten times a second, however fast they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from time import monotonic, time
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from heaptop.analysis.filters.filters import FILTER_HELP, PLACEHOLDER
from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.recorded_times import file_name
from heaptop.analysis.text.units import format_duration_ns
from heaptop.errors import HeaptopError, UsageError
from heaptop.protocol.messages import Decision
from heaptop.protocol.source import Event, Recordable, Rewound, Source
from heaptop.tui.keys.bindings import LIVE, QUESTION, Key, bindings, offered, typing_keys
from heaptop.tui.keys.explaining import ABOVE
from heaptop.tui.keys.hint import Hint, hint_words
from heaptop.tui.screens.live_commands import commands_of
from heaptop.tui.screens.table_screen import FIRST, LAST, NO_ROWS, UNSEEN, Command, TableScreen
from heaptop.tui.screens.taking_along import FileEntry, TakingAlong
from heaptop.tui.state.desk import Desk, Purpose, Stage, Subject
from heaptop.tui.state.desk_words import VALUES, VALUES_SHOWN, ValuesOffer, age_words
from heaptop.tui.state.entries import Entry, FilterEntry, MarkEntry
from heaptop.tui.state.graph_watch import GraphWatch
from heaptop.tui.state.hunting import Hunting
from heaptop.tui.state.hunting_words import BEGUN, CollectOffer
from heaptop.tui.state.inbox import Inbox
from heaptop.tui.state.memory_watch import MemoryWatch
from heaptop.tui.state.messages import (
    EventsArrived,
    FilterAccepted,
    FilterDropped,
    FilterEdited,
    HeadingClicked,
    ObjectChosen,
    RowChosen,
    SubjectChosen,
    ViewChanged,
)
from heaptop.tui.state.questions import Question, question_text
from heaptop.tui.state.sampling_words import DEPTH, DEPTHS, RATE, change_text, next_rate, rate_text
from heaptop.tui.state.session import OVER, Display, Phase, Session
from heaptop.tui.state.taping import UNRECORDABLE
from heaptop.tui.state.taping import news as taping_news
from heaptop.tui.state.tracing import is_traced, offer_for
from heaptop.tui.text import clip
from heaptop.tui.views import VIEWS
from heaptop.tui.views.base import View
from heaptop.tui.views.heap_map.view import HeapMapView
from heaptop.tui.views.leaks.view import LeaksView
from heaptop.tui.views.retainers.view import RetainersView
from heaptop.tui.widgets.cursor import Cursor
from heaptop.tui.widgets.filter_bar import FilterBar
from heaptop.tui.widgets.footer import Footer
from heaptop.tui.widgets.header import Header
from heaptop.tui.widgets.help_screen import HelpPage
from heaptop.tui.widgets.note_line import NoteLine
from heaptop.tui.widgets.panel import Panel, decision_text, error_text, waiting_text

DRAW_SECONDS: Final = 0.1
"""Shortest time between two drawings."""

NOTICE_SECONDS: Final = 6.0
"""How long it is said what a key came to."""

VIEW_KEYS: Final = tuple(key for key in LIVE if key.group != QUESTION)
PANEL_KEYS: Final = tuple(key for key in LIVE if key.group == "heaptop")
"""What the footer offers while there is nothing to look at."""
ANSWERING: Final = frozenset({"answer", "back", "help", "tab", *UNSEEN})
"""Actions that keys have while something is asked: what is behind it cannot be seen, and is not acted on."""
QUESTION_KEYS: Final = tuple(key for key in LIVE if key.action.partition("(")[0] in ANSWERING - {"back"})
ONLY_WHERE_OFFERED: Final = frozenset({"variant", "drill", "why", "exclude", "tag", "zoom(1)", "zoom(-1)"})
"""Actions that come to nothing on a view that does not offer them."""
OFFERED: Final = {name: offered(view.OFFERS) if view.OFFERS else VIEW_KEYS for name, view in VIEWS.items()}


class LiveScreen(TableScreen):
    """Header, filter bar, a view or a panel, footer."""

    KEYS: ClassVar[Sequence[Key]] = LIVE
    SHOWN: ClassVar[Mapping[str, type[View]]] = VIEWS
    """The views that it has."""
    BINDINGS: ClassVar[list[BindingType]] = bindings(LIVE)
    DEFAULT_CSS = """
    LiveScreen { background: $background; }
    LiveScreen View { display: none; }
    LiveScreen View.shown { display: block; }
    LiveScreen.paneled View { display: none; }
    LiveScreen Panel { display: none; }
    LiveScreen.paneled Panel { display: block; }
    LiveScreen.paneled FilterBar { display: none; }
    """

    def __init__(self, source: Source, *, way_back: bool, user_code: Sequence[str] = ()) -> None:
        """``way_back`` says whether Esc has a picker to go back to, once the session is over; ``user_code`` is as
        :class:`Sampling` takes it."""
        super().__init__()
        self.source = source
        self.session = Session(source.target, sampling=Sampling(user_code))
        hunt = LeakHunt()
        self.desk = Desk(source, hunt)
        self.hunting = Hunting(source, self.session, hunt, self.desk)
        self.graph = GraphWatch(self.desk, self.session.sampling.samples.stack_of)
        self.memory = MemoryWatch(source)
        self.taking = TakingAlong(self)
        self._way_back = way_back
        self._inbox = Inbox(lambda: self.post_message(EventsArrived()))
        self._taking = Lock()
        """Who drains the inbox takes all of it before another one does: events are taken in their order."""
        self._display = Display()
        self._held: int | None = None
        self._entry: Entry | None = None
        """What the bar is open for."""
        self._entry_error: HeaptopError | None = None
        """What is wrong with the text that is typed."""
        self._error_seen = False
        self._offer: Question | None = None
        """Until it is answered."""
        self._asked: Decision | Question | None = None
        """The question that is on the screen."""
        self._drawn_at = float("-inf")
        self._draw_due = False
        self._view_name = next(iter(self.SHOWN))
        self._views: dict[str, View] = {}
        self._view_before = ""
        """The one that was looked at before; empty for none."""
        self._way_out: tuple[str, int] | None = None
        """The view that has led to the one of retainers, and how deep in that it has led."""
        self._notice = ""
        self._notice_until = float("-inf")
        self._stuck = ""
        """What the last key came to that has changed nothing on the screen."""
        self._remark = ""
        """What the view has said last of a key."""
        self._remark_until = float("-inf")
        self._asked_sampler = False
        self._round = 0
        """The rate that key r began its round of rates with; 0 before it was pressed."""
        self._hint = Hint()
        self.leaving = False

    def compose(self) -> ComposeResult:
        yield Header()
        yield FilterBar(placeholder=PLACEHOLDER)
        yield NoteLine(id="hint", warns=False)
        yield NoteLine(id="note")
        yield Panel()
        for name, view in self.SHOWN.items():
            shown = self._views[name] = view()
            shown.add_class(f"-{name}")
            yield shown
        yield Footer(VIEW_KEYS, self.look)

    def on_mount(self) -> None:
        self._choose_view(self._view_name)
        self._draw()
        self.set_interval(1.0, self._second)
        self._open_source()

    def _open_source(self) -> None:
        self.source.open(self._inbox.put, self._inbox.is_behind)

    # -- events ----------------------------------------------------------------------------------------------

    def on_events_arrived(self) -> None:
        wait = self._drawn_at + DRAW_SECONDS - monotonic()
        if wait <= 0:
            self._take_events()
        elif not self._draw_due:
            self._draw_due = True
            self.set_timer(wait, self._take_events)

    def _take_events(self) -> None:
        self._draw_due = False
        before, taping = self.session.sampling.state, self.session.taping
        with self._taking:
            for event in self._inbox.drain():
                self._take(event)
        if before is not None or self._asked_sampler:  # how it stands at first the header says
            self._notify(change_text(before, self.session.sampling.state, asked=self._asked_sampler))
        self._notify(taping_news(taping, self.session.taping))
        news = self.hunting.take_news()
        if news is not None and isinstance(self.source, Recordable):
            self.source.note(news)
        self._draw()
        if self.is_mounted:  # a tab that nobody has looked at yet takes no messages: they would be kept until then
            self.call_after_refresh(self.session.sampling.work_in)

    def _take(self, event: Event) -> None:
        self.session.feed(event)
        self.desk.feed(event)
        self.hunting.feed(event)
        self.memory.feed(event)

    def _notify(self, text: str) -> None:
        """Say it for some seconds, whatever else happens on the screen."""
        if text:
            self._notice, self._notice_until = text, monotonic() + NOTICE_SECONDS

    def _second(self) -> None:
        """What no event tells: that it is time for a graph census, and how long a silence is."""
        busy = self.has_class("paneled") or self.query_one(FilterBar).editing  # half a filter is not worth one
        looks = self.session.phase is Phase.LIVE and not busy
        self.graph.turn(looks and self.view.wants_graph, self.view.kept_by)
        self._watch_memory()
        if self.session.phase in OVER and self._held is None and self.view.age_ns:
            self._draw()  # nothing comes any more: what rested when the last of it came is made of that now
        else:
            self._draw_words()

    def _watch_memory(self) -> None:
        """Have it asked what memory is used for, while somebody looks at that and it moves."""
        looks = self.session.phase is Phase.LIVE and self._held is None and not self.has_class("paneled")
        self.memory.turn(looks and self.view.wants_memory)

    # -- drawing ---------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        return self._views[self._view_name]

    def _draw(self) -> None:
        self._drawn_at = monotonic()
        if self._held is None:
            self._display = Display.of(self.session, self.desk, self.graph.facts, self.hunting)
        self._draw_panel()
        if not self.has_class("paneled"):
            self.view.show(self._display, self.look)
        self._draw_words()

    def _draw_panel(self) -> None:
        """The panel stands in for a view while there is none, and over it for an error that was not yet read. It waits
        until a text that is typed is finished: a letter of that must not answer what is asked."""
        if self._entry is not None:
            return
        session = self.session
        failed = session.phase in (Phase.FAILED, Phase.EXITED) and session.error is not None
        unread = session.phase is Phase.FAILED and not self._error_seen
        waiting = session.phase is Phase.WAITING
        asked = (session.decision or self._offer) if session.phase is Phase.LIVE else None
        self.set_class(waiting or unread or asked is not None or (failed and not session.history.snapshots), "paneled")
        if asked is not None and asked is not self._asked:
            self._forget_stuck()
        self._asked = asked
        if isinstance(asked, Decision):
            title, text = decision_text(session, asked)
            self.query_one(Panel).show(title, text, self.look)
        elif asked is not None:
            title, text = question_text(asked, session.target.pid)
            self.query_one(Panel).show(title, text, self.look)
        elif waiting:
            title, text = waiting_text(session, leaving=self.leaving)
            self.query_one(Panel).show(title, text, self.look)
        elif failed and session.error is not None:
            title, text = error_text(session.error, way_back=self._way_back_words())
            self.query_one(Panel).show(title, text, self.look, bad=True)

    def _way_back_words(self) -> str:
        if self.session.history.snapshots:
            return "shows what was seen so far"
        return "goes back to the list" if self._way_back else ""

    def _draw_words(self) -> None:
        self._notify(self.hunting.take_said())
        session = self.session
        held = None if self._held is None else session.censuses - self._held
        self.query_one(Header).show(session, self._display, self.look, leaving=self.leaving, held=held)
        self.query_one("#hint", NoteLine).show(self._hint_words, self.look)
        self.query_one("#note", NoteLine).show("" if self.has_class("paneled") else self.note, self.look)
        left, right = self.words
        if session.phase is Phase.EXITED and session.error is not None:
            right = f"{session.error.message}  {right}".strip()
        elif (latest := self._display.latest) is not None and latest.census.mode_reason:
            room = self.size.width - len(left) - len(right) - 12
            right = f"{right} · {clip(f'{latest.census.mode} mode: {latest.census.mode_reason}', max(room, 20))}"
        bar = self.query_one(FilterBar)
        said, filtered = self._notice if monotonic() < self._notice_until else "", self.view.filtered
        if said in (FIRST, LAST) and right and bar.has_room(left, f"{said} · {right}", filtered):
            said = f"{said} · {right}"
        if not said and not bar.has_room(left, right, filtered) and (remark := self._new_remark):
            said, right = remark, right.removeprefix(remark).removeprefix(" · ")
        is_seen = bar.editing or (not self.has_class("paneled") and bar.has_room(left, said, filtered))
        self.show_keys(self._entry_keys or self._footer_keys, self._entry_fix or ("" if is_seen else said))
        right = (said if is_seen else "") or right
        if filtered and len(left) + len(right) + len(filtered) > self.size.width - 7:
            # what the filter is, and what it hides, matter more than the row of the cursor
            right = " · ".join(part for part in right.split(" · ") if not part.startswith("row "))
        if self._entry is not None and not self._entry.CHANGES_VIEW:
            right, filtered = said, ""
        wrong, place = _in_one_line(self._entry_error)
        bar.show(left, right, self.look, filtered=filtered, error=wrong, place=place)

    @property
    def _new_remark(self) -> str:
        """What the view has to say of the last key, for some seconds."""
        remark = self.view.remark
        if remark != self._remark:
            self._remark, self._remark_until = remark, monotonic() + NOTICE_SECONDS
        return remark if monotonic() < self._remark_until else ""

    @property
    def shown_moment(self) -> Rewound | None:
        """The moment of a recording that is drawn."""
        return self._display.shown

    @property
    def words(self) -> tuple[str, str]:
        """What is shown, behind the number of its view and the view that has led there; and how much of it."""
        left, right = self.view.words
        numbered = f"{self.view.NUMBER} {left}"
        if self._way_out is not None:
            origin = VIEWS[self._way_out[0]]
            numbered = f"{origin.NUMBER} {origin.TITLE} › {numbered}"
        return numbered, right

    @property
    def _footer_keys(self) -> Sequence[Key]:
        return QUESTION_KEYS if self._asked else PANEL_KEYS if self.has_class("paneled") else OFFERED[self._view_name]

    @property
    def _entry_keys(self) -> Sequence[Key]:
        """While a text is typed; Enter takes none that is wrong."""
        entry = self._entry
        return typing_keys("" if self._entry_error else entry.TAKE, entry.DROP) if entry is not None else ()

    @property
    def _entry_fix(self) -> str:
        """What to write in place of a text that is wrong, where that is known."""
        fix = self._entry_error.fix if self._entry is not None and self._entry_error is not None else ""
        return f"{self.look.key(self._entry_keys[0].shown)} {self._entry_keys[0].footer} · {fix}" if fix else ""

    @property
    def _hint_words(self) -> str:
        """What a new user needs first, for a while; it begins with the first figures."""
        if self.has_class("paneled") or self._display.latest is None or not self._hint.is_on(self.heaptop.take_hint):
            return ""
        return hint_words(self.KEYS, leaving=self._leaving_words)

    @property
    def _leaving_words(self) -> str:
        return "detaches and quits"

    def on_key(self, event: events.Key) -> None:
        if self._hint.press(event.key):
            self.call_after_refresh(self._draw_words)

    @property
    def note(self) -> str:
        """What must be known of all that the view shows."""
        return self.view.note

    def restyle(self) -> None:
        self.view.restyle()
        self._draw()

    def moved(self) -> None:
        self.view.moved()
        self._draw_words()

    def on_view_changed(self, event: ViewChanged) -> None:
        self._draw_words()

    @property
    def table(self) -> Cursor:
        return self.view.table

    @property
    def help_page(self) -> HelpPage:
        return self.help_of(self._view_name)

    def help_of(self, name: str) -> HelpPage:
        """The help page of a view; of the one that is shown with what must be known of it now."""
        view = self._views[name]
        remarks = (view.remarks, self.session.remarks) if view is self.view else ()
        return HelpPage(
            title=f"{view.NUMBER} {view.TITLE}: what it shows",
            keys=self.KEYS,
            first="\n\n".join(text for text in remarks if text),
            shows=view.SHOWS,
            explains=view.EXPLAINS,
            words=f"{view.HELP}\n\n{FILTER_HELP}",
            here=view.OFFERS,
            means=view.MEANS,
            above=ABOVE,
        )

    @property
    def keys_now(self) -> Sequence[Key]:
        """What is asked or typed comes first; and a key that only some views know is none on the others."""
        if self._asked is not None or self.has_class("paneled"):
            return QUESTION_KEYS if self._asked is not None else PANEL_KEYS
        if self._entry is not None:
            return self._entry_keys
        here = {action.partition("=")[0] for action in self.view.OFFERS}
        return [
            key
            for key in self.KEYS
            if key.group != QUESTION and (key.action in here or key.action not in ONLY_WHERE_OFFERED)
        ]

    @property
    def shows_view(self) -> bool:
        """Neither a panel, nor a question, nor a text that is typed."""
        return self._asked is None and self._entry is None and not self.has_class("paneled")

    def commands(self) -> Iterator[Command]:
        return commands_of(self)

    # -- views -----------------------------------------------------------------------------------------------

    def _choose_view(self, name: str) -> None:
        for view in self.query(View):
            view.set_class(name == view.NAME, "shown")
        if name != self._view_name:
            self._view_name, self._view_before = name, self._view_name

    def action_view(self, name: str) -> None:
        self._lead_out(None)
        self._forget_stuck()
        self._choose_view(name)
        desk, alive = self.desk, self.session.phase is Phase.LIVE
        wanted = desk.stage is Stage.NONE or desk.is_shut or desk.purpose is not Purpose.LOOKING
        if self.view.FROZEN and alive and wanted:
            self.action_snapshot()
        self._watch_memory()
        self._draw()

    def _lead_out(self, way_out: tuple[str, int] | None) -> None:
        """From now on Esc leads back along this way; None: as far as the view itself leads."""
        self._way_out = way_out
        self.query_one(RetainersView).led_in = way_out[1] - 1 if way_out is not None else 0

    def action_last_view(self) -> None:
        """To and fro between two views."""
        if self._view_before:
            self.action_view(self._view_before)
        else:
            self._done(False, "no other view was looked at yet")

    def action_next_view(self, step: int) -> None:
        names = list(VIEWS)
        self.action_view(names[(names.index(self._view_name) + step) % len(names)])

    # -- what is shown ---------------------------------------------------------------------------------------

    def action_cycle_key(self) -> None:
        self._done(self.view.cycle_key(), "b has nothing else here")

    def action_variant(self) -> None:
        self._done(self.view.variant(), "v has nothing else here")

    def acts(self, action: str) -> bool:
        """What a panel asks can be read and answered also where the views cannot be seen; meanwhile nothing else is
        done."""
        name = action.partition("(")[0]
        if self._asked is not None and name not in ANSWERING:
            return False
        return super().acts(action) or (self.has_class("paneled") and name in ("answer", "back"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key that answers and does something else too answers while something is asked, and then does nothing
        else."""
        if not self.acts(action):
            return False
        return action != "answer" or self._asked is not None or parameters == (False,)

    def action_answer(self, accept: bool) -> None:
        """Only what is on the screen is answered, and by keys that mean nothing else: it stops somebody's process."""
        if self._asked is not None and self._asked is self._offer:
            self._answer_offer(self._offer, accept=accept)
            return
        if self._asked is None or self._asked is not self.session.decision:
            self._done(False, "nothing is asked")
            return
        self.session.decision = None
        self.source.decide(accept)
        self._draw()

    def _answer_offer(self, offer: Question, *, accept: bool) -> None:
        self._offer = None
        if isinstance(offer, ValuesOffer):
            self.desk.show_values(accept)
            self._notify(VALUES_SHOWN if accept else "")
        elif isinstance(offer, CollectOffer):
            self._mark(offer.name, collect=accept)
        elif accept:
            self.source.sample(offer.interval, offer.depth, tracer=True)
            self._asked_sampler = True
            self._notify("asked for tracemalloc")
        self._draw()

    def action_drill(self) -> None:
        further = "there is nothing further inside this row" if self.view.table.row_count else NO_ROWS
        self._done(self.view.drill(), further)

    def action_back(self) -> None:
        session = self.session
        if session.phase is Phase.WAITING:
            self.source.cancel()
        elif isinstance(self._asked, CollectOffer):
            self._offer = None
            self._notify("no mark was set")
            self._draw()
        elif self._asked is not None and self._asked is self._offer:
            self._answer_offer(self._offer, accept=False)  # a person's own key has asked
        elif self._asked is not None:
            self._done(False, "y or n answers this; nothing else does")
        elif self.has_class("paneled") and session.history.snapshots:
            self._error_seen = True
            self._draw()
        elif not self.has_class("paneled") and self._step_back():
            self._done(True, "")
        elif self._way_back and session.phase is not Phase.LIVE:
            self.heaptop.close_live(self)
        else:
            self._done(False, "there is nothing to go back from; q quits")

    def _step_back(self) -> bool:
        """Out of what is looked into; where another view has led there, back to that one."""
        view, way_out = self.view, self._way_out
        came_back = view.back()
        if way_out is not None and isinstance(view, RetainersView) and view.depth < way_out[1]:
            self.action_view(way_out[0])
        return came_back

    # -- taking it along -------------------------------------------------------------------------------------

    def action_copy(self) -> None:
        self.say_outcome(self.taking.copy(self.view.copied if not self.has_class("paneled") else ""))

    def action_save(self) -> None:
        """Ask for the name of a file first."""
        if not self.has_class("paneled"):
            self.ask_for(FileEntry(self.taking), self.taking.proposed_name)

    def action_pause(self) -> None:
        if self._held is None:
            self._held = self.session.censuses
            self._display = self._display.hold()
        else:
            self._held = None
        self._draw()

    def action_rate(self) -> None:
        """To the next rate of sampling, and off behind the last; from off to the one it had."""
        state = self.session.sampling.state
        if state is None or not state.on:
            self._round = self.session.rate or RATE
            self.action_sample(self._round)
        elif is_traced(state):
            self.action_sample(0)
        else:
            self._round = self._round or state.interval
            self.action_sample(next_rate(state.interval, self._round))

    def action_sample(self, interval: int, depth: int = 0) -> None:
        """At this rate, 0 for off; with so many frames of a stack, 0 for as many as now. The answer says the effect."""
        if not self._has_process():
            return
        state = self.session.sampling.state
        kept = state.depth if state is not None and state.depth else DEPTH
        self._offer = offer_for(state, interval, depth or kept)
        if self._offer is not None:
            self._draw()
            return
        self.source.sample(interval, depth or kept)
        self._asked_sampler = True
        asked = f"one sample in {rate_text(interval)}" if interval else "sampling to be off"
        self._notify(f"asked for stacks of {depth}" if depth else f"asked for {asked}")
        self._draw_words()

    # -- the open snapshot -----------------------------------------------------------------------------------

    def action_snapshot(self) -> None:
        """Freeze the target as it is now; what was frozen before is closed."""
        if self.hunting.is_busy:
            self._notify("a snapshot is open for the hunt; o again once that is done, or x gives it up")
        elif self._has_process():
            self.desk.open(failed=lambda why: self._notify(f"no snapshot: {why}"))
            self._done(False, "" if self.view.FROZEN else "freezing the program: views 3 and 5 show it")
        self._draw()

    def action_shut(self) -> None:
        """Give up what takes its time; where nothing does, close the snapshot."""
        said = ""
        if self.desk.is_open and not self.desk.is_busy:
            self.desk.close()
            said = "" if self.view.FROZEN else "the snapshot is closed"
        elif not self.desk.give_up():
            said = "no snapshot is open"
        self._done(False, said)
        self._draw()

    def action_mark(self) -> None:
        self._mark()

    def _mark(self, name: str = "", *, collect: bool = False) -> None:
        if self._has_process():
            self.hunting.mark(name, keep=self.view.FROZEN, collect=collect)
            self._say_hunt()

    def action_mark_named(self) -> None:
        """Ask for a name first, and then whether garbage may be collected."""
        if self.has_class("paneled") or not self._has_process():
            return
        self.ask_for(MarkEntry(self.hunting.next_name, self._mark_as), self.hunting.next_name)

    def _mark_as(self, name: str) -> None:
        self._offer = CollectOffer(name)
        self._draw()

    def action_look(self) -> None:
        if self._has_process():
            self.hunting.look()
            self._say_hunt()

    def _say_hunt(self) -> None:
        """What has begun; the view of leaks says how far it is."""
        self._notify(BEGUN if self.hunting.is_busy and self._view_name != LeaksView.NAME else "")
        self._draw()

    def action_why(self) -> None:
        """What keeps the objects of this row alive."""
        subject = self.view.subject
        if subject is None:
            self._done(False, self.view.unasked)
        else:
            self._explore(subject)
            self._done(False, age_words(self.desk))

    def _explore(self, subject: Subject) -> None:
        """Look into something in the view of retainers; Esc from there leads back here."""
        view, origin = self.query_one(RetainersView), self._view_name
        image = self.desk.image.image if self.desk.image is not None else 0
        view.ask_about(subject, image, from_here=origin == RetainersView.NAME)
        self.action_view(RetainersView.NAME)
        if origin != RetainersView.NAME:
            self._lead_out((origin, view.depth))

    def on_object_chosen(self, event: ObjectChosen) -> None:
        self._explore(Subject("", address=event.address))

    def on_subject_chosen(self, event: SubjectChosen) -> None:
        self._explore(event.subject)

    def action_values(self) -> None:
        """Ask whether values may be shown; where they are, no longer."""
        if self.desk.values:
            self.desk.show_values(False)
            self._notify("values are hidden again")
        else:
            self._offer = VALUES
        self._draw()

    def action_exclude(self) -> None:
        self._done(self.view.exclude(), "this row is no retainer that can be left out")

    def action_tag(self) -> None:
        self._done(self.view.tag(), "this row is not one object that can be tagged")

    def action_zoom(self, steps: int) -> None:
        further = f"this goes no {'closer' if steps > 0 else 'further away'}"
        self._done(self.view.zoom(steps), further if self._view_name == HeapMapView.NAME else "only the heap map zooms")

    def say_outcome(self, text: str) -> None:
        """What a key came to, until the next one comes to something."""
        self._done(False, text)

    def _done(self, worked: bool, otherwise: str) -> None:
        """Say what a key came to where it came to nothing; else take back what the one before came to."""
        self._notice = ""
        self._stuck = "" if worked else otherwise
        self._notify(self._stuck)
        self._draw_words()

    def action_depth(self) -> None:
        """To the next depth of stacks; where retainer sets are shown, to their next N."""
        if self.view.FROZEN:  # where R is of retainer sets, no sampling is changed by the way
            self._done(self.view.change_number(), "key R changes N where retainer sets are shown: key b")
            return
        state = self.session.sampling.state
        if state is None or not state.on:
            self._notify("no stacks are taken: sampling is off, key r")
            self._draw_words()
            return
        if is_traced(state):
            self._notify(f"tracemalloc keeps {state.depth} frames for as long as it is on")
            self._draw_words()
            return
        self.action_sample(state.interval, next((depth for depth in DEPTHS if depth > state.depth), DEPTHS[0]))

    def action_census(self) -> None:
        if self._has_process():
            self.source.census_now()
            if self.view.wants_memory:
                self.memory.ask()
            self._done(False, "asked for a census")

    def _has_process(self) -> bool:
        """Whether there is one to ask; where there is none, that is said."""
        if self.session.phase is Phase.LIVE:
            return True
        self._done(False, "not attached yet" if self.session.phase is Phase.WAITING else "the process is gone")
        return False

    def action_record(self) -> None:
        """Record from now on, into a new file in the current directory; or end that."""
        source = self.source
        if not isinstance(source, Recordable):
            self._notify(UNRECORDABLE)
        elif self.session.taping is not None and self.session.taping.on:
            source.end_tape()
        elif self.session.phase is Phase.LIVE:
            try:
                source.begin_tape(file_name(self.session.target.pid, time()))
            except HeaptopError as error:
                self._notify(error.message)
        else:
            self._has_process()
        self._draw_words()

    def action_sort_column(self, step: int) -> None:
        self.view.move_sort(step)
        self._done(not self.view.unsortable, self.view.unsortable)

    def action_invert(self) -> None:
        self.view.invert()
        self._done(not self.view.unsortable, self.view.unsortable)

    def action_follow(self) -> None:
        picture = self.view.picture
        if not picture:
            self.table.follow = not self.table.follow
        self._done(not picture, f"{picture} has no rows to follow")

    def _forget_stuck(self) -> None:
        """Take back what the last key came to; any other notice stays for its time."""
        if self._notice == self._stuck:
            self._notice = ""

    def stuck(self, why: str) -> None:
        self._forget_stuck()
        self._stuck = why
        self._notify(why)
        self._draw_words()

    def on_row_chosen(self, event: RowChosen) -> None:
        self.action_drill()

    def on_heading_clicked(self, event: HeadingClicked) -> None:
        self.view.sort_by(event.column)
        self._draw_words()

    # -- what is typed ---------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        if not self.has_class("paneled"):
            where = str(self.view.where)
            self.ask_for(FilterEntry(self.view), f"{where} " if where else "")  # another term is what is typed most

    def ask_for(self, entry: Entry, text: str) -> None:
        """Open the bar for a text, which is this one at first."""
        self._forget_stuck()
        if self._entry is not None:
            self._entry.dropped()
        self._entry = entry
        self.query_one(FilterBar).edit(text, prompt=entry.PROMPT)
        self._draw_words()

    def on_filter_edited(self, event: FilterEdited) -> None:
        if self._entry is None:
            return
        try:
            self._entry.edited(event.text)
        except UsageError as error:
            self._entry_error = error
        else:
            self._entry_error = None
        self._draw_words()

    def on_filter_accepted(self, event: FilterAccepted) -> None:
        if self._entry is None:
            return
        try:
            then = self._entry.accepted(event.text)
        except HeaptopError as error:
            self._entry_error = error
            self._draw_words()
            return
        self._close_entry()
        if then is not None:
            then()

    def on_filter_dropped(self, event: FilterDropped) -> None:
        if self._entry is not None:
            self._entry.dropped()
        self._close_entry()

    def _close_entry(self) -> None:
        self._entry = self._entry_error = None
        self.query_one(FilterBar).close()
        self.set_focus(None)
        self._draw_panel()
        self._draw_words()

    # -- stopping --------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self._notify(text)
        self._draw_words()

    def went_on(self, seconds: float) -> None:
        """The agent was asked for nothing meanwhile, and so was silent."""
        self.session.asked_again()
        if self.session.phase is Phase.LIVE and self.session.shown is None:
            stood = f" for {format_duration_ns(round(seconds * 1e9))}" if seconds else ""
            self.say(f"heaptop was stopped{stood}: nothing was counted meanwhile")

    # -- leaving ---------------------------------------------------------------------------------------------

    def begin_leaving(self) -> None:
        """Say so on the screen; the detach itself may take a moment."""
        self.leaving = True
        self._draw()

    def let_go(self) -> HeaptopError | None:
        """Give up or detach, and wait until the target is as it was. For a thread: it blocks.

        Returns the error that the session ended with, if it did."""
        if self.session.phase is Phase.WAITING:
            self.source.cancel()
        self._inbox.close()
        self.source.close()
        with self._taking:
            for event in self._inbox.drain():
                self.session.feed(event)
            return self.session.error


def _in_one_line(error: HeaptopError | None) -> tuple[str, tuple[int, int] | None]:
    """What is wrong with a text, and where in it, or why."""
    if error is None:
        return "", None
    what = error.message.partition("\n")[0]
    if not isinstance(error, UsageError):
        return what, None
    place = error.place
    return (what if place is not None else f"{what} {error.why}".strip()), place
