"""Pieces of a launcher (:data:`heaptop.injector.entry.helper_client.LAUNCHER`) that change what the helper meets.

They stand for a kernel, for bad luck with time, or for what a hostile target does at the worst moment.
"""

from __future__ import annotations

import errno
from typing import Final

TARGET_VARIABLE: Final = "HOSTILE_TARGET"
"""The environment variable that names the target's pid to the helper."""

BEGIN: Final = "import os, socket, sys, time; sys.path.append(sys.argv[1])\n"
MAIN: Final = "from heaptop.injector.entry.helper import main; main(int(sys.argv[2]))\n"

OLD_KERNEL: Final = f"""\
from heaptop.injector.entry import hijack
def missing(*arguments):
    raise OSError({errno.ENOSYS}, "Function not implemented")
hijack.take_descriptor = missing
"""
"""A kernel before 5.6, without pidfd_getfd."""

SLOW_NAMES: Final = f"""\
def wait_for_mount(name):
    end = time.monotonic() + 10
    while name not in open("/proc/" + os.environ["{TARGET_VARIABLE}"] + "/mountinfo").read():
        assert time.monotonic() < end, "the target never mounted anything over " + name
        time.sleep(0.001)
class SlowSocket(socket.socket):
    def bind(self, address):
        super().bind(address)
        if isinstance(address, str) and address.startswith("/"):
            wait_for_mount(os.path.basename(address))
socket.socket = SlowSocket
really_open = os.open
def slow_open(path, flags, *rest, **keywords):
    number = really_open(path, flags, *rest, **keywords)
    if flags & os.O_CREAT:
        wait_for_mount(os.path.basename(path))
    return number
os.open = slow_open
"""
"""Whatever the helper makes, it waits until the target has mounted something over it. Goes before other pieces."""

SLOW_RECEIVE: Final = """\
class SlowSocket(socket.socket):
    def recv(self, *arguments):
        if self.type == socket.SOCK_STREAM:
            time.sleep(0.2)
        return super().recv(*arguments)
socket.socket = SlowSocket
"""
"""Between a poll that says *readable* and the read, somebody else has the time to read. Goes before other pieces."""

HANGING: Final = """\
from heaptop.injector.entry import hijack
def hang(*arguments):
    time.sleep(3600)
hijack.open_channel = hang
"""
"""Never comes back from the middle of its work, with a thread of the target in its hands."""
