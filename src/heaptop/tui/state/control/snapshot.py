"""The snapshot's keys: freeze one, close it, show values of it."""

from __future__ import annotations

from collections.abc import Sequence

from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.state.control.questions import values_question
from heaptop.tui.state.snapshot_client import SnapshotPurpose, SnapshotStage


class SnapshotControl:
    """Opens and closes the snapshot that views ask."""

    def __init__(self, live: LiveState, views: Sequence[int]) -> None:
        """``views``: numbers of those that show it."""
        self._live = live
        *some, last = map(str, views or (0,))
        self._views = f"{', '.join(some)} and {last}" if some else last

    def action_snapshot(self) -> str | None:
        """Freeze the target as it is now; what was frozen before is closed."""
        live = self._live
        if live.hunting.is_busy:
            live.status.show_notice("the hunt has a snapshot open; press o when it is done, or x to cancel")
            return None
        if live.unavailable:
            return live.unavailable
        live.client.open(failed=lambda why: live.status.show_notice(f"no snapshot: {why}"))
        return "" if live.view().FROZEN else f"taking a snapshot: views {self._views} show it"

    def open_for_view(self) -> None:
        """A view that shows the snapshot was chosen: freeze one, unless one is there for a person to look at."""
        live = self._live
        wanted = (
            live.client.stage is SnapshotStage.NONE
            or live.client.is_closed
            or live.client.purpose is not SnapshotPurpose.LOOKING
        )
        if wanted and live.view().FROZEN and not live.unavailable:
            live.status.outcome(self.action_snapshot() or "")

    def action_shut(self) -> str:
        """Give up what takes its time; where nothing does, close the snapshot."""
        client = self._live.client
        if client.is_open and not client.is_busy:
            client.close()
            return "" if self._live.view().FROZEN else "the snapshot is closed"
        return "" if client.give_up() else "no snapshot is open"

    def action_values(self) -> None:
        """Ask whether values may be shown; where they are, hide them."""
        live = self._live
        if live.client.values:
            live.client.show_values(False)
            live.status.show_notice("values are hidden again")
        else:
            live.ask(values_question(live.session.target.pid, self._show_values))

    def _show_values(self, accept: bool) -> None:
        self._live.client.show_values(accept)
        self._live.status.show_notice("values of the object on screen are shown; V hides them" if accept else "")
