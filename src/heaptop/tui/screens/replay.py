"""A recording on the live screen: the same views over one moment of it, and keys that go from moment to moment.

A :class:`~heaptop.protocol.source.Player` delivers what was known at a moment, and all that was known before is
dropped. A key that needs a process reports that there is none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType

from heaptop.analysis.reports.jumps import Jump
from heaptop.analysis.text.recorded_times import RecordedSpan
from heaptop.analysis.text.units import format_change, format_duration_ns
from heaptop.protocol.source import Player
from heaptop.tui.keys.bindings import QUESTION, RECORDING, Key, bindings
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.state.control.prompts import Prompt
from heaptop.tui.state.control.replay_state import ReplayState
from heaptop.tui.state.messages import MomentChosen
from heaptop.tui.views import LIVE
from heaptop.tui.views.base import View
from heaptop.tui.widgets.recording_line import Course, RecordingLine

LACKING: Final = {
    "snapshot": "a recording has no process to take a snapshot of",
    "shut": "a recording has no snapshot",
    "mark": "a recording has no process to mark",
    "mark_named": "a recording has no process to mark",
    "look": "a recording has no process to check: view 4 shows recorded hunts",
    "why": "a recording has no object graph: retainers need a live process",
    "values": "a recording has no values of objects",
    "rate": "a recording has no sampler to change",
    "depth": "a recording has no sampler to change",
    "census": "a recording has no process to take a census of",
    "record": "this is a recording",
    "pause": "a recording is always paused",
    "exclude": "a recording has no retainers",
    "tag": "a recording has no single objects",
    "zoom": "a recording has no heap map",
}
"""Actions that need a process, and the message that is shown instead."""
_WRITING: Final = frozenset({"save", "suspend"})  # What a page that is served to a browser cannot do
_TAKEN: Final = {key.keys for key in RECORDING}
PLAYING: Final = tuple(
    key for key in LIVE if key.name not in LACKING and (key.keys not in _TAKEN or key.group == QUESTION)
)
"""Keys of the live screen that a recording has too. Where both have a key, it does what the recording has it for."""


class ReplayScreen(LiveScreen):
    """The live screen, at one moment of a recording."""

    KEYS: ClassVar[Sequence[Key]] = (*RECORDING, *PLAYING)
    LACKS = LACKING
    STATE = ReplayState
    state: ReplayState
    LEAVING = "quits"
    BINDINGS: ClassVar[list[BindingType]] = bindings(RECORDING)

    def __init__(self, player: Player, *, user_code: Sequence[str] = ()) -> None:
        super().__init__(player, way_back=False, user_code=user_code)
        self._player = player
        self._wanted: int | None = None  # The moment that was asked for last, which the player may not have come to yet
        self._typed: list[Callable[[], None]] = []  # Keys that wait until all of the recording was read
        self._drawn: View | None = None  # The view that has the moment before, while the next one is read

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield RecordingLine()

    def _draw(self) -> None:
        """What led to a moment is drawn once all of it has arrived."""
        if self.session.shown is None or self.state.told or self.session.error is not None:
            self.state.tells = False
            super()._draw()
            self._draw_course()
            self._drawn = self.view
            self._do_typed()
        elif self.view is not self._drawn and not self.state.paneled:
            self._drawn = self.view
            self.view.show(self.state.display, self.look)

    def _draw_course(self) -> None:
        state, shown = self.state, self.session.shown
        if shown is not None:
            course = Course(state.heap, state.jumps, RecordedSpan.of(shown), shown.time_ns)
            self.query_one(RecordingLine).show(course, self.look)

    def _draw_words(self) -> None:
        """Those of the moment that is drawn, which stays whole until all of the next one has arrived."""
        if not self.state.tells:
            super()._draw_words()

    def second(self) -> None:
        """Nothing arrives by itself, and no process can be asked."""
        self._draw_words()

    @property
    def keys_now(self) -> Sequence[Key]:
        keys = super().keys_now
        return [key for key in keys if key.action not in _WRITING] if self.heaptop.read_only else keys

    def action_save(self) -> None:
        if self.heaptop.read_only:
            self.outcome("this page is read-only: nothing is saved on the server")
        else:
            self.act("save")

    @property
    def _footer_keys(self) -> Sequence[Key]:
        keys = super()._footer_keys
        if self.state.paneled:
            return keys
        if self.heaptop.read_only:
            keys = [key for key in keys if key.action not in _WRITING]
        views = [key for key in keys if key.group == "Views"]
        return [*views, *RECORDING, *(key for key in keys if key not in views and key.name not in LACKING)]

    @property
    def note(self) -> str:
        shown = self.session.shown
        if shown is None or shown.since_ns <= shown.first_ns:
            return super().note
        since = self.view.since_words.format(since=RecordedSpan.of(shown).clock(shown.since_ns))
        return " · ".join(part for part in (super().note, since) if part)

    # -- the cursor ------------------------------------------------------------------------------------------

    def action_step(self, moments: int) -> None:
        """So many moments on, or back."""
        times, now = self._player.moments, self._now
        if now is None:
            self._later(lambda: self.action_step(moments))
            return
        place = bisect_right(times, now) - 1 if moments > 0 else bisect_left(times, now)
        self.seek(times[min(max(place + moments, 0), len(times) - 1)])

    def action_tenths(self, tenths: int) -> None:
        """So many tenths of the recording on, or back."""
        shown, now = self.session.shown, self._now
        if shown is None or now is None:
            self._later(lambda: self.action_tenths(tenths))
        else:
            wanted = now + (shown.last_ns - shown.first_ns) * tenths // 10
            self.seek(min(max(wanted, shown.first_ns), shown.last_ns))

    def action_jump(self, step: int) -> None:
        """To the next jump of the heap, or the one before."""
        now = self._now
        if now is None or not self.state.is_whole:
            self._later(lambda: self.action_jump(step))
            return
        ends = [self._moment_of(jump) for jump in self.state.jumps]
        place = bisect_right(ends, now) if step > 0 else bisect_left(ends, now) - 1
        if not 0 <= place < len(ends):
            where, other = ("after", "before") if step > 0 else ("before", "after")
            there = sum(end < now if step > 0 else end > now for end in ends)
            elsewhere = f", {there} {other}" if there else ""
            self.outcome(f"no jump {where} this moment{elsewhere}" if ends else "this recording has no jumps")
            return
        jump = self.state.jumps[place]
        self.seek(ends[place], jump.begin_ns)
        lasted, change = format_duration_ns(jump.end_ns - jump.begin_ns), format_change(jump.bytes)
        what = "RSS" if jump.is_rss else "live heap"
        self.show_notice(f"jump {place + 1} of {len(ends)}: {what} {change} within {lasted}")

    def _moment_of(self, jump: Jump) -> int:
        """The first moment that shows the memory after it: a census comes with a tick after the one that follows it,
        where counting takes long."""
        times = self._player.moments
        return times[min(bisect_left(times, self.state.shown.get(jump.end_ns, jump.end_ns)), len(times) - 1)]

    def _later(self, act: Callable[[], None]) -> None:
        """Do it once all of the recording was read: a key that is typed before is not lost."""
        self._typed.append(act)
        self.outcome("the recording is still being read: this key takes effect afterwards")

    def _do_typed(self) -> None:
        if self.state.is_whole:
            typed, self._typed = self._typed, []
            for act in typed:
                act()

    def on_moment_chosen(self, event: MomentChosen) -> None:
        if event.time_ns != self._now:
            self.seek(event.time_ns)

    def action_moment(self) -> None:
        """Ask for a time, and go there."""
        if not self.state.paneled:
            self.state.prompts.ask(TimePrompt(self))

    @property
    def _now(self) -> int | None:
        """Where the cursor is, or will be."""
        shown = self.session.shown
        return self._wanted if self._wanted is not None or shown is None else shown.time_ns

    def seek(self, time_ns: int, since_ns: int | None = None) -> None:
        """Go to this moment, with all that was recorded since an earlier one."""
        shown = self.session.shown
        if shown is not None and time_ns == self._now:
            self.show_notice(f"this is the {'end' if time_ns >= shown.last_ns else 'beginning'} of the recording")
            return
        self._typed.clear()  # what was typed before is of another moment
        self._wanted, self.state.told = time_ns, False  # a drawing now would put off the next one
        self._player.seek(time_ns, since_ns)


class TimePrompt(Prompt):
    """A time to go to."""

    LABEL = " go to"
    PLACEHOLDER = "+90m after the beginning, -1h before the end, 02:13"
    TAKE = "go there"
    DROP = "cancel"

    def __init__(self, screen: ReplayScreen) -> None:
        self._screen = screen

    def accepted(self, text: str) -> Callable[[], None] | None:
        shown = self._screen.session.shown
        if shown is None:
            return None
        moment = RecordedSpan.of(shown).moment(text)
        return lambda: self._screen.seek(moment)
