"""Leaks sessions until its memory is used up: its argument is how many bytes a second."""

import sys
import time

from steady import ready


class Session:
    """What is never forgotten."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.basket = bytearray(10_000)
        self.basket[::1000] = b"x" * 10


_sessions: dict[int, Session] = {}


def open_session() -> None:
    _sessions[len(_sessions)] = Session(len(_sessions))


rate = float(sys.argv[1])
ready()
began = time.monotonic()
while True:
    time.sleep(0.02)
    while len(_sessions) * 10_000 < (time.monotonic() - began) * rate:
        open_session()
