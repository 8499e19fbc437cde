"""The live screen: one source's events become figures on views, and keys become what the views do.

This module never reads a socket: events come through an :class:`~heaptop.tui.inbox.Inbox` from a Source's
thread, and are drawn at most ten times a second, however fast they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic, time
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from heaptop.census.filters import EVERYTHING, FILTER_HELP, PLACEHOLDER, Filter, parse_filter
from heaptop.census.hunting import LeakHunt
from heaptop.census.recorded_times import Span, file_name, utc
from heaptop.census.sampling import Sampling
from heaptop.census.units import format_duration_ns
from heaptop.errors import HeaptopError, UsageError
from heaptop.protocol.messages import Decision
from heaptop.protocol.source import Event, Recordable, Source
from heaptop.tui.bindings import LIVE, QUESTION, Key, bindings, offered
from heaptop.tui.desk import Desk, Purpose, Stage, Subject
from heaptop.tui.desk_words import VALUES, VALUES_SHOWN, ValuesOffer, values_text
from heaptop.tui.explaining import ABOVE
from heaptop.tui.graph_watch import GraphWatch
from heaptop.tui.hint import hint_words
from heaptop.tui.hunting import Hunting
from heaptop.tui.hunting_words import BEGUN, CollectOffer, collect_text
from heaptop.tui.inbox import Inbox
from heaptop.tui.memory_watch import MemoryWatch
from heaptop.tui.messages import (
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
from heaptop.tui.sampling_words import DEPTH, DEPTHS, RATE, RATES, change_text, next_rate, rate_text
from heaptop.tui.saving import MOST_COPIED, SCREENS, TABLES, Page, ending_of, table_text, write
from heaptop.tui.saving import file_name as saved_name
from heaptop.tui.session import Display, Phase, Session
from heaptop.tui.source_lines import printable
from heaptop.tui.table_screen import FIRST, LAST, Command, TableScreen
from heaptop.tui.taping import UNRECORDABLE
from heaptop.tui.taping import news as taping_news
from heaptop.tui.tracing import Offer, is_traced, offer_for, offer_text
from heaptop.tui.views import VIEWS
from heaptop.tui.views.base import View
from heaptop.tui.views.heap_map import HeapMapView
from heaptop.tui.views.leaks import LeaksView
from heaptop.tui.views.retainers import RetainersView
from heaptop.tui.views.table_view import WIDE
from heaptop.tui.widgets.cursor import Cursor
from heaptop.tui.widgets.filter_bar import FilterBar
from heaptop.tui.widgets.footer import Footer
from heaptop.tui.widgets.header import Header
from heaptop.tui.widgets.help_screen import HelpPage, HelpScreen
from heaptop.tui.widgets.note_line import NoteLine
from heaptop.tui.widgets.panel import Panel, decision_text, error_text, waiting_text
from heaptop.tui.widgets.virtual_table import clip

DRAW_SECONDS: Final = 0.1
"""Shortest time between two drawings."""

NOTICE_SECONDS: Final = 6.0
"""How long it is said what a key came to."""

HINT_SECONDS, HINT_KEYS = 30.0, 6
"""How long the hint for new users stays: so many seconds, or as many keys."""

MOST_NAME: Final = 24
"""Characters of a mark's name."""

