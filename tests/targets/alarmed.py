"""Collects all the time, and sets itself alarms whose handler raises; says LOST when one of them raised nothing.

Most of its time goes by in the collector, so most alarms come there; they are due at the program's next line.
"""

import gc
import signal
import sys

from steady import EXIT_CODE, ready, say

AFTER = 0.001
YOUNG = 20_000


class Alarm(Exception):
    pass


def on_alarm(_number, _frame):
    RUNG.append(1)
    raise Alarm


def collect_until_rung():
    signal.setitimer(signal.ITIMER_REAL, AFTER)
    while not RUNG:
        [[] for _ in range(YOUNG)]


def reaches_us():
    """Whether the alarm comes up here, as it must."""
    del RUNG[:]
    try:
        collect_until_rung()  # a function of its own: in 3.13 no handler is in force at the jump back in a loop
    except Alarm:
        return True
    return False


RUNG = []
gc.set_threshold(YOUNG // 10, 100, 100)
signal.signal(signal.SIGALRM, on_alarm)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # looked for between two alarms: they must not meet
ready()
rounds = 0
while signal.SIGTERM not in signal.sigpending():
    rounds += 1
    if not reaches_us():
        say("LOST")
    if rounds % 100 == 0:
        say(str(rounds))
sys.exit(EXIT_CODE)
