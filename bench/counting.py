"""The target of bench/census.py: builds a heap, counts it in one way again and again, and prints what that cost.

Its one argument is JSON: ``way``, ``objects``, ``aged``, ``rounds``, ``seconds`` (no further round after that many),
``targets`` (where heap_zoo is), and ``core`` and ``chase`` (libraries). It prints one line of JSON: ``rounds``, a dict
of figures each, and ``rss`` before the first. A way that cannot be had is ``{"missing": sentence}``.
It runs in the bench's own environment or any other Python from 3.8 on, and imports nothing of heaptop.
"""

import contextlib
import ctypes
import gc
import importlib.machinery
import importlib.util
import json
import random
import select
import sys
import threading
import time

STAMP = 0.0005
"""Seconds between two stamps of the thread that feels pauses."""
HEAD = 16
"""Bytes of the collector's head before an object."""
UNIT = 300
"""Objects that one unit of a workload touches."""
BASE_SECONDS = 0.3


# -- what is felt -------------------------------------------------------------------------------------------


def memory(key, process="self"):
    """Bytes: the sum of the lines of smaps_rollup or status that start with ``key``."""
    name = "status" if key.startswith("Vm") else "smaps_rollup"
    with open(f"/proc/{process}/{name}") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def reset_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


class Stamps(threading.Thread):
    """Stamps the time for as long as a ``with`` block lasts; ``longest`` is the longest gap, the rest left out."""

    def __init__(self):
        super().__init__(daemon=True)
        self.longest = 0.0
        self.over = False

    def run(self):
        last = time.perf_counter()
        while not self.over:
            time.sleep(STAMP)
            now = time.perf_counter()
            self.longest = max(self.longest, now - last - STAMP)
            last = now

    def __enter__(self):
        self.start()
        time.sleep(0.02)
        self.longest = 0.0
        return self

    def __exit__(self, *exc):
        time.sleep(0.02)
        self.over = True
        self.join()


# -- ways to count ------------------------------------------------------------------------------------------
#
# Each is made of a request and gives a function without arguments: one count, which returns how many objects it met
# and what else it knows.


def load_core(request):
    if not request.get("core"):
        raise ImportError("the native core is not built")
    loader = importlib.machinery.ExtensionFileLoader("_core", request["core"])
    core = importlib.util.module_from_spec(importlib.util.spec_from_loader("_core", loader))
    loader.exec_module(core)
    core.open(f"{sys.hexversion:x}")
    return core


def wait_for(fd):
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    while not waiting.poll(60_000):
        pass


def clone_way(request):
    core = load_core(request)

    def count():
        cpu = time.thread_time()
        fd, _child, pause = begin(core)
        cpu = time.thread_time() - cpu
        wait_for(fd)
        stats = core.end()[2]
        return stats["objects"], {
            "own pause": pause / 1e9,
            "own pause cpu": cpu,
            "child": stats["child_bytes"],
            "cpu": stats["cpu_ns"] / 1e9,
        }

    return count


def stop_way(request):
    core = load_core(request)
    return lambda: (core.stop(0)[2]["objects"], {})


def closure_way(_request):
    def count():
        todo = gc.get_objects()
        seen = set(map(id, todo))
        seen.update((id(todo), id(seen)))
        counts, sizes = {}, {}
        size, referents = sys.getsizeof, gc.get_referents
        met = 0
        while todo:
            o = todo.pop()
            t = type(o)
            counts[t] = counts.get(t, 0) + 1
            sizes[t] = sizes.get(t, 0) + size(o)
            met += 1
            found = referents(o)
            if t is dict:
                found += o
            for r in found:
                i = id(r)
                if i not in seen:
                    seen.add(i)
                    todo.append(r)
        return met, {}

    return count


def guppy3_way(_request):
    from guppy import hpy  # noqa: PLC0415

    heapy = hpy()
    # the walk alone: its table by type would cost it more
    return lambda: (heapy.heap().count, {})


def objgraph_way(_request):
    import objgraph  # noqa: PLC0415

    # what the collector lists, without sizes: it can no more
    return lambda: (sum(count for _, count in objgraph.most_common_types(limit=10**6)), {})


def pympler_way(_request):
    from pympler import muppy, summary  # noqa: PLC0415

    def count():
        met = muppy.get_objects()
        summary.summarize(met)
        return len(met), {}

    return count


