"""The tab in front of several processes: the sum of what was counted in all of them, as if it were one.

:class:`~heaptop.analysis.bands.summed.Summing` computes it. A key for one process only reports that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import BindingType

from heaptop.analysis.bands.summed import ProcessSum, change_text, sum_text
from heaptop.protocol.images import Question
from heaptop.protocol.messages import PROTOCOL_VERSION, Hello, Message
from heaptop.protocol.source import (
    Attached,
    Behind,
    Deliver,
    Ended,
    Received,
    TargetInfo,
    never_behind,
)
from heaptop.tui.keys.bindings import SEVERAL, Key, bindings, view_key
from heaptop.tui.screens.tab_screen import TabScreen
from heaptop.tui.state.session import ProcessCounts
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.views.bands.summed_bands import SummedBandsView
from heaptop.tui.views.base import View
from heaptop.tui.views.processes.view import ProcessesView
from heaptop.tui.widgets.help_screen import HelpPage

if TYPE_CHECKING:
    from heaptop.tui.screens.tabs import Tabs

OF_ONE: Final = {
    "snapshot": "a snapshot shows one process",
    "shut": "a snapshot shows one process",
    "mark": "marks belong to one process",
    "mark_named": "marks belong to one process",
    "look": "a hunt belongs to one process",
    "why": "retainers belong to one process",
    "values": "values belong to one process",
    "rate": "sampling belongs to one process",
    "depth": "sampling belongs to one process",
    "record": "a recording shows one process",
    "exclude": "retainers belong to one process",
    "tag": "objects belong to one process",
    "zoom": "the heap map shows one process",
}
"""Actions that the sum does not have, and why."""
PROCESSES: Final = view_key(
    ProcessesView.NUMBER, ProcessesView.NAME, ProcessesView.TITLE, ProcessesView.ABOUT
)  # fmt: skip
_BANDS: Final = f"view({SummedBandsView.NAME!r})"
SUMMED: Final = (
    *(key for key in LIVE if key.action == _BANDS),
    PROCESSES,
    *(key for key in LIVE if key.name not in OF_ONE and key.group != "Views"),
)
"""Keys of the live screen that the sum has too."""
TO_ONE: Final = "press Tab"


class SummedSource:
    """A :class:`~heaptop.protocol.source.Source` that delivers what it is given, and asks all of the others."""

    def __init__(self, title: str, census_now: Callable[[], None]) -> None:
        self._target = TargetInfo(0, title, "", "")
        self._census_now = census_now
        self._deliver: Deliver = lambda event: None

    @property
    def target(self) -> TargetInfo:
        return self._target

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver = deliver

    def begin(self, time_ns: int) -> None:
        """The first of the processes is attached to, at that moment."""
        hello = Hello(PROTOCOL_VERSION, "", 0, "", "", (), True, time_ns)
        self._deliver(Attached(self._target, hello, "", 0))

    def deliver(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._deliver(Received(message))

    def census_now(self) -> None:
        self._census_now()

    def memory_now(self) -> None:
        """No one process is meant."""

    def sample(self, interval: int, depth: int, tracer: bool = False, target: int = 0) -> None:
        """No one process is meant."""

    def decide(self, accept: bool, stop: bool = False) -> None:
        """No one process is meant."""

    def image(self, keep: float, memory: int = 0) -> int:
        return 0

    def ask(self, image: int, question: Question) -> int:
        return 0

    def give_up(self, id: int) -> None:
        """There is nothing."""

    def close_snapshot(self) -> None:
        """There is none."""

    def request(self, make: Callable[[int], Message]) -> int:
        return 0

    def cancel(self) -> None:
        """There is nothing to wait for."""

    def close(self, timeout: float = 5.0) -> None:
        self._deliver(Ended(None))


class SummedScreen(TabScreen):
    """Bands of the sum, and a table of the processes."""

    KEYS: ClassVar[Sequence[Key]] = (*SEVERAL, *SUMMED)
    LACKS: ClassVar[Mapping[str, str]] = {name: f"{why}: {TO_ONE}" for name, why in OF_ONE.items()}
    SHOWN: ClassVar[Mapping[str, type[View]]] = {
        SummedBandsView.NAME: SummedBandsView,
        ProcessesView.NAME: ProcessesView,
    }
    BINDINGS: ClassVar[list[BindingType]] = bindings([PROCESSES])

    def __init__(self, tabs: Tabs, source: SummedSource, wake: Callable[[], object]) -> None:
        super().__init__(tabs, source, wake)
        self._sum = ProcessSum()
        """What is shown is made of."""
        self._wanted = ""
        """The view that the last key named, where the sum does not have it."""

    def _draw(self) -> None:
        if self.state.held is None:
            self._sum = self.tabs.summing.last
        self.session.company = ProcessCounts(self.tabs.live, self.tabs.known)
        if self.is_shown:
            self.query_one(SummedBandsView).parts = self._sum.parts
            if self.state.held is None:
                self.query_one(ProcessesView).processes = self.tabs.rows
        super()._draw()

    def _draw_panel(self) -> None:
        """There is never one: a failed attach is shown in its own tab."""

    @property
    def note(self) -> str:
        if not self._sum.parts:
            return f"attaching to one process after the other; {self.tabs.counted} of {self.tabs.known} counted"
        return sum_text(self._sum, self.session.origin_ns or 0)

    def help_of(self, name: str) -> HelpPage:
        page = super().help_of(name)
        told = [change_text(change, self.session.origin_ns or 0) for change in self.tabs.summing.last.changes]
        return replace(page, first="\n\n".join(filter(None, (page.first, *told))))

    @property
    def _footer_keys(self) -> Sequence[Key]:
        views = [key for key in SUMMED if key.group == "Views"]
        return [*views, *(key for key in super()._footer_keys if key in self.KEYS and key not in views)]

    def act(self, name: str, *arguments: object) -> None:
        self._wanted = ""
        super().act(name, *arguments)

    def action_view(self, name: str) -> None:
        if name in self.SHOWN:
            self.act("view", name)
        else:
            self._wanted = name
            self.outcome(f"view {VIEWS[name].NUMBER} shows one process: {TO_ONE}")

    def take_wanted(self) -> str:
        """The view to open in the tab that is shown next; empty for the one that it has."""
        wanted, self._wanted = self._wanted, ""
        return wanted
