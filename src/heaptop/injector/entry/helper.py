"""The helper process: does everything that changes the target, so that a killed heaptop never leaves it half-changed.

It has a session of its own and ignores what a terminal or a person might send to heaptop. Its one argument is a
socket to heaptop: in comes an :class:`AttachPlan`, out go :class:`HelperReport` messages, the last one with the
session's socket attached (SCM_RIGHTS). When heaptop dies, or says so, it takes the request back. Whatever it waits for
has a limit; when it exits, the kernel lets go of every thread it still traced.

Without a helper, kill -9 of heaptop during an attach took the target down in 53 of 1,600 tries.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from heaptop.errors import (
    AlreadyAttached,
    AttachCancelled,
    FinalizedInterpreter,
    HeaptopError,
    InjectionDenied,
    InjectionFailed,
    InterpreterBusy,
    ProcessNotFound,
    PtraceDenied,
    SeccompTarget,
    StoppedTarget,
    TracedTarget,
    UnresponsiveTarget,
)
from heaptop.injector.agent import bootstrap
from heaptop.injector.entry import allowed_calls, hijack, seccomp, stub
from heaptop.injector.entry.hijack import HijackedThread, RemoteMappings
from heaptop.injector.entry.plan import BEGIN, AttachPlan, HelperReport
from heaptop.injector.entry.ptrace import (
    ForbiddenCall,
    GroupStopped,
    RemoteSignal,
    StoppedThread,
    StopTimeout,
    ThreadDied,
    become_tracer,
    read_filters,
)
from heaptop.injector.entry.remote_debug import requested
from heaptop.injector.entry.seccomp import Program
from heaptop.injector.entry.stub import Params
from heaptop.injector.inspect import privileges
from heaptop.injector.inspect.links import HELLO_LIMIT, ready, receive
from heaptop.injector.inspect.memory import RemoteFault, RemoteMemory, anonymous_code
from heaptop.injector.inspect.process import (
    agent_stack_size,
    image,
    is_same_process,
    pid_namespace,
    read_facts,
    start_time,
    stat_fields,
    wait_until,
)
from heaptop.injector.inspect.threads import (
    TriggerChoice,
    agent_thread,
    agent_threads,
    choose,
    only_ended,
    thread_ids,
    thread_name,
    tracers,
)
from heaptop.injector.inspect.unshown import UNDER_A_FILTER, unshown_error
from heaptop.injector.machine.base import UnsafeThread

STOP_TIMEOUT: Final = 2.0
"""Seconds for a thread of the target to stop."""
MOST_FOREIGN: Final = 4
"""Threads that the C library has not made, before heaptop gives up."""
FIRST_WAIT: Final = 0.05
LONGEST_WAIT: Final = 1.0
REPORT_EVERY: Final = 0.2
LOCK_PATIENCE: Final = 2.0
LOCK_BACKLOG: Final = 4096
"""Each look at the holder stays in its queue: more than the waiting heaptops take in their patience."""
FILTER_PATIENCE: Final = 2.0
"""Seconds to look for a blocked thread where a filter forbids the start by a pending call."""
FILTER_PAUSE: Final = 0.05
"""Between two looks, each of which stops a thread for a moment."""
SETTLE: Final = 0.02
"""Seconds for which a thread is kept stopped, at most, until the new one runs Python."""
STARVED: Final = 2.0
"""The same where the new thread gets no processor, and a fork before it has its thread state would harm the child."""
CLOSED_PATIENCE: Final = 5.0
"""Seconds for an agent's thread to end once it has closed its socket."""
REPORT_LIMIT: Final = 15.0
"""Seconds for heaptop to take the result."""
WITHOUT_MEMBARRIER: Final = ", so musl would send every thread a signal to load the native core"
BEGIN_LIMIT: Final = 15.0
"""Seconds for heaptop to allow the attach to begin."""


def is_starting(params: Params) -> bool:
    """Whether a thread of the target is in the middle of starting the native one."""
    return params.state == stub.IDLE and params.claim == stub.CLAIMED and params.create_rc == 0


class StartForbidden(Exception):
    """A filter would kill for the start by a pending call only; a blocked thread could start the agent."""

    def __init__(self, error: SeccompTarget) -> None:
        super().__init__(str(error))
        self.error = error


