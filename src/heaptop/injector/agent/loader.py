"""Where the bootstrap enters: ``main`` loads all that comes behind this module, and runs the session.

The bootstrap has run two pieces by then, which end with the functions that :data:`heaptop.injector.agent.LOADER` names.
So what is needed here stands in this module or before it, and is short.
"""

from __future__ import annotations

from typing import Any

from heaptop.injector.agent.base import Namespace, clear_modules, posix
from heaptop.injector.agent.clock import BEGUN, REST_BUDGET, clock, cpu_clock, end_hold, rest_if_due

MAX_PIECE = 1 << 20


def main(fd: int, token: str) -> None:
    """Serve one session on ``fd`` until the peer detaches or goes away. The caller closes ``fd`` afterwards.

    Only this module and those before it are there when it begins.
    """
    start = max(BEGUN, cpu_clock() - BEGUN)  # the bootstrap rests between the pieces
    try:
        compiling, early = load(fd)
        globals()["converse"](fd, token, start, compiling, early)
    except BaseException:
        pass
    clear_modules()


def load(fd: int) -> tuple[int, bytes]:
    """Run the text of the modules behind this one. Each piece comes behind its length in 4 bytes; a length of 0 ends
    it. Returns for how long the program has waited for that at a time, and what has come behind the end."""
    status = posix.fstat(fd)
    s = Namespace(
        fd=fd, socket=(status.st_dev, status.st_ino), hold_cpu=cpu_clock(), gil=0, longest=0, stopped=0, core=None
    )
    end = clock() + REST_BUDGET
    come = bytearray()
    lines = 0
    while True:
        size = int.from_bytes(take_bytes(s, come, 4), "big")
        if not size:
            end_hold(s)
            return int(s.gil), bytes(come)
        if size > MAX_PIECE:
            raise EOFError("too long")
        text = take_bytes(s, come, size)
        exec(b"\n" * lines + text, globals())  # a traceback shows lines of the whole text
        lines += text.count(b"\n")
        if clock() < end:
            rest_if_due(s)


def take_bytes(s: Any, come: bytearray, size: int) -> bytes:
    """The next so many. They are read many at a time: each read gives the GIL back, and may have to wait for it."""
    while len(come) < size:
        check_socket(s)
        part = posix.read(s.fd, 1 << 17)
        if not part:
            raise EOFError("closed")
        come += part
    found = bytes(come[:size])
    del come[:size]
    return found


def check_socket(s: Any) -> None:
    """EOFError when the descriptor is not our socket any more.

    A program may close every descriptor it does not know (``os.closerange(3, 65536)``) and open others under the
    same numbers: to read, write or close those would be to meddle with its files.
    """
    try:
        status = posix.fstat(s.fd)
    except OSError:
        raise EOFError("closed") from None
    if (status.st_dev, status.st_ino) != s.socket:
        raise EOFError("closed")
