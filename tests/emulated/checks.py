"""Attaches to targets in the emulated machine and looks whether they are unharmed: run there, never by pytest.

    python -m tests.emulated.checks [CHECK...] [--cycles 20] [--every 1] [--moments 10] [--pythons 3.13] [--ways sleep]
        [--jobs 1]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import select
import signal
import socket
import statistics
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from heaptop.analysis.samples.producers import producers
from heaptop.analysis.samples.sampling import Sampling
from heaptop.errors import UnsupportedArchitecture
from heaptop.injector.api import AttachOptions, attach_source, launch_source
from heaptop.injector.entry import allowed_calls, helper_client, hijack, ptrace
from heaptop.injector.entry import helper as helper_process
from heaptop.injector.inspect import interpreter, preflight
from heaptop.injector.inspect.memory import RemoteMemory, read_mappings
from heaptop.injector.machine import MACHINE
from heaptop.injector.session import session
from heaptop.protocol.messages import Census
from heaptop.protocol.source import Attached, Ended, Event, Received

PATIENCE: Final = 240.0
"""Emulated, all takes some twenty times as long as on a machine of its own."""
SLOWER: Final = 20
THINGS: Final = 5000
"""Objects of its own class that target.py keeps."""
UNHARMED: Final = 7
WAYS: Final = ("sleep", "compute", "threads")
WAYS_REFUSED: Final = ("sleep", "filter")
WAITS: Final = tuple(f"wait-{name}" for name in ("pause", "sleep", "select", "poll", "accept", "read", "lock"))
GLIBC_HANDLER: Final = 1 << 32
"""SIGSETXID, which glibc handles from a process's first thread on."""
LEAKS: Final = ("leak", "leak_arrays")
LEAK: Final = 2 << 20
"""Bytes, estimated, after which samples are enough."""


PATIENT: Final = (
    "from tests.emulated.checks import be_patient; be_patient(); from heaptop.__main__ import main; exit(main())"
)
"""heaptop's command, on a machine that is so slow."""


def be_patient() -> None:
    preflight.PATIENCE *= SLOWER  # type: ignore[misc]
    helper_process.STOP_TIMEOUT *= SLOWER  # type: ignore[misc]
    for module in (session, helper_client):
        for name in ("HELLO", "CORE", "GOODBYE", "ENDING", "EXIT", "LOOK", ""):
            constant = f"{name}_PATIENCE".lstrip("_")
            if hasattr(module, constant):
                setattr(module, constant, SLOWER * getattr(module, constant))
    for name in ("HELPER_END", "KILLED_END"):
        setattr(helper_client, name, SLOWER * getattr(helper_client, name))


def pythons() -> dict[str, list[str]]:
    """By version, the command: those of the machine's root, and those that have a root of their own."""
    roots = {version: ["chroot", f"/pythons/{version}"] for version in os.listdir("/pythons")}
    own = [name.removeprefix("python") for name in os.listdir("/usr/bin") if name.startswith("python3.")]
    commands = {**{version: [] for version in own if "-" not in version}, **roots}
    return {version: [*commands[version], f"/usr/bin/python{version}"] for version in sorted(commands)}


def facts(pid: int) -> dict[str, object]:
    with open(f"/proc/{pid}/status") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return {
        "threads": lines["Threads"],
        "tracer": lines["TracerPid"],
        "blocked": lines["SigBlk"],
        "caught": int(lines["SigCgt"], 16) & ~GLIBC_HANDLER,
        "descriptors": sorted(os.listdir(f"/proc/{pid}/fd")),
    }


