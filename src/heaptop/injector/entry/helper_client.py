"""Starts the helper process, gives it a plan, and relays what it reports. Never touches the target itself."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import heaptop
from heaptop.errors import AttachCancelled, InjectionFailed, TransportFailed
from heaptop.injector.entry.plan import BEGIN, AttachPlan, HelperReport
from heaptop.injector.inspect import preflight, process
from heaptop.injector.inspect.interpreter import Interpreter
from heaptop.injector.inspect.links import ready
from heaptop.injector.native import NoCore, library
from heaptop.injector.requests import Connection, Request

LAUNCHER: Final = (
    "import sys; sys.path.append(sys.argv[1]); from heaptop.injector.entry.helper import main; main(int(sys.argv[2]))"
)
"""Without site and without the environment: the helper needs heaptop and the standard library, nothing else. It writes
no byte code."""

PATIENCE: Final = 15.0
"""Seconds beyond the wait after which a silent helper is given up; its own limits are all shorter."""
LOOK_PATIENCE: Final = 10.0
"""Seconds after which a helper is given up that has only looked at the target so far; its own start is in them."""
IDLE_END: Final = 1.0  # Seconds for a helper that has begun nothing in the target
HELPER_END: Final = 30.0  # Seconds for the helper to take its request back
KILLED_END: Final = 5.0  # Seconds for a helper that was killed; one that the kernel does not release is left to it


def connect_by_helper(backend: str, request: Request) -> Connection:
    """Let the helper attach through ``backend``. Raises what it reports; the target is as it was then."""
    plan = make_plan(backend, request)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            helper = start_helper(theirs)
        ends: tuple[float, ...] = (IDLE_END, 0.0)
        try:
            ours.settimeout(PATIENCE)
            ours.send(plan.encode())
            _await_preflight(ours, request)
            ends = (HELPER_END, KILLED_END)
            with contextlib.suppress(OSError):  # it may have been killed by now
                ours.send(BEGIN)
            return _listen(ours, plan, request)
        finally:
            # Closing our end cancels its work, if it has not finished; it then exits by itself.
            ours.close()
            _see_end(helper, ends)


def _await_preflight(control: socket.socket, request: Request) -> None:
    """Wait until the helper has read what it reads of the target first, and asks whether it may begin."""
    assert request.checked is not None
    while ready([control], LOOK_PATIENCE):
        report, _ = _report(control)
        if report.event == "looked" and not request.cancelled.is_set():
            return
        _relay(report, request)
    raise preflight.unanswering(request.checked.facts.pid, f"no answer within {LOOK_PATIENCE:g} s")


def _listen(control: socket.socket, plan: AttachPlan, request: Request) -> Connection:
    limit = plan.wait + PATIENCE
    while ready([control], limit):
        report, descriptors = _report(control)
        if report.event == "attached":
            if not descriptors:
                raise TransportFailed(f"No descriptor is left for the agent's socket of process {plan.pid}.")
            link = socket.socket(fileno=descriptors[0])
            return Connection(
                link, plan.backend, plan.pid, report.stopped_ns, core_refusal=report.core_refusal, musl=plan.musl
            )
        _relay(report, request)
    raise InjectionFailed(f"The helper process did not answer within {limit:g} s.")


def _report(control: socket.socket) -> tuple[HelperReport, list[int]]:
    """The next message, and the descriptors with it. Raises the error that it is."""
    try:
        data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:  # it had not even read the plan
        data, descriptors = b"", []
    if not data:
        raise InjectionFailed("The helper process exited without an answer.")
    report = HelperReport.decode(data)
    if report.event == "error":
        raise report.to_error()
    return report, descriptors


def _relay(report: HelperReport, request: Request) -> None:
    """Pass on that the helper waits. Raises AttachCancelled."""
    assert request.checked is not None
    request.progress(report.text, report.seconds)
    if request.cancelled.is_set():
        raise AttachCancelled(f"The attach to process {request.checked.facts.pid} was cancelled.")


def _see_end(helper: subprocess.Popen[bytes], limits: tuple[float, ...]) -> None:
    """Wait for the helper's end. One that hangs is killed, which its way into the target is made for: a thread
    that it holds continues from where it was, by its signal frame."""
    for limit in limits:
        try:
            helper.wait(limit)
            return
        except subprocess.TimeoutExpired:
            helper.kill()


def start_helper(control: socket.socket) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, so that no terminal's signal reaches it."""
    packages = Path(heaptop.__file__).resolve().parent.parent
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", LAUNCHER, str(packages), str(control.fileno())],
        pass_fds=[control.fileno()],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def make_plan(backend: str, request: Request) -> AttachPlan:
    """All the helper needs to know, from what the preflight found out."""
    assert request.checked is not None
    facts, interpreter = request.checked.facts, request.checked.interpreter
    return AttachPlan(
        backend=backend,
        pid=facts.pid,
        live_tid=facts.live_tid,
        nspid=facts.nspid,
        uid=facts.uids[3],
        gid=facts.gids[3],
        token=request.token,
        functions=interpreter.functions | {"core_again": _core_again(interpreter)},
        add_pending_call=interpreter.add_pending_call,
        syscall_instruction=interpreter.syscall_instruction,
        restorer=interpreter.restorer,
        seccomp=facts.seccomp != 0,
        suspend_seccomp=preflight.can_suspend_seccomp(),
        owner_pid=os.getpid(),
        owner_start=process.start_time(os.getpid()),
        owner_namespace=process.pid_namespace(),
        target_start=facts.start,
        image=facts.image,
        wait=request.options.wait,
        runtime=interpreter.runtime,
        version=interpreter.version.pair,
        override_remote_debug=request.options.override_remote_debug,
        musl=interpreter.musl,
    )


def _core_again(interpreter: Interpreter) -> int:
    """Where the native core that would be sent is already; 0 where it is not. So nothing is loaded, for which the agent
    would wait for the dynamic linker with the GIL."""
    try:
        return interpreter.core_again.get(library(musl=interpreter.musl).build, 0)
    except NoCore:
        return 0
