"""Files of ``/proc``, read with a limit, and the names in them made printable.

A process chooses what its own files say: a command line of gigabytes, a name with escape sequences. No other module
reads one whole. Names are cleaned here, where they are read; what acts on a path takes the bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import select
import signal
import socket
import time
from collections.abc import Callable, Hashable, Iterator
from types import TracebackType
from typing import ClassVar, Final, Generic, TypeVar

from heaptop.protocol.text import LONGEST, printable

A = TypeVar("A")
T = TypeVar("T")

LARGEST: Final = 1 << 20
"""Bytes of a file whose size the kernel bounds already: status, with 65,536 groups, is the longest."""
LONGEST_LINE: Final = 1 << 15  # Bytes of a line of maps: the kernel escapes a path of 4 KiB to four times as much
PATIENCE: Final = 1.0  # Seconds for a command line; less than a millisecond is usual
MOST_GIVEN_UP: Final = 64  # Child processes that the kernel has not ended yet
END_PATIENCE: Final = 0.02  # Seconds to wait for the end of a child that was killed
_STEP: Final = 1 << 16
_PR_SET_PDEATHSIG: Final = 1

_libc = ctypes.CDLL(None)


def read(path: str | os.PathLike[str], limit: int = LARGEST) -> bytes:
    """The first ``limit`` bytes of a file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        found = bytearray()
        while len(found) < limit and (part := os.read(descriptor, min(_STEP, limit - len(found)))):
            found += part
        return bytes(found)
    finally:
        os.close(descriptor)


def text(path: str | os.PathLike[str], limit: int = LARGEST) -> str:
    """The same as text, not cleaned: for figures and for what is parsed. Raises OSError."""
    return read(path, limit).decode("utf-8", "replace")


def lines(path: str | os.PathLike[str], limit: int) -> Iterator[str]:
    """The lines of a file, without their ends, one at a time. Raises OSError, and TooLarge behind ``limit`` bytes.

    A line ends with a newline and with nothing else: in a path the kernel escapes no other character."""
    left = limit
    with open(path, "rb", buffering=_STEP) as file:
        while line := file.readline(LONGEST_LINE):
            left -= len(line)
            if left < 0:
                raise TooLarge(f"{path} has more than {limit} bytes")
            yield line.decode("utf-8", "surrogateescape").rstrip("\n")


class TooLarge(OSError):
    """A file of ``/proc`` that is longer than any that heaptop expects."""


def name(path: str | os.PathLike[str]) -> str:
    """The name of a process or thread (``comm``), printable. Raises OSError."""
    return shown(read(path, LONGEST).removesuffix(b"\n"))


def link(path: str | os.PathLike[str]) -> str:
    """Where a link leads, printable. Raises OSError."""
    return printable(os.readlink(path), LONGEST)


def shown(raw: bytes) -> str:
    """Bytes that a process chose, printable."""
    return printable(raw.decode("utf-8", "replace"), LONGEST)


def arguments(pid: int, patience: float = PATIENCE) -> tuple[str, ...]:
    """The command line, each argument printable, at most :data:`LONGEST` characters in all: the last one ends in ``…``
    where there were more. Empty for kernel threads and zombies. Raises OSError, and TooSlow after ``patience`` seconds.
    """
    raw = within(patience, lambda: read(f"/proc/{pid}/cmdline", LONGEST + 1), ("cmdline", pid))
    # A program that rewrote its title (setproctitle) leaves padding, and often one string with blanks in it.
    kept = raw[:LONGEST].rstrip(b"\0 ") if len(raw) <= LONGEST else raw[:LONGEST]
    if not kept.strip(b"\0 "):
        return ()
    found = [shown(argument) for argument in kept.split(b"\0")]
    if len(raw) > LONGEST:
        found[-1] += "…"
    return tuple(found)


class TooSlow(OSError):
    """A process did not let its files be read in time."""


_given_up: Final[dict[int, Hashable]] = {}
"""Pids of children that were killed and have not ended, each with what it was reading."""


