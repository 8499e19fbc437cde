"""Greenlets under gevent, with the standard library patched, ``_thread`` too."""

from gevent import monkey

monkey.patch_all()

import time  # noqa: E402

import gevent  # noqa: E402
from steady import ready, say  # noqa: E402


def work():
    while True:
        begin = time.monotonic()
        gevent.sleep(0.05)
        if time.monotonic() - begin < 0.049:
            say("EARLY")


greenlets = [gevent.spawn(work) for _ in range(5)]
ready()
gevent.joinall(greenlets)
