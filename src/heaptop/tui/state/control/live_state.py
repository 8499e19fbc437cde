"""What a live screen knows of one source: events go in, a :class:`Display` and words come out. It never draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import ClassVar, Protocol

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.filters.predicates import NameTerm
from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.units import format_duration_ns
from heaptop.errors import HeaptopError
from heaptop.protocol.source import Event, Recordable, Source
from heaptop.tui.state.control.prompts import FilterPrompt, Prompts
from heaptop.tui.state.control.questions import Confirmation, pause_question
from heaptop.tui.state.control.recording import recording_notice
from heaptop.tui.state.control.status_line import StatusLine
from heaptop.tui.state.graph_watch import GraphWatch
from heaptop.tui.state.hunting import Hunting
from heaptop.tui.state.inbox import Inbox
from heaptop.tui.state.memory_watch import MemoryWatch
from heaptop.tui.state.sampling_words import change_text
from heaptop.tui.state.session import AttachPhase, AttachSession, Display
from heaptop.tui.state.snapshot_client import SnapshotClient
from heaptop.tui.text import clip


class ShownView(Protocol):
    """What must be known of the view that is shown."""

    FROZEN: ClassVar[bool]
    SHOWS_HUNT: ClassVar[bool]

    @property
    def where(self) -> Filter: ...

    def set_where(self, where: Filter) -> None: ...

    @property
    def wants_graph(self) -> bool: ...

    @property
    def wants_memory(self) -> bool: ...

    @property
    def kept_by(self) -> NameTerm | None: ...


class LiveState:
    """One source's session, its snapshot client, its hunt, and the notices and questions about them."""

    def __init__(self, source: Source, user_code: Sequence[str] = ()) -> None:
        """``user_code`` is as :class:`Sampling` takes it."""
        self.source = source
        self._user_code = user_code
        self.status = StatusLine()
        self.prompts = Prompts()
        self.memory = MemoryWatch(source)
        self.wake: Callable[[], object] = lambda: None
        """Called from the source's thread when events have come; the screen sets it, and takes them."""
        self.inbox = Inbox(lambda: self.wake())  # noqa: PLW0108 - it is set later
        self._is_open = False
        self._taking = Lock()
        """Who drains the inbox takes all of it before another one does: events are taken in their order."""
        self.view: Callable[[], ShownView]  # The view that is shown; the screen sets it
        self.display = Display()
        self.held: int | None = None  # How many censuses there were when the display was held; None while it is not
        self.paneled = False  # A panel is in place of the view
        self.error_seen = False
        self.leaving = False
        self.asked_sampler = False
        """The sampler was asked for a change, so that its answer is reported also where it is as before."""
        self._offer: Confirmation | None = None  # Until it is answered
        self._begin(AttachSession(source.target, sampling=Sampling(user_code)))

    def _begin(self, session: AttachSession) -> None:
        self.session = session
        hunt = LeakHunt()
        self.client = SnapshotClient(self.source, hunt)
        self.hunting = Hunting(self.source, session, hunt, self.client)
        self.graph = GraphWatch(self.client, session.sampling.samples.stack_of)

    # -- events ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the source, once: what it sends comes into the inbox from now on."""
        if self._is_open:
            return
        self._is_open = True
        self.source.open(self.inbox.receive, self.inbox.is_behind)

    def feed(self, event: Event) -> None:
        for part in (self.session, self.client, self.hunting, self.memory):
            part.feed(event)

    def take_events(self) -> None:
        """Take all that has come, and report what it changed."""
        before, recording_status = self.session.sampling.state, self.session.recording_status
        with self._taking:
            for event in self.inbox.drain():
                self.feed(event)
        if before is not None or self.asked_sampler:  # how it is at first the header says
            self.status.show_notice(change_text(before, self.session.sampling.state, asked=self.asked_sampler))
        self.status.show_notice(recording_notice(recording_status, self.session.recording_status))
        found = self.hunting.take_findings()
        if found is not None and isinstance(self.source, Recordable):
            self.source.note(found)

    def second(self) -> None:
        """Have done what no event calls for, while somebody looks at what it would show."""
        typing = self.prompts.open is not None  # half a filter is not worth a graph census
        view = self.view()
        self.graph.turn(self._is_seen and not typing and view.wants_graph, view.kept_by)
        self.watch_memory()

    def watch_memory(self) -> None:
        """Have it asked what memory is used for, while somebody looks at that and it moves."""
        self.memory.turn(self._is_seen and self.held is None and self.view().wants_memory)

    @property
    def _is_seen(self) -> bool:
        """Whether figures of a process that lives are on the screen, and no question is over them: it may be about a
        pause."""
        return self.session.phase is AttachPhase.LIVE and not (self.paneled or self.questions)

    # -- what is shown ---------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Make the display of what is known now, unless it is held."""
        if self.held is None:
            self.display = Display.of(self.session, self.client, self.graph.facts, self.hunting)

    def action_pause(self) -> str:
        if self.held is None:
            self.held = self.session.censuses
            self.display = self.display.freeze()
        else:
            self.held = None
        return ""

    def action_filter(self) -> None:
        if not self.paneled:
            where = str(self.view().where)
            self.prompts.ask(FilterPrompt(self.view()), f"{where} " if where else "")  # another term is typed most

    @property
    def waiting(self) -> int | None:
        """How many censuses wait behind a held display; None where it is not held."""
        return None if self.held is None else self.session.censuses - self.held

    def right_words(self, right: str, room: int) -> str:
        """The right words of a view, with why the session ended, or why it is not counted in a better mode."""
        session, latest = self.session, self.display.latest
        if session.phase is AttachPhase.EXITED and session.error is not None:
            return f"{session.error.message}  {right}".strip()
        if latest is not None and latest.census.mode_reason:
            reason = f"{latest.census.mode} mode: {latest.census.mode_reason}"
            return f"{right} · {clip(reason, max(room, 20))}"
        return right

    def choose_panel(self) -> None:
        """A panel is in for a view while there is none, and over it for an error that was not yet read. It waits
        until a text that is typed is finished."""
        if self.prompts.open is not None:
            return
        session = self.session
        unread = session.phase is AttachPhase.FAILED and not self.error_seen
        waiting = session.phase is AttachPhase.WAITING
        self.paneled = waiting or unread or (self.has_failed and not session.history.records)

    @property
    def has_failed(self) -> bool:
        """The session ended by an error."""
        return self.session.phase in (AttachPhase.FAILED, AttachPhase.EXITED) and self.session.error is not None

    # -- questions -------------------------------------------------------------------------------------------

    @property
    def questions(self) -> tuple[Confirmation, ...]:
        """What has to be answered; the process's own question comes first."""
        session = self.session
        if session.phase is not AttachPhase.LIVE or self.leaving:
            return ()
        asked = [] if self._offer is None else [self._offer]
        if session.decision is not None:
            pid, decision, seen = session.target.pid, session.decision, session.forecast
            asked.insert(0, pause_question(pid, decision, seen, self._decide, lambda: self._decide(True, stop=True)))
        return tuple(asked)

    def ask(self, question: Confirmation) -> None:
        self._offer = question

    def answer(self, question: Confirmation, accept: bool | None, stop: bool = False) -> str | None:
        """Do what the answer means; None is Esc, with ``stop`` it is the other pause. The outcome; None where it
        reports by itself."""
        if question not in self.questions:
            return "nothing to confirm"
        if question == self._offer:
            self._offer = None
        if stop:
            return question.stop() if question.stop is not None else None
        if accept is not None:
            return question.answer(accept)
        return question.drop() if question.drop is not None else None

    def _decide(self, accept: bool, stop: bool = False) -> str:
        self.session.decision = None
        self.source.decide(accept, stop)
        return ""

    # -- the process -----------------------------------------------------------------------------------------

    @property
    def unavailable(self) -> str:
        """Why nothing can be asked of the process; empty where it can."""
        if self.session.phase is AttachPhase.LIVE:
            return ""
        return "not attached yet" if self.session.phase is AttachPhase.WAITING else "the process exited"

    def action_census(self) -> str:
        if self.unavailable:
            return self.unavailable
        self.source.census_now()
        if self.view().wants_memory:
            self.memory.ask()
        return "census requested"

    def resumed(self, seconds: float) -> None:
        """heaptop was stopped for so long. The agent was asked for nothing meanwhile, and so was silent."""
        self.session.restart_silence()
        if self.session.phase is AttachPhase.LIVE and self.session.shown is None:
            stood = f" for {format_duration_ns(round(seconds * 1e9))}" if seconds else ""
            self.status.show_notice(f"heaptop was suspended{stood}: no census was taken meanwhile")

    def detach_and_wait(self) -> HeaptopError | None:
        """Give up or detach, and wait until the target is as it was. For a thread: it blocks.

        Returns the error that the session ended with, if it did."""
        if self.session.phase is AttachPhase.WAITING:
            self.source.cancel()
        self.inbox.close()
        self.source.close()
        with self._taking:
            for event in self.inbox.drain():
                self.session.feed(event)
            return self.session.error
