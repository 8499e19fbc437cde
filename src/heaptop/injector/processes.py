"""Finding Python processes from outside, and the one that a name on the command line means.

This module never opens a process's memory and never changes anything: it reads links and text under ``/proc``
that ``ps`` reads too, in a child process where a target can delay the answer. What it calls Python is a good guess
made in microseconds, so that a machine with a thousand processes is listed at once. Whether an attach would work is
asked of ``preflight`` and the backends, as an attach does, and only for the processes that passed.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import psutil

from heaptop.errors import AmbiguousName, HeaptopError, ProcessNotFound, UnresponsiveTarget
from heaptop.injector.backends.registry import BACKENDS
from heaptop.injector.inspect import preflight, proc
from heaptop.injector.inspect.process import real_user, stat_fields
from heaptop.injector.inspect.threads import AGENT_NAME, agent_error, agent_thread
from heaptop.injector.requests import AttachOptions, Request
from heaptop.injector.session.session import most_informative
from heaptop.protocol.text import printable

_INTERPRETER = re.compile(r"^(?:python|pypy)(?P<version>\d(?:\.\d+)?)?(?:[dmut]|-dbg|-intel64)*$")
"""The file name of an interpreter: ``python``, ``python3``, ``python3.11``, ``python3.13t``, ``pypy3.10``."""

_MAPPED = re.compile(r"/libpython(\d\.\d+)|\.cpython-(\d)(\d+)[a-z]*-|/lib/python(\d\.\d+)/lib-dynload/")
"""What an interpreter inside another program (uWSGI, a frozen one) maps: its library or an extension."""

_MAPS_SEARCHED = 8 << 20  # Bytes: 65,530 mappings, the kernel's default limit, take less

_CLONE_NAMES = ("heaptop census", AGENT_NAME)
"""A clone names itself (``native/clone/clone.c``); until then it has the name of the thread that made it."""

_TAKES_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""Options of the interpreter whose value is an argument of its own."""


_LEAST_PATIENCE = 0.01  # Seconds for a row, where others have used up the time for delays


_LOOK_PATIENCE = 1.0  # Seconds for one process of a list; 0.2 are needed for one with 20,000 mappings


class _Delays:
    """The time that slow processes may take of a list, those of one user and all together: a few hostile ones must not
    hold up the others."""

    def __init__(self, each: float = 3.0, together: float = 6.0, usual: float = 0.025) -> None:
        self._each, self._together = each, together
        self._usual = usual * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        """Where others use the processors, every look takes longer without a fault."""
        self._taken: dict[int, float] = {}

    def left(self, user: int) -> float:
        return min(self._each - self._taken.get(user, 0.0), self._together - sum(self._taken.values()))

    @contextlib.contextmanager
    def of(self, user: int) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            taken = max(0.0, time.monotonic() - began - self._usual)
            self._taken[user] = self._taken.get(user, 0.0) + taken


@dataclass(frozen=True, slots=True)
class PythonProcess:
    """One running interpreter, as far as anybody may see it."""

    pid: int
    user: str
    python: str  # `3.11`; empty where neither the executable's name nor a mapped file has it
    rss: int  # Resident bytes
    argv: tuple[str, ...]  # Printable, and cut off at some thousand characters: see injector.inspect.proc.arguments()
    created: float  # Start, in seconds since the epoch: with the pid, it names a process forever
    parent: int = 0  # Pid of the nearest process above it that is one of these too; 0 where there is none

    @property
    def command(self) -> str:
        """The command line on one line, fit for a terminal."""
        return printable(" ".join(self.argv))


def python_processes() -> list[PythonProcess]:
    """Every Python process this user can see, by pid; without heaptop's own and those that end meanwhile."""
    return _python_processes(_Delays())


def _python_processes(delays: _Delays) -> list[PythonProcess]:
    found = list(_scan(delays))
    known = {process.pid for process in found}
    parents: dict[int, int] = {}
    above = [next((pid for pid in _above(process.pid, parents) if pid in known), 0) for process in found]
    return [replace(process, parent=parent) for process, parent in zip(found, above, strict=True)]


def family(pid: int) -> list[PythonProcess]:
    """The Python processes that ``pid`` has started, directly or not; it comes first, if it is one itself."""
    parents: dict[int, int] = {}
    return [process for process in python_processes() if pid in (process.pid, *_above(process.pid, parents))]


def described(pids: Sequence[int]) -> list[PythonProcess]:
    """What can be seen of these processes; of one that is no Python process, or is not there, its pid."""
    known = {process.pid: process for process in python_processes()}
    return [known.get(pid) or PythonProcess(pid, "", "", 0, (), 0.0) for pid in pids]


