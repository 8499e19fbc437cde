"""Several processes attached to at once: whose turn it is, which tab is shown, and what goes into their sum.

All of it runs in the app's thread, but for the look for new processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from textual.app import App

from heaptop.analysis.bands.summed import Summing
from heaptop.analysis.heap.history import CensusRecord, History
from heaptop.analysis.text.units import format_bytes
from heaptop.errors import HeaptopError
from heaptop.protocol.messages import Tick
from heaptop.tui.screens.several import FamilyChanges, MemberProcess, Several
from heaptop.tui.screens.summed_screen import SummedScreen, SummedSource
from heaptop.tui.screens.tab_screen import TabScreen
from heaptop.tui.state.messages import TabArrived
from heaptop.tui.state.process_figures import ProcessFigures
from heaptop.tui.state.session import OVER, AttachPhase, AttachSession
from heaptop.tui.widgets.tabs_line import Tab

TURN_SECONDS: Final = 3.0
"""After so long the next one begins, whatever becomes of the one before: it waits for its interpreter."""
APART_SECONDS: Final = 0.2  # Between two counts that are asked for at once
CHECK_SECONDS: Final = 5.0  # Between two looks for new processes
TREND: Final = 10  # Censuses over which a heap has grown or shrunk


@dataclass(eq=False)
class _Place:
    """A process, its screen, and what of it was added up."""

    member: MemberProcess
    screen: TabScreen
    asked: bool
    pid: int
    counted: CensusRecord | None = None
    size: str = ""  # Of its heap, at that count
    trend: str = ""
    ticked: Tick | None = None
    left: bool = False


class Tabs:
    """The tabs, the first of which is the sum."""

    def __init__(
        self, app: App[Any], several: Several, show: Callable[[TabScreen], None], user_code: Sequence[str] = ()
    ) -> None:
        """``show`` puts a tab in place of the one that is shown."""
        self._app, self._show = app, show
        self._several = several
        self._user_code = user_code
        self._places: list[_Place] = []
        self.summing = Summing()
        self._source = SummedSource(several.title, self._count_all)
        self._summed = SummedScreen(self, self._source, lambda: app.post_message(TabArrived(0)))
        self._begun_at = float("-inf")
        self._leaving = False
        self.shown = 0  # The number of the tab that is examined; 0 is the sum

    # -- from the app ----------------------------------------------------------------------------------------

    def open(self) -> TabScreen:
        """Begin with the first process. The screen to show."""
        self._summed.open()
        for member in self._several.members:
            self._add(member)
        self.advance()
        return self._summed

    @property
    def screens(self) -> list[TabScreen]:
        return [self._summed, *(place.screen for place in self._places)]

    @property
    def look(self) -> bool:
        """Whether others may come."""
        return self._several.look is not None

    def arrived(self, pid: int) -> None:
        """Events wait in the inbox of that tab."""
        for screen in [self._summed] if not pid else [place.screen for place in self._places if place.pid == pid]:
            screen.arrived()

    def advance(self) -> None:
        """Let the next one begin, if it is its turn: the pauses of two attaches should not meet."""
        if self._leaving:
            return
        entering = any(place.member.late.begun and _enters(place.screen.session) for place in self._places)
        if entering and monotonic() - self._begun_at < TURN_SECONDS:
            return
        waiting = (place for place in self._places if place.asked and not place.member.late.begun)
        following = next(waiting, None)
        if following is not None:
            self._begun_at = monotonic()
            following.member.late.begin()

    def family_changes(self) -> FamilyChanges | None:
        """Look for new processes. For a thread."""
        return self._several.look() if self._several.look is not None else None

    def apply_changes(self, family_changes: FamilyChanges) -> None:
        """New ones get a tab; one that ended before anybody attached to it has none any more."""
        if self._leaving:
            return
        gone = [place for place in self._places if not place.asked and place.pid not in family_changes.alive]
        for place in gone:
            if self._places.index(place) + 1 == self.shown:
                continue
            self.shown -= self._places.index(place) + 1 < self.shown
            self._places.remove(place)
            place.member.source.close()
        for member in family_changes.new:
            self._add(member)
        if family_changes.new:
            count = len(family_changes.new)
            some = f"{count} new processes: their tabs are ○, and Enter there attaches"
            one = "a new process: its tab is ○, and Enter there attaches"
            self.screens[self.shown].show_news(one if count == 1 else some)

    def begin_leaving(self) -> None:
        """Say so on the screen, and begin with no other process."""
        self._leaving = True
        for screen in self.screens:
            screen.begin_leaving()

    def detach_and_wait(self) -> HeaptopError | None:
        """Detach from all of them, at once, and wait until each is as it was. For a thread: it blocks.

        Returns the first error, where nothing was seen of any of them."""
        places = tuple(self._places)
        with ThreadPoolExecutor(len(places), "heaptop-leave") as pool:
            list(pool.map(lambda place: place.screen.detach_and_wait(), places))
        return self._app.call_from_thread(self._outcome)

    def _outcome(self) -> HeaptopError | None:
        sessions = [place.screen.session for place in self._places]
        if any(session.history.records for session in sessions):
            return None
        return next((session.error for session in sessions if session.error is not None), None)

    # -- from the screens ------------------------------------------------------------------------------------

    def took(self, screen: TabScreen) -> None:
        """That screen has taken its events: what is new of it goes into the sum."""
        place = self._place(screen)
        if place is None:
            return
        session = screen.session
        latest = session.history.latest
        if session.attached is not None and self._summed.session.attached is None:
            self._source.begin(session.attached.hello.time_ns)
        if session.tick is not None and session.tick is not place.ticked and session.phase is AttachPhase.LIVE:
            place.ticked = session.tick
            self._source.deliver(self.summing.tick(place.pid, session.tick))
        if latest is not None and latest is not place.counted:
            place.counted = latest
            place.size, place.trend = format_bytes(latest.total.bytes), trend(session.history)
            self._source.deliver(self.summing.count(place.pid, latest))
        if session.phase in OVER and not place.left and not self._leaving:
            place.left = True
            self._source.deliver(self.summing.leave(place.pid))
        self.advance()
        self.screens[self.shown].redraw_tabs()

    def has_begun(self, screen: TabScreen) -> bool:
        """Whether the attach behind it has."""
        place = self._place(screen)
        return place is None or place.member.late.begun

    def is_asked(self, screen: TabScreen) -> bool:
        """Whether it will begin by itself."""
        place = self._place(screen)
        return place is None or place.asked

    def begin(self, screen: TabScreen) -> None:
        """A person wants it now."""
        place = self._place(screen)
        if place is not None and not place.asked:
            place.asked = True
            self.summing.expect(place.pid)
            self.advance()
            screen.redraw()

    def step(self, step: int) -> None:
        self.show((self.shown + step) % len(self.screens))

    def show(self, number: int) -> None:
        """Show the tab of that number, with the view that was asked for in the sum last."""
        if number != self.shown and number < len(self.screens):
            self.shown = number
            screen = self.screens[number]
            self._show(screen)
            if wanted := self._summed.take_wanted():
                screen.call_later(screen.act, "view", wanted)  # once it has its views

    # -- words -----------------------------------------------------------------------------------------------

    @property
    def known(self) -> int:
        """How many processes have a tab."""
        return len(self._places)

    @property
    def live(self) -> int:
        return sum(place.screen.session.phase is AttachPhase.LIVE for place in self._places)

    @property
    def counted(self) -> int:
        return sum(place.counted is not None for place in self._places)

    @property
    def line(self) -> list[Tab]:
        """The tabs as their line shows them."""
        differ = len({place.member.name for place in self._places}) > 1  # else they say nothing
        tabs = [
            Tab(str(place.pid), place.member.name if differ else "", place.size, self._mark(place))
            for place in self._places
        ]
        return [Tab(f"all {len(tabs)}", "", "", ""), *tabs]

    @property
    def rows(self) -> list[ProcessFigures]:
        """The processes, for a table."""
        places = enumerate(self._places, 1)
        return [ProcessFigures.of(number, place.member.name, place.screen.session) for number, place in places]

    @property
    def notices(self) -> str:
        """Processes that could not be attached to, and why: a line each."""
        failed = [place for place in self._places if place.screen.session.phase is AttachPhase.FAILED]
        errors = [(place.pid, place.screen.session.error) for place in failed]
        return "\n".join(f"{pid} is not in the sum: {error.message}" for pid, error in errors if error is not None)

    # -- its own ---------------------------------------------------------------------------------------------

    def _add(self, member: MemberProcess) -> None:
        pid = member.source.target.pid
        screen = TabScreen(
            self, member.source, lambda: self._app.post_message(TabArrived(pid)), self._user_code
        )  # fmt: skip
        self._places.append(_Place(member, screen, member.asked, pid))
        if member.asked:
            self.summing.expect(pid)
        screen.open()

    def _place(self, screen: TabScreen) -> _Place | None:
        return next((place for place in self._places if place.screen is screen), None)

    def _mark(self, place: _Place) -> str:
        """While heaptop detaches, no process counts as exited that has not before."""
        return place.trend if self._leaving and not place.left else mark(place)

    def _count_all(self) -> None:
        """One after the other, so that their pauses do not meet."""
        for number, place in enumerate(self._places):
            self._app.set_timer(0.001 + number * APART_SECONDS, place.screen.state.source.census_now)


def _enters(session: AttachSession) -> bool:
    """Whether the target may be stopped at any moment by our coming: until it was counted once."""
    if session.phase is AttachPhase.WAITING:
        return True
    settled = session.history.records or session.decision is not None or session.notice
    return session.phase is AttachPhase.LIVE and not settled


def mark(place: _Place) -> str:
    """Where its heap moves, or the state of its attach."""
    session = place.screen.session
    if session.phase is AttachPhase.LIVE:
        return "?" if session.decision is not None else place.trend
    return {AttachPhase.WAITING: "○", AttachPhase.FAILED: "×"}.get(session.phase, "†")


def trend(history: History) -> str:
    """Whether a heap is larger, or smaller, by more than a hundredth, than ten censuses ago."""
    last = history.records[-TREND:]
    if len(last) < 2:
        return ""
    before, now = last[0].total.bytes, last[-1].total.bytes
    return "▲" if now > before * 1.01 else "▼" if now < before * 0.99 else ""
