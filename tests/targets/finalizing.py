"""Stays in the interpreter's shutdown for ever: a global is deleted after Python stopped running."""

import sys
import time

from steady import say


class Sleeper:
    # Globals are gone by the time this runs.
    def __del__(self, sleep=time.sleep, say=say, finalizing=sys.is_finalizing):
        say("ready" if finalizing() else "EARLY")
        while True:
            sleep(0.2)


sleeper = Sleeper()