class ForkedHelper:
    """heaptop's helper process by fork: half of an emulated attach is the start of a Python that imports it. It is made
    before the session's thread is, and begins when it gets its socket."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                self._ours.close()
                _, descriptors, _, _ = socket.recv_fds(theirs, 1, 1)
                os.dup2(os.open(os.devnull, os.O_RDWR), 2)
                os.dup2(descriptors[0], 3)
                os.closerange(4, 1 << 16)
                helper_process.main(3)
            finally:
                os._exit(0)
        theirs.close()

    def start(self, control: socket.socket) -> ForkedHelper:
        socket.send_fds(self._ours, [b"1"], [control.fileno()])
        return self

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        raise subprocess.TimeoutExpired("helper", timeout)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """One that has got no socket ends."""
        self._ours.close()


class Target:
    def __init__(self, command: list[str], way: str) -> None:
        arguments = [*command, "/target.py", way]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"ready\n":
            raise Waited(self.process.communicate()[1].decode()[-500:])
        self.pid = self.process.pid
        self.before = facts(self.pid)

    def has_noticed(self, seconds: float = 30) -> bool:
        """Whether its handler has run, or its nap has ended."""
        assert self.process.stdout is not None
        number = self.process.stdout.fileno()
        return bool(select.select([number], [], [], seconds)[0]) and os.read(number, 8) == b"noticed\n"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def harm(self) -> str:
        """What is not as it was, after some time; empty when all is. Ends it."""
        end, now = time.monotonic() + 30, self.before
        while self.alive and (now := facts(self.pid)) != self.before and time.monotonic() < end:
            time.sleep(0.1)
        changed = "" if now == self.before else f"{self.before} became {now}; "
        self.process.send_signal(signal.SIGUSR1)
        try:
            _, said = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return f"{changed}it did not end"
        code = self.process.returncode
        return changed + ("" if code == UNHARMED and not said else f"it ended with {code}: {said.decode()[-300:]}")


class Waited(Exception):
    """In vain."""


HELPER_STARTS: Final = itertools.count(1)


@contextlib.contextmanager
def with_forked_helper() -> Iterator[None]:
    """Except each tenth time: then it is started as heaptop starts it."""
    if next(HELPER_STARTS) % 10 == 0:
        yield
        return
    start, helper = helper_client.start_helper, ForkedHelper()
    helper_client.start_helper = helper.start  # type: ignore[assignment]
    try:
        yield
    finally:
        helper_client.start_helper = start
        helper.close()


@contextlib.contextmanager
def session_with(pid: int, sample_interval: int = 0) -> Iterator[list[Event]]:
    """Attached; the events that have come."""
    options = AttachOptions(interval=3600.0, wait=PATIENCE, pause_budget=PATIENCE, sample_interval=sample_interval)
    source = attach_source(pid, options)
    events: list[Event] = []
    with with_forked_helper():
        source.open(events.append)
        try:
            wait_for(events, lambda event: isinstance(event, Attached))
            yield events
        finally:
            source.close(PATIENCE)


def wait_for(events: list[Event], wanted: Callable[[Event], bool]) -> Event:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for event in [*events]:
            if wanted(event):
                return event
            if isinstance(event, Ended):
                raise event.error or Waited("it ended")
        time.sleep(0.02)
    raise Waited("nothing came")


def attach(command: list[str], way: str, options: argparse.Namespace) -> str:
    """Cycles of attaching and detaching, with a census each that counts what the target has."""
    target, times = Target(command, way), []
    modes: set[str] = set()
    for cycle in range(options.cycles):
        report_progress(cycle)
        began = time.monotonic()
        with session_with(target.pid) as events:
            times.append(time.monotonic() - began)
            event = wait_for(events, lambda event: isinstance(event, Received) and isinstance(event.message, Census))
            assert isinstance(event, Received)
            census = event.message
            assert isinstance(census, Census)
            check_census(census)
        modes.add(f"{census.mode} ({census.mode_reason})" if census.mode_reason else census.mode)
    found = target.harm()
    assert not found, found
    seconds = f"attached in {statistics.median(times):.1f} s (median), {max(times):.1f} s at most"
    return f"{options.cycles} cycles, {seconds}, census in mode {', '.join(modes)}"


def report_progress(number: int) -> None:
    """What a run that is cut short has done."""
    if number and number % 10 == 0:
        print(f"  {sys.argv[0]}: {number} so far, {time.monotonic():.0f} s", flush=True)


def check_census(census: Census) -> None:
    """In Python mode, as where the core refuses a version, only what the collector tracks is whole."""
    assert census.complete or census.mode == "python", census.cut
    counts: Counter[int] = Counter()
    for row in census.rows:
        counts[row.type] += row.count
    assert THINGS in counts.values(), counts


def kill(command: list[str], way: str, options: argparse.Namespace) -> str:
    """A tracer dies by SIGKILL after each of its requests, in system calls and calls of the stub's routines."""
    kills = 0
    for had_pages in (False, True):
        target, died, last = Target(command, way), True, 1
        if had_pages:
            dying_after(target.pid, 0)
        while died:
            _, died = dying_after(target.pid, last)
            kills, last = kills + died, last + options.every
            time.sleep(0.01)
            assert target.alive, f"dead after request {last}: {target.harm()}"
        found = target.harm()
        assert not found, found
    return f"a tracer killed {kills} times, after every {options.every}. of its requests"


