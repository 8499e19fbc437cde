"""``heaptop doctor``: checks whether an attach would work, and what fixes what would prevent it.

It calls the checks that an attach makes (:mod:`heaptop.injector.inspect.preflight`, each backend's ``refusal``) and
turns what they raise into lines; it never decides anything by itself and never changes the target.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, cast

from heaptop.errors import HeaptopError, UnresponsiveTarget
from heaptop.injector.backends.registry import BACKENDS
from heaptop.injector.entry.hijack import take_descriptor
from heaptop.injector.inspect import preflight, process, refusals_cache
from heaptop.injector.inspect.containers import kubectl_profile
from heaptop.injector.inspect.interpreter import Interpreter
from heaptop.injector.inspect.pods import pod_container
from heaptop.injector.inspect.preflight import CheckedProcess
from heaptop.injector.inspect.process import ProcessFacts
from heaptop.injector.inspect.threads import agent_error, blocked_threads, thread_ids
from heaptop.injector.native import NoCore, library
from heaptop.injector.requests import AttachOptions, Request
from heaptop.injector.session.census_policy import most_stop_ns
from heaptop.injector.session.forecast import attach_refusal, forecast, room
from heaptop.injector.session.session import most_informative

if TYPE_CHECKING:
    from heaptop.documents import CheckJson, DoctorJson, ErrorJson


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's. ``ok`` is None for what is neither good nor bad."""

    name: str
    ok: bool | None
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All lines, and the error an attach would end with (None when it would work)."""

    pid: int | None
    checks: tuple[Check, ...]
    error: HeaptopError | None

    @property
    def attachable(self) -> bool:
        return self.error is None

    def to_json(self) -> DoctorJson:
        error: ErrorJson | None = None if self.error is None else {
            "class": type(self.error).__name__,
            "message": self.error.message,
            "why": self.error.why,
            "fix": self.error.fix,
            "exit_code": self.error.exit_code,
        }
        return {
            "schema": "heaptop.doctor",
            "version": 1,
            "pid": self.pid,
            "attachable": self.attachable,
            "checks": [cast("CheckJson", asdict(check)) for check in self.checks],
            "error": error,
        }


def diagnose(pid: int | None, options: AttachOptions | None = None) -> Diagnosis:
    """Look at this machine and, with a pid, at that process."""
    checks = list(_machine())
    error = _error_of(preflight.check_machine)
    if pid is not None:
        target_checks, target_error = _target(pid, options or AttachOptions())
        checks += target_checks
        error = error or target_error
    return Diagnosis(pid, tuple(checks), error)


def _error_of(check: Callable[[], object]) -> HeaptopError | None:
    try:
        check()
    except HeaptopError as error:
        return error
    return None


def _line(name: str, error: HeaptopError | None, good: str, pid: int | None = None) -> Check:
    """A check's line from the error it found, or from its text without one."""
    if error is None:
        return Check(name, True, good)
    if pid is not None:
        error.about(pid)
    return Check(name, False, f"{error.message} {error.why}".strip(), error.fix)


# -- the machine --------------------------------------------------------------------------------------------

SCOPES = {
    None: (True, "no Yama in this kernel: your own processes can be traced"),
    0: (True, "0: your own processes can be traced"),
    1: (None, "1: without CAP_SYS_PTRACE only children can be traced"),
    2: (None, "2: tracing needs CAP_SYS_PTRACE"),
    3: (False, "3: no tracing until the next boot"),
}


def _machine() -> Iterator[Check]:
    yield _line("machine", _error_of(preflight.check_machine), f"{platform.system()} {platform.machine()}")
    yield Check("kernel", True, platform.release())
    scope = process.ptrace_scope()
    ok, detail = SCOPES[scope]
    yield Check("ptrace_scope", ok, detail, "sudo sysctl kernel.yama.ptrace_scope=0" if scope in (1, 2) else "")
    user = process.user_name(os.geteuid())
    if process.has_capability(process.CAP_SYS_PTRACE):
        yield Check("capabilities", True, f"{user} with CAP_SYS_PTRACE: every process can be traced")
    else:
        yield Check("capabilities", None, f"{user} without CAP_SYS_PTRACE: only {user}'s own processes", "sudo heaptop")
    yield _descriptors()
    yield _core()


def _descriptors() -> Check:
    """pidfd_getfd, tried on ourselves."""
    try:
        os.close(take_descriptor(os.getpid(), 2))
    except OSError as error:
        return Check("pidfd_getfd", None, f"{error.strerror}: a socket in the target's file system is used instead")
    return Check("pidfd_getfd", True, "works")


def _core() -> Check:
    try:
        found = library()
    except NoCore as why:
        fix = "Install a C compiler and Python's headers (`apt install gcc python3-dev`), then install heaptop again."
        return Check("native core", None, f"{why}: censuses run in Python mode", fix)
    return Check("native core", True, f"build {found.build}, {len(found.data) >> 10} KiB")


# -- the target ---------------------------------------------------------------------------------------------


def _target(pid: int, options: AttachOptions) -> tuple[list[Check], HeaptopError | None]:
    try:
        checks, error, seen = preflight.apart(pid, lambda: _preflight_checks(pid, options))
    except UnresponsiveTarget as unanswering:
        return [_line("process", unanswering, "", pid)], unanswering
    if seen is None:
        return checks, error
    try:
        # Apart from the others: an attach does not read what this does.
        checks.append(preflight.apart(pid, lambda: _census(seen.facts, seen.interpreter, options)))
    except UnresponsiveTarget:
        checks.append(Check("census", None, "not checked: a file system of the process does not answer"))
    named = agent_error(pid)
    return [*checks, _line("agent", named, "none runs there", pid)], error or named


