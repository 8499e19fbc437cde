"""Holds known amounts of every sort of memory, and says them: what an explanation of its RSS is checked against.

Runs on every Python from 3.8 on. Argument: a file of 8 MiB to map. After ``ready`` come the amounts, in bytes, as a
dict on the same line; on stderr is what the interpreter says of its arenas just before. Everything is touched, so
that it is resident, except what is named ``untouched``.
"""

import mmap
import signal
import sys
import threading

from steady import ready

PAGE = 4096
MIB = 1 << 20
CHUNKS, CHUNK = 6, 2 * MIB
"""Above every threshold at which glibc gives a chunk a mapping of its own (128 KiB), freed once to raise none."""
SMALL, SMALL_SIZE = 60_000, 200
MIDDLE, MIDDLE_SIZE = 3_000, 4_000
THREADS, DEPTH = 3, 400
SHARED, FILE, OTHER = 5 * MIB, 8 * MIB, 7 * MIB


def touch(memory):
    for i in range(0, len(memory), PAGE):
        memory[i] = 1
    return memory


def held(n):
    """Bytes that ``n`` bytes of payload take with the head of a bytes object, as the allocator rounds them."""
    return -(-(n + sys.getsizeof(b"")) // 16) * 16


def waiting(started, until, depth):
    """Deep, so that the thread's stack is touched."""
    if depth:
        return max((depth,), key=lambda _: waiting(started, until, depth - 1))
    started.release()
    until.acquire()
    return 0


def main():
    sys.setrecursionlimit(10_000)
    large = [touch(bytearray(CHUNK)) for _ in range(CHUNKS)]
    small = [b"%d" % i + b"s" * (SMALL_SIZE - 8) for i in range(SMALL)]
    del small[::2]
    middle = [b"m" * MIDDLE_SIZE + b"%d" % i for i in range(MIDDLE)]
    freed = [b"f" * MIDDLE_SIZE + b"%d" % i for i in range(MIDDLE)]
    last = b"l" * MIDDLE_SIZE + b"%d" % MIDDLE  # at the end of malloc's heap: it is not given back
    del freed
    untouched = bytes(50 * MIB)  # zeroed by the kernel, not by the allocator
    with open(sys.argv[1], "rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    read = sum(mapped[i] for i in range(0, len(mapped), PAGE))
    shared = touch(mmap.mmap(-1, SHARED))  # MAP_SHARED: of no file, and shared with forked children
    other = touch(mmap.mmap(-1, OTHER, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    started, until = threading.Semaphore(0), threading.Semaphore(0)
    threads = [threading.Thread(target=waiting, args=(started, until, DEPTH), daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for _ in threads:
        started.acquire()
    amounts = {
        "chunks": CHUNKS * CHUNK,
        "untouched": len(untouched),
        "small": len(small) * held(len(small[0])),
        "small_freed": (SMALL - len(small)) * held(len(small[0])),
        "middle": MIDDLE * MIDDLE_SIZE,
        "middle_freed": MIDDLE * MIDDLE_SIZE,
        "file": FILE if read >= 0 else 0,
        "shared": SHARED,
        "other": OTHER,
        "threads": THREADS,
    }
    sys._debugmallocstats()
    ready(amounts)
    held_to_the_end = (large, small, middle, last, untouched, mapped, shared, other)
    while held_to_the_end:
        signal.pause()


if __name__ == "__main__":
    main()
