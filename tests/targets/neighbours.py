"""The shop of sampling_shop.py under another memory profiler: memray, memray-python or ddtrace.

Arguments: which, and a folder for what it writes. To its letters come n: the neighbour starts; o: it ends, and says the
file that its profile is in, or for memray the bytes that it saw allocated in create_session and not freed.
"""

import os
import sys

import sampling_shop

NAME, FOLDER = sys.argv[1:]
FILE = os.path.join(FOLDER, "profile")


class Memray:
    def __init__(self):
        import memray  # noqa: PLC0415

        self.file = f"{FILE}-{os.urandom(4).hex()}"
        self.tracker = memray.Tracker(self.file, trace_python_allocators=NAME.endswith("python"))
        self.tracker.__enter__()

    def stop(self):
        import memray  # noqa: PLC0415

        self.tracker.__exit__(None, None, None)
        with memray.FileReader(self.file) as reader:
            records = list(reader.get_leaked_allocation_records(merge_threads=True))
            return sum(one.size for one in records if any(f[0] == "create_session" for f in one.stack_trace(8)))


class Ddtrace:
    """What its profiler starts for the heap, and nothing else of it."""

    def __init__(self):
        for what in ("TRACE", "INSTRUMENTATION_TELEMETRY", "REMOTE_CONFIGURATION"):
            os.environ[f"DD_{what}_ENABLED"] = "false"
        from ddtrace.internal.datadog.profiling import ddup  # noqa: PLC0415
        from ddtrace.profiling.collector.memalloc import MemoryCollector  # noqa: PLC0415

        ddup.config(service="shop", env="tests", version="1", output_filename=FILE)
        ddup.start()
        self.upload = ddup.upload
        self.collector = MemoryCollector(heap_sample_size=4096)
        self.collector.start()

    def stop(self):
        self.collector.snapshot()
        self.upload()
        self.collector.stop()
        return next(name for name in sorted(os.listdir(FOLDER), reverse=True) if name.endswith(".pprof"))


RUNNING = []


def start():
    RUNNING.append((Ddtrace if NAME == "ddtrace" else Memray)())
    return 0


def stop():
    return RUNNING.pop().stop()


if __name__ == "__main__":
    ANSWERS = {**sampling_shop.ANSWERS, "n": start, "o": stop}
    while (letter := sys.stdin.read(1)) in ANSWERS:
        print(repr(ANSWERS[letter]()), flush=True)