def floor_way(request):
    chase = ctypes.PyDLL(request["chase"]).chase
    chase.argtypes, chase.restype = [ctypes.c_size_t], ctypes.c_ulong

    def count():
        # after a collection everything is in the one list of the oldest
        gc.collect()
        began = time.perf_counter()
        steps = chase(id(KEPT) - HEAD)
        return steps, {"seconds": time.perf_counter() - began}

    return count


WAYS = {
    "clone": clone_way,
    "stop": stop_way,
    "closure": closure_way,
    "guppy3": guppy3_way,
    "objgraph": objgraph_way,
    "pympler": pympler_way,
    "floor": floor_way,
}


def measure(count):
    """One round: seconds, processor time of the one who counts, the pause felt by another thread, bytes at the peak
    above those before."""
    gc.collect()
    reset_peak()
    before = memory("VmRSS")
    with Stamps() as stamps:
        began, cpu = time.perf_counter(), time.thread_time()
        objects, more = count()
        seconds, cpu = time.perf_counter() - began, time.thread_time() - cpu
    return {
        "seconds": seconds,
        "cpu": cpu,
        "pause": stamps.longest,
        "extra": max(0, memory("VmHWM") - before) + more.get("child", 0),
        "objects": objects,
        **more,
    }


def begin(core):
    """As core.begin; asked again while the interpreter is collecting."""
    while True:
        try:
            return core.begin(0, {"descriptor": 1})
        except BlockingIOError:
            time.sleep(0.001)


# -- the target's own work while a child is alive -----------------------------------------------------------


def workloads(heap):
    everybody = heap["all"]
    chosen = [random.Random(5).randrange(len(everybody)) for _ in range(200_000)]
    at = [0]

    def next_chosen():
        at[0] = (at[0] + UNIT) % (len(chosen) - UNIT)
        return [everybody[i] for i in chosen[at[0] : at[0] + UNIT]]

    def idle():
        time.sleep(0.001)

    def allocating():
        made = [{"a": [i, i + 1], "b": str(i), "c": (i, float(i))} for i in range(UNIT)]
        json.dumps(made[:50])

    def reading():
        return sum(len(c.name) + len(c.lines) for c in next_chosen())

    def writing():
        for c in next_chosen():
            c.balance += 1.0
            c.meta["status"] = "written"

    return {"idle": idle, "allocating": allocating, "reading": reading, "writing": writing}


def units_per_second(work, until):
    """(units of work a second until ``until()``, the longest unit in seconds)."""
    began = last = time.perf_counter()
    units, longest = 0, 0.0
    while not until():
        work()
        units += 1
        now = time.perf_counter()
        longest = max(longest, now - last)
        last = now
    return units / max(last - began, 1e-9), longest


def child_memory(core):
    """One round: the most memory that a child had for itself alone, as the kernel says, in bytes."""
    fd, child, _pause = begin(core)
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    most = 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ends while its account is read
        while not waiting.poll(2):
            most = max(most, memory("Private_Dirty", child))
    core.end()
    return {"child": most}


def for_seconds(seconds):
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def throughput(core, work):
    """One round: the share of its usual speed that a workload keeps while a child counts, and right after."""
    usual, _ = units_per_second(work, for_seconds(BASE_SECONDS))
    fd, _child, pause = begin(core)
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    during, longest = units_per_second(work, lambda: waiting.poll(0))
    core.end()
    after, _ = units_per_second(work, for_seconds(BASE_SECONDS / 3))
    return {"during": during / usual, "after": after / usual, "longest unit": longest, "own pause": pause / 1e9}


def prepare(request, heap):
    """What does one round; ImportError where the way cannot be had."""
    way = request["way"]
    if way in WAYS:
        count = WAYS[way](request)
        return lambda: measure(count)
    core = load_core(request)
    if way == "child":
        return lambda: child_memory(core)
    work = workloads(heap)[way]
    return lambda: throughput(core, work)


def main():
    request = json.loads(sys.argv[1])
    sys.path.insert(0, request["targets"])
    import heap_zoo  # noqa: PLC0415

    heap = heap_zoo.records(request["objects"], request["aged"])
    KEPT.append(heap)
    try:
        one_round = prepare(request, heap)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    rounds = []
    rss = memory("VmRSS")
    end = time.perf_counter() + request["seconds"]
    while len(rounds) < request["rounds"] and (not rounds or time.perf_counter() < end):
        rounds.append(one_round())
    print(json.dumps({"rounds": rounds, "rss": rss}))


KEPT = []

if __name__ == "__main__":
    main()
