"""Starts targets and ends them, and says what differs in one between two moments.

Nothing here asserts: tests do. A target runs in a session of its own, writes to files, and is gone, with what it
started, when the ``with`` block of :func:`running` ends; tests.support.leftovers sees to the rest.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import pytest

from heaptop.injector.inspect.process import read_facts
from tests.interpreters import Interpreter, cache_dir, required
from tests.support import building
from tests.support.building import TARGETS

EXIT_CODE: Final = 7
"""What targets exit with on SIGTERM (tests/targets/steady.py)."""

FORK_WARNING: Final = "is multi-threaded, use of fork() may lead to deadlocks in the child."
"""What a target on 3.12 or later may print, if it forks before the agent's warnings filter is in place."""

PATIENCE: Final = 60.0
"""Seconds that a test waits for what must come; long, for a machine that is busy with other things."""

ANY_PAUSE: Final = ("--pause-budget", "60000")
"""For commands that make several censuses: on a busy machine one may pause its target for longer than they go on after
without asking, and nobody here would answer."""

SETXID_SIGNAL: Final = 1 << 32
GLIBC_SIGNALS: Final = 1 << 31 | SETXID_SIGNAL
"""Signals 32 and 33, thread cancellation and the broadcast of setuid, as bits of a mask."""

T = TypeVar("T")


# -- running targets ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Needs:
    """What a target wants besides an interpreter."""

    library: str = ""
    """A C source of tests/targets; the library made of it is the target's first argument."""
    package: str = ""
    """A package of ``.ci/target-packages``; without it the test is skipped."""
    environment: Mapping[str, str] | None = None
    pipe: bool = False
    """Whether stdin is a pipe that stays open (else /dev/null)."""


NEEDS: Final[Mapping[str, Needs]] = {
    "calling": Needs(pipe=True),
    # One arena: every thread contends for the same lock.
    "churn_joined": Needs(library="churn.c", environment={"MALLOC_ARENA_MAX": "1"}),
    "churn_main": Needs(library="churn.c", environment={"MALLOC_ARENA_MAX": "1"}),
    "gevent_loop": Needs(package="gevent"),
    "hostile/deserting": Needs(library="hostile/deserting.c"),
    "hostile/dispatching": Needs(library="hostile/dispatching.c"),
    "hostile/escaping": Needs(library="hostile/escaping.c"),
    "list_locked": Needs(pipe=True),
    "loading_plugin": Needs(library="late_plugin.c"),
    "raw_thread": Needs(library="raw_thread.c"),
    "retained_planted": Needs(library="keeping.c"),
    "uvloop_loop": Needs(package="uvloop"),
    "vfork_parent": Needs(library="vfork.c", pipe=True),
    "input_blocked": Needs(pipe=True),
    "spinning_clock": Needs(pipe=True),
}


class TargetFailed(Exception):
    """The target ended, or said nothing, before it was ready."""


