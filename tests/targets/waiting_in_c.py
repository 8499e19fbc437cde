"""Threads that wait in C, and do not call again after EINTR as Python does. On SIGUSR1 says which calls have returned
it so far."""

import ctypes
import errno
import os
import select
import signal
import struct
import threading
import time

from steady import ready, say

HOUR = struct.pack("qq", 3600, 0)
IO_SETUP, IO_GETEVENTS = 206, 208
HANDLED = (signal.SIGUSR1, signal.SIGTERM)

libc = ctypes.CDLL(None, use_errno=True)
interrupted = set()


def wait_again(name, *call):
    function, arguments = call[0], call[1:]
    while True:
        if function(*arguments) == -1 and ctypes.get_errno() == errno.EINTR:
            interrupted.add(name)


def start(name, *call):
    threading.Thread(target=wait_again, args=(name, *call), daemon=True).start()


reader, _writer = os.pipe()
poll = select.epoll()
poll.register(reader, select.EPOLLIN)
events = ctypes.create_string_buffer(4096)
lock = ctypes.create_string_buffer(64)
libc.sem_init(lock, 0, 0)
context = ctypes.c_ulong(0)
libc.syscall(IO_SETUP, 8, ctypes.byref(context))
urgent = struct.pack("16Q", 1 << signal.SIGURG - 1, *[0] * 15)

signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)  # in the threads: a handler ends a wait too
start("epoll_wait", libc.epoll_wait, poll.fileno(), events, 8, 3600_000)
start("endless epoll_wait", libc.epoll_wait, poll.fileno(), events, 8, -1)
start("endless sigwaitinfo", libc.sigtimedwait, urgent, None, None)
start("sigtimedwait", libc.sigtimedwait, urgent, None, HOUR)
start("io_getevents", libc.syscall, IO_GETEVENTS, context, ctypes.c_long(1), ctypes.c_long(1), events, HOUR)
start("read", libc.read, reader, events, 1)
start("poll", libc.poll, struct.pack("ihh", reader, select.POLLIN, 0), 1, 3600_000)
start("nanosleep", libc.nanosleep, HOUR, None)
start("sem_wait", libc.sem_wait, lock)
signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)


def tell(_number, _frame):
    say(", ".join(["interrupted", *sorted(interrupted)]))


signal.signal(signal.SIGUSR1, tell)
time.sleep(0.5)
ready()
while True:
    time.sleep(0.1)