class Attempt(ABC):
    """One attach, from the plan to the agent's first line: what both backends share."""

    def __init__(self, plan: AttachPlan, control: socket.socket) -> None:
        self.plan = plan
        self.control = control
        self.began = time.monotonic()
        self.stopped_ns = 0
        self.picks: list[str] = []
        self.ours: socket.socket | None = None
        """Our end of the session's socket, once there is one."""
        self.heard = b""
        self.core_refusal = ""
        """Why the native core may not be used in the target; empty when it may."""
        if plan.seccomp and not (plan.suspend_seccomp and plan.backend == "ptrace"):
            self.core_refusal = "the program runs under a seccomp filter that could not be read"
        elif plan.musl and not hijack.has_membarrier():
            self.core_refusal = f"the kernel has no membarrier{WITHOUT_MEMBARRIER}"

    @abstractmethod
    def run(self) -> None:
        """Attach; ``ours`` is the session's socket then, and the agent's first line has been read from it.
        Raises HeaptopError after having taken back whatever was begun."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def memory(self) -> RemoteMemory:
        try:
            return RemoteMemory(self.plan.pid, self.plan.live_tid, writable=True)
        except PermissionError:
            raise PtraceDenied(f"No permission to open the memory of process {self.plan.pid}.") from None
        except OSError:
            raise self.gone() from None

    def gone(self) -> HeaptopError:
        return ProcessNotFound(f"Process {self.plan.pid} exited before heaptop attached.")

    def check_image(self, tid: int) -> None:
        """Every address was found in another program, if there was an exec since. Processes of one fork server have
        the same image: only the start time shows whether the pid now belongs to another process."""
        try:
            start = start_time(self.plan.pid)
        except OSError:
            raise self.gone() from None
        if start != self.plan.target_start:
            raise self.gone()
        if image(self.plan.pid, tid) != self.plan.image:
            raise ProcessNotFound(f"Process {self.plan.pid} has just started another program (exec).")

    def check_patience(self) -> None:
        if self.seconds > self.plan.wait:
            raise InterpreterBusy(
                f"The interpreter of process {self.plan.pid} did not answer within {self.plan.wait:g} s."
            )

    def report_phase(self, phase: str) -> None:
        with contextlib.suppress(OSError):
            self.control.send(HelperReport("waiting", text=phase, seconds=self.seconds).encode(), socket.MSG_DONTWAIT)

    def ask_to_begin(self) -> None:
        """Say that all was read that need not answer, and wait for heaptop's word: it may have given up by now. Nothing
        was changed or stopped until then."""
        with contextlib.suppress(OSError):
            self.control.send(HelperReport("looked").encode(), socket.MSG_DONTWAIT)
        if not ready([self.control], BEGIN_LIMIT) or receive(self.control, len(BEGIN)) != BEGIN:
            raise AttachCancelled(f"The attach to process {self.plan.pid} was cancelled.")

    def wait_for(self, other: socket.socket | None, timeout: float) -> bool:
        """Whether ``other`` became readable; raises AttachCancelled when heaptop is gone or asks for it."""
        came = ready([self.control, *([other] if other else [])], timeout)
        if self.control in came:
            raise AttachCancelled(f"The attach to process {self.plan.pid} was cancelled.")
        return other in came

    def receive_report(self, timeout: float) -> bool:
        """Whether the agent's line is complete, waiting for more of it at most ``timeout`` seconds."""
        assert self.ours is not None
        if self.wait_for(self.ours, timeout):
            try:
                data = receive(self.ours, HELLO_LIMIT - len(self.heard))
            except ConnectionResetError:
                data = b""
            if data is None:
                return False  # whoever took it: the target can have a copy of this very end
            if not data:
                self.closed_early()
            self.heard += data
        line, end, rest = self.heard.partition(b"\n")
        if not end:
            if len(self.heard) >= HELLO_LIMIT:
                raise InjectionFailed(f"The agent in process {self.plan.pid} is not heaptop's.")
            return False
        # An agent sends nothing more before it has its source.
        if rest or line.split()[:2] != [b"heaptop", self.plan.token.encode()]:
            raise InjectionFailed(f"The agent in process {self.plan.pid} is not the one that was sent.")
        return True

    def wait_for_orphan(self) -> None:
        """An agent that somebody's heaptop holds is left alone; one whose heaptop is dead is about to end."""
        pid = self.plan.pid
        closed = 0.0
        for tid, number in iter(lambda: agent_thread(pid) or (0, 0), (0, 0)):
            state = hijack.agent_state(pid, number, self.plan.live_tid)
            if state in ("held", "unknown"):
                version = hijack.holder_version(pid, number, self.plan.live_tid)
                whose = f"An agent of heaptop {version}" if version else "An agent"
                raise AlreadyAttached(f"{whose} runs in process {pid} already (thread {tid}).")
            if state == "other":
                raise AlreadyAttached(
                    f"Thread {tid} of process {pid} has the name of heaptop's agent.",
                    why=f"Its descriptor {number} does not belong to a known heaptop: the program gave a "
                    "thread of its own this name, or the agent is of another version.",
                    fix="Rename that thread, or detach with the heaptop that attached.",
                )
            closed = closed or (self.seconds if state == "closed" else 0.0)
            if closed and self.seconds - closed > CLOSED_PATIENCE:
                raise AlreadyAttached(
                    f"Thread {tid} of process {pid} has the name of heaptop's agent.",
                    why=f"It has no descriptor {number}, and has not ended within {CLOSED_PATIENCE:g} s.",
                    fix="Rename that thread, or attach later.",
                )
            self.report_phase("waiting for an earlier agent to end")
            self.wait_for(None, 0.02)
            if self.seconds > self.plan.wait:
                raise earlier_agent(pid, self.seconds)

    def check_only_agent(self) -> None:
        """Give up where another heaptop's agent came at the same moment, which no lock has kept away: ours has done
        nothing yet, and ends with its socket. Both may."""
        pid, live_tid = self.plan.pid, self.plan.live_tid
        held = [tid for tid, fd in agent_threads(pid) if hijack.agent_state(pid, fd, live_tid) == "held"]
        if len(held) > 1:
            raise AlreadyAttached(f"Another heaptop attached to process {pid} at the same moment.")

    def closed_early(self) -> None:
        """The other end was closed before a whole line had come."""
        raise InjectionFailed(f"The agent in process {self.plan.pid} exited before it answered.")


