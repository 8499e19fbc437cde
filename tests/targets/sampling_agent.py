"""For targets that sample themselves: one thread that makes every call of the core's, as the agent does, and a book of
what it reads, which checks that nothing in it is out of step. Not a target itself.

The thread is not sampled, nor what it makes: so what a book says is about the target's own threads.
"""

import _thread
import struct
import sys

import core_breaks

BIRTH = struct.Struct("<IIQQIBBH")
DEATH = struct.Struct("<IIQ")


def allocators():
    """What PyMem_GetAllocator says of each domain: five words."""
    import ctypes  # noqa: PLC0415 -- where one interpreter ends and another begins, 3.12.1 does not outlive it

    found = []
    for domain in range(3):
        words = (ctypes.c_void_p * 5)()
        ctypes.pythonapi.PyMem_GetAllocator(domain, words)
        found.append(tuple(word or 0 for word in words))
    return found


def unpack(data):
    """The msgpack that the core writes: arrays, texts and numbers."""
    value, end = _unpack(data, 0)
    assert end == len(data)
    return value


def _unpack(data, at):
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head in (0xCC, 0xCD, 0xCE, 0xCF):
        size = 1 << (head - 0xCC)
        return int.from_bytes(data[at : at + size], "big"), at + size
    if 0x90 <= head < 0xA0 or head in (0xDC, 0xDD):
        size = 0 if head < 0xA0 else 2 << (head - 0xDC)
        count = head & 15 if size == 0 else int.from_bytes(data[at : at + size], "big")
        at += size
        items = []
        for _ in range(count):
            item, at = _unpack(data, at)
            items.append(item)
        return items, at
    size = 0 if head < 0xC0 else 1 << (head - 0xD9)
    count = head & 31 if size == 0 else int.from_bytes(data[at : at + size], "big")
    at += size
    return data[at : at + count].decode(), at + count


class Birth:
    def __init__(self, record, intervals):
        self.id, self.stack, self.clock, self.size, self.type, self.domain, position, zero = record
        assert zero == 0
        self.interval = intervals[position]

    def bytes(self):
        """What it stands for."""
        return self.size / (1 - (1 - 1 / self.interval) ** self.size)


class Book:
    """Everything read of a session."""

    def __init__(self, core):
        self.core = core
        self.codes, self.nodes = [], [None]
        self.living, self.dead = {}, []  # id: Birth; (Birth, clock of death)
        self.births = 0
        self.stats = {"epoch": 0}
        self.notes = []

    def read(self, limit=100000):
        """All there is; returns the last stats."""
        more = True
        while more:
            more = self.read_once(limit)
        return self.stats

    def read_once(self, limit):
        """Whether there is more: always, where others allocate faster than this reads."""
        codes, first_code, nodes, first_node, births, deaths, stats = self.core.sample_read(limit)
        assert (first_code, first_node) == (len(self.codes), len(self.nodes))
        codes, nodes = unpack(codes), unpack(nodes)
        assert len(codes) <= limit, (len(codes), limit)
        assert len(nodes) <= limit, (len(nodes), limit)
        self.codes += codes
        for parent, code, line in nodes:
            assert parent < len(self.nodes)
            assert code < len(self.codes)
            self.nodes.append((parent, code, line))
        if stats["epoch"] != self.stats["epoch"]:
            self.living = {}
        assert len(births) <= limit * BIRTH.size
        assert len(deaths) <= limit * DEATH.size
        for record in BIRTH.iter_unpack(births):
            birth = Birth(record, stats["intervals"])
            assert birth.id not in self.living
            assert birth.stack < len(self.nodes)
            assert birth.clock <= stats["clock"]
            self.living[birth.id] = birth
            self.births += 1
        for number, _, clock in DEATH.iter_unpack(deaths):
            birth = self.living.pop(number)
            assert birth.clock <= clock <= stats["clock"]
            self.dead.append((birth, clock))
        self.stats = stats
        if stats["note"]:
            self.notes.append(stats["note"])
        return stats["more"]

    def stack(self, birth):
        """[(function, line)], the innermost first."""
        found, node = [], birth.stack
        while node:
            node, code, line = self.nodes[node]
            found.append((self.codes[code][1].rpartition(".")[2], line))
        return found

    def site(self, birth):
        return (self.stack(birth) or [("", 0)])[0]

    def of(self, function, births=None):
        """The living ones that were allocated in a function of that name."""
        return [birth for birth in (births or self.living.values()) if self.site(birth)[0] == function]


class Agent:
    """``agent(function, *arguments)`` calls in the agent's thread, and returns or raises what that does."""

    def __init__(self, path=None):
        self.core = core_breaks.load(path or sys.argv[1])
        self.begin, self.end = _thread.allocate_lock(), _thread.allocate_lock()
        self.begin.acquire()
        self.end.acquire()
        _thread.start_new_thread(self._serve, ())

    def _serve(self):
        while True:
            self.begin.acquire()
            if self.work is None:
                return
            try:
                function, arguments = self.work
                self.result, self.error = function(*arguments), None
            except BaseException as error:
                self.result, self.error = None, error
            function = arguments = None
            self.end.release()

    def __call__(self, function, *arguments):
        self.work = (function, arguments)
        self.begin.release()
        self.end.acquire()
        result, error, self.result, self.error = self.result, self.error, None, None
        if error is not None:
            raise error
        return result

    def start(self, interval, depth=64, seed=1, size=0):
        """Sampling, from now on; the book that its reads go into."""
        self.core.sample_stop()
        self(self.core.sample_start, {"interval": interval, "depth": depth, "seed": seed, "bytes": size})
        return Book(self.core)

    def stop(self):
        return self(self.core.sample_stop)
