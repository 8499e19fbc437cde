"""Main waits in C without a time limit, in the call that is named, and says ENDED with the number of the error when
that returns. SIGUSR1 has a handler. With "blocked", the signals that glibc keeps for itself are blocked."""

import ctypes
import os
import select
import signal
import struct
import sys

from steady import ready, say

RT_SIGPROCMASK = 14
IO_SETUP, IO_GETEVENTS, EPOLL_PWAIT2, SEMTIMEDOP = 206, 208, 441, 220

libc = ctypes.CDLL(None, use_errno=True)
reader, writer = os.pipe()
poll = select.epoll()
poll.register(reader, select.EPOLLIN)
events = ctypes.create_string_buffer(4096)
context = ctypes.c_ulong(0)
libc.syscall(IO_SETUP, 8, ctypes.byref(context))
urgent = struct.pack("16Q", 1 << signal.SIGURG - 1, *[0] * 15)
semaphores = libc.semget(0, 1, 0o600)
down = struct.pack("Hhh", 0, -1, 0)

CALLS = {
    "epoll_wait": lambda: libc.epoll_wait(poll.fileno(), events, 8, -1),
    "epoll_pwait": lambda: libc.epoll_pwait(poll.fileno(), events, 8, -1, urgent),
    "epoll_pwait2": lambda: libc.syscall(EPOLL_PWAIT2, poll.fileno(), events, ctypes.c_long(8), None, None, 8),
    "sigwaitinfo": lambda: libc.sigtimedwait(urgent, None, None),
    "semop": lambda: libc.semop(semaphores, down, 1),
    "semtimedop": lambda: libc.syscall(SEMTIMEDOP, semaphores, down, ctypes.c_long(1), None),
    "io_getevents": lambda: libc.syscall(IO_GETEVENTS, context, ctypes.c_long(1), ctypes.c_long(1), events, None),
    "read": lambda: libc.read(reader, events, 1),
}

signal.signal(signal.SIGUSR1, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
if "blocked" in sys.argv:
    glibcs = struct.pack("Q", 1 << 31 | 1 << 32)
    libc.syscall(RT_SIGPROCMASK, signal.SIG_BLOCK, glibcs, None, ctypes.c_long(8))
call = CALLS[sys.argv[1]]
ready()
try:
    while True:
        result = call()
        say(f"ENDED {ctypes.get_errno() if result < 0 else 0}")
finally:
    libc.semctl(semaphores, 0, 0)  # IPC_RMID