def earlier_agent(pid: int, seconds: float) -> InterpreterBusy:
    """An agent whose heaptop has gone is still there."""
    return InterpreterBusy(
        f"An earlier agent in process {pid} has not ended after {seconds:.0f} s.",
        why="The heaptop that attached has exited. The agent ends once the program runs Python code again; a long call "
        "into C delays that.",
    )


class RemoteDebugAttempt(Attempt):
    """By PEP 768: the target's main thread connects to a socket in its own file system."""

    def run(self) -> None:
        with one_at_a_time(self.plan, lambda rest: self.wait_for(None, rest)), self.memory() as memory:
            # What is open by now is the memory of one program, whoever has the pid later.
            if not is_same_process(self.plan.pid, self.plan.target_start):
                raise self.gone()
            self.check_image(self.plan.live_tid)
            self.wait_for_orphan()
            self.ask_to_begin()
            with requested(self.plan, memory) as listener:
                while not self.wait_for(listener.socket, REPORT_EVERY):
                    self.check_patience()
                    self.report_phase("waiting for the interpreter (PEP 768)")
                self.ours = listener.accept(self.plan.pid)
            while not self.receive_report(REPORT_EVERY):
                self.check_patience()
                self.report_phase("waiting for the agent")
            self.check_only_agent()


