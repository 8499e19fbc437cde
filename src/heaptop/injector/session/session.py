"""The session: connects by a backend, holds the conversation with the agent, and delivers what happens as events.

One thread does all of it, so that events come in order and one at a time. It never touches the target other than
through a backend and the agent's socket.
"""

from __future__ import annotations

import itertools
import secrets
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from heaptop.choices import COST_OF_SAMPLE
from heaptop.errors import (
    AgentLost,
    AttachCancelled,
    HeaptopError,
    InjectionFailed,
    OutOfResources,
    PtraceDenied,
    RemoteDebuggingDisabled,
    TargetExited,
    TracedTarget,
    fault,
)
from heaptop.injector.backends.registry import BACKENDS
from heaptop.injector.inspect import process, refusals_cache
from heaptop.injector.inspect.preflight import CheckedProcess
from heaptop.injector.inspect.threads import agent_thread
from heaptop.injector.native import Library, NoCore, library
from heaptop.injector.requests import AttachOptions, Connection, Launch, Request
from heaptop.injector.rss import memory_map, own
from heaptop.injector.session.census_policy import CensusPolicy
from heaptop.injector.session.conversation import Conversation, ConversationRequests, SamplingSettings
from heaptop.injector.session.forecast import attach_refusal, forecast, room
from heaptop.injector.session.snapshot_cost import private_bytes
from heaptop.protocol.images import FIRST_ID, AskRequest, CancelRequest, CloseRequest, ImageRequest, Question
from heaptop.protocol.messages import Core, Message
from heaptop.protocol.source import (
    Attached,
    Behind,
    Deliver,
    Ended,
    Event,
    Received,
    TargetInfo,
    Waiting,
    never_behind,
)

HELLO_PATIENCE: Final = 10.0  # Seconds for the agent to answer once the bootstrap has its source
CORE_PATIENCE: Final = 5.0
"""Seconds for the agent to load the native core; when the interpreter is busy for longer, it does so later."""
GOODBYE_PATIENCE: Final = 5.0
"""Seconds for the agent to clean up; when the interpreter is busy for longer, it does so later by itself."""
EXIT_PATIENCE: Final = 1.0  # A process that exits closes its sockets a moment before it is gone
ENDING_PATIENCE: Final = 15.0
"""Seconds for an interpreter to end with all its objects, where its native memory is reported then."""


def connect(request: Request) -> Connection:
    """Connect by the first backend that does not refuse. Raises the most informative refusal."""
    refusals: list[HeaptopError] = []
    for backend in BACKENDS:
        if request.options.backend not in (None, backend.name):
            continue
        refusal = backend.refusal(request)
        if refusal is None:
            try:
                return backend.connect(request)
            except (PtraceDenied, TracedTarget) as error:
                refusal = error
        refusals.append(refusal)
    raise most_informative(refusals)


def most_informative(refusals: list[HeaptopError]) -> HeaptopError:
    """A backend that somebody disabled on purpose is more informative than one that does not exist."""
    return next((error for error in refusals if isinstance(error, RemoteDebuggingDisabled)), refusals[0])


