"""A recording on the live screen: the same views over one moment of it, and keys that go from moment to moment.

This module never reads a file: a :class:`~heaptop.protocol.source.Player` says what was known at a moment, and all that
was known before is forgotten. What only a process could do is said to be missing, by the key that would do it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from textual.binding import BindingType

from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.recorded_times import Span
from heaptop.protocol.source import Event, Player, Rewound, Told
from heaptop.tui.keys.bindings import LIVE, RECORDING, Key, bindings
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.state.desk import Desk, Stage
from heaptop.tui.state.entries import Entry
from heaptop.tui.state.graph_watch import GraphWatch
from heaptop.tui.state.hunting import Hunting
from heaptop.tui.state.session import Session

LACKING: Final = {
    "snapshot": "a recording has no process to freeze",
    "shut": "a recording has no open snapshot",
    "mark": "a recording has no process to mark",
    "mark_named": "a recording has no process to mark",
    "look": "a recording has no process to look at: hunts that were recorded are in view 4",
    "why": "a recording has no object graph: what keeps objects alive is asked of a process",
    "values": "a recording has no values of objects",
    "rate": "a recording has no sampler to change",
    "depth": "a recording has no sampler to change",
    "census": "a recording has no process to count",
    "record": "this is a recording",
    "pause": "a recording stands still by itself",
    "exclude": "a recording has no retainers",
    "tag": "a recording has no single objects",
    "zoom(1)": "a recording has no heap map",
    "zoom(-1)": "a recording has no heap map",
}
"""What keys would do that need a process, and what is said instead."""
_WRITING: Final = frozenset({"save", "suspend"})
"""What a page that is served to a browser cannot do."""
_ABOUT: Final = {
    "lifetimes": "lifetimes are of what was allocated from {since} on",
    "gc": "collections and phases before {since} are not shown here",
}
"""Views whose figures are of the stretch that is told in full."""
_SAMPLED: Final = "bands of samples begin at {since} here"
PLAYING: Final = tuple(key for key in LIVE if key.action not in LACKING)
"""Keys of the live screen that a recording has too."""


class PlayingScreen(LiveScreen):
    """The live screen, at one moment of a recording."""

    KEYS: ClassVar[Sequence[Key]] = (*RECORDING, *PLAYING)
    BINDINGS: ClassVar[list[BindingType]] = bindings(RECORDING)

    def __init__(self, player: Player, *, user_code: Sequence[str] = ()) -> None:
        super().__init__(player, way_back=False, user_code=user_code)
        self._player = player
        self._user_code = user_code
        self._wanted: int | None = None
        """The moment that was asked for last, which the player may not have come to yet."""
        self._told = False
        """All of the moment shown was told."""
        self._tells = False
        """Another moment than the one that is drawn is told, or was, and is not drawn yet."""

    def _take(self, event: Event) -> None:
        if isinstance(event, Rewound):
            self._forget()
        elif isinstance(event, Told):
            self._told = True
        super()._take(event)

    def _draw(self) -> None:
        """What led to a moment is drawn once all of it was told."""
        if self.session.shown is None or self._told or self.session.error is not None:
            self._tells = False
            super()._draw()

    def _draw_words(self) -> None:
        """Those of the moment that is drawn, which stays whole until all of the next one was told."""
        if not self._tells:
            super()._draw_words()

    def _forget(self) -> None:
        """What was known belongs to another moment."""
        before, self._told, self._tells = self.session, False, True
        sampling = Sampling(self._user_code)
        path, attached = self._player.path, before.attached
        self.session = Session(before.target, before.phase, attached=attached, sampling=sampling, path=path)
        hunt = LeakHunt()
        self.desk = Desk(self._player, hunt)
        self.hunting = Hunting(self._player, self.session, hunt, self.desk)
        self.desk.stage, self.desk.why, self.desk.over = Stage.GONE, "a recording has no object graph", True
        self.graph = GraphWatch(self.desk, sampling.samples.stack_of)

    def _second(self) -> None:
        """Nothing comes by itself, and nobody can be asked."""
        self._draw_words()

    @property
    def keys_now(self) -> Sequence[Key]:
        keys = super().keys_now
        return [key for key in keys if key.action not in _WRITING] if self.heaptop.read_only else keys

    def action_save(self) -> None:
        if self.heaptop.read_only:
            self.say_outcome("this page is read-only: nothing is saved on the server")
        else:
            super().action_save()

    @property
    def _footer_keys(self) -> Sequence[Key]:
        keys = super()._footer_keys
        if self.has_class("paneled"):
            return keys
        if self.heaptop.read_only:
            keys = [key for key in keys if key.action not in _WRITING]
        views = [key for key in keys if key.group == "Views"]
        return [*views, *RECORDING, *(key for key in keys if key not in views and key.action not in LACKING)]

    @property
    def note(self) -> str:
        shown = self.session.shown
        if shown is None or shown.since_ns <= shown.first_ns:
            return super().note
        about = _ABOUT.get(self.view.NAME, _SAMPLED if self.view.NAME == "bands" and self.view.sampled else "")
        since = about.format(since=Span.of(shown).clock(shown.since_ns))
        return " · ".join(part for part in (super().note, since) if part)

    @property
    def _leaving_words(self) -> str:
        return "quits"

    # -- the cursor ------------------------------------------------------------------------------------------

    def action_step(self, moments: int) -> None:
        """So many moments on, or back."""
        times, now = self._player.moments, self._now
        if now is None:
            return
        place = bisect_right(times, now) - 1 if moments > 0 else bisect_left(times, now)
        self.seek(times[min(max(place + moments, 0), len(times) - 1)])

    def action_tenths(self, tenths: int) -> None:
        """So many tenths of the recording on, or back."""
        shown, now = self.session.shown, self._now
        if shown is not None and now is not None:
            wanted = now + (shown.last_ns - shown.first_ns) * tenths // 10
            self.seek(min(max(wanted, shown.first_ns), shown.last_ns))

    def action_moment(self) -> None:
        """Ask for a time, and go there."""
        if not self.has_class("paneled"):
            self.ask_for(TimeEntry(self), "")

    @property
    def _now(self) -> int | None:
        """Where the cursor stands, or will."""
        shown = self.session.shown
        return self._wanted if self._wanted is not None or shown is None else shown.time_ns

    def seek(self, time_ns: int) -> None:
        """Go to this moment."""
        shown = self.session.shown
        if shown is not None and time_ns == self._now:
            self._notify(f"this is the {'end' if time_ns >= shown.last_ns else 'beginning'} of the recording")
            self._draw_words()
            return
        self._wanted, self._told = time_ns, False  # a drawing now would put off the next one
        self._player.seek(time_ns)

    # -- what a recording has not ----------------------------------------------------------------------------

    def _lacks(self, action: str) -> None:
        self._done(False, LACKING[action])

    def action_snapshot(self) -> None:
        self._lacks("snapshot")

    def action_shut(self) -> None:
        self._lacks("shut")

    def action_mark(self) -> None:
        self._lacks("mark")

    def action_mark_named(self) -> None:
        self._lacks("mark_named")

    def action_look(self) -> None:
        self._lacks("look")

    def action_why(self) -> None:
        self._lacks("why")

    def action_values(self) -> None:
        self._lacks("values")

    def action_rate(self) -> None:
        self._lacks("rate")

    def action_depth(self) -> None:
        self._lacks("depth")

    def action_census(self) -> None:
        self._lacks("census")

    def action_record(self) -> None:
        self._lacks("record")

    def action_pause(self) -> None:
        self._lacks("pause")

    def action_exclude(self) -> None:
        self._lacks("exclude")

    def action_tag(self) -> None:
        self._lacks("tag")

    def action_zoom(self, steps: int) -> None:
        self._lacks("zoom(1)")


class TimeEntry(Entry):
    """A time to go to."""

    PROMPT = " go to"
    TAKE = "go there"
    DROP = "stay"

    def __init__(self, screen: PlayingScreen) -> None:
        self._screen = screen

    def accepted(self, text: str) -> Callable[[], None] | None:
        shown = self._screen.session.shown
        if shown is None:
            return None
        moment = Span.of(shown).moment(text)
        return lambda: self._screen.seek(moment)