class PtraceAttempt(Attempt):
    """By a hijacked thread, the stub and its two triggers."""

    def __init__(self, plan: AttachPlan, control: socket.socket) -> None:
        super().__init__(plan, control)
        self.pages: RemoteMappings | None = None
        self.inode = 0
        """Of the target's end of the socket."""
        self._judged: set[tuple[Program, ...]] = set()
        """Filters that were run over the calls of an attach."""
        self._foreign: set[int] = set()
        """Threads that the C library has not made."""

    def run(self) -> None:
        with one_at_a_time(self.plan, lambda rest: self.wait_for(None, rest)), self.memory() as memory:
            self.memory_view = memory
            self.pages = hijack.find_pages(memory, anonymous_code(self.plan.pid, self.plan.live_tid))
            self._wait_for_predecessor()
            self.wait_for_orphan()
            self.ask_to_begin()
            try:
                self._begin()
                self._wait_for_hello()
                # Its memory may have any value: it cannot have waited for longer than heaptop has.
                self.stopped_ns += min(self._params().pending_ns, round(self.seconds * 1e9))
                self.check_only_agent()
            except BaseException:
                self._withdraw_request()
                raise

    # -- who was here before ------------------------------------------------------------------------------

    def _wait_for_predecessor(self) -> None:
        """An agent that runs belongs to somebody; one whose heaptop is dead is about to end by itself."""
        while self.pages is not None:
            params = self.pages.read_params(self.memory_view)
            # A page whose pid is another's was copied by a fork: nothing of it runs here. A native thread that is
            # past its last write may still be on its way out; its stack is glibc's, so it needs no waiting for.
            is_ours = params.pid == self.plan.nspid and params.tid in self._their_tids(params)
            if not is_ours or not self._is_unfinished(params):
                return
            if params.state == stub.IN_PYTHON and only_ended(self.plan.pid):
                return
            # Its heaptop may live and have lost it all the same: when the helper was killed on its way back.
            lost = hijack.has_hung_up(self.plan.pid, params.fd, self.plan.live_tid)
            if params.state == stub.IN_PYTHON and not lost and self._owner_lives(params):
                version = hijack.holder_version(self.plan.pid, params.fd, self.plan.live_tid)
                whose = f"heaptop {version}" if version else "the heaptop"
                raise AlreadyAttached(
                    f"Process {self.plan.pid} is being profiled already, by {whose} with pid {params.owner_pid}."
                )
            self.report_phase("waiting for an earlier agent to end")
            self.wait_for(None, 0.02)
            if self.seconds > self.plan.wait:
                raise earlier_agent(self.plan.pid, self.seconds)

    @staticmethod
    def _is_unfinished(params: Params) -> bool:
        return params.state in (stub.STARTED, stub.IN_PYTHON, stub.WITHDRAWN) or is_starting(params)

    def _their_tids(self, params: Params) -> list[int]:
        """Thread ids as the target sees them; where its pid namespace is another, the state alone must do."""
        if self.plan.nspid != self.plan.pid or params.tid == 0:
            return [params.tid]
        return thread_ids(self.plan.pid)

    def _owner_lives(self, params: Params) -> bool:
        if params.owner_namespace != pid_namespace():
            # Not to be seen from here: give it as long as an orphaned agent needs to end.
            return self.seconds > 2.0
        return is_same_process(params.owner_pid, params.owner_start)

    # -- inside a thread ----------------------------------------------------------------------------------

    def _in_some_thread(self, work: Callable[[HijackedThread, TriggerChoice], None], *, escalate: bool = False) -> None:
        """Do ``work`` in a thread of the target; when the chosen one ends meanwhile, in another."""
        for _ in range(5 + MOST_FOREIGN):
            choice = self._choose(escalate)
            thread = StoppedThread(choice.tid, self.memory_view)
            try:
                thread.stop(STOP_TIMEOUT)
                filters = self._filters(thread)
                self.check_image(choice.tid)
                self._check_alone()
                if filters and filters not in self._judged:
                    thread.release()  # running them may take a second
                    self._judged.add(filters)
                    allowed_calls.judge(filters)
                    time.sleep(FILTER_PAUSE)  # so that it blocks again, and is chosen again
                    continue
                inside = HijackedThread(thread, self.memory_view, self.plan, filters)
                if self.pages is not None:
                    inside.shelter(self.pages)
                work(inside, choice)
                return
            except ThreadDied:
                thread.follow(self.plan.pid)
                continue
            except (hijack.ForeignThread, UnsafeThread) as error:
                self._pass_over(choice.tid, error)
                continue
            except ForbiddenCall as error:
                raise SeccompTarget(
                    f"Process {self.plan.pid} tried to make {error} while its seccomp filter was suspended.",
                    why="Only calls that start a thread are allowed then; the kernel did not run this one.",
                    fix="A modified libc or a hostile program does this. Profile it where it runs without a filter.",
                ) from None
            except RemoteSignal as error:
                raise InjectionFailed(
                    f"A system call in process {self.plan.pid} failed: {error}.",
                    why="The thread was restored. SIGSYS: the program dispatches its system calls to its own "
                    "handler, as emulators do.",
                ) from None
            except GroupStopped:
                raise StoppedTarget(f"Process {self.plan.pid} is stopped (state T).") from None
            except StopTimeout:
                raise UnresponsiveTarget(
                    f"Thread {choice.tid} of process {self.plan.pid} did not stop within {STOP_TIMEOUT:g} s."
                ) from None
            except OSError as error:
                if error.errno != errno.ESRCH:
                    raise self._why_not_ended(error) from None
            finally:
                thread.release()
                self.stopped_ns += thread.stopped_ns
        raise self.gone()

    def _why_not_ended(self, error: OSError) -> Exception:
        """EACCES is where filters may not be read."""
        return self._why_no_ptrace() if error.errno in (errno.EPERM, errno.EACCES) else error

    def _pass_over(self, tid: int, reason: hijack.ForeignThread | UnsafeThread) -> None:
        """Have another thread chosen, unless there is no other."""
        if tid in self._foreign or len(self._foreign) == MOST_FOREIGN:
            if isinstance(reason, hijack.ForeignThread):
                raise reason.error from None
            raise InjectionDenied(f"Thread {tid} of process {self.plan.pid} cannot be used: {reason}.") from None
        self._foreign.add(tid)

    def _filters(self, thread: StoppedThread) -> tuple[Program, ...]:
        """Of a thread, which may have others than the main thread; none where they may not be read."""
        tid = thread.tid
        mode = seccomp.mode(tid)
        if mode == seccomp.OFF:
            return ()
        if (unshown := unshown_error(UNDER_A_FILTER)) is not None:
            raise unshown
        if mode == seccomp.STRICT:
            raise SeccompTarget(f"Thread {tid} of process {self.plan.pid} runs under seccomp (strict mode).")
        if self.plan.suspend_seccomp:
            filters = read_filters(tid)
            if not seccomp.allows(filters, seccomp.RESTART):
                thread.forbid_restart()
            return filters
        if not self.plan.seccomp:  # else the user knows of it, and allows it
            raise SeccompTarget(f"Thread {tid} of process {self.plan.pid} runs under seccomp.")
        thread.forbid_restart()
        return ()

    def _check_alone(self) -> None:
        """Another heaptop may hold another thread, and both would work on the stack in the pages. Each looks once it
        holds its own, so at least the later one sees the other."""
        others = tracers(self.plan.pid) - {os.getpid()}
        if others:
            raise TracedTarget(f"A thread of process {self.plan.pid} is now traced by process {min(others)}.")

    def _choose(self, escalate: bool) -> TriggerChoice:
        choice = choose(self.plan.pid, prefer_thread=escalate, musl=self.plan.musl, foreign=self._foreign)
        if choice.trigger == "pending" and self.plan.seccomp and self.plan.suspend_seccomp:
            # The main thread will do the starting, so it is its filter that must be examined.
            return TriggerChoice("pending", self.plan.live_tid)
        return choice

    def _why_no_ptrace(self) -> HeaptopError:
        facts = read_facts(self.plan.pid)
        if facts.state in "ZX" and facts.live_tid == facts.pid:
            return self.gone()  # a zombie answers with EPERM too
        if facts.tracer not in (0, os.getpid()):
            return TracedTarget(f"Process {facts.pid} is traced by process {facts.tracer} by now.")
        if self.plan.seccomp and self.plan.suspend_seccomp:
            return PtraceDenied(
                f"The kernel did not allow tracing process {self.plan.pid} with its seccomp filter suspended.",
                why="It needs CAP_SYS_ADMIN, and heaptop itself must run without a seccomp filter.",
                fix="Run heaptop as root outside the container.",
            )
        return PtraceDenied(f"Process {facts.pid} can be read but not traced.")

    def _begin(self) -> None:
        """Arm and trigger. Under a filter that is suspended for the way in, any blocked thread is better than the main
        thread's pending call, which runs unsuspended; when there is none now, there may be one in a moment."""
        patience = self.seconds + FILTER_PATIENCE
        while True:
            try:
                self._in_some_thread(self._arm_and_trigger, escalate=self.plan.seccomp and self.plan.suspend_seccomp)
                return
            except StartForbidden as forbidden:
                if self.seconds > patience:
                    raise forbidden.error from None
                self.report_phase("waiting for a thread that blocks")
                self.wait_for(None, FILTER_PAUSE)

    def _arm_and_trigger(self, inside: HijackedThread, choice: TriggerChoice) -> None:
        hijack.check_thread_pointer(inside)
        if inside.filters:
            self._check_filters(inside.filters, choice)
        if self.ours is None:  # else a thread that ended under our hands has got as far as that
            self._arm(inside)
        self._pull(inside, choice)

    def _arm(self, inside: HijackedThread) -> None:
        plan, memory = self.plan, self.memory_view
        if self.pages is None:  # by now somebody may have made some, whom the lock does not keep away
            self.pages = hijack.find_pages(memory, anonymous_code(plan.pid, plan.live_tid))
        if self.pages is None:
            self.pages = hijack.map_pages(inside)
        else:
            self._check_unused(self.pages)
            inside.shelter(self.pages)
        pages = self.pages
        hijack.sweep(inside, pages)
        before = pages.read_params(memory)
        channel = hijack.open_channel(inside, pages)
        self.ours = channel.ours
        params = Params(**plan.functions)
        params.is_finalizing = plan.functions["is_finalizing"] or pages.routine("ret0")
        params.thread_main = pages.routine("thread_main")
        params.has_state = int(not params.new_state)
        params.queued, params.pending_ran = before.queued, before.pending_ran
        params.owner_pid, params.owner_start = plan.owner_pid, plan.owner_start
        params.owner_namespace = plan.owner_namespace
        params.stack_size = agent_stack_size(plan.live_tid)
        params.fd, params.pid = channel.theirs, plan.nspid
        params.name = thread_name(channel.theirs)
        hijack.arm(memory, pages, params, bootstrap(channel.theirs, plan.token, plan.nspid, channel.inode))
        self.ours, self.inode = channel.ours, channel.inode

    def _check_unused(self, pages: RemoteMappings) -> None:
        """Whether another heaptop's request is in the pages, which have been free when this attempt began."""
        params = pages.read_params(self.memory_view)
        is_armed = params.claim == stub.ARMED and params.state == stub.IDLE
        if params.pid != self.plan.nspid or not (is_armed or self._is_unfinished(params)):
            return
        # One whose helper was killed is nobody's, though its heaptop may live.
        lost = hijack.has_hung_up(self.plan.pid, params.fd, self.plan.live_tid)
        if not lost and self._owner_lives(params):
            raise AlreadyAttached(
                f"The heaptop with pid {params.owner_pid} is attaching to process {self.plan.pid} right now."
            )

    def _check_filters(self, filters: Sequence[Program], choice: TriggerChoice) -> None:
        """The agent's thread inherits the filters, unsuspended: refuse if one of its calls would kill the target."""
        if deadly := seccomp.deadly(filters, seccomp.MUSL_AGENT_CALLS if self.plan.musl else seccomp.AGENT_CALLS):
            raise self._filtered(deadly, "Start the program with a filter that allows them")
        if not self.plan.musl and allowed_calls.would_forget_clone3(filters):
            raise self._filtered(["clone"], "Start the program with a filter that allows it")
        start_calls = seccomp.MUSL_START_CALLS if self.plan.musl else seccomp.START_CALLS
        if choice.trigger == "pending" and (deadly := seccomp.deadly(filters, start_calls)):
            raise StartForbidden(self._filtered(deadly, "Retry while one of its threads is waiting"))
        if in_core := seccomp.deadly(filters, seccomp.CORE_CALLS):
            self.core_refusal = f"the seccomp filter kills the program for {', '.join(in_core)}"
        elif self.plan.musl and not seccomp.allows(filters, seccomp.MUSL_LOAD):
            self.core_refusal = f"the seccomp filter refuses membarrier{WITHOUT_MEMBARRIER}"

    def _filtered(self, deadly: Sequence[str], remedy: str) -> SeccompTarget:
        return SeccompTarget(
            f"The seccomp filter of process {self.plan.pid} kills it for system calls of the agent: "
            f"{', '.join(deadly)}.",
            why="The filter was read and evaluated for every call of the agent's thread.",
            fix=f"{remedy}, or profile it where it runs without such a filter.",
        )

    def _pull(self, inside: HijackedThread, choice: TriggerChoice) -> None:
        assert self.pages is not None
        hijack.trigger(inside, self.pages, choice.trigger)
        if choice.trigger == "thread":
            wait_until(self._may_fork, SETTLE, step=0.0001)
            wait_until(lambda: self._may_fork() or self._sleeps(), STARVED, step=0.0001)
        call = inside.thread.interrupted_syscall
        where = "running" if call is None else f"in system call {call}"
        self.picks.append(f"{choice.trigger} by thread {choice.tid} {where}")

    def _may_fork(self) -> bool:
        """Whether the thread that has started the agent's may run on, and so fork.

        Up to 3.11 the agent's must have its thread state: it is made under a lock that the child of a fork meanwhile
        could never take. Later versions warn at a fork with two threads, until the agent's filter is in place.
        """
        params = self._params()
        if params.claim != stub.CLAIMED or params.create_rc:
            return True
        if params.new_state:
            return bool(params.has_state)
        return params.state >= stub.IN_PYTHON

    def _sleeps(self) -> bool:
        """Whether the agent's thread waits for something, perhaps for what the stopped thread holds, and not only for
        a processor."""
        params = self._params()
        if not params.new_state:
            return True
        try:
            return stat_fields(f"/proc/{self.plan.pid}/task/{params.tid}/stat")[0] == "S"
        except (OSError, IndexError):  # not begun, or of another pid namespace
            return False

    # -- waiting for the agent ----------------------------------------------------------------------------

    def _wait_for_hello(self) -> None:
        """Until the agent's first line has come: look at the request's state, pull again, report how long it takes."""
        wait, next_pull = FIRST_WAIT, self.seconds + FIRST_WAIT
        while not self.receive_report(min(wait, REPORT_EVERY)):
            params = self._params()
            self._check_request(params)
            if params.state == stub.FINISHED:
                if self.receive_report(FIRST_WAIT):  # it came between the two looks
                    return
                super().closed_early()
            self.check_patience()
            self.report_phase("waiting for the interpreter")
            if params.claim == stub.ARMED and self.seconds >= next_pull:
                self._pull_again(params)
                wait = min(2 * wait, LONGEST_WAIT)
                next_pull = self.seconds + wait

    def _params(self) -> Params:
        assert self.pages is not None
        try:
            return self.pages.read_params(self.memory_view)
        except RemoteFault:
            raise self.gone() from None

    def _check_request(self, params: Params) -> None:
        if params.create_rc:
            raise InjectionDenied(
                f"Process {self.plan.pid} could not start one more thread: {os.strerror(params.create_rc)}.",
                why="A limit on threads (RLIMIT_NPROC, the pids cgroup) or on memory is reached there, or a filter "
                "forbids it.",
                fix="Raise the limit (`prlimit --nproc`, the container's pids limit), or attach later.",
            )
        if params.state == stub.REFUSED:
            raise FinalizedInterpreter(f"No Python code runs in process {self.plan.pid} now.")

    def _pull_again(self, params: Params) -> None:
        """Escalate: by now another thread may be blocked, which can start the native thread at once."""

        def work(inside: HijackedThread, choice: TriggerChoice) -> None:
            hijack.check_thread_pointer(inside)
            if choice.trigger == "thread" or params.queued <= params.pending_ran:
                self._pull(inside, choice)

        self._in_some_thread(work, escalate=True)

    def closed_early(self) -> None:
        # The request's state gives the reason; between the closing and that word there is a moment.
        params = self._params()
        self._check_request(params)
        if params.state == stub.FINISHED:
            super().closed_early()
        time.sleep(0.001)

    # -- the way back -------------------------------------------------------------------------------------

    def _withdraw_request(self) -> None:
        """Undo a request that did not get through. The target may be gone, or may not stop; then nothing runs."""
        if self.ours is None or self.pages is None:
            return
        pages = self.pages
        with contextlib.suppress(HeaptopError, OSError, RemoteFault, RemoteSignal, StopTimeout):
            pages.write_field(self.memory_view, "cancelled", 1)
            # One that was let go is on the pages' stack, where nothing may be done; what it starts sees `cancelled`.
            if not is_starting(pages.read_params(self.memory_view)):
                self._withdraw(pages)
        self.ours.close()

    def _withdraw(self, pages: RemoteMappings) -> None:
        try:
            self._in_some_thread(lambda inside, _: hijack.withdraw_request(inside, pages, self.inode))
        except UnresponsiveTarget:
            # Not atomic, but better than armed: a thread that starts all the same sees `cancelled`.
            if pages.read_params(self.memory_view).claim == stub.ARMED:
                pages.write_field(self.memory_view, "claim", stub.TAKEN_BACK)


