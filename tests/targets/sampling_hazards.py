"""Samples in the middle of what is dangerous, and prints what became of it.

Arguments: the core's library, the name of a function of this file that is a hazard, and its arguments.
"""

import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
import tracemalloc
import warnings
import weakref

from sampling_agent import Agent, allocators

try:
    import _interpreters
except ImportError:
    import _xxsubinterpreters as _interpreters

INTERVAL = 2048


def work(n=3000):
    """Objects of all sorts, some of which stay."""
    kept = []
    for i in range(n):
        kept.append([i, str(i), {"k": i}, bytes(i % 700), (i, i)])
        if i % 7 == 0:
            kept[i // 2] = None
    return kept


class Busy:
    """Threads that work until it is left; nothing of theirs may fail."""

    def __init__(self, count):
        self.end = False
        self.turns = [0] * count
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(count)]

    def _run(self, number):
        while not self.end:
            assert work(100)[99][1] == "99"
            self.turns[number] += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.end = True
        for thread in self.threads:
            thread.join()


def sampled(agent, interval=INTERVAL):
    """Begin, work, and end; whether there were births and deaths, and what the end said."""
    book = agent.start(interval)
    kept = work()
    agent(book.read)
    before = len(book.living)
    del kept
    agent(book.read)
    return book.births > 50 and len(book.living) < before / 2, agent.stop()


def cycles(times):
    sys.setswitchinterval(0.0005)
    agent, first = Agent(), allocators()
    births, same = 0, 0
    with Busy(2) as busy:
        for i in range(int(times)):
            book = agent.start(INTERVAL, 64, i + 1)
            work(100)
            agent(book.read)
            births += book.births
            text = agent.stop()
            same += text == "" and allocators() == first
        assert all(busy.turns)
    return {"same": same, "births": births > 10 * int(times)}


def fork(_):
    agent, first = Agent(), allocators()
    book = agent.start(INTERVAL)
    kept = work()
    with Busy(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                text = ascii(in_child(first, kept))
            except BaseException as error:
                text = ascii(repr(error))
            os.write(writing, text.encode())
            os._exit(0)
    os.close(writing)
    told = os.read(reading, 10000).decode()
    status = os.waitpid(child, 0)[1]
    agent(book.read)
    del kept
    living = len(book.living)
    agent(book.read)
    return {"status": status, "child": told, "parent": (len(book.living) < living, agent.stop(), allocators() == first)}


def in_child(first, kept):
    work()
    gc.collect()
    agent = Agent()
    passive = agent(agent.core.sample_read, 10)
    del kept
    answer = passive[4] == b"" and not passive[6]["on"], *sampled(agent), allocators() == first
    return answer + sampled(agent)


def fork_leave(_):
    """A child whose agent leaves: nothing of the sampler is in it any more, but for the library."""
    agent, first = Agent(), allocators()
    book = agent.start(1)
    kept = work()
    function = type(work)(work.__code__.replace(co_name="fresh"), {"range": range, "str": str, "bytes": bytes})
    function(10)
    alive = weakref.ref(function.__code__)
    before = mapped()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            del function
            agent.core.sample_leave()
            left = (
                allocators() == first,
                agent.core.sample_stats()["bytes"],
                before - mapped() > 8 << 20,
                alive() is None,
            )
            agent.core.sample_leave()
            del kept
            work()
            text = ascii((left, sampled(Agent()), allocators() == first))
        except BaseException as error:
            text = ascii(repr(error))
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    told = os.read(reading, 10000).decode()
    status = os.waitpid(child, 0)[1]
    agent(book.read)
    return {"status": status, "child": told, "parent": (len(book.living) > 1000, agent.stop(), allocators() == first)}


def mapped():
    """Bytes."""
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[0]) * 4096


def fork_often(times):
    """Children of a process whose threads are busy, at the moment of a sample too."""
    agent = Agent()
    book = agent.start(16)
    statuses = set()
    with Busy(2):
        for _ in range(int(times)):
            child = os.fork()
            if child == 0:
                work(200)
                os._exit(0)
            statuses.add(os.waitpid(child, 0)[1])
            agent(book.read_once, 1000)
    return {"statuses": statuses, "stop": agent.stop()}