class LiveSource:
    """A :class:`heaptop.protocol.source.Source` over a live target."""

    def __init__(
        self,
        target: TargetInfo,
        options: AttachOptions,
        *,
        checked: CheckedProcess | None = None,
        launch: Launch | None = None,
        before: own.AttachBaseline = own.UNKNOWN,
    ) -> None:
        self._target = target
        self._options = options
        self._request = Request(options, secrets.token_hex(8), self._progress, checked, launch)
        self._orders = ConversationRequests(
            sampling=self._wanted(
                options.sample_interval, options.sample_depth, options.tracer, options.sample_target
            )
        )
        self._deliver: Deliver = _ignore
        self._behind: Behind = never_behind
        self._left = ""
        self._gone = False
        self._before = before
        self._thread: threading.Thread | None = None
        self._ids = itertools.count(FIRST_ID)

    # -- the Source protocol, called from any thread --------------------------------------------------------

    @property
    def target(self) -> TargetInfo:
        return self._target

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver, self._behind = deliver, behind
        thread = threading.Thread(target=self._run, name="heaptop-session", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no memory for its stack, or a limit of threads
            self._end(OutOfResources(f"heaptop cannot start a thread: {error}."))
        else:
            self._thread = thread

    def census_now(self) -> None:
        self._orders.census.set()
        self._orders.wake()

    def memory_now(self) -> None:
        self._orders.memory.set()
        self._orders.wake()

    def decide(self, accept: bool, stop: bool = False) -> None:
        orders = self._orders
        (orders.decline if not accept else orders.stop if stop else orders.accept).set()
        self._orders.wake()

    def sample(self, interval: int, depth: int, tracer: bool = False, target: int = 0) -> None:
        self._orders.sampling = self._wanted(interval, depth, tracer, target)
        self._orders.resample.set()
        self._orders.wake()

    def image(self, keep: float, memory: int = 0) -> int:
        return self.request(lambda id: ImageRequest(id, int(keep * 1e9), memory))

    def ask(self, image: int, question: Question) -> int:
        return self.request(lambda id: AskRequest(id, image, question.pack(id)))

    def give_up(self, id: int) -> None:
        self.request(lambda _: CancelRequest(id))

    def close_snapshot(self) -> None:
        self.request(CloseRequest)

    def request(self, make: Callable[[int], Message]) -> int:
        id = next(self._ids)
        self._orders.outbox.put(make(id))
        self._orders.wake()
        return id

    def _wanted(self, interval: int, depth: int, tracer: bool, target: int) -> SamplingSettings:
        most = max(int(self._options.max_share / COST_OF_SAMPLE), 1)
        return SamplingSettings(interval, depth, tracer, self._options.sample_exact, min(target, most))

    def cancel(self) -> None:
        self._request.cancelled.set()

    def close(self, timeout: float = 2 * GOODBYE_PATIENCE) -> None:
        self._request.cancelled.set()
        self._orders.leave.set()
        self._orders.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    # -- the session's thread ------------------------------------------------------------------------------

    def _progress(self, phase: str, seconds: float) -> None:
        self._deliver(Waiting(phase, seconds))

    def _run(self) -> None:
        error: HeaptopError | None = None
        pid = self._target.pid
        try:
            if self._request.checked is not None and (refusal := attach_refusal(pid)) is not None:
                raise refusal
            connection = connect(self._request)
            pid = connection.pid
            with connection.socket:
                error = self._converse(connection)
        except HeaptopError as caught:
            error = caught
        except Exception as caught:  # a fault of heaptop's own is reported like any other, and the socket is closed
            error = fault(caught, InjectionFailed)
        self._orders.close()
        self._end(error.about(pid) if error and pid else error)

    def _end(self, error: HeaptopError | None) -> None:
        """Deliver the last event. Then who took them is forgotten, and what they have kept is free at once: this object
        is in a reference cycle."""
        deliver, self._deliver, self._behind = self._deliver, _ignore, never_behind
        deliver(Ended(error, self._left, self._gone))

    def _converse(self, connection: Connection) -> HeaptopError | None:
        start = self._start_of(connection)
        tid, _ = agent_thread(connection.pid) or (None, 0)
        named = tid is not None
        policy = CensusPolicy(self._options.mode, budget_ns=int(self._options.pause_budget * 1e9))
        conversation = Conversation(
            connection.socket,
            self._request.token,
            interval=self._options.interval,
            max_share=self._options.max_share,
            deliver=lambda event: self._watch(event, connection.pid),
            orders=self._orders,
            outside_rss=lambda: process.rss_bytes(connection.pid),
            agent_lives=lambda: self._agent_lives(connection.pid, start, named),
            outside_memory=lambda told: memory_map.read(connection.pid, told, self._before, tid),
            policy=policy,
            core=self._core_for(connection, policy),
            forecast=lambda: forecast(connection.pid),
            room=lambda: room(connection.pid),
            image_bytes=lambda clone: private_bytes(connection.pid, clone),
            behind=self._behind,
            most_types=self._options.most_types,
        )
        attached = False
        with conversation:
            try:
                hello = conversation.greet(max(HELLO_PATIENCE, self._options.wait), self._progress)
                target = replace(self._target, pid=connection.pid, python=hello.python)
                attached = True
                before = self._before
                self._deliver(
                    Attached(target, hello, connection.backend, connection.stopped_ns, before.rss, before.native)
                )
                # Before the program's first line: it finds the descriptors that it would find without us.
                conversation.prepare(CORE_PATIENCE)
                if connection.launched is not None:
                    connection.launched.go()
                conversation.run()
            except AttachCancelled:
                # The agent is in already, perhaps in the middle of a request: it leaves when its socket closes.
                connection.socket.close()
                patience = GOODBYE_PATIENCE if attached else EXIT_PATIENCE
                ended = process.wait_until(lambda: agent_thread(connection.pid) is None, patience)
                self._gone = named and ended
                if attached:
                    return None
                raise
            except AgentLost as error:
                return self._why_lost(error, connection, start)
            finally:
                self._left = conversation.left
                if connection.launched is not None:
                    connection.launched.go()
            if conversation.leave(GOODBYE_PATIENCE):
                self._left = conversation.left
                self._gone = process.wait_until(lambda: agent_thread(connection.pid) is None, GOODBYE_PATIENCE)
        return None

    def _watch(self, event: Event, pid: int) -> None:
        if isinstance(event, Received) and isinstance(event.message, Core):
            refusals_cache.store(pid, event.message.build, event.message.text)
        self._deliver(event)

    @staticmethod
    def _core_for(connection: Connection, policy: CensusPolicy) -> Library | None:
        """The native core to send, if it may be used there; where not, the policy has the reason."""
        if policy.mode == "python":
            return None
        try:
            if connection.core_refusal:
                raise NoCore(connection.core_refusal)
            return library(musl=connection.musl)
        except NoCore as why:
            policy.limit("python", str(why))
            return None

    @staticmethod
    def _agent_lives(pid: int, start: int, named: bool) -> bool:
        """By its thread; where that could not be named (no /proc in the target), by the process."""
        return agent_thread(pid) is not None if named else process.is_same_process(pid, start)

    def _start_of(self, connection: Connection) -> int:
        try:
            return process.start_time(connection.pid)
        except OSError:
            return 0

    def _why_lost(self, error: AgentLost, connection: Connection, start: int) -> HeaptopError:
        """The agent's socket closed: because the target ended, or for another reason while it lives on."""
        ended = process.wait_until(lambda: not process.is_same_process(connection.pid, start), EXIT_PATIENCE)
        launch = self._request.launch
        is_awaited = connection.launched is not None and launch is not None and launch.native is not None
        if not ended and not (is_awaited and self._await_end(connection.pid, start)):
            return error
        when = time.strftime("%H:%M:%S")
        if connection.launched is None:
            return TargetExited(f"Process {connection.pid} ended at {when}.")
        try:
            status = connection.launched.process.wait(EXIT_PATIENCE)
        except subprocess.TimeoutExpired:
            return error  # only its first thread has ended
        how = f"was ended by signal {-status}" if status < 0 else f"exited with code {status}"
        return TargetExited(f"Process {connection.pid} {how} at {when}.", status=status)

    def _await_end(self, pid: int, start: int) -> bool:
        """Wait for a program whose interpreter ends, or whose agent was removed: its thread is gone, the core stays.
        What the program became by execve has no core. False where it does not end."""
        end = time.monotonic() + ENDING_PATIENCE
        while time.monotonic() < end and not self._request.cancelled.is_set():
            if process.wait_until(lambda: not process.is_same_process(pid, start), EXIT_PATIENCE):
                return True
            if agent_thread(pid) is not None or not own.has_core(pid):
                return False
        return False


def _ignore(event: object) -> None:
    """Delivery before :meth:`LiveSource.open`: nothing happens then."""