VIEW_KEYS: Final = tuple(key for key in LIVE if key.group != QUESTION)
PANEL_KEYS: Final = tuple(key for key in LIVE if key.group == "heaptop")
"""What the footer offers while there is nothing to look at."""
QUESTION_KEYS: Final = tuple(key for key in LIVE if key.group in (QUESTION, "heaptop"))
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
        self._way_back = way_back
        self._inbox = Inbox(lambda: self.post_message(EventsArrived()))
        self._display = Display()
        self._held: int | None = None
        self._before_edit: Filter = EVERYTHING
        self._filter_error = ""
        self._wrong_place: tuple[int, int] | None = None
        """Of the filter that is typed, the characters that are wrong."""
        self._error_seen = False
        self._offer: Offer | ValuesOffer | CollectOffer | None = None
        """The question whether tracemalloc may be switched on, values shown, or garbage collected before a mark, until
        it is answered."""
        self._names_mark = False
        """The filter bar is open for the name of a mark."""
        self._names_file = False
        """It is open for the name of a file."""
        self._asked: Decision | Offer | ValuesOffer | CollectOffer | None = None
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
        self._asked_sampler = False
        self._round = 0
        """The rate that key r began its round of rates with; 0 before it was pressed."""
        self._hint_until: float | None = None
        """When the hint for new users goes; None before it came."""
        self._hint_keys = 0
        """Keys that were pressed under it."""
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
        for event in self._inbox.drain():
            self._take(event)
        if before is not None or self._asked_sampler:  # how it stands at first the header says
            self._notify(change_text(before, self.session.sampling.state))
        self._notify(taping_news(taping, self.session.taping))
        news = self.hunting.take_news()
        if news is not None and isinstance(self.source, Recordable):
            self.source.note(news)
        self._draw()
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
        """The panel stands in for a view while there is none, and over it for an error that was not yet read."""
        session = self.session
        failed = session.phase in (Phase.FAILED, Phase.EXITED) and session.error is not None
        unread = session.phase is Phase.FAILED and not self._error_seen
        waiting = session.phase is Phase.WAITING
        asked = (session.decision or self._offer) if session.phase is Phase.LIVE else None
        self.set_class(waiting or unread or asked is not None or (failed and not session.history.snapshots), "paneled")
        self._asked = asked
        if isinstance(asked, Decision):
            title, text = decision_text(session, asked)
            self.query_one(Panel).show(title, text, self.look)
        elif asked is not None:
            title, text = _question(asked, session.target.pid)
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

    def _draw_words(self, remark: str = "") -> None:
        """Header and filter bar: what every key may change. A remark stays until the next key or census."""
        self._notify(self.hunting.take_said())
        session = self.session
        held = None if self._held is None else session.censuses - self._held
        self.query_one(Footer).show(self._footer_keys, self.look)
        self.query_one(Header).show(session, self._display, self.look, leaving=self.leaving, held=held)
        self.query_one("#hint", NoteLine).show(self._hint, self.look)
        self.query_one("#note", NoteLine).show("" if self.has_class("paneled") else self._note, self.look)
        left, right = self._words
        if session.phase is Phase.EXITED and session.error is not None:
            right = f"{session.error.message}  {right}".strip()
        elif (latest := self._display.latest) is not None and latest.census.mode_reason:
            room = self.size.width - len(left) - len(right) - 12
            right = f"{right} · {clip(f'{latest.census.mode} mode: {latest.census.mode_reason}', max(room, 20))}"
        bar = self.query_one(FilterBar)
        notice = self._notice if monotonic() < self._notice_until else ""
        if notice in (FIRST, LAST):
            notice = f"{notice} · {right}" if right else notice
        said, filtered = remark or notice, self.view.filtered
        if filtered and len(left) + len(right) + len(filtered) > self.size.width - 7:
            # what the filter is, and what it hides, matter more than the row of the cursor
            right = " · ".join(part for part in right.split(" · ") if not part.startswith("row "))
        place = self._wrong_place
        bar.show(left, said or right, self.look, filtered=filtered, error=self._filter_error, place=place)

    @property
    def _words(self) -> tuple[str, str]:
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
    def _hint(self) -> str:
        """What a new user needs first, for a while; it begins with the first figures."""
        if self.has_class("paneled") or self._display.latest is None:
            return ""
        if self._hint_until is None:
            self._hint_until = monotonic() + HINT_SECONDS if self.heaptop.take_hint() else float("-inf")
        is_on = monotonic() < self._hint_until and self._hint_keys < HINT_KEYS
        return hint_words(self.KEYS, leaving=self._leaving_words) if is_on else ""

    @property
    def _leaving_words(self) -> str:
        return "detaches and quits"

    def on_key(self, event: events.Key) -> None:
        if self._hint_until is not None and monotonic() < self._hint_until and self._hint_keys < HINT_KEYS:
            self._hint_keys += 1 if event.key != "question_mark" else HINT_KEYS
            self.call_after_refresh(self._draw_words)

    @property
    def _note(self) -> str:
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
        """What is asked is answered first; and a key that only some views know is none on the others."""
        if self._asked is not None or self.has_class("paneled"):
            return QUESTION_KEYS if self._asked is not None else PANEL_KEYS
        here = {action.partition("=")[0] for action in self.view.OFFERS}
        return [
            key
            for key in self.KEYS
            if key.group != QUESTION and (key.action in here or key.action not in ONLY_WHERE_OFFERED)
        ]

    def commands(self) -> Iterator[Command]:
        """By what the view can be shown, columns to sort by, rates of sampling, and the help of the other views."""
        view = self.view
        if self._asked is None and not self.has_class("paneled"):
            for key, words in view.bys.items():
                if key != view.by:
                    yield Command(f"{view.TITLE} {words}", "key b goes there", partial(self._choose, view.show_by, key))
            for column, heading in view.sorts.items():
                yield Command(f"Sort by {heading}", "keys < > go there", partial(self._choose, view.sort_by, column))
            yield from self._rates()
        for name, each in self.SHOWN.items():
            if each is not type(view):
                title, help = f"Help: {each.TITLE}", "what its figures mean, and its keys"
                yield Command(title, help, partial(self._show_help, name))

    def _rates(self) -> Iterator[Command]:
        """Where a sampler can be asked: its rates but for the one it has, and off."""
        if self.session.phase is not Phase.LIVE or not any(key.action == "rate" for key in self.keys_now):
            return
        state = self.session.sampling.state
        now = state.interval if state is not None and state.on else 0
        for rate in (*RATES, 0):
            if rate != now:
                title = f"Sampling: one sample in {rate_text(rate)}" if rate else "Sampling: off"
                yield Command(title, "key r goes there", partial(self.action_sample, rate))

    def _choose(self, choose: Callable[[str], None], what: str) -> None:
        choose(what)
        self._draw_words()

    def _show_help(self, name: str) -> None:
        self.app.push_screen(HelpScreen(self.help_of(name), self.look))

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
        alive = self.session.phase is Phase.LIVE
        if self.view.FROZEN and alive and (self.desk.stage is Stage.NONE or self.desk.purpose is not Purpose.LOOKING):
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key that answers and does something else too answers while something is asked, and then does nothing
        else."""
        if action == "answer":
            return self._asked is not None or parameters == (False,)
        return action not in ("copy", "save") or self._asked is None

    def action_answer(self, accept: bool) -> None:
        """Only what is on the screen is answered, and by keys that mean nothing else: it stops somebody's process."""
        if self._asked is not None and self._asked is self._offer:
            self._answer_offer(self._offer, accept)
            return
        if self._asked is None or self._asked is not self.session.decision:
            self._done(False, "nothing is asked")
            return
        self.session.decision = None
        self.source.decide(accept)
        self._draw()

    def _answer_offer(self, offer: Offer | ValuesOffer | CollectOffer, accept: bool) -> None:
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
        if self._asked is not None:
            return
        self._done(self.view.drill(), "there is nothing further inside this row")

    def action_back(self) -> None:
        session = self.session
        if session.phase is Phase.WAITING:
            self.source.cancel()
        elif isinstance(self._asked, CollectOffer):
            self._offer = None
            self._notify("no mark was set")
            self._draw()
        elif self._asked is not None:
            return
        elif self.has_class("paneled") and session.history.snapshots:
            self._error_seen = True
            self._draw()
        elif not self.has_class("paneled") and self._step_back():
            self._draw_words()
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
        """To the clipboard of the terminal, wherever that is: it takes what OSC 52 brings."""
        text = "" if self.has_class("paneled") else self.view.copied
        size = len(text.encode("utf-8", "replace"))
        if not text:
            self._done(False, "there is no row to copy")
        elif size > MOST_COPIED:
            self._done(False, f"{size:,} bytes are more than a terminal's clipboard takes: s saves them")
        else:
            self.app.copy_to_clipboard(text.encode("utf-8", "replace").decode())
            self._done(False, f"copied {len(text):,} character{'s' * (len(text) != 1)}, if the terminal takes OSC 52")

    def action_save(self) -> None:
        """Ask for the name of a file first."""
        if self.has_class("paneled"):
            return
        self._names_file = True
        self._forget_stuck()
        ending = TABLES[0] if self.view.page is not None else SCREENS[0]
        name = saved_name(self.session.target.pid, self._view_name, time(), ending)
        self.query_one(FilterBar).edit(name, prompt=" save as")
        self._draw_words("Enter writes it")

    def _save(self, name: str) -> None:
        """The name stays to be changed where nothing can be written to it."""
        try:
            ending = ending_of(name)
            page = self.view.page if ending in TABLES else None
            if page is not None:
                write(name, table_text(page, self._about(page), ending))
            elif ending in TABLES:
                raise UsageError("No table here: .txt or .svg saves it")
        except HeaptopError as error:
            self._filter_error = error.message
            self._draw_words()
            return
        self._forget_stuck()
        self._close_filter()
        if page is not None:
            self._done(False, f"saved {len(page.rows):,} row{'s' * (len(page.rows) != 1)} in {name}")
        else:
            # Without the name that was typed: the first refresh lays the screen out, the second one draws that.
            self.call_after_refresh(self.call_after_refresh, self._save_screen, name, ending)

    def _save_screen(self, name: str, ending: str) -> None:
        try:
            write(name, self.app.export_screenshot() if ending == ".svg" else self._screen_text())
        except HeaptopError as error:
            self._done(False, error.message)
        else:
            self._done(False, f"saved the screen in {name}")

    def _screen_text(self) -> str:
        lines = ("".join(segment.text for segment in strip) for strip in self._compositor.render_strips())
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def _about(self, page: Page) -> list[tuple[str, str]]:
        """What must be known of a table that is looked at elsewhere: all that stands around it on the screen."""
        header = self.query_one(Header)
        shown = self._display.shown
        left, right = self._words
        about = [
            ("heaptop", left),
            ("saved", utc(time())),
            ("moment", utc(Span.of(shown).at(shown.time_ns).timestamp()) if shown is not None else ""),
            ("filter", str(self.view.where)),
            ("screen", "  ".join(header.render_line(line).text for line in range(header.size.height))),
            ("note", self._note),
            ("shown", right),
            ("remark", self.help_page.first),
            ("missing", f"{page.missing:,} rows that were not looked at yet" if page.missing else ""),
            ("columns shown", "those of a narrow screen: a wider one has more" if self.size.width < WIDE else ""),
        ]
        return [(name, " ".join(text.split())) for name, text in about if text]

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
            self._notice = ""
            self.desk.open()
        self._draw()

    def action_shut(self) -> None:
        """Give up what takes its time; where nothing does, close the snapshot."""
        if not (self.desk.is_open or self.desk.is_busy):
            self._done(False, "no snapshot is open")
        elif not self.desk.give_up():
            self.desk.close()
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
        self._names_mark = True
        self.query_one(FilterBar).edit(self.hunting.next_name, prompt=" mark as")
        self._draw_words("Enter takes the name, Esc marks nothing")

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
            self._notify(self.view.unasked)
        else:
            self._explore(subject)
        self._draw_words()

    def _explore(self, subject: Subject) -> None:
        """Look into something in the view of retainers; Esc from there leads back here."""
        view, origin = self.query_one(RetainersView), self._view_name
        view.ask_about(subject)
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

    # -- the filter ------------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        if self.has_class("paneled"):
            return
        self._before_edit = self.view.where
        self.query_one(FilterBar).edit(str(self._before_edit))
        self._draw_words()

    def on_filter_edited(self, event: FilterEdited) -> None:
        if self._names_mark:
            return
        if self._names_file:
            self._filter_error = ""
            self._draw_words("Enter writes it")
            return
        try:
            self.view.set_where(parse_filter(event.text))
        except UsageError as error:
            # A filter is wrong at most keystrokes: the view keeps the last one that was right.
            self._filter_error, self._wrong_place = _in_one_line(error), error.place
        else:
            self._filter_error, self._wrong_place = "", None
        self._draw_words()

    def on_filter_accepted(self, event: FilterAccepted) -> None:
        if self._names_mark:
            self._offer = CollectOffer(printable(event.text.strip())[:MOST_NAME] or self.hunting.next_name)
            self._close_filter()
            self._draw()
        elif self._names_file:
            self._save(printable(event.text.strip()))
        elif not self._filter_error:
            self._close_filter()

    def on_filter_dropped(self, event: FilterDropped) -> None:
        if not (self._names_mark or self._names_file):
            self.view.set_where(self._before_edit)
        self._close_filter()

    def _close_filter(self) -> None:
        self._filter_error, self._names_mark, self._names_file = "", False, False
        self.query_one(FilterBar).close()
        self.set_focus(None)
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
        self.source.close()
        for event in self._inbox.drain():
            self.session.feed(event)
        return self.session.error


def _in_one_line(error: UsageError) -> str:
    """What is wrong with a filter, and where in it, or why."""
    what = error.message.partition("\n")[0]
    return what if error.place is not None else f"{what} {error.why}".strip()


def _question(asked: Offer | ValuesOffer | CollectOffer, pid: int) -> tuple[str, str]:
    """Title and text of what a person is asked."""
    if isinstance(asked, ValuesOffer):
        return values_text(pid)
    return collect_text(asked, pid) if isinstance(asked, CollectOffer) else offer_text(asked, pid)
