"""A shop whose cache keeps what it should not, on request: each letter on stdin is answered with a line.

l: 2,000 sessions of 1 KiB more are kept, allocated in create_session; f: they are let go; c: much is allocated and
freed; a: the interpreter's allocators, as PyMem_GetAllocator says; D: they are as they were at first; p: a phase called
load, with a collection in it, by the heaptop in $SHOP_HEAPTOP; n: 3,000 phases, all of which last; e: they end; t, u:
tracemalloc starts, stops; T: whether it traces; k: whether it does in a forked child, before and after a collection
there; H: what looks like memray is loaded; h: floats of first_owner die, and second_owner has as many, in their blocks;
r: the interpreter's reference tracer; R: another tool's comes, that of the library in $SHOP_TRACER; K: that of a forked
child, before and after a collection there; A: its allocators, likewise; q: ends.
"""

import atexit
import ctypes
import gc
import os
import sys
import tracemalloc
import warnings

SIZE = 1024
CACHE = []


class Session:
    __slots__ = ("data",)

    def __init__(self, data):
        self.data = data


def create_session():
    CACHE.append(Session(bytes(SIZE - 33)))


def leak():
    for _ in range(2000):
        create_session()
    return len(CACHE)


def let_go():
    CACHE.clear()
    return 0


def churn():
    for _ in range(20_000):
        bytes(SIZE)
    return 0


def allocators():
    found = []
    for domain in range(3):
        words = (ctypes.c_void_p * 5)()
        ctypes.pythonapi.PyMem_GetAllocator(domain, words)
        found.append([word or 0 for word in words])
    return found


def drop_hooks():
    """As a tool does that hooked in first, and goes."""
    for domain, found in enumerate(AT_FIRST):
        ctypes.pythonapi.PyMem_SetAllocator(domain, (ctypes.c_void_p * 5)(*found))
    return 0


def load_hooking():
    sys.modules["memray._memray"] = sys
    return 0


def phase():
    sys.path.insert(0, os.environ["SHOP_HEAPTOP"])
    import heaptop  # noqa: PLC0415  it is not on the path before

    with heaptop.phase("load"):
        if heaptop._listener is None:
            return "nobody listens"
        gc.collect()
    return "listened to"


PHASES = []


def begin_phases():
    import heaptop  # noqa: PLC0415

    for _ in range(3000):
        PHASES.append(heaptop.phase("request").__enter__())
    return len(PHASES)


def end_phases():
    while PHASES:
        PHASES.pop().__exit__(None, None, None)
    return 0


def trace():
    tracemalloc.start(4)
    return 0


def untrace():
    tracemalloc.stop()
    return 0


def in_child(ask):
    """What it says in a forked child, before and after a collection there."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        first = ask()
        gc.collect()
        os.write(writing, repr([first, ask()]).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    said = os.read(reading, 4000).decode()
    os.close(reading)
    return said


FLOATS = []
KEPT = []


def first_owner():
    for number in range(50):
        FLOATS.append(number + 0.5)


def second_owner():
    for number in range(50):
        FLOATS.append(number + 0.5)


def hand_on():
    FLOATS.clear()
    KEPT.append(list(map(float, range(200))))  # in all blocks of the free list
    first_owner()
    FLOATS.clear()
    second_owner()
    return len(FLOATS)


def reference_tracer():
    data = ctypes.c_void_p()
    get = ctypes.pythonapi.PyRefTracer_GetTracer
    get.restype = ctypes.c_void_p
    return [get(ctypes.byref(data)) or 0, data.value or 0]


def other_tracer():
    counts = (ctypes.c_long * 2)()
    function = ctypes.cast(ctypes.CDLL(os.environ["SHOP_TRACER"]).count, ctypes.c_void_p)
    KEPT.append(counts)
    ctypes.pythonapi.PyRefTracer_SetTracer(function, ctypes.c_void_p(ctypes.addressof(counts)))
    atexit.register(ctypes.pythonapi.PyRefTracer_SetTracer, None, None)  # before its counts go
    return reference_tracer()


ANSWERS = {
    "K": lambda: in_child(reference_tracer),
    "A": lambda: in_child(allocators),
    "h": hand_on,
    "r": reference_tracer,
    "R": other_tracer,
}
ANSWERS.update({"l": leak, "f": let_go, "c": churn, "a": allocators, "p": phase, "n": begin_phases})
ANSWERS.update(
    {
        "e": end_phases,
        "t": trace,
        "u": untrace,
        "T": lambda: str(tracemalloc.is_tracing()),
        "k": lambda: in_child(tracemalloc.is_tracing),
    }
)
ANSWERS.update({"H": load_hooking, "D": drop_hooks})
if __name__ == "__main__":
    gc.disable()
    AT_FIRST = allocators()
    while (letter := sys.stdin.read(1)) in ANSWERS:
        print(repr(ANSWERS[letter]()), flush=True)