@contextlib.contextmanager
def one_at_a_time(plan: AttachPlan, pause: Callable[[float], object]) -> Iterator[None]:
    """A lock on the target among heaptops: an abstract socket's name, which ends with its holder.

    Any user can take the name, so it counts only where its holder is root or this user (SO_PEERCRED). It spares
    heaptops a race and no more: a target has one tracer at a time, and who finds a second agent in it gives up.

    ``pause`` is called between two tries: the helper of a heaptop that was just killed is about to end, and one that
    is let in meanwhile can be named.
    """
    name = f"\0heaptop-attach-{plan.pid}-{plan.target_start}"
    end = time.monotonic() + LOCK_PATIENCE
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as holder:
        while not _takes(holder, name):
            state = _holder_counts(name)
            if state is False or (state is None and time.monotonic() > end - LOCK_PATIENCE / 2):
                break
            if time.monotonic() > end:
                raise AlreadyAttached(f"Another heaptop is attaching to process {plan.pid}.")
            pause(0.05)
        yield


def _takes(holder: socket.socket, name: str) -> bool:
    try:
        holder.bind(name)
    except OSError:
        return False
    holder.listen(LOCK_BACKLOG)
    return True


def _holder_counts(name: str) -> bool | None:
    """Whether the name is held by root or by this user; None where nobody listens there, for the moment at least."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.setblocking(False)
        try:
            link.connect(name)
        except ConnectionRefusedError:
            return None
        except OSError:  # of another type, or full: a heaptop's is neither
            return False
        return hijack.peer_uid(link) in (0, os.geteuid())


BACKENDS: Final[dict[str, type[Attempt]]] = {"ptrace": PtraceAttempt, "pep768": RemoteDebugAttempt}


def serve(control: socket.socket) -> None:
    """Read the plan, attach, answer."""
    plan = AttachPlan.decode(control.recv(1 << 16))
    if not plan.suspend_seccomp:
        privileges.drop()
    attempt = BACKENDS[plan.backend](plan, control)
    descriptors: list[int] = []
    try:
        attempt.run()
        assert attempt.ours is not None
        descriptors = [attempt.ours.fileno()]
        report = HelperReport(
            "attached",
            seconds=attempt.seconds,
            stopped_ns=attempt.stopped_ns,
            picks=tuple(attempt.picks),
            core_refusal=attempt.core_refusal,
        )
    except HeaptopError as error:
        report = HelperReport.of_error(error)
    except Exception as error:  # nobody reads this process's stderr: heaptop must report whatever it was
        report = HelperReport.of_error(
            InjectionFailed(f"The attach to process {plan.pid} failed: {type(error).__name__}: {error}.")
        )
    # Where heaptop is gone or takes nothing, the socket closes here, and the agent ends.
    with contextlib.suppress(OSError):
        if ready([control], REPORT_LIMIT, select.POLLOUT):
            socket.send_fds(control, [report.encode()], descriptors, socket.MSG_DONTWAIT)


def main(descriptor: int) -> None:
    become_tracer(oom_score_adj=-1000)  # needs CAP_SYS_RESOURCE; a helper killed half-way may take the target along
    with socket.socket(fileno=descriptor) as control:
        serve(control)


if __name__ == "__main__":
    main(int(sys.argv[1]))
