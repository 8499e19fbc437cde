"""What is known at one moment of a recording; all that was known before is forgotten when it goes to another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heaptop.analysis.reports.jumps import Jump, jumps
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.source import Event, Player, Seek, SeekDone, WholeCourse
from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.state.session import AttachSession
from heaptop.tui.state.snapshot_client import SnapshotStage


class ReplayState(LiveState):
    """That of a :class:`~heaptop.protocol.source.Player`."""

    source: Player
    told = False  # All messages of the moment have arrived
    is_whole = False  # All of the recording was read
    heap: Sequence[tuple[int, int]] = ()  # The live heap over all of it: (time, bytes)
    jumps: Sequence[Jump] = ()
    shown: Mapping[int, int] = {}  # Of each census's time, the first moment that shows it
    tells = False  # Messages of another moment than the one that is drawn arrive, or have arrived and are not drawn yet

    def _begin(self, session: AttachSession) -> None:
        session.path = self.source.path
        super()._begin(session)

    def feed(self, event: Event) -> None:
        match event:
            case Seek():
                self._rewind()
                self.told, self.tells = False, True
            case SeekDone():
                self.told = True
            case WholeCourse():
                self.is_whole = True
                self.heap, self.jumps, self.shown = event.heap, jumps(event.heap, event.rss), event.shown
        super().feed(event)

    def _rewind(self) -> None:
        before = self.session
        attached, sampling = before.attached, Sampling(self._user_code)
        self._begin(AttachSession(before.target, before.phase, attached=attached, sampling=sampling))
        self.client.stage, self.client.why, self.client.over = (
            SnapshotStage.GONE,
            "a recording has no object graph",
            True,
        )
