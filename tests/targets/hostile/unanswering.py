"""A process with a file of a FUSE file system in it whose server stops answering. Needs root, for the mount.

Its arguments: a folder to mount on, where nobody else sees it, and what is on that file system:

    image         a mapped page that nobody has read; the process maps other memory, and says a dot each time
    executable    the program itself, called python3.12

The process that is started is the server: the connection ends with it, and so does whoever waits for an answer. It
says "ready", and the pid of the process that has the file, when it answers no more.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import shutil
import signal
import struct
import sys
import time

LONGEST = 120
"""Seconds for which it hangs at most, whatever becomes of the test."""
QUIET = 0.2
"""Seconds without a request, after which the process has read what it needs to run."""

libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_NOSUID_NODEV = 0x20000, 0x4000, 1 << 18, 6
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 25, 26, 36, 42
"""``linux/fuse.h``, as are the structures below."""
ROOT, FILE, ENOSYS = 1, 2, 38


def check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(folder: str) -> int:
    """Mount in a namespace of this process's own; the connection to the kernel."""
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    connection = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={connection},rootmode=40000,user_id=0,group_id=0,allow_other"
    check(libc.mount(b"unanswering", os.fsencode(folder), b"fuse", MS_NOSUID_NODEV, options.encode()))
    return connection


def attributes(node: int, size: int) -> bytes:
    mode = 0o40755 if node == ROOT else 0o100755
    return struct.pack("<QQQQQQIIIIIIIIII", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(request: bytes, content: bytes) -> bytes | None:
    """The answer to one request; None for what takes none. Nothing may be cached but what was read."""
    size, code, unique, node = struct.unpack_from("<IIQQ", request)
    body = request[40:size]
    reply, error = b"", 0
    if code in (FORGET, BATCH_FORGET, INTERRUPT):
        return None
    if code == INIT:
        reply = struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 17, 0, 16, 16, 1 << 17, 1, 0, 0, 0)
    elif code == LOOKUP:
        reply = struct.pack("<QQQQII", FILE, 0, 0, 0, 0, 0) + attributes(FILE, len(content))
    elif code == GETATTR:
        reply = struct.pack("<QII", 0, 0, 0) + attributes(node, len(content))
    elif code == OPEN:
        reply = struct.pack("<QIi", 0, 0, 0)
    elif code == READ:
        _, offset, length = struct.unpack_from("<QQI", body)
        reply = content[offset : offset + length]
    elif code not in (RELEASE, FLUSH):
        error = -ENOSYS
    return struct.pack("<IiQ", 16 + len(reply), error, unique) + reply


def serve(connection: int, content: bytes, begun: int, pid: int) -> None:
    """Answer until the process has what it needs (``begun`` is closed), then take requests and answer none."""
    answering, waits = True, [connection, begun]
    while True:
        came = select.select(waits, [], [], QUIET if answering and len(waits) == 1 else None)[0]
        if not came:
            answering = False
            print("\nready", pid, flush=True)
        if begun in came:
            waits.remove(begun)
        if connection in came:
            request = os.read(connection, 1 << 18)
            reply = answer(request, content) if answering else None
            if reply is not None:
                os.write(connection, reply)


def become(what: str, path: str) -> None:
    """The process that has the file."""
    if what == "executable":
        os.execv(path, [path, "600"])
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ)
    os.closerange(3, 100)
    while len(mapped):
        mmap.mmap(-1, mmap.PAGESIZE).close()
        os.write(1, b".")
        time.sleep(0.02)


def main(folder: str, what: str) -> None:
    signal.alarm(LONGEST)
    with open(shutil.which("sleep") or "/bin/sleep", "rb") as program:
        content = program.read()
    connection = mount(folder)
    begun, begins = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(connection)  # else it would keep the connection
        os.close(begun)
        become(what, f"{folder}/python3.12")
    os.close(begins)
    serve(connection, content, begun, pid)


if __name__ == "__main__":
    main(*sys.argv[1:])
