"""What every target does when it has reached its steady state.

Targets are whole programs for tests to attach to. Each says ``ready`` on stdout, once; says EARLY when a call
returned that should not have; and exits with 7 on SIGTERM, so that a test can see that exit codes are kept.
They run on every Python that heaptop attaches to; this module and ``busy`` on 2.7 too.
"""

import os
import signal
import sys

EXIT_CODE = 7


def end(_number, _frame):
    sys.exit(EXIT_CODE)


def say(text):
    """One line on stdout, at once and in one piece, also from a thread or a forked child."""
    os.write(1, text.encode() + b"\n")


def fork_and_wait(child):
    """Have a forked child call ``child``, which exits; says how, where that is not with 0."""
    pid = os.fork()
    if pid == 0:
        child()
    status = os.waitpid(pid, 0)[1]
    if status:
        say("BADCHILD " + str(status))


def ready(detail=""):
    signal.signal(signal.SIGTERM, end)
    say(("ready " + str(detail)).strip())
