"""Lures whoever profiles it to files: allocates in code whose source is said to be a device, a FIFO, a link to a file
of root's; takes names with escape sequences; lays links where heaptop might make a file. Its argument is a folder of
its own. Started as root (`heaptop run`), it becomes nobody. Says ``ready``."""

import contextlib
import ctypes
import os
import sys
import time

folder = sys.argv[1]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
fifo, link, own, secret = (os.path.join(folder, name) for name in ("fifo.py", "link.py", "own.py", "secret.py"))
code = "\n\n\ndef allocate(kept):\n    kept.append([object() for _ in range(100)])\n"
os.mkfifo(fifo)
os.symlink("/etc/shadow", link)
with open(own, "w") as file:
    file.write(code)
links = [f"{place}/heaptop-{os.getpid()}" for place in ("/tmp", "/var/tmp", "/dev/shm")]
for name in links:
    with contextlib.suppress(OSError):
        os.symlink("/etc/heaptop-was-here", name)
SOURCES = ("/proc/kmsg", "/dev/ptmx", "/dev/zero", "/proc/self/mem", fifo, link, own, secret, "/etc/shadow")
SOURCES += ("../../etc/shadow",)
ctypes.CDLL(None).prctl(15, b"\x1b]0;owned\x07\n", 0, 0, 0)
functions = []
for source in SOURCES:
    names = {}
    exec(compile(code, source, "exec"), names)
    functions.append(names["allocate"])
kept = []
print("ready", flush=True)
try:
    while True:
        for allocate in functions:
            allocate(kept)
        del kept[:-5_000]
        time.sleep(0.002)
finally:
    for name in links:
        with contextlib.suppress(OSError):
            os.unlink(name)