def threads(count):
    """Many that come, allocate a little, and go: the clock is not moved by what they did not allocate."""
    agent = Agent()
    book = agent.start(65536)
    agent(book.read)
    before = book.stats["clock"]
    kept = []

    def allocate():
        for _ in range(20):
            kept.append(bytes(1000))

    for _ in range(int(count)):
        thread = threading.Thread(target=allocate)
        thread.start()
        thread.join()
    agent(book.read)
    clock = (book.stats["clock"] - before) / (int(count) * 20 * 1033)
    inside = [birth for birth in book.of("allocate") if birth.size == 1033]
    bytes_of = sum(birth.bytes() for birth in inside) / (int(count) * 20 * 1033)
    with Busy(8) as busy:
        for _ in range(20):
            work(100)
            agent(book.read)
        assert all(busy.turns)
    agent(book.read)
    return {"clock": clock, "estimate": bytes_of, "stop": agent.stop()}


def make_interpreter(own):
    """Its id. ``own``: with a GIL of its own (3.12 and later)."""
    if sys.version_info >= (3, 13):
        return _interpreters.create("isolated" if own else "legacy")
    return _interpreters.create() if sys.version_info < (3, 9) else _interpreters.create(isolated=own)


INNER = """
def inside():
    kept = []
    for k in range(6):
        kept = []
        for i in range(3000):
            kept.append([i, str(i), bytes(i % 700)])
    return kept
kept = inside()
"""


def interpreters(own):
    """``own``: each with a GIL of its own, else all under one."""
    own = own == "own"
    run = _interpreters.exec if sys.version_info >= (3, 13) else _interpreters.run_string
    agent, first = Agent(), allocators()
    older = make_interpreter(own)
    book = agent.start(INTERVAL)
    ids = [older, make_interpreter(own)]
    failures = []
    each = [threading.Thread(target=lambda i=i: failures.append(run(i, INNER))) for i in ids]
    for thread in each:
        thread.start()
    while any(thread.is_alive() for thread in each):
        kept = work(500)
        agent(book.read)
    for thread in each:
        thread.join()
    kept = work(500)
    agent(book.read)
    elsewhere = len(book.of("(another interpreter)"))
    _interpreters.destroy(ids[1])
    del kept
    agent(book.read)
    functions = {code[1].rpartition(".")[2] for code in book.codes}
    stop = agent.stop()
    _interpreters.destroy(older)
    return {
        "failures": [failure for failure in failures if failure is not None],
        "elsewhere": elsewhere > 20 and len(book.of("(another interpreter)")) < elsewhere,
        "own": "work" in functions and "inside" not in functions,
        "stop": (stop, allocators() == first),
        "again": sampled(agent),
    }


def exiting(_):
    """The interpreter ends while sampling is on, with threads at work."""
    agent = Agent()
    book = agent.start(64)
    work()
    agent(book.read)
    for _ in range(2):
        thread = threading.Thread(target=lambda: [work(100) for _ in range(100000)])
        thread.daemon = True
        thread.start()
    time.sleep(0.05)
    globals()["kept"] = work()
    return {"births": book.births > 100}


def deep(depth):
    sys.setrecursionlimit(20000)
    found = {}

    def down(n):
        if n == 0:
            found["block"] = [bytes(100000) for _ in range(10)]
        else:
            down(n - 1)

    agent = Agent()
    book = agent.start(INTERVAL, int(depth))
    down(3000)
    agent(book.read)
    stacks = [book.stack(birth) for birth in book.living.values() if birth.size == 100033]
    wanted = {min(int(depth), 3001 + (sys.version_info < (3, 12)))}
    lengths = {sum(name in ("down", "<listcomp>") for name, _ in stack) for stack in stacks}
    return {"stacks": len(stacks), "lengths": lengths == wanted or (lengths, wanted), "stop": agent.stop()}


def full(size):
    """Tables with too little room: samples are dropped and counted, and later ones find room again."""
    agent = Agent()
    book = agent.start(1, 64, 1, int(size))
    kept = [bytes(50) for _ in range(200_000)]
    agent(book.read)
    first = dict(book.stats)
    agent(book.read)
    notes = list(book.notes)
    enough = len(book.living) > 1000
    del kept
    agent(book.read)
    agent(book.read)
    few = len(book.living) < 500
    births = book.births
    kept = [bytes(50) for _ in range(500)]
    agent(book.read)
    again = (
        book.births - births >= len(kept) == sum(birth.size == sys.getsizeof(kept[0]) for birth in book.living.values())
    )
    return {
        "dropped": first["dropped"] > 1000,
        "bytes": first["bytes"] <= int(size),
        "notes": notes,
        "full, empty, again": (enough, few, again),
        "stop": agent.stop(),
    }


