"""The target of bench/sampling.py: does one workload with one profiler on, and writes down what that cost.

Its one argument is JSON: ``way`` (a key of WAYS) and its ``setting``, ``workload``, ``units``, ``warm`` (units that
are done before), ``folder`` (for what the profiler writes), ``core`` (the native core), ``pacing`` (heaptop's file that
chooses the sampling interval) and ``counter`` (the library that tells callgrind where to count, or an empty text).

The figures go to the file ``answer`` of the folder: a dict, or ``{"missing": sentence}``. Turning the profiler on and
off is not in them: only what it costs while it is on.

It runs in the environment of the peers, any Python from 3.8 on, and imports nothing of heaptop.
"""

import contextlib
import ctypes
import gc
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
import time

from workloads import WORKLOADS

READ_SECONDS = 1.0
"""Between two times that heaptop's thread fetches samples, as its agent does."""
READ_LIMIT = 20_000
DEPTH = 128
ATTACHED = 64 << 10
"""The sampling interval that an attach begins with."""


def peak():
    """Bytes: the most that was resident since :func:`forget_peak`."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def forget_the_past():
    """A full collection comes when enough is new beside all there is: what a profiler imports must not make it rarer
    than in the bare workload."""
    gc.collect()
    gc.freeze()
    gc.collect()


# -- profilers ----------------------------------------------------------------------------------------------
#
# Each is a context manager of a request and the dict of figures, which it may add to. What it yields is called at the
# end of the work, and is in the cost.


def nothing():
    pass


@contextlib.contextmanager
def bare(_request, _figures):
    """Also for a profiler that is on from the outside."""
    yield nothing


class Heaptop(threading.Thread):
    """The thread that the agent would be: the sampler never samples the thread that starts it."""

    def __init__(self, core, setting, pacing, seconds, figures):
        super().__init__(daemon=True)
        self.core = core
        self.interval = setting
        self.target = 0  # samples a second that the interval follows the program for; 0: it stays
        self.pacing = pacing
        if isinstance(setting, str):
            self.target = int(setting.partition("/")[0])
            self.interval = pacing["LEAST_INTERVAL"] if seconds else ATTACHED
        self.quota = pacing["QUOTA"] * self.target
        self.seconds = seconds
        self.figures = figures
        self.began, self.work_over, self.all_read, self.ending = (threading.Event() for _ in range(4))

    def run(self):
        self.figures.update(samples=0, dead=0)
        options = {"interval": self.interval, "depth": DEPTH, "seed": 1, "bytes": 0, "quota": self.quota}
        self.core.sample_start(options)
        self.began.set()
        clock, then = 0, time.monotonic()
        while not self.work_over.wait(self.seconds):
            stats = self.read()
            if self.target:
                allocated, elapsed = stats["clock"] - clock, time.monotonic() - then
                clock, then = stats["clock"], then + elapsed
                rate = allocated / elapsed
                self.interval = self.pacing["next_interval"](stats["interval"], rate, self.target, stats["live"])
                self.core.sample_set(self.interval, DEPTH, self.quota)
        self.read()
        self.all_read.set()
        self.ending.wait()
        self.figures["covered"] = self.core.sample_stop()

    def read(self):
        more = True
        while more:
            *_, births, deaths, stats = self.core.sample_read(READ_LIMIT)
            self.figures["samples"] += len(births) // 32
            self.figures["dead"] += len(deaths) // 16
            self.figures.update({name: stats[name] for name in ("clock", "dropped", "live", "on", "bytes", "interval")})
            more = stats["more"]
        return stats

    def finish(self):
        self.work_over.set()
        self.all_read.wait()


def load_core(path):
    loader = importlib.machinery.ExtensionFileLoader("_core", path)
    core = importlib.util.module_from_spec(importlib.util.spec_from_loader("_core", loader))
    loader.exec_module(core)
    core.open(f"{sys.hexversion:x}")
    return core


@contextlib.contextmanager
def heaptop(request, figures):
    """The sampler alone, without the rest of an agent. Under callgrind a second of work takes a minute: there what
    was sampled is fetched at the end, and not each second."""
    if not request["core"]:
        raise ImportError("the native core is not built")
    seconds = None if request["counter"] else READ_SECONDS
    pacing = {}
    with open(request["pacing"]) as file:
        exec(compile(file.read(), request["pacing"], "exec"), pacing)
    thread = Heaptop(load_core(request["core"]), request["setting"], pacing, seconds, figures)
    thread.start()
    if not thread.began.wait(60):
        raise RuntimeError("the sampler did not start")
    yield thread.finish
    thread.ending.set()
    thread.join()
    if not figures["on"] or figures["covered"] or not figures["samples"]:
        raise RuntimeError(f"the sampler was not on all the time: {figures}")


@contextlib.contextmanager
def tracemalloc(request, _figures):
    import tracemalloc as peer  # noqa: PLC0415

    peer.start(request["setting"])
    yield nothing
    if not peer.get_traced_memory()[0]:
        raise RuntimeError("it followed nothing")
    peer.stop()


@contextlib.contextmanager
def memray(request, figures):
    import memray as peer  # noqa: PLC0415

    options = {}
    if "aggregate" in request["setting"]:
        options["file_format"] = peer.FileFormat.AGGREGATED_ALLOCATIONS
    if "python" in request["setting"]:
        options["trace_python_allocators"] = True
    file = os.path.join(request["folder"], "memray")
    with peer.Tracker(file, **options):
        yield nothing
    figures["written"] = os.path.getsize(file)


@contextlib.contextmanager
def ddtrace(request, figures):
    """What its profiler starts for the heap, and nothing else of it; a setting is the bytes between two samples."""
    os.environ.update(
        DD_TRACE_ENABLED="false", DD_INSTRUMENTATION_TELEMETRY_ENABLED="false", DD_REMOTE_CONFIGURATION_ENABLED="false"
    )
    from ddtrace.internal.datadog.profiling import ddup  # noqa: PLC0415
    from ddtrace.profiling.collector.memalloc import MemoryCollector  # noqa: PLC0415

    file = os.path.join(request["folder"], "ddtrace")
    ddup.config(service="bench", env="bench", version="1", output_filename=file)
    ddup.start()
    collector = MemoryCollector(heap_sample_size=request["setting"])
    collector.start()
    figures["interval"] = collector.heap_sample_size
    yield nothing
    collector.stop()


WAYS = {"bare": bare, "heaptop": heaptop, "tracemalloc": tracemalloc, "memray": memray, "ddtrace": ddtrace}


def measured(request):
    make, _ = WORKLOADS[request["workload"]]
    work = make()
    counter = ctypes.CDLL(request["counter"]) if request["counter"] else None
    work(request["warm"])
    figures = {}
    forget_peak()
    with WAYS[request["way"]](request, figures) as finish:
        forget_the_past()
        if counter:
            counter.count_from_here()
        began, cpu = time.perf_counter(), time.process_time()
        answer = work(request["units"])
        finish()
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - began
        if counter:
            counter.count_to_here()
        resident = peak()
    return {**figures, "answer": answer, "cpu": cpu, "seconds": seconds, "resident": resident}


def main():
    request = json.loads(sys.argv[1])
    try:
        figures = measured(request)
    except ImportError as error:
        figures = {"missing": str(error)}
    with open(os.path.join(request["folder"], "answer"), "w") as file:
        json.dump(figures, file)


if __name__ == "__main__":
    main()