@dataclass(frozen=True, slots=True)
class Target:
    """A running target."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stdout(self) -> str:
        """Everything it wrote so far, the line ``ready`` included."""
        return (self.folder / "stdout").read_text(errors="replace")

    def stderr(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")

    def said(self) -> list[str]:
        """The lines it said after ``ready``: empty for an undisturbed target, unless its docstring says more. One that
        it is about to say is none yet."""
        lines = self.stdout().rpartition("\n")[0].splitlines()
        return lines[_ready_line(lines) + 1 :]

    @property
    def detail(self) -> str:
        """What stood behind ``ready`` (a pid, for ``zombie``)."""
        lines = self.stdout().splitlines()
        return lines[_ready_line(lines)].partition(" ")[2]

    def write(self, data: bytes) -> None:
        """Write to its stdin, where that is a pipe."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """Send SIGSTOP and wait until it stands still."""
        self.signal(signal.SIGSTOP)
        assert eventually(lambda: read_facts(self.pid).state == "T")

    def terminate(self) -> int:
        """Send SIGTERM and wait: the exit code, :data:`EXIT_CODE` for most targets, or minus a signal."""
        self.process.terminate()
        return self.process.wait(PATIENCE)


def need_package(interpreter: Interpreter, package: str) -> None:
    """Skip the test when ``.ci/target-packages`` did not install the package; fail where all must be here."""
    need_installed(interpreter, interpreter.has(package), package)


def need_owners(interpreter: Interpreter, name: str = "owners") -> Path:
    """Where the packages are whose objects own memory natively; the test is skipped where they are not."""
    folder = cache_dir() / "packages" / f"{interpreter}-{name}"
    need_installed(interpreter, (folder / ".complete").is_file(), "packages that own memory natively")
    return folder


def need_installed(interpreter: Interpreter, is_here: bool, what: str) -> None:
    """Likewise, by an answer that the caller has."""
    if not is_here:
        missing = f"no {what} for Python {interpreter}: run .ci/target-packages"
        if interpreter.name in required():
            pytest.fail(missing)
        pytest.skip(missing)


def _ready_line(lines: Sequence[str]) -> int:
    return next((i for i, line in enumerate(lines) if line.split(" ")[0] == "ready"), len(lines))


@contextlib.contextmanager
def running(
    interpreter: Interpreter,
    name: str,
    *arguments: str | Path,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    wrapper: Sequence[str] = (),
) -> Iterator[Target]:
    """Run ``tests/targets/NAME.py`` under the interpreter, from its ``ready`` to the end of the block.

    ``options`` are the interpreter's (``-X``, ``disable-remote-debug``), ``wrapper`` goes before everything
    (``unshare --net``). Arguments that are paths are made visible inside a chroot. Raises :class:`TargetFailed`
    when the target does not get ready; skips the test when a package it imports is not there.
    """
    needs = NEEDS.get(name, Needs())
    if needs.package:
        need_package(interpreter, needs.package)
    if needs.library:
        arguments = (building.library(needs.library), *arguments)
    interpreter.place(TARGETS / "steady.py")
    placed = [interpreter.place(each) if isinstance(each, Path) else each for each in arguments]
    command = interpreter.command([*options, interpreter.place(TARGETS / f"{name}.py"), *placed])
    variables = {**(needs.environment or {}), **(environment or {})}
    if needs.package:
        variables["PYTHONPATH"] = str(interpreter.packages)
    with starting([*wrapper, *command], environment=variables, pipe=needs.pipe) as target:
        _wait_until_ready(target)
        yield target


@contextlib.contextmanager
def starting(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    pipe: bool = False,
    pass_fds: Sequence[int] = (),
) -> Iterator[Target]:
    """Run any program for the length of the block, in a session of its own, its output going to files."""
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    with tempfile.TemporaryDirectory(prefix="heaptop-target-") as name:
        folder = Path(name)
        with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.PIPE if pipe else subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=variables,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        try:
            yield Target(process, folder)
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, and what it started; no effect on one that was waited for."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()  # also what lets a vfork parent die
    # Until it is waited for, its pid, and so its group's number, cannot belong to anyone else.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def _wait_until_ready(target: Target) -> None:
    def is_ready() -> bool:
        lines = target.stdout().splitlines()
        return _ready_line(lines) < len(lines) or not target.alive

    if not eventually(is_ready) or not target.alive:
        state = f"exit code {target.process.returncode}" if not target.alive else f"silent for {PATIENCE:.0f} s"
        raise TargetFailed(f"{target.process.args!r}: {state}\n{target.stdout()}{target.stderr()}")


def eventually(probe: Callable[[], T], patience: float = PATIENCE) -> T:
    """Call ``probe`` until what it returns is true, or patience is over; returns the last answer.

    For what must come but may take a moment: the end of a thread, a line in a file.
    """
    end_time = time.monotonic() + patience
    while not (answer := probe()) and time.monotonic() < end_time:
        time.sleep(0.01)
    return answer


def with_proc(interpreter: Interpreter) -> tuple[str, ...]:
    """A wrapper that gives a chroot its /proc, in a mount namespace of its own; none where there is one anyway."""
    if interpreter.root is None:
        return ()
    if os.geteuid() != 0:
        pytest.skip("mounting /proc in a chroot needs root")
    return ("unshare", "--mount", "sh", "-c", f'mount -t proc proc {interpreter.root}/proc && exec "$@"', "sh")


def this_python() -> Interpreter:
    """The interpreter that runs the tests: for helper programs such as ``tracer``."""
    version = sys.version_info
    return Interpreter("tests", (version[0], version[1], version[2]), sys.executable, None, False)


# -- facts of a process ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class Region:
    """A line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    name: str
    """A path, ``[heap]`` and its like, or empty for anonymous memory."""

    @property
    def kind(self) -> tuple[str, str]:
        return self.name, self.permissions

    @property
    def is_file(self) -> bool:
        return self.name.startswith("/")


