"""What is attached to: ends with 7 at SIGUSR1, and with something else where it has been harmed."""

import ctypes
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import warnings

ended = []


class Thing:
    def __init__(self):
        self.data = [1, 2, 3]


def fail(text):
    os.write(2, text.encode())
    os._exit(3)


def compute():
    """Registers of floating point that are not put back would show."""
    while not ended:
        if sum(floats) != expected:
            fail("a wrong sum\n")


def sleep_once():
    began = time.monotonic()
    time.sleep(0.3)
    if not ended and time.monotonic() - began < 0.29:
        fail("woken early\n")


def sleep():
    while not ended:
        sleep_once()


def leak():
    while not ended:
        keep.append(bytearray(5000))
        time.sleep(0.0005)


def leak_arrays():
    while not ended:
        arrays.append(numpy.empty(60000))
        del arrays[:-100]
        time.sleep(0.05)


def hold(kind):
    while not ended:
        wrong = library.hold_vectors() if kind == VECTORS else library.hold(ctypes.c_long(kind))
        if wrong:
            fail(f"word {wrong} of the registers is not what it was\n")


def nap():
    """Relative, unlike Python's own: made again from its beginning, it would last longer."""
    seconds = struct.pack("<qq", 20, 0)
    ctypes.CDLL(None).nanosleep(ctypes.c_char_p(seconds), None)
    notice()


def wait(kind):
    """For a signal, in one call that would last for long."""
    while not ended:
        waits[kind]()


def fork():
    """Children that end at once, and threads that do. Python may warn of a fork that comes before the agent has put its
    filter in place (docs/known-issues.md): emulated, that was seen."""
    warnings.simplefilter("ignore", DeprecationWarning)
    while not ended:
        child = os.fork()
        if child == 0:
            os._exit(5)
        thread = threading.Thread(target=len, args=([],))
        thread.start()
        thread.join()
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 5:
            fail("a child was harmed\n")
        time.sleep(0.01)


def change_user():
    """In all threads, each time: glibc sends them a signal, and waits until each has had it."""
    while not ended:
        os.setresuid(0, 0, 0)
        time.sleep(0.001)


def sleep_among_signals():
    """A sleep is not cut short by signals that have a handler."""
    while not ended:
        sleep_once()


def send():
    while not ended:
        os.kill(os.getpid(), signal.SIGUSR2)
        time.sleep(0.02)


def put_under_filter():
    """A filter of seccomp that allows all."""
    no_new_privileges, set_seccomp, allow = 38, 22, struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000)
    instruction = ctypes.create_string_buffer(allow, len(allow))
    program = struct.pack("<H6xQ", 1, ctypes.addressof(instruction))
    prctl = ctypes.CDLL(None).prctl
    if prctl(no_new_privileges, 1, 0, 0, 0) or prctl(set_seccomp, 2, ctypes.c_char_p(program), 0, 0):
        fail("no filter\n")


def notice(*_):
    os.write(1, b"noticed\n")


VECTORS, LONG = 2, 3600
signal.signal(signal.SIGUSR1, lambda *_: ended.append(True))
way, _, kind = sys.argv[1].partition("-")
if way == "wait":
    listener = socket.create_server(("127.0.0.1", 0))
    reading, _ = os.pipe()
    lock = threading.Lock()
    lock.acquire()
    waits = {
        "pause": signal.pause,
        "sleep": lambda: time.sleep(LONG),
        "select": lambda: select.select([reading], [], []),
        "poll": lambda: select.select([reading], [], [], LONG),
        "accept": listener.accept,
        "read": lambda: os.read(reading, 1),
        "lock": lambda: lock.acquire(timeout=LONG),
        "nap": nap,
    }
    signal.signal(signal.SIGUSR2, notice)
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
elif way == "filter":
    put_under_filter()
elif way == "signals":
    signal.signal(signal.SIGUSR2, lambda *_: None)
floats = [index * 1.1 for index in range(1000)]
expected = sum(floats)
keep = [Thing() for _ in range(5000)]
arrays = []
library = ctypes.CDLL("/registers.so")
if way == "arrays":
    sys.path.insert(0, "/arrays")
    ctypes.CDLL("/arrays/libstdc++.so.6")
    import numpy
if way == "threads":
    for _ in range(8):
        threading.Thread(target=compute).start()
elif way == "setuid":
    for _ in range(3):
        threading.Thread(target=sleep).start()
elif way == "signals":
    threading.Thread(target=send, daemon=True).start()
print("ready", flush=True)
works = {
    **{"sleep": sleep, "filter": sleep, "leak": leak, "arrays": leak_arrays, "fork": fork, "setuid": change_user},
    "signals": sleep_among_signals,
    **{"registers": lambda: hold(0), "nap": lambda: hold(1), "vectors": lambda: hold(VECTORS)},
    "wait": lambda: wait(kind),
}
works.get(way, compute)()
sys.exit(7)
