"""Files of ``/proc``, read with a limit, and the names in them made printable.

A process chooses what its own files say: a command line of gigabytes, a name with escape sequences. No other module
reads one whole. Names are cleaned here, where they are read; what acts on a path takes the bytes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Final, TypeVar

from heaptop.protocol.text import LONGEST, printable

T = TypeVar("T")

LARGEST: Final = 1 << 20
"""Bytes of a file whose size the kernel bounds already: status, with 65,536 groups, is the longest."""
LONGEST_LINE: Final = 1 << 15
"""Bytes of a line of maps: the kernel escapes a path of 4 KiB to four times as much."""
PATIENCE: Final = 1.0
"""Seconds for a command line; less than a millisecond is usual."""
MOST_WAITING: Final = 256
_STEP: Final = 1 << 16


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


_waiting: Final[dict[Hashable, threading.Thread]] = {}
"""Threads that were given up. Each is kept while it lives, so that a process costs one thread, not one each time."""


def within(seconds: float, read: Callable[[], T], key: Hashable) -> T:
    """What ``read`` returns. Raises what it raises, and TooSlow when it takes longer, or did before for this ``key``
    and has not returned.

    A process can hold up whoever reads its memory for ever: a page may be served by a file system or a page-fault
    handler (userfaultfd) of its own, and its command line is such memory. The thread that waits for it ends with
    heaptop.
    """
    for each, waiting in [*_waiting.items()]:
        if not waiting.is_alive():
            _waiting.pop(each, None)
    if key in _waiting or len(_waiting) >= MOST_WAITING:
        raise TooSlow(f"no answer since {seconds:g} s")
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(read())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="heaptop-reader", daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        _waiting[key] = thread
        raise TooSlow(f"no answer within {seconds:g} s")
    return done[0]
