"""The first thread has ended by pthread_exit and another lives on: state Z, and yet no zombie."""

import ctypes
import os
import signal
import threading
import time

from steady import EXIT_CODE, say


def work():
    # Handlers run in the main thread, which is gone: take the signal by hand.
    time.sleep(0.1)
    say("ready")
    signal.sigwait({signal.SIGTERM})
    os._exit(EXIT_CODE)


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