def dying_after(pid: int, last: int, meanwhile: int = 0) -> tuple[int, bool]:
    """How many requests a child of this process has made in the target, and whether it was killed. ``meanwhile``: a
    signal that it sends while the thread is stopped."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writing, str(trace(pid, last, meanwhile)).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return int(said or 0), code != 0


def trace(pid: int, last: int, meanwhile: int) -> int:
    made, request = 0, ptrace.request

    def counted(*arguments: int) -> int:
        nonlocal made
        result = request(*arguments)
        made += 1
        if made == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    ptrace.request = counted  # type: ignore[assignment]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    with RemoteMemory(pid, writable=True) as memory:
        found = interpreter.find_interpreter(pid, memory, read_mappings(pid), os.readlink(f"/proc/{pid}/exe"))
        plan = type("Plan", (), {"pid": pid, "live_tid": pid})
        plan.syscall_instruction, plan.restorer = found.syscall_instruction, found.restorer  # type: ignore[attr-defined]
        assert found.restorer
        thread = ptrace.StoppedThread(pid, memory)
        thread.stop(PATIENCE)
        inside = hijack.HijackedThread(thread, memory, plan)  # type: ignore[arg-type]
        hijack.check_thread_pointer(inside)
        assert hijack.is_own_stack(plan, thread)  # type: ignore[arg-type]
        inside.shelter(None)
        assert inside.syscall(MACHINE.calls["getpid"]) == pid
        pages = hijack.find_pages(memory, read_mappings(pid)) or hijack.map_pages(inside)
        inside.shelter(pages)
        hijack.sweep(inside, pages)  # what the one before has left open
        assert inside.call(pages.routine("open_pair"), pages.journal, routine=allowed_calls.OPEN_PAIR) == 0
        if meanwhile:
            os.kill(pid, meanwhile)
        hijack.sweep(inside, pages)
        thread.release()
    return made


def signals(command: list[str], way: str, options: argparse.Namespace) -> str:
    """A signal that comes while the thread is stopped in a call is noticed when it is released."""
    target = Target(command, way)
    for turn in range(options.cycles):
        time.sleep(0.3)  # it is in the call by now
        dying_after(target.pid, 0, signal.SIGUSR2)
        assert target.has_noticed(), f"the signal of turn {turn} was not noticed: {target.harm()}"
    found = target.harm()
    assert not found, found
    return f"{options.cycles} times"


def naps(command: list[str], way: str, options: argparse.Namespace) -> str:
    """A sleep of 20 seconds ends, though it is interrupted again and again, also where the thread hardly gets
    a processor."""
    target, visits = Target(command, "wait-nap"), 0
    visit = stop_and_release if way == "starved" else lambda pid: dying_after(pid, 0)
    with starving(target.pid) if way == "starved" else contextlib.nullcontext():
        while not target.has_noticed(0.3):
            assert visits < 200, f"it still sleeps: {target.harm()}"
            visit(target.pid)
            visits += 1
    assert visits > 1
    found = target.harm()
    assert not found, found
    del options
    return f"ended after {visits} interruptions"


@contextlib.contextmanager
def starving(pid: int) -> Iterator[None]:
    """It runs when its processor has nothing else to do, which always has."""
    os.sched_setaffinity(pid, {0})
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    other = os.fork()
    if other == 0:
        os.sched_setaffinity(0, {0})
        while True:
            pass
    try:
        yield
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


def stop_and_release(pid: int) -> None:
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        with RemoteMemory(pid, writable=True) as memory:
            thread = ptrace.StoppedThread(pid, memory)
            thread.stop(PATIENCE)
            thread.release()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def ends(command: list[str], way: str, options: argparse.Namespace) -> str:
    """A program that ends by itself at some moment of an attach ends as it does alone."""
    target = Target(command, way)
    began = time.monotonic()
    with session_with(target.pid):
        whole = time.monotonic() - began
    found = target.harm()
    assert not found, found
    for moment in range(options.moments):
        target = Target(command, way)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException), session_with(target.pid):
                pass
            os._exit(0)
        time.sleep(whole * moment / options.moments)
        target.process.send_signal(signal.SIGUSR1)
        _, said = target.process.communicate(timeout=PATIENCE)
        os.waitpid(child, 0)
        assert (target.process.returncode, said) == (UNHARMED, b""), (moment, target.process.returncode, said)
    return f"ended {options.moments} times within an attach that takes {whole:.1f} s"


def refuse(command: list[str], way: str, options: argparse.Namespace) -> str:
    """What was not shown on this machine is refused with its reason, and nothing is touched."""
    del options
    target = Target(command, way)
    refusals = []
    cases: dict[str, AttachOptions | None] = {"--no-inject": None}
    if command[-1] >= "/usr/bin/python3.14":
        cases["PEP 768"] = AttachOptions(backend="pep768")
    if way == "filter":
        cases = {"a seccomp filter": AttachOptions(), "seccomp filter": AttachOptions(allow_seccomp=True)}
    for words, attach_options in cases.items():
        try:
            if attach_options is None:
                preflight.check(target.pid, enter=False)
            else:
                source = attach_source(target.pid, attach_options)
                events: list[Event] = []
                source.open(events.append)
                try:
                    wait_for(events, lambda event: isinstance(event, Attached))
                finally:
                    source.close(PATIENCE)
        except UnsupportedArchitecture as error:
            refusals.append(str(error))
        assert words in "".join(refusals[-1:]), f"{words}: was not refused, but {refusals}"
    found = target.harm()
    assert not found, found
    return " ".join(refusals)


def commands(command: list[str], way: str, options: argparse.Namespace) -> str:
    """What a person types, each in a process of its own."""
    del options
    target = Target(command, way)
    pid, dump = str(target.pid), f"/tmp/{os.getpid()}.dump"
    done = [
        typed("Thing", "census", pid),
        typed("Thing", "why", pid, "Thing"),
        typed("", "waste", pid),
        typed("", "dump", pid, "-o", dump, "--force"),
        typed("Thing", "census", dump),
    ]
    found = target.harm()
    assert not found, found
    return ", ".join(done)


def leaks(command: list[str], way: str, options: argparse.Namespace) -> str:
    """A hunt names the type that leaks and its line."""
    del options
    target = Target(command, way)
    said = typed("bytearray", "leaks", str(target.pid), "--for", "90")
    found = target.harm()
    assert not found, found
    return said


def screen(command: list[str], way: str, options: argparse.Namespace) -> str:
    """A terminal shows the target's types, then its memory, and q leaves."""
    del options
    target, began = Target(command, way), time.monotonic()
    child, terminal = os.forkpty()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="150", LINES="45")
        os.execv(sys.executable, [sys.executable, "-c", PATIENT, "attach", str(target.pid)])
    for word, key in ((b"Thing", b"9"), (b"mapped files", b"q")):
        seen, end = b"", time.monotonic() + PATIENCE
        while word not in seen:
            assert time.monotonic() < end, seen[-2000:]
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 1 << 16)
        os.write(terminal, key)
    with contextlib.suppress(OSError):  # EIO once it has ended
        while os.read(terminal, 1 << 16):
            pass
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, code
    found = target.harm()
    assert not found, found
    return f"seen and left after {time.monotonic() - began:.0f} s"