@dataclass(frozen=True, slots=True)
class Facts:
    """What an attach must leave as it was."""

    threads: Mapping[int, str]
    """Thread id to name."""
    fds: Mapping[int, str]
    """File descriptor to what it is (a path, ``socket:[inode]``)."""
    regions: tuple[Region, ...]
    blocked: Mapping[int, str]
    """Thread id to its mask of blocked signals, in hexadecimal as the kernel writes it."""
    ignored: str
    caught: str
    """Without glibc's own two signals: it catches them from the first pthread_create of a process on."""
    tracer: int

    @staticmethod
    def of(pid: int) -> Facts:
        """Read from /proc; raises FileNotFoundError when the process is gone."""
        folder = Path("/proc", str(pid))
        tasks = _statuses(folder / "task")
        (status,) = _statuses(folder.parent, str(pid)).values()
        # A process whose first thread has ended shows its memory and files through the others only.
        live_blocks = next((tid for tid, task in tasks.items() if not task["State"].startswith("Z")), pid)
        return Facts(
            threads={tid: task["Name"] for tid, task in tasks.items()},
            fds=_fds(folder / "task" / str(live_blocks) / "fd"),
            regions=_regions((folder / "task" / str(live_blocks) / "maps").read_text()),
            blocked={tid: task["SigBlk"] for tid, task in tasks.items()},
            ignored=f"{int(status['SigIgn'], 16) & ~GLIBC_SIGNALS:016x}",
            caught=f"{int(status['SigCgt'], 16) & ~GLIBC_SIGNALS:016x}",
            tracer=int(status["TracerPid"]),
        )

    @property
    def cores(self) -> frozenset[str]:
        """The native cores that are mapped, by the names of their memfds."""
        return frozenset(region.name for region in self.regions if region.name.startswith("/memfd:heaptop-core-"))

    def anonymous(self, executable: bool) -> list[Region]:
        """Memory without a file behind it, the heap and stacks included, the kernel's own pages left out."""
        return [
            region
            for region in self.regions
            if not region.is_file
            and not re.match(r"\[v(dso|var|syscall)", region.name)
            and ("x" in region.permissions) == executable
        ]


def _statuses(folder: Path, pattern: str = "*") -> dict[int, dict[str, str]]:
    """Thread id to the fields of its status file, threads that end meanwhile left out."""
    found = {}
    for each in folder.glob(pattern):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = (each / "status").read_text().splitlines()
            found[int(each.name)] = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if not found:
        raise FileNotFoundError(folder)
    return found


def _fds(folder: Path) -> dict[int, str]:
    found = {}
    for each in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[int(each.name)] = os.readlink(each)
    return found


def _regions(text: str) -> tuple[Region, ...]:
    regions = []
    for line in text.splitlines():
        addresses, permissions, _, _, _, *name = line.split(maxsplit=5)
        start, _, last = addresses.partition("-")
        regions.append(Region(int(start, 16), int(last, 16), permissions, name[0] if name else ""))
    return tuple(regions)


def difference(before: Facts, after: Facts, *, allow_pages: bool = True) -> list[str]:
    """What changed, a sentence each; empty when the target is as it was.

    The heap of a living program moves, so of anonymous memory only new regions count, not their growth. With
    ``allow_pages``, which is for the first attach, those are allowed too, one executable one among them: the
    pages that injection keeps for the next attach, and glibc's cached thread stack; and one native core. Between later
    attaches pass False.
    """
    changes = _changed("thread", before.threads, after.threads)
    changes += _changed("fd", before.fds, after.fds)
    common = before.blocked.keys() & after.blocked.keys()
    changes += _changed(
        "blocked signals of thread",
        {tid: before.blocked[tid] for tid in common},
        {tid: after.blocked[tid] for tid in common},
    )
    changes += _changed(
        "signals",
        {"ignored": before.ignored, "caught": before.caught},
        {"ignored": after.ignored, "caught": after.caught},
    )
    if after.tracer != before.tracer:
        changes.append(f"tracer: {before.tracer} became {after.tracer}")
    new_cores = after.cores - before.cores
    if len(new_cores) > allow_pages:
        changes.append(f"native cores: {sorted(new_cores)}")
    changes += _changed(
        "mapped file",
        Counter(region.kind for region in before.regions if region.is_file),
        Counter(region.kind for region in after.regions if region.is_file and region.name not in new_cores),
    )
    code = len(after.anonymous(executable=True)) - len(before.anonymous(executable=True))
    if not 0 <= code <= allow_pages:
        changes.append(f"anonymous executable regions: {code:+d}")
    data = len(after.anonymous(executable=False)) - len(before.anonymous(executable=False))
    if data > 0 and not allow_pages:
        changes.append(f"anonymous regions: {data:+d}")
    return changes


def kept(before: Facts, after: Facts) -> list[str]:
    """What changed between two sessions, but for arenas of Python's and malloc's, which come and go with them."""
    return [line for line in difference(before, after, allow_pages=False) if not line.startswith("anonymous regions")]


def _changed(what: str, before: Mapping[T, object], after: Mapping[T, object]) -> list[str]:
    changes = [f"{what} {key}: gone ({before[key]})" for key in before if key not in after]
    changes += [f"{what} {key}: new ({after[key]})" for key in after if key not in before]
    changes += [
        f"{what} {key}: {before[key]} became {after[key]}"
        for key in before
        if key in after and before[key] != after[key]
    ]
    return changes
