"""The first thread has ended by pthread_exit and another lives on: state Z, and yet no zombie."""

import ctypes
import os
import signal
import threading
import time

from steady import EXIT_CODE, say


def main_is_gone():
    try:
        with open("/proc/self/stat") as status:
            return status.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def work():
    time.sleep(0.1)  # where there is no /proc, this must do
    while not main_is_gone():
        time.sleep(0.01)
    say("ready")
    # Handlers run in the main thread, which is gone: take the signal by hand.
    signal.sigwait({signal.SIGTERM})
    os._exit(EXIT_CODE)


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
