"""Starts the helper process and asks it, from the program that it attaches to. It loads nothing else of heaptop."""

from __future__ import annotations

import _socket
import contextlib
import ctypes
import json
import os
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any, Final

ANSWER: Final = 120.0  # Seconds for one answer; a helper that takes longer is killed
END: Final = 20.0  # Seconds in which it detaches and exits
PATH: Final = tuple(sys.path)  # As it was before any test or cell has changed it
_LAUNCHER: Final = "import sys; sys.path[:] = {path!r}; from heaptop.inside.helper import main; main({pid})"
_YAMA: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
_PR_SET_PTRACER: Final = 0x59616D61


class HelperFailed(Exception):
    """The helper refused, or was lost: the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class LeftObjects:
    """A place where new objects collect: a suspect of the hunt, as far as a test or a cell needs it."""

    verdict: str
    type: str
    count: int  # New objects of the type there, at least
    bytes: int  # Of all that is new there
    site: str  # `path/views.py:88 create_session`; empty where no sample is among what is new there
    holding: str  # `all held by module app.cache → ._sessions (dict)`
    series: tuple[int, ...]  # How many there were at each check; -1 where it is unknown
    evidence: str
    site_is_own: bool = True  # Else the site is of what is new with them: no sample is among them

    @property
    def holder(self) -> str:
        """``module app.cache → ._sessions (dict)``"""
        for words in ("held by ", "reached from "):
            _, found, holder = self.holding.partition(words)
            if found:
                return holder
        return self.holding


@dataclass(frozen=True, slots=True)
class Found:
    """What is new since the first check."""

    count: int  # Objects more than then; below 0: fewer
    bytes: int
    places: tuple[LeftObjects, ...]
    notes: tuple[str, ...] = ()  # What was not looked at, or is not known


@dataclass(frozen=True, slots=True)
class Counted:
    """A census, compared with the one before."""

    count: int  # Objects more than then; below 0: fewer
    bytes: int
    type: str  # Whose bytes rose most; empty where none did
    type_bytes: int
    pause: float  # Seconds for which this process waited, without this end of the conversation


class Helper:
    """A child that attaches to this process; it exits with it, and :meth:`close` ends it.

    Every method raises :class:`HelperFailed`. After that, the child is gone, and this process goes on as before: also
    where the child was killed.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._is_allowed = False
        code = _LAUNCHER.format(path=[entry for entry in PATH if entry], pid=self._owner)
        try:
            self._socket, self._process = _start(code)
        except OSError as error:
            raise HelperFailed(f"heaptop's helper process does not start: {error}.") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether it is a child of this process that has not exited; a forked process needs its own."""
        return self._owner == os.getpid() and self._process.poll() is None

    def attach(self) -> None:
        """Let the child attach; no effect where it is attached."""
        if not self._is_allowed:
            self._is_allowed = allow_tracer(self._process.pid)
        self._ask("attach")

    def detach(self) -> None:
        """Have it detach; the child stays."""
        self._ask("detach")
        self._forbid()

    def begin(self, *, names: bool = False) -> None:
        """Begin a hunt over rounds: allocations are sampled until :meth:`end`, or until it detaches. With ``names``
        what is new is grouped by the name that leads to it."""
        self._ask("begin names" if names else "begin")

    def check(self, *, last: bool = False) -> Found | None:
        """Look at the heap now; None the first time. After the ``last`` one the hunt has ended."""
        answer = self._ask("last" if last else "check")
        return _found(answer) if answer is not None else None

    def end(self) -> None:
        """End a hunt; no effect where there is none."""
        self._ask("end")

    def count(self) -> Counted:
        """Count all live objects now."""
        return Counted(**self._ask("count"))

    def close(self) -> None:
        """Have it detach and exit; one that does not is killed, which this process survives."""
        if self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):  # closed before
            self._socket.shutdown(_socket.SHUT_RDWR)  # also for the copies that forked processes hold
        self._socket.close()
        try:
            self._process.wait(END)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._forbid()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self.close()

    def _ask(self, command: str) -> Any:
        if self._owner != os.getpid():
            raise HelperFailed("heaptop's helper process belongs to the process that this one was forked from.")
        try:
            answer = json.loads(self._talk(command))
        except BaseException as error:  # a late answer would be taken for that to the next question
            self.kill()
            if isinstance(error, (OSError, EOFError, ValueError)):
                raise HelperFailed(f"heaptop's helper process was lost: {error}.") from None
            raise
        if "error" in answer:
            self.close()
            raise HelperFailed(answer["error"])
        return answer["found"]

    def _talk(self, command: str) -> bytes:
        # Without a signal: SIGPIPE ends a program that has restored its default action.
        self._socket.sendall(f"{command}\n".encode(), _socket.MSG_NOSIGNAL)
        poll, line = select.poll(), b""
        poll.register(self._socket, select.POLLIN)
        # Nothing of ours that is common is alive while the heap is looked at: what is new at its address later would
        # pass for older.
        while not line.endswith(b"\n"):
            if not poll.poll(ANSWER * 1000):
                raise TimeoutError(f"no answer within {ANSWER:g} s")
            part = self._socket.recv(1 << 16)
            if not part:
                raise EOFError("it ended without an answer")
            line += part
        return line

    def _forbid(self) -> None:
        if self._is_allowed:
            self._is_allowed = False
            allow_tracer(0)


def _start(code: str) -> tuple[_socket.socket, Popen[bytes]]:
    """Start a child that runs ``code``, with one end of a connection as its standard input and output.

    Sockets are those of the C module: programs and plugins replace ``socket.socket``, and set its default timeout.
    """
    ours, theirs = _socket.socketpair()
    try:
        ours.settimeout(None)
        command, end = [sys.executable, "-c", code], theirs.fileno()
        return ours, Popen(command, stdin=end, stdout=end, stderr=DEVNULL, start_new_session=True)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()


def allow_tracer(pid: int, scope: Path = _YAMA, prctl: Callable[..., int] | None = None) -> bool:
    """Allow one process, and what it starts, to trace this one, where Yama lets only a parent (``ptrace_scope`` 1); 0
    takes that back. Returns whether it was needed.

    The kernel keeps one permission, and does not show it: what the program allowed before is lost.
    """
    try:
        if int(scope.read_text()) != 1:
            return False
    except (OSError, ValueError):
        return False
    call = prctl if prctl is not None else ctypes.CDLL(None).prctl
    call(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    return True


def _found(answer: dict[str, Any]) -> Found:
    places = (LeftObjects(**{**place, "series": tuple(place["series"])}) for place in answer["places"])
    return Found(answer["count"], answer["bytes"], tuple(places), tuple(answer["notes"]))
