"""Reading sockets whose other end, or whose very open file description, may be the target's.

Who has a copy of heaptop's own end can clear O_NONBLOCK there, and can take what has come between a poll and a read.
So nothing here blocks but :func:`ready`, which has a limit. poll(2) and not select(2): a descriptor may be above 1023.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from typing import Final

HELLO_LIMIT: Final = 256  # Bytes of the first line, in which an agent identifies itself


def ready(links: Sequence[socket.socket], timeout: float, events: int = select.POLLIN) -> list[socket.socket]:
    """Those of ``links`` that can be read (or have ``events``), or have an error, within ``timeout`` seconds."""
    poll = select.poll()
    for link in links:
        poll.register(link, events)
    found = {number for number, _ in poll.poll(max(0.0, timeout) * 1000)}
    return [link for link in links if link.fileno() in found]


def receive(link: socket.socket, size: int) -> bytes | None:
    """What has come; empty at the end of the stream, None where nothing is there (any more). Raises OSError."""
    try:
        return link.recv(size, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
