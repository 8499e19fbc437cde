"""Which view of a screen is shown, and the way from one to another and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.state.control.snapshot import SnapshotControl
from heaptop.tui.state.session import AttachPhase
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.state.snapshot_status import age_words
from heaptop.tui.views.base import View
from heaptop.tui.views.table_view import ExploringView


class _WayOut(NamedTuple):
    """What has led to the exploring view."""

    name: str
    depth: int  # How deep in it has led


class ViewSwitch:
    """Shows one of some views."""

    def __init__(
        self,
        live: LiveState,
        snapshot: SnapshotControl,
        kinds: Mapping[str, type[View]],
        go_to_list: Callable[[], object] | None,
    ) -> None:
        """``go_to_list`` leaves a session that is over, where it was chosen from a list."""
        self._live, self._snapshot, self._kinds, self._go_to_list = live, snapshot, kinds, go_to_list
        self.views: dict[str, View] = {}
        self.name = next(iter(kinds))
        self._before = ""  # The view that was examined before; empty for none
        self._way_out: _WayOut | None = None

    def make(self) -> Mapping[str, View]:
        """Make all views, the first of which is shown."""
        for name, kind in self._kinds.items():
            view = self.views[name] = kind()
            view.add_class(f"-{name}", update=False)
        self.show()
        return self.views

    def show(self) -> None:
        """Show one view, or none behind a panel: by `display`, as a class has all that is on the screen restyled."""
        for each in self.views.values():
            each.display = each is self.view and not self._live.paneled

    @property
    def view(self) -> View:
        return self.views[self.name]

    @property
    def title(self) -> str:
        """The number of the view that is shown, behind the one that has led there."""
        number = f"{self.view.NUMBER} "
        if self._way_out is None:
            return number
        origin = self._kinds[self._way_out.name]
        return f"{origin.NUMBER} {origin.TITLE} › {number}"

    def action_view(self, name: str) -> None:
        self._lead_out(None)
        self._live.status.forget_outcome()
        if name != self.name:
            self.name, self._before = name, self.name
        self.show()
        self._snapshot.open_for_view()
        self._live.watch_memory()

    def action_last_view(self) -> str | None:
        """To and fro between two views."""
        if not self._before:
            return "no other view was shown yet"
        self.action_view(self._before)
        return None

    def action_next_view(self, step: int) -> None:
        names = list(self.views)
        self.action_view(names[(names.index(self.name) + step) % len(names)])

    # -- what keeps objects alive ----------------------------------------------------------------------------

    def action_why(self) -> str:
        """Show what keeps the objects of this row alive."""
        subject = self.view.subject
        if subject is None:
            return self.view.unavailable
        self.explore(subject)
        return age_words(self._live.client)

    @property
    def _explorer(self) -> ExploringView[Any] | None:
        return next((view for view in self.views.values() if isinstance(view, ExploringView)), None)

    def explore(self, subject: QuerySubject) -> None:
        """Look into something in the view that explores; Esc from there leads back here."""
        explorer, image = self._explorer, self._live.client.image
        if explorer is None:
            return
        origin = self.name
        explorer.ask_about(subject, image.image if image is not None else 0, from_here=origin == explorer.NAME)
        self.action_view(explorer.NAME)
        if origin != explorer.NAME:
            self._lead_out(_WayOut(origin, explorer.depth))

    def _lead_out(self, way_out: _WayOut | None) -> None:
        """From now on Esc leads back along this way; None: as far as the view itself leads."""
        self._way_out = way_out
        if self._explorer is not None:
            self._explorer.led_in = way_out.depth - 1 if way_out is not None else 0

    def action_back(self) -> str | None:
        """Esc: one step back, from whatever is on the screen."""
        live, session = self._live, self._live.session
        if session.phase is AttachPhase.WAITING:
            live.source.cancel()
        elif live.paneled and session.history.records:
            live.error_seen = True
        elif not live.paneled and self._step_back():
            return ""
        elif self._go_to_list is not None and session.phase is not AttachPhase.LIVE:
            self._go_to_list()
        else:
            return "nothing to go back to; q quits"
        return None

    def _step_back(self) -> bool:
        """Out of what is looked into; where another view has led there, back to that one. False where nothing is."""
        way_out = self._way_out
        came_back = self.view.step_back()
        if way_out is not None and isinstance(self.view, ExploringView) and self.view.depth < way_out.depth:
            self.action_view(way_out.name)
        return came_back