def fresh_code(count):
    """A function made anew for each task: its code is not kept alive by heaptop, and is one place."""
    agent = Agent()
    book = agent.start(64)
    template = compile("def task():\n    return [bytes(1000)]\n", "tasks.py", "exec").co_consts[0]
    alive = []
    for i in range(int(count)):
        function = type(work)(template.replace(co_consts=(*template.co_consts, i)), {"bytes": bytes})
        alive.append(weakref.ref(function.__code__))
        assert len(function()[0]) == 1000
        if i % 500 == 499:
            agent(book.read)
    del function
    for _ in range(3):
        agent(book.read)
    codes = [code for code in book.codes if code[0] == "tasks.py"]
    sites = {book.site(birth) for birth, _ in book.dead if birth.size == sys.getsizeof(bytes(1000))}
    return {
        "alive": sum(one() is not None for one in alive),
        "codes": codes,
        "sites": sites,
        "nodes": len(book.nodes) < 200,
        "deaths": len(book.dead) > int(count),
        "stop": agent.stop(),
    }


def fresh_names_when_full(count):
    """Each task has a function of its own name, and the table of stacks has no room for one more."""
    agent = Agent()
    book = agent.start(1, 64, 1, 20_000_000)
    template = compile("def task():\n    return [bytes(1000)]\n", "tasks.py", "exec").co_consts[0]
    name = "co_qualname" if sys.version_info >= (3, 11) else "co_name"
    halve = "def halve(n):\n    made = [n] * 3\n    if n:\n        halve(n - 1)\n        halve(n - 1)\n"
    names, alive, counts = {"halve": None}, [], []
    for turn in range(2):  # the first one takes the callers of tasks in
        for i in range(int(count)):
            function = type(work)(template.replace(**{name: f"task{turn}.{i}"}), {"bytes": bytes})
            alive.append(weakref.ref(function.__code__))
            assert len(function()[0]) == 1000
            if i % 500 == 499:
                agent(book.read)
        counts.append((len(book.nodes), book.stats["dropped"]))
        for i in range(0 if turn else 3):
            exec(compile(halve, f"halves{i}.py", "exec"), names)
            names["halve"](16)
            agent(book.read)
        counts.append((len(book.nodes), book.stats["dropped"]))
    del function
    for _ in range(5):
        agent(book.read)
    return {
        "full": counts[1][0] == counts[2][0] and counts[2][1] - counts[1][1] >= int(count),
        "notes": book.notes,
        "alive": sum(one() is not None for one in alive),
        "stop": agent.stop(),
    }


