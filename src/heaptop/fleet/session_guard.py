"""Guards in ``heaptop serve``: the rules of ``[[guard]]``, judged on the sessions that it has.

Each is the :class:`Guard` of ``heaptop guard``, on a thread of its own. It reads what the session receives, and asks
through the session's source: a process has one profiler at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar, Final

from heaptop.analysis.heap.history import History
from heaptop.dumps.captured_source import CapturedSource
from heaptop.errors import AgentLost, HeaptopError
from heaptop.fleet.audit import audit
from heaptop.fleet.configuration import FleetConfig
from heaptop.fleet.figures import label
from heaptop.fleet.guarding import TURN, Guard, GuardWatch
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.reports import ReportFolder
from heaptop.fleet.selection import ChosenProcess
from heaptop.fleet.sending import LAST_SECONDS, Sender
from heaptop.fleet.session import FleetSession, SharedSource, bounded_samples, bounded_sampling
from heaptop.fleet.triggers import GuardRule
from heaptop.protocol.messages import Failure, Message
from heaptop.protocol.source import Attached, Ended, Event, Source
from heaptop.recordings.recordable_source import RecordableSource
from heaptop.watching.progress import ProgressReport

MOST_MOMENTS: Final = 600  # Censuses, and ticks, that a guard keeps
MOST_CELLS: Final = 20_000  # Types in these, added up where they change


class SessionWatch(GuardWatch):
    """A guarded session. Of the process no more is kept than the session itself keeps, and of its past little."""

    turn: ClassVar[float] = TURN
    """Nobody looks at its progress: there are many, and they sleep until there is something to read."""

    def __init__(self, source: Source, progress: GuardLines, again: str) -> None:
        super().__init__(source, progress, again, bounded_sampling())
        self._history = History(MOST_MOMENTS, MOST_CELLS)
        self.goes_on = False  # From the attach to the session's end
        self._was_detached = False

    def ready(self) -> None:
        """The first census may take as long as it does: the session waits for it too."""
        with self._untimed():
            super().ready()

    @contextmanager
    def patience(self) -> Iterator[None]:
        """Ctrl+C goes to the main thread, which detaches from the process."""
        yield

    def _put(self, event: Event) -> None:
        if isinstance(event, Attached | Ended):
            self.goes_on = isinstance(event, Attached)
            self._was_detached = isinstance(event, Ended) and event.error is None
        super()._put(event)

    def _next(self) -> Message | None:
        try:
            return super()._next()
        except AgentLost:
            if self._was_detached:  # heaptop was: the guard ends as if a person had stopped it
                raise KeyboardInterrupt from None
            raise

    def _take(self, message: Message) -> None:
        if isinstance(message, Failure) and self._seen is None:
            return  # the session continues, and asks for another census
        super()._take(message)


class GuardLines(ProgressReport):
    """A guard's remarks, each a line of the audit."""

    def __init__(self, chosen: ChosenProcess) -> None:
        self._chosen = chosen

    def notice(self, text: str) -> None:
        audit("guard", pid=self._chosen.seen.pid, service=self._chosen.service, message=text)


class SessionGuard:
    """The guard of one session, from before its opening to its end."""

    def __init__(
        self,
        session: FleetSession,
        rule: GuardRule,
        folder: ReportFolder,
        sender: Sender,
        acting: threading.Lock,
        meters: HostMeters,
    ) -> None:
        """``session`` is not opened yet."""
        captured = CapturedSource(session.source, bounded_samples()) if rule.dumps else None
        session.source = captured or session.source
        if rule.records:
            session.source = RecordableSource(session.source, max_size=folder.ring_size, samples=bounded_samples())
        self._pid = session.pid
        self._folder = folder
        self._meters = meters
        self._lines = GuardLines(session.chosen)
        self._watch = SessionWatch(SharedSource(session), self._lines, f"heaptop guard {self._pid}")
        service = label(session.service)
        self._guard = Guard(
            self._watch,
            session.source,
            rule,
            folder,
            sender,
            self._lines,
            captured=captured,
            acting=acting,
            service=service,
        )
        self._attends = ExitStack()
        self._thread = threading.Thread(target=self._run, name="heaptop-guard", daemon=True)

    def open(self) -> None:
        """Read from now on: the session's first event is the guard's too. Errors: RuntimeError, of no more threads."""
        self._attends.enter_context(self._watch)
        try:
            self._thread.start()
        except RuntimeError:
            self._attends.close()
            raise

    def join(self, seconds: float) -> None:
        """Wait so long for its end: the session has ended."""
        self._thread.join(seconds)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        """Whatever it ends with, the session continues."""
        try:
            with self._attends:
                self._begin_ring()
                why = self._guard.run()
                if self._watch.goes_on:  # else the session reports it
                    self._lines.notice(f"ended: {why}")
        except KeyboardInterrupt:
            pass  # detached before the first census
        except Exception as error:
            if self._watch.goes_on:
                self._meters.refuse(type(error).__name__)
                self._lines.notice(f"ended: {_words(error)}")
        finally:
            self._guard.close()
            self._folder.leave()

    def _begin_ring(self) -> None:
        """Where nothing can be recorded, the guard does without."""
        try:
            self._guard.begin_ring(self._pid)
        except (HeaptopError, OSError) as error:
            self._meters.refuse(type(error).__name__)
            self._lines.notice(f"nothing is recorded: {_words(error)}")


def _words(error: Exception) -> str:
    return error.message if isinstance(error, HeaptopError) else f"{error}"


class HostGuards:
    """All guards of one ``heaptop serve``: one of them acts at a time, and they share a folder and a queue."""

    def __init__(self, meters: HostMeters) -> None:
        self.acting = threading.Lock()  # Held by who examines a process: takes a census out of turn, or hunts for leaks
        self._meters = meters
        self._sender = Sender(lambda text: audit("guard", message=text))
        self._folders: dict[Path, ReportFolder] = {}
        self._guards: list[SessionGuard] = []

    def watch(self, session: FleetSession, config: FleetConfig) -> None:
        """Guard it from its opening on, where its service has a rule."""
        service = label(session.service)
        rule = next((one.rule for one in config.guards if fnmatchcase(service, one.service)), None)
        self._guards = self.running()
        if rule is None:
            return
        try:
            folder = self._reports(config).share()
        except HeaptopError as error:
            self._refuse(session, error)
            return
        guard = SessionGuard(session, rule, folder, self._sender, self.acting, self._meters)
        try:
            guard.open()
        except RuntimeError as error:  # no more threads
            folder.leave()
            self._refuse(session, error)
            return
        self._guards.append(guard)

    def _refuse(self, session: FleetSession, error: Exception) -> None:
        """The process is attached to without a guard."""
        self._meters.refuse(type(error).__name__)
        audit("guard", pid=session.pid, service=session.service, message=_words(error))

    def running(self) -> list[SessionGuard]:
        """Those that have not ended."""
        return [guard for guard in self._guards if guard.is_alive]

    def close(self) -> None:
        """Wait a moment for what the guards still write and send; their sessions have ended."""
        end = time.monotonic() + LAST_SECONDS
        for guard in self._guards:
            guard.join(max(end - time.monotonic(), 0.0))
        self._sender.close(LAST_SECONDS)

    def _reports(self, config: FleetConfig) -> ReportFolder:
        """The folder that the configuration names; what running guards keep in it stays. Errors: SaveFailed."""
        path, quota, guards = config.reports_dir, config.reports_quota, config.most_attached
        if path in self._folders:
            self._folders[path].resize(quota, guards)
        else:
            self._folders[path] = ReportFolder(path, quota, guards)
        return self._folders[path]