def processes_and_refusals() -> list[tuple[PythonProcess, HeaptopError | None]]:
    """Every Python process, with the error that an attach to it would end with; None where it would work.

    A few milliseconds a process: all that is seen from outside, and nothing is touched.
    """
    found: list[tuple[PythonProcess, HeaptopError | None]] = []
    delays = _Delays()
    with proc.Reader(refusal) as reader:
        for process in _python_processes(delays):
            try:
                found.append((process, _refusal(process.pid, reader, delays)))
            except (ProcessNotFound, FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    return found


def _refusal(pid: int, reader: proc.Reader[int, HeaptopError | None], delays: _Delays) -> HeaptopError | None:
    """The same as :func:`refusal`, in time. Errors: ProcessNotFound."""
    user = real_user(pid)
    left = delays.left(user)
    if left <= 0:
        return UnresponsiveTarget(
            f"Process {pid} was not checked: others took too long.",
            why="They have very many memory mappings, or files that do not answer.",
            fix=f"Check it alone: `heaptop doctor {pid}`.",
        )
    try:
        with delays.of(user):
            return reader.ask(pid, min(_LOOK_PATIENCE, left), ("process", pid))
    except proc.TooSlow as error:
        return preflight.unanswering(pid, str(error))


def refusal(pid: int) -> HeaptopError | None:
    """Why an attach without special options would be refused, judged from outside. Errors: ProcessNotFound."""
    try:
        checked = preflight.check(pid)
    except ProcessNotFound:
        raise
    except HeaptopError as error:
        return _alone(error.about(pid))
    if (named := agent_error(pid)) is not None:
        return named
    request = Request(AttachOptions(), "", _not_waiting, checked=checked)
    refusals = [backend.refusal(request) for backend in BACKENDS]
    closed = [error for error in refusals if error is not None]
    return most_informative(closed) if len(closed) == len(refusals) else None


def _alone(error: HeaptopError) -> HeaptopError:
    """Without the frames that it came through: they hold all that was read of the process, a megabyte and more."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _not_waiting(phase: str, seconds: float) -> None:
    """Progress of an attach that is never made."""


def resolve(target: str, *, children: bool = False) -> int:
    """The pid that ``target`` represents: a pid, or a name that matches exactly one Python process; with ``children``
    also one that started all others that it matches, as a prefork server's parent.

    A name is looked for as the name of a script (with or without ``.py``), program or module first; only
    where no process is called so, anywhere in the command line. Errors: ProcessNotFound, AmbiguousName.
    """
    if target.isascii() and target.isdigit():
        return int(target)
    running = python_processes()
    found = [process for process in running if target in names(process.argv)]
    if not found:
        found = [process for process in running if target and target in process.command]
    if not found:
        raise ProcessNotFound(
            f"No Python process has the name {target!r}, or has that in its command line.", why=""
        )
    if len(found) > 1:
        pids = {process.pid for process in found}
        first, *others = [process.pid for process in found if process.parent not in pids]
        if children and not others:
            return first
        lines = "\n".join(f"  {p.pid:>8}  {p.user:<10}  {p.command}" for p in found)
        fix = f"Attach to all of them: `heaptop attach {first} --children`." if not others else None
        raise AmbiguousName(f"{target!r} matches {len(found)} Python processes:\n\n{lines}", fix=fix)
    return found[0].pid


def names(argv: Sequence[str]) -> frozenset[str]:
    """What one would call a process: ``shop.py`` and ``shop`` for ``python shop.py``, ``app`` for ``-m app``.

    A program that is not called python (uWSGI, a frozen one) goes by its own file name. An interpreter that
    reads standard input, or was given ``-c``, has no name.
    """
    if not argv:
        return frozenset()
    if not _INTERPRETER.match(_file_name(argv[0])):
        return frozenset({_file_name(argv[0])})
    kind, value = _program(argv)
    if kind == "module":
        return frozenset({value})
    if kind == "script":
        name = _file_name(value.rstrip("/"))
        return frozenset({value, name, name.removesuffix(".py")})
    return frozenset()


def _program(argv: Sequence[str]) -> tuple[str, str]:
    """``("script", path)``, ``("module", name)`` or ``("", "")``: what the interpreter runs."""
    rest = iter(argv[1:])
    for argument in rest:
        if argument in _TAKES_VALUE:
            next(rest, None)
        elif argument.startswith("--"):
            continue
        elif argument.startswith("-"):
            # Short options may be run together, and -m and -c end them: `-Im app`, `-mapp`, `-c code`.
            letter = re.match(r"-[a-zA-Z]*?([mcWX])(.*)", argument, re.DOTALL)
            if letter is None:
                continue
            value = letter[2] or next(rest, "")
            if letter[1] == "m":
                return "module", value
            if letter[1] == "c":
                return "", ""
        else:
            return "script", argument
    return "", ""


def _above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """Its parent, that one's parent, and so on, without init. ``parents``: what was read already, and is read here."""
    seen = {pid}
    while True:
        if pid not in parents:
            parents[pid] = _parent(pid)
        pid = parents[pid]
        if pid <= 1 or pid in seen:  # pids may be given again between two readings
            return
        seen.add(pid)
        yield pid


def _parent(pid: int) -> int:
    try:
        return int(stat_fields(f"/proc/{pid}/stat")[1])
    except OSError:
        return 0


def _scan(delays: _Delays) -> Iterator[PythonProcess]:
    with proc.Reader(_seen) as reader:
        for pid in sorted(psutil.pids()):
            if pid == os.getpid():
                continue
            try:
                user = real_user(pid)
                with delays.of(user):
                    process = _read(pid, reader, min(_LOOK_PATIENCE, max(_LEAST_PATIENCE, delays.left(user))))
            except (psutil.Error, OSError):
                continue  # it ended meanwhile, or is none of this user's business
            if process is not None and not _is_heaptop(process.argv):
                yield process


def _read(
    pid: int, reader: proc.Reader[int, tuple[tuple[str, ...], str] | None], patience: float
) -> PythonProcess | None:
    """What is known of one pid; None when no interpreter seems to live in it."""
    try:
        seen = reader.ask(pid, patience, ("process", pid))
    except proc.TooSlow:
        seen = _outline(pid)
    if seen is None:
        return None
    argv, version = seen
    process = psutil.Process(pid)
    with process.oneshot():
        return PythonProcess(
            pid=pid,
            user=process.username(),
            python=version,
            rss=process.memory_info().rss,
            argv=argv,
            created=process.create_time(),
        )


def _seen(pid: int) -> tuple[tuple[str, ...], str] | None:
    """The command line and version of one pid; None when no interpreter seems to live in it."""
    argv = proc.arguments(pid)
    if not argv:
        return None  # a kernel thread or a zombie
    if _is_clone(pid):
        return None
    version = _python_version(pid, argv)
    return None if version is None else (argv, version)


def _outline(pid: int) -> tuple[tuple[str, ...], str] | None:
    """The same of a process whose files do not answer, by what the kernel itself knows."""
    name = proc.name(f"/proc/{pid}/comm")
    named = _INTERPRETER.match(_executable(pid, (name,)))
    return ((f"[{name}]",), named["version"] or "") if named else None  # as ps(1) writes what has no command line


def _is_clone(pid: int) -> bool:
    """Whether a census is counted in it: it is a child of its target, with the same command line. The name alone can be
    anybody's, who would not be listed then."""
    return proc.name(f"/proc/{pid}/comm").startswith(_CLONE_NAMES) and agent_thread(_parent(pid)) is not None


def _python_version(pid: int, argv: Sequence[str]) -> str | None:
    """``3.11``, an empty string for an interpreter of unknown version, or None for no interpreter.

    The executable's name is asked first: reading the maps of every process is what would make this slow.
    """
    named = _INTERPRETER.match(_executable(pid, argv))
    version = named["version"] if named else None
    if version is not None and "." in version:
        return version
    mapped = _mapped_version(pid)
    if mapped is None and named:
        return version or ""
    return mapped


def _executable(pid: int, argv: Sequence[str]) -> str:
    try:
        # The kernel marks a file that was replaced under a running program, as upgrades do.
        return _file_name(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"))
    except PermissionError:
        return _file_name(argv[0])  # another user's process: the command line is all that is shown


def _mapped_version(pid: int) -> str | None:
    try:
        found = _MAPPED.search(proc.text(f"/proc/{pid}/maps", _MAPS_SEARCHED))
    except PermissionError:
        return None
    if found is None:
        return None
    return found[1] or found[4] or f"{found[2]}.{found[3]}"


def _is_heaptop(argv: Sequence[str]) -> bool:
    """Whether this is heaptop, here or in another terminal: its command line holds the name looked for."""
    if not _INTERPRETER.match(_file_name(argv[0])):
        return _file_name(argv[0]) == "heaptop"
    kind, value = _program(argv)
    if kind == "module":
        return value in {"heaptop", "heaptop.__main__"}
    return kind == "script" and (_file_name(value) == "heaptop" or value.endswith("heaptop/__main__.py"))


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