def refused(_):
    """Allocations that fail were none: the clock stands, and goes on."""
    agent = Agent()
    book = agent.start(4096)
    before = agent(agent.core.sample_clock)
    for make in (bytearray, bytes, lambda size: [None] * (size // 8)):
        for _ in range(3):
            with contextlib.suppress(MemoryError):
                make(1 << 62)
    moved = agent(agent.core.sample_clock) - before
    kept = [bytes(1000) for _ in range(1000)]
    went_on = agent(agent.core.sample_clock) - before - moved
    agent(book.read)
    return {
        "moved": moved < 100_000 or moved,
        "went on": 1_000_000 < went_on < 1_300_000 or went_on,
        "samples": len(book.living) > len(kept) / 20,
        "stop": agent.stop(),
    }


def unread(limit):
    """Much happens before a read, which then takes it in pieces: many deep stacks, too."""
    agent = Agent()
    book = agent.start(8)
    kept = work()
    for i in range(50):
        kept.append(dive(i, 2 + i % 3))
    agent(lambda: book.read(int(limit)))
    before = len(book.living)
    del kept
    agent(lambda: book.read(int(limit)))
    return {"births": before > 1000, "deaths": len(book.living) < before / 2, "stop": agent.stop()}


def dive(n, step):
    return [n] if n <= 0 else dive(n - step, step)


def rates(_):
    """Another rate and depth while on."""
    agent = Agent()
    book = agent.start(1, 4)
    work(100)
    agent(agent.core.sample_set, 65536, 2)
    kept = work(100)
    agent(agent.core.sample_set, 1, 1)
    bytes(4 << 20)  # 64 intervals: whatever was drawn is used up
    kept += work(100)
    agent(book.read)
    by_interval = {birth.interval for birth in [*book.living.values(), *(birth for birth, _ in book.dead)]}
    depths = sorted({len(book.stack(birth)) for birth in book.living.values()})
    refused = []
    for interval, depth in ((0, 1), (1 << 41, 1), (1, 0), (1, 1025)):
        try:
            agent(agent.core.sample_set, interval, depth)
        except RuntimeError as error:
            refused.append(str(error))
    stats = agent(book.read)
    return {
        "intervals": stats["intervals"],
        "seen": sorted(by_interval),
        "depths": depths[0] == 1 and depths[-1] <= 4,
        "refused": refused,
        "now": (stats["interval"], stats["depth"], stats["on"]),
        "stop": agent.stop(),
        "off": agent(book.core.sample_read, 1)[6]["on"],
    }


# -- other tools in the allocators --


def traced_before(_):
    """tracemalloc below, which goes after us: in order."""
    agent, first = Agent(), allocators()
    tracemalloc.start()
    second = allocators()
    result = sampled(agent)
    same = allocators() == second
    kept = work()
    traced = tracemalloc.get_traced_memory()[0] > 100000
    tracemalloc.stop()
    del kept
    return {"sampled": result, "same": same and traced, "first": allocators() == first}


def traced_after(_):
    """tracemalloc above, which goes before us; and in a second round, after."""
    agent, first = Agent(), allocators()
    book = agent.start(INTERVAL)
    tracemalloc.start()
    kept = work()
    stats = agent(book.read)
    covered = stats["covered"], stats["on"], len(book.living) > 50
    tracemalloc.stop()
    del kept
    living = len(book.living)
    stats = agent(book.read)
    uncovered = stats["covered"], stats["epoch"], len(book.living) < living / 2
    end = agent.stop(), allocators() == first

    book = agent.start(INTERVAL)
    tracemalloc.start()
    kept = work()
    stays = agent.stop()
    again = sampled(agent)
    kept = work()
    passing = work()
    tracemalloc.stop()
    del kept, passing
    return {
        "covered": covered,
        "uncovered": uncovered,
        "end": end,
        "stays": stays,
        "again": again,
        "gone": (agent.stop(), allocators() == first),
    }


def traced_below_us_stops(_):
    """tracemalloc was there before us and stops: it puts back what was before it, and so takes us out."""
    agent, first = Agent(), allocators()
    tracemalloc.start()
    book = agent.start(INTERVAL)
    kept = work()
    agent(book.read)
    before = len(book.living)
    tracemalloc.stop()
    lost = allocators() == first
    del kept
    kept = work()
    stats = agent(book.read)
    void = stats["epoch"], len(book.living), len(book.notes)
    more = work()
    stats = agent(book.read)
    after = stats["epoch"], len(book.living) > 50
    del kept, more
    return {
        "before": before > 50,
        "lost": lost,
        "void": void,
        "after": after,
        "stop": (agent.stop(), allocators() == first),
        "again": sampled(agent),
    }


def traced_on_and_off(times):
    """Somebody who starts and stops tracemalloc all the time, at every place in the order."""
    agent, first = Agent(), allocators()
    births = 0
    with Busy(1):
        for i in range(int(times)):
            if i % 3 == 0:
                tracemalloc.start()
            book = agent.start(INTERVAL, 64, i + 1)
            if i % 3 == 1:
                tracemalloc.start()
            work(100)
            agent(book.read)
            if i % 2:
                tracemalloc.stop()
            work(100)
            agent(book.read)
            births += book.births
            agent.stop()
            tracemalloc.stop()
            assert agent.stop() == ""
            assert allocators() == first, i
    return {"births": births > 10 * int(times)}


def twice(path):
    """A tool over us that leaves us out, is hooked over, and passes on to us again: each block would count twice."""
    agent, first, tool = Agent(), allocators(), ctypes.PyDLL(path)
    words = [(ctypes.c_void_p * 5)(*domain) for domain in first]
    book = agent.start(INTERVAL)
    for domain in (1, 2):
        tool.put_over(domain)
    covered = agent(book.read)["covered"]
    for domain in (1, 2):
        tool.pass_on_to(domain, words[domain])
    left_out = agent(book.read)
    kept = work()
    agent(book.read)
    births = book.births
    for domain in (1, 2):
        tool.pass_on_to(domain, None)
    kept += work()
    stats = agent(book.read)
    for domain in (1, 2):
        tool.pass_on_to(domain, words[domain])
    result = {
        "covered": covered,
        "left out": (left_out["epoch"], left_out["on"], births > 50),
        "twice": (stats["on"], book.notes[-1]),
        "stop": agent.stop(),
    }
    for domain in (1, 2):
        ctypes.pythonapi.PyMem_SetAllocator(domain, words[domain])
    return {**result, "same": allocators() == first, "again": sampled(agent)}


def main():
    warnings.simplefilter("ignore", DeprecationWarning)  # of fork, in a process that has threads
    result = globals()[sys.argv[2]](sys.argv[3] if len(sys.argv) > 3 else "")
    print(ascii(result), flush=True)


if __name__ == "__main__":
    main()