def typed(word: str, *arguments: str) -> str:
    """Run heaptop with those arguments, and look for a word in what it prints."""
    began = time.monotonic()
    command = [sys.executable, "-c", PATIENT, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 0, (arguments, run.returncode, run.stdout[-500:], run.stderr[-1500:])
    assert word in run.stdout, (arguments, run.stdout[-1500:])
    return f"{arguments[0]} {time.monotonic() - began:.0f} s"


def helper(command: list[str], way: str, options: argparse.Namespace) -> str:
    """heaptop, or its helper process, dies by SIGKILL at some moment of an attach. Then another one attaches."""
    target, at_work = Target(command, way), 0
    with session_with(target.pid):
        pass
    began = time.monotonic()
    with session_with(target.pid):
        whole = time.monotonic() - began
    for moment in range(options.moments):
        report_progress(moment)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException), session_with(target.pid):
                pass
            os._exit(0)
        time.sleep(whole * (moment + random.random()) / options.moments)
        helpers = children(child)
        at_work += bool(helpers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(helpers[-1] if helpers and moment % 2 else child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert target.alive, f"dead after moment {moment}: {target.harm()}"
    with session_with(target.pid) as events:
        wait_for(events, lambda event: isinstance(event, Received) and isinstance(event.message, Census))
    found = target.harm()
    assert not found, found
    return (
        f"killed {options.moments} times, {at_work} of them with a helper at work, within an attach that takes "
        f"{whole:.1f} s; then attached"
    )


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]
    return []


def sample(command: list[str], way: str, options: argparse.Namespace) -> str:
    """The line that keeps blocks is named, with about as many bytes as it has."""
    del options
    root = command[1] if command[0] == "chroot" else ""
    if way == "arrays" and not os.path.exists(f"{root}/arrays"):
        return "not tried: this Python has no NumPy"
    target = Target(command, way)
    with session_with(target.pid, sample_interval=4096) as events:
        found = find_leak(events)
    harm = target.harm()
    assert not harm, harm
    return found


def find_leak(events: list[Event]) -> str:
    sampling, taken, row = Sampling(), 0, None
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and (row is None or row.live.bytes < LEAK):
        time.sleep(0.2)
        fresh, taken = events[taken:], len(events)
        for event in fresh:
            if isinstance(event, Received):
                sampling.feed(event.message)
        rows = producers(sampling.samples, sampling.sites, "site")
        row = next((each for each in rows if each.frame is not None and each.frame.function in LEAKS), None)
    assert row is not None, "no samples"
    assert row.frame is not None
    with open("/target.py") as file:
        line = file.readlines()[row.frame.line - 1]
    assert ".append(" in line, line
    assert row.live.bytes >= LEAK, row.live
    return f"{row.live.bytes >> 10} KiB by line {row.frame.line}"


def run(command: list[str], way: str, options: argparse.Namespace) -> str:
    """A program that heaptop would start is refused, and never comes up."""
    del options
    if len(command) > 1:
        return "not tried: this Python has a root of its own"
    output = Path(f"/tmp/{os.getpid()}.txt")
    asked = AttachOptions(interval=3600.0, wait=PATIENCE, pause_budget=PATIENCE, sample_interval=4096)
    source = launch_source(["/target.py", way], python=command[0], output=output, options=asked, force=True)
    events: list[Event] = []
    source.open(events.append)
    try:
        wait_for(events, lambda event: isinstance(event, Attached))
    except UnsupportedArchitecture as error:
        assert not output.exists() or output.read_text() == "", output.read_text()
        return f"refused: {error}"
    finally:
        source.close(PATIENCE)
    raise AssertionError("it was started")


CHECKS: Final = {
    "attach": (attach, (*WAYS, "signals", "fork", "setuid")),
    "kill": (kill, (*WAYS, "registers", "nap")),
    "vectors": (kill, ("vectors",)),  # on a processor that has SVE
    "signals": (signals, WAITS),
    "naps": (naps, ("wait-nap", "starved")),
    "ends": (ends, ("sleep", "threads")),
    "refuse": (refuse, WAYS_REFUSED),
    "helper": (helper, (*WAYS, "signals", "fork")),
    "sample": (sample, ("leak", "arrays")),
    "run": (run, ("leak",)),
    "commands": (commands, ("sleep",)),
    "leaks": (leaks, ("leak",)),
    "screen": (screen, ("sleep",)),
}
OF_SOME_PROCESSORS: Final = ("vectors",)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("checks", nargs="*", default=[name for name in CHECKS if name not in OF_SOME_PROCESSORS])
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--pythons", default="")
    parser.add_argument("--ways", default="")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    be_patient()
    system = os.uname()
    print(f"{system.machine}, Linux {system.release}, pages of {os.sysconf('SC_PAGE_SIZE')} bytes", flush=True)
    failed = running = 0
    for name, version, way in chosen(options):
        if running == options.jobs:
            failed += os.wait()[1] != 0
            running -= 1
        running += 1
        if os.fork() == 0:
            os._exit(not is_passed(name, version, way, options))
    while running:
        failed += os.wait()[1] != 0
        running -= 1
    return failed


def chosen(options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Check, Python and way of each part."""
    for name in options.checks:
        for version in pythons():
            for way in CHECKS[name][1]:
                if version in (options.pythons or version).split(",") and way in (options.ways or way).split(","):
                    yield name, version, way


def is_passed(name: str, version: str, way: str, options: argparse.Namespace) -> bool:
    """Do one part, in a process of its own."""
    sys.argv[0] = f"{version} {name} {way}"
    began, passed = time.monotonic(), False
    try:
        said = "ok: " + CHECKS[name][0](pythons()[version], way, options)
        passed = True
    except Exception as error:
        said = "FAILED: " + "".join(traceback.format_exception_only(error)).strip()
    print(f"{sys.argv[0]} ({time.monotonic() - began:.0f} s) {said}", flush=True)
    for child in children(os.getpid()):
        os.kill(child, signal.SIGKILL)
    return passed


if __name__ == "__main__":
    sys.exit(main())