class Reader(Generic[A, T]):
    """A child process that calls ``read`` with one argument after another. A context manager.

    Whoever reads a file or the memory of a process may wait forever, and even SIGKILL does not end the wait: the page
    or file may be served by a file system (FUSE, NFS) that does not answer. A thread that waits so keeps its whole
    process from ending; a child is killed, and left to the kernel.

    The child is forked, which takes a millisecond or two. So ``read`` must import nothing and take no lock that another
    thread may hold; where it does, that is one more read that does not answer.
    """

    in_child: ClassVar[bool] = False  # Whether this process is such a child

    def __init__(self, read: Callable[[A], T]) -> None:
        self._read = read
        self._pid = 0
        self._link = -1

    def __enter__(self) -> Reader[A, T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(None)

    def ask(self, argument: A, seconds: float, key: Hashable) -> T:
        """What ``read`` returns. Raises what it raises, and TooSlow after ``seconds``, or at once where a child that
        was given up with the same ``key`` still waits. In a child: reads here, its parent watches the time."""
        if Reader.in_child:
            return self._read(argument)
        _bury()
        if key in _given_up.values() or len(_given_up) >= MOST_GIVEN_UP:
            raise TooSlow("an earlier read still waits")
        if not self._pid:
            self._start()
        try:
            os.write(self._link, pickle.dumps(argument))
            returned, outcome = pickle.loads(_receive(self._link, seconds))
        except BaseException:
            self._end(key)
            raise
        if not returned:
            raise outcome
        found: T = outcome
        return found

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            # So that Ctrl+C reaches the child nowhere outside of _serve.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._pid = os.fork()
                if self._pid == 0:
                    _serve(self._read, theirs.fileno())
            except OSError as error:
                raise TooSlow(f"no process could be started to read in: {error.strerror}") from None
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._link = ours.detach()

    def _end(self, key: Hashable) -> None:
        if not self._pid:
            return
        os.close(self._link)
        _given_up[self._pid] = key
        with contextlib.suppress(ProcessLookupError):  # where SIGCHLD is ignored, it is reaped already
            os.kill(self._pid, signal.SIGKILL)
        end = time.monotonic() + END_PATIENCE
        while self._pid in _given_up and time.monotonic() < end:
            time.sleep(0.0005)
            _bury()
        self._pid = 0


def within(seconds: float, read: Callable[[], T], key: Hashable) -> T:
    """What ``read`` returns, read by a child process as :class:`Reader` does."""
    with Reader[None, T](lambda _: read()) as reader:
        return reader.ask(None, seconds, key)


def _bury() -> None:
    """Forget the children that have ended."""
    for pid in [*_given_up]:
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            ended = True
        if ended:
            _given_up.pop(pid, None)


def _receive(descriptor: int, seconds: float) -> bytes:
    """One answer: its length in eight bytes, and so many bytes."""
    end = time.monotonic() + seconds
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    found = bytearray()
    while len(found) < 8 or len(found) < 8 + int.from_bytes(found[:8], "little"):
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise TooSlow(f"no answer within {seconds:.1g} s")
        part = os.read(descriptor, _STEP)
        if not part:
            raise TooSlow("the process that was reading has ended")
        found += part
    return bytes(found[8:])


def _serve(read: Callable[[A], T], link: int) -> None:
    """All that the child does. It never returns."""
    try:
        Reader.in_child = True
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # A pipe of heaptop's that the child kept would not end with heaptop.
        for name in os.listdir("/proc/self/fd"):
            if int(name) != link:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        while request := os.read(link, _STEP):
            data = _outcome(read, pickle.loads(request))
            data = len(data).to_bytes(8, "little") + data
            while data:
                data = data[os.write(link, data) :]
    finally:
        os._exit(0)


def _outcome(read: Callable[[A], T], argument: A) -> bytes:
    """What was returned or raised, as bytes."""
    try:
        return pickle.dumps((True, read(argument)))
    except BaseException as error:
        return pickle.dumps((False, error))
