"""Allocates native memory at known lines, in the way that its arguments name: MODULE.so WAY.

Lines are known by a comment: ``# site: NAME``. Ends with code 7, without an interpreter's usual clearing up.
"""

import bz2
import ctypes
import importlib.machinery
import importlib.util
import mmap
import os
import subprocess
import sys
import threading
import time
import zlib

BLOCKS, SIZE = 4000, 3000

path, way = sys.argv[1:3]
loader = importlib.machinery.ExtensionFileLoader("native_leak", path)
native_leak = importlib.util.module_from_spec(importlib.util.spec_from_loader("native_leak", loader))
loader.exec_module(native_leak)
kept = []


def extension():
    native_leak.leak(BLOCKS, SIZE)  # site: extension


def foreign():
    for holds_gil in (True, False):
        libc = (ctypes.PyDLL if holds_gil else ctypes.CDLL)(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        for _ in range(BLOCKS):
            libc.malloc(SIZE)  # site: foreign


def others():
    native_leak.python(BLOCKS, SIZE)  # site: python
    native_leak.raw(BLOCKS, SIZE)  # site: raw
    native_leak.cplusplus(BLOCKS, SIZE)  # site: cplusplus


def back():
    """C code calls Python code, which allocates."""
    native_leak.back(lambda: kept.extend(bytes(SIZE) for _ in range(BLOCKS)))  # site: back


def resting():
    native_leak.quietly(BLOCKS, SIZE)  # site: resting


def package():
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415

    for _ in range(400):
        LexborHTMLParser("<p><a href=x>text</a></p>").css("a")  # site: package


def contexts():
    for _ in range(20):
        kept.append(zlib.compressobj())  # site: zlib
        kept.append(bz2.BZ2Compressor())  # site: bz2


def freed():
    for _ in range(200):
        zlib.compressobj()


def threads():
    all_of_them = [threading.Thread(target=each) for each in (extension, quietly, extension, quietly)]
    for each in all_of_them:
        each.start()
    for each in all_of_them:
        each.join()


def quietly():
    native_leak.quietly(BLOCKS, SIZE)  # site: quietly


def children():
    extension()
    for _ in range(3):
        child = os.fork()
        if not child:
            for _ in range(5):
                extension()
            os._exit(0)
        os.waitpid(child, 0)
    text = "import os; print(os.environ.get('LD_PRELOAD'), os.environ.get('HEAPTOP_MALLOC'))"
    subprocess.run([sys.executable, "-c", text], check=True)
    print(os.environ.get("LD_PRELOAD"), os.environ.get("HEAPTOP_MALLOC"), flush=True)


def mapped():
    kept.append(mmap.mmap(-1, 5 << 20))  # site: mmap


def reserved():
    """Address space of which little is touched, by a mapping and by malloc."""
    whole = mmap.mmap(-1, 512 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # site: reserved
    whole[: 3 << 20] = bytes(3 << 20)
    kept.append(whole)
    kept.append(ctypes.create_string_buffer(1))
    libc = ctypes.PyDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    block = libc.malloc(256 << 20)  # site: untouched
    ctypes.memset(block, 1, 2 << 20)
    print("ready", flush=True)
    while True:
        time.sleep(0.05)


def churn():
    """Threads that allocate with and without the GIL, and import, and start others."""
    def turn():
        for _ in range(30):
            native_leak.leak(20, SIZE)
            native_leak.quietly(20, SIZE)
            exec(compile("def f():\n  return [bytes(9000) for _ in range(50)]\nf()", "made up", "exec"), {})
            zlib.decompress(zlib.compress(bytes(200_000)))

    for _ in range(8):
        all_of_them = [threading.Thread(target=turn) for _ in range(8)]
        for each in all_of_them:
            each.start()
        for each in all_of_them:
            each.join()


def finalize():
    """To the interpreter's own end, with a thread in C code that allocates meanwhile."""
    threading.Thread(target=lambda: [native_leak.quietly(1000, 700) for _ in range(3000)], daemon=True).start()
    extension()
    time.sleep(0.05)


class Slow:
    def __del__(self):
        time.sleep(4)


def lingering():
    """An interpreter that takes seconds to end, as with many objects."""
    extension()
    kept.append(Slow())


def stay():
    extension()
    print("ready", flush=True)
    while True:
        time.sleep(0.05)


def replaced():
    extension()
    print(os.getpid(), flush=True)
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"])


globals()[way]()
if way not in ("finalize", "lingering"):
    os._exit(7)