def _preflight_checks(
    pid: int, options: AttachOptions
) -> tuple[list[Check], HeaptopError | None, CheckedProcess | None]:
    """What an attach looks at too."""
    checks: list[Check] = []
    try:
        facts = process.read_facts(pid)
        checks.append(Check("process", True, f"{pid} {facts.command} (user {facts.user}, state {facts.state})"))
        checks += _surroundings(facts)
        error = _error_of(lambda: preflight.check_state(facts))
        checks.append(_line("state", error, facts.state, pid))
        if error is not None:
            return checks, error, None
        interpreter = preflight.read_interpreter(facts)
    except HeaptopError as caught:
        return [*checks, _line("interpreter" if checks else "process", caught, "", pid)], caught, None
    checks.append(Check("interpreter", True, f"CPython {interpreter.version} in {interpreter.path}"))
    shortage = attach_refusal(pid)
    checks.append(_line("memory", shortage, "enough is left for an attach"))
    seen = CheckedProcess(facts, interpreter)
    backend_checks, error = _backends(seen, options)
    return [*checks, *backend_checks], shortage or error, seen


def _surroundings(facts: ProcessFacts) -> Iterator[Check]:
    foreign = process.foreign_namespaces(facts.pid)
    detail = f"its own {', '.join(foreign)}; pid {facts.nspid} there" if foreign else "the same as heaptop's"
    yield Check("namespaces", True, detail)
    if (container := pod_container(facts.pid)) is not None:
        detail = f"{container.uid}, container {container.name}; from a machine with kubectl:"
        yield Check("pod", None, detail, container.debug_command(facts.nspid, kubectl_profile(facts)))
    if facts.seccomp:
        error = preflight.seccomp_error(facts, allow=False)
        good = "a filter: read at attach, suspended only for calls that it forbids, each of which is checked"
        yield _line("seccomp", error, good, facts.pid)
    else:
        yield Check("seccomp", True, "none")
    tracer = preflight.tracer_error(facts)
    yield _line("tracer", tracer, "none", facts.pid)
    blocked = blocked_threads(facts.pid)
    yield Check("threads", True, f"{len(thread_ids(facts.pid))}, {len(blocked)} at a safe point")


def _census(facts: ProcessFacts, interpreter: Interpreter, options: AttachOptions) -> Check:
    """How a census would be taken, as far as that is known from outside: the self-check runs at the attach."""
    version = interpreter.version
    try:
        build = library(musl=interpreter.musl).build
    except NoCore as why:
        return Check("census", None, f"in Python mode, in slices: {why}")
    if refusal := refusals_cache.refusal(facts.pid, build):
        last = "as at the last attach to this executable"
        return Check("census", None, f"in Python mode, in slices, {last}: {refusal}")
    if version.micro is not None and version.micro < version.facts.first_counted:
        return Check("census", None, f"in Python mode, in slices: Python {version} has the incremental collector")
    if not os.path.exists(f"/proc/{facts.pid}/root/proc/stat"):
        return Check("census", None, "in Python mode, in slices: the target has no /proc to load the core from")
    seen = forecast(facts.pid)
    if seen is None:
        return Check("census", True, "in a clone")
    if reason := room(facts.pid).shortage(seen.anonymous):
        return Check("census", None, f"while the process is stopped: {reason}")
    budget = int(options.pause_budget * 1e9)
    asked = f", above the budget of {budget / 1e6:.0f} ms: asks first" if seen.pause_ns > budget else ""
    huge = f", {100 * seen.huge // seen.anonymous} % of it in huge pages" if seen.huge else ""
    detail = f"in a clone, pause about {seen.pause_ns / 1e6:.1f} ms{asked} (RSS {seen.rss >> 20} MiB{huge})"
    if stop_ns := most_stop_ns(seen.pause_ns, budget):
        detail += f"; while the process is stopped if the agent expects that to take at most {stop_ns / 2e6:.1f} ms"
    filtered = "; in Python mode if the seccomp filter kills for one of the calls" if facts.seccomp else ""
    return Check("census", None if asked else True, detail + filtered)


def _backends(seen: CheckedProcess, options: AttachOptions) -> tuple[list[Check], HeaptopError | None]:
    """Check every backend; the error is None when one of them works."""
    request = Request(options, "doctor", lambda phase, seconds: None, checked=seen)
    checks: list[Check] = []
    refusals: list[HeaptopError] = []
    working: list[str] = []
    for backend in BACKENDS:
        if backend.name == "run":
            continue
        refusal = backend.refusal(request)
        if refusal is None:
            working.append(backend.name)
            checks.append(Check(f"backend {backend.name}", True, "works"))
        else:
            refusals.append(refusal.about(seen.facts.pid))
            checks.append(Check(f"backend {backend.name}", None, refusal.message, refusal.fix))
    if not working:
        return checks, most_informative(refusals)
    unneeded = f"not needed, as {working[0]} works"
    return [one if one.ok else replace(one, detail=f"{unneeded}: {one.detail}", fix="") for one in checks], None
