"""Plants a heap, and does with its open snapshot what it is told: a line of JSON each on stdin, ``[name, argument]``.

Argument: the core's library. Answers each line with one of ASCII Python. The core's calls are made in a thread of their
own, as an agent makes them. Ends when stdin does.
"""

import _thread
import array
import collections
import ctypes
import io
import json
import os
import signal
import sys
import time

from sampling_agent import Agent

SECRET = "planted secret"
FAR_ITEMS = 40_000


class Parcel:
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number


class Letter:
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number


class Session:
    def __init__(self, number):
        self.user = f"user {number}"
        self.basket = [bytearray(100) for _ in range(3)]


class Handled:
    pass


def handler_of(each):
    kept = [each]

    def handle():
        return kept

    return handle


class Far(tuple):
    __slots__ = ()


class Text(str):
    __slots__ = ()


def chain(links):
    last = None
    for _ in range(links):
        last = [last]
    return last


OLD = [Parcel(i) for i in range(1000)]
NEW = []
UNBOUNDED = collections.deque([1], maxlen=sys.maxsize)
SESSIONS = {i: Session(i) for i in range(100)}
HANDLERS = [handler_of(Handled()) for _ in range(30)]
RECORDS = [[i] for i in range(60_000)]
CHAIN = chain(10_000)
SHARED = [bytes(5000)]
FIRST = [[bytes(1000)], SHARED]
SECOND = [[bytes(2000)], SHARED]
del SHARED
SHOWN = {
    "str": SECRET,
    "int": 90_000_001,
    "bool": True,
    "Text": Text(SECRET),
    "bytes": SECRET.encode(),
    "huge": 10**40,
    "list": [SECRET, SECRET],
    "tuple": (SECRET, SECRET, 5),
    "dict": {SECRET: [SECRET]},
    "set": {SECRET},
    "class": Session,
    "function": chain,
    "instance": SESSIONS[7],
}
KEPT = []
HELD = []
Characters = ctypes.c_char * 3000
MANY = []


def make_small(count):
    KEPT.append([bytes(300) for _ in range(count)])


def make_large(count):
    KEPT.append([bytes(3000) for _ in range(count)])


def make_buffers(count):
    for _ in range(count):
        KEPT.append((bytearray(5000), [None] * 700, dict.fromkeys(range(100)), set(range(100))))


def lose_references(count):
    """As C does that takes a reference to a text and never gives it back."""
    take = ctypes.pythonapi.Py_IncRef
    take.argtypes = [ctypes.py_object]
    for number in range(count):
        take(f"a text {number:0900}")


def fill_free_lists(count):
    """Of what goes, the interpreter keeps some blocks for the next of the same type."""
    made = [(tuple(range(number, number + 19)), number * 1.5, [number], {number: number}) for number in range(count)]
    del made


def lose_blocks(count):
    """As C does that takes memory from Python's allocator and never gives it back."""
    take = ctypes.pythonapi.PyMem_Malloc
    take.argtypes = [ctypes.c_size_t]
    take.restype = ctypes.c_void_p
    for _ in range(count):
        take(700)


class Buffer(bytearray):
    pass


def hold_in_c_types(count):
    """Memory of its own that an object of C leads to."""
    for _ in range(count):
        HELD.append((array.array("d", bytes(4000)), collections.deque(range(500)), Characters()))
        HELD.append(collections.OrderedDict.fromkeys(range(20)))
        text = io.StringIO("x" * 3000)
        text.read(1)
        HELD.append((text, Buffer(3000)))


class Entry:
    __slots__ = ()


def make_emptied(count):
    """Dicts of which the oldest half of all entries is gone, as in a queue or a cache."""
    for made in ({}, collections.OrderedDict(), collections.defaultdict(list)):
        made.update((i, Entry()) for i in range(2 * count))
        for i in range(count):
            del made[i]
        KEPT.append(made)


def make_nested(count):
    """Functions, each the default argument of the next one."""
    last = None
    for _ in range(count):
        last = lambda last=last: last  # noqa: E731
    KEPT.append(last)


def make_far(count):
    """Objects with so many items in them that none is within 256 KiB of the next: few objects in much address space."""
    far = [Far([None] * FAR_ITEMS) for _ in range(count)]
    KEPT.append(far)
    return sorted(map(id, far))


class Exercise:
    def __init__(self):
        self.agent = Agent()
        self.core = self.agent.core
        self.pid = 0

    def places(self, _):
        named = {"OLD": OLD, "FIRST": FIRST, "SECOND": SECOND, "SHARED": FIRST[1], "SESSIONS": SESSIONS, "CHAIN": CHAIN}
        named["RECORDS"] = RECORDS
        return {name: (id(o), sys.getsizeof(o)) for name, o in {**named, **SHOWN}.items()}

    def begin(self, options):
        """What image_begin says, or why it did not."""
        try:
            self.pid, _pause = self.agent(self.core.image_begin, options)
        except RuntimeError as error:
            return str(error)
        return self.pid

    def take(self, _):
        """The answer, once it is there; None when the image has ended."""
        while True:
            state = self.agent(self.core.image_look)[0]
            if state == -1:
                return None
            if state == 1:
                return self.agent(self.core.image_take).hex()
            time.sleep(0.0005)

    def await_answer(self, question):
        """Whether a wait without end has ended, and the state then."""
        asked = self.ask(question)
        return asked and self.agent(self.core.image_wait, 2**63), self.agent(self.core.image_look)[0]

    def wait_in_vain(self, question):
        """For the answer of a clone that is stopped. Whether it waited, and whether another thread ran meanwhile."""
        turns, over = [0], []

        def turn():
            while not over:
                turns[0] += 1

        def wait():
            before = turns[0]
            return self.core.image_wait(10**8), turns[0] > before

        os.kill(self.pid, signal.SIGSTOP)
        assert self.ask(question)
        _thread.start_new_thread(turn, ())
        found = self.agent(wait)
        over.append(True)
        os.kill(self.pid, signal.SIGCONT)
        return found

    def may_wait(self, _):
        return self.agent(self.core.image_wait, 2**63)

    def ask(self, question):
        return self.agent(self.core.image_ask, bytes.fromhex(question))

    def ask_and_cancel(self, question):
        """Before it has looked at it."""
        os.kill(self.pid, signal.SIGSTOP)
        asked = self.ask(question)
        self.agent(self.core.image_cancel)
        os.kill(self.pid, signal.SIGCONT)
        return asked

    def cancel(self, _):
        return self.agent(self.core.image_cancel)

    def look(self, _):
        return self.agent(self.core.image_look)

    def end(self, _):
        return self.agent(self.core.image_end)[:2]

    def wait(self, _):
        while self.agent(self.core.image_look)[0] != -1:
            time.sleep(0.001)

    def add(self, count):
        NEW.extend([Parcel(i) for i in range(count)])

    def nest(self, count):
        """Items of items, below attributes and a chain."""
        session = Session(0)
        session.held = {i: {"rows": [[Parcel(i)], (bytes(i), {i})]} for i in range(count)}
        KEPT.append((session, chain(count), {"deep": [session.held]}))

    def many(self, count):
        """So many more objects than the rest, or fewer again."""
        MANY[:] = [(each, each) for each in range(count)]

    def drop(self, count):
        """Every other one of those added first."""
        del NEW[: 2 * count : 2]

    def replace(self, number):
        """The old ones, by others of the type, of another one, or of a type each. How many stand in the same place."""
        same = 0
        for i in range(len(OLD)):
            kind = Parcel if number == 0 else Letter if number == 1 else type("Kind", (Letter,), {"__slots__": ()})
            address, OLD[i] = id(OLD[i]), None
            OLD[i] = kind(i)
            same += id(OLD[i]) == address
        return same

    def replaced(self, _):
        return [id(o) for o in OLD]

    def parcels(self, _):
        return [id(o) for o in OLD + NEW if type(o) is Parcel]

    def make(self, count):
        make_emptied(count)
        make_nested(count)

    def make_far(self, count):
        return make_far(count)

    def kill(self, _):
        """The clone, by somebody else."""
        os.kill(self.pid, signal.SIGKILL)

    def sample(self, _):
        """Every block from now on. Nodes of the stacks met, by the function that is the innermost."""
        book = self.agent.start(1)
        make_small(500)
        make_large(70)
        make_buffers(40)
        lose_references(50)
        fill_free_lists(70)
        lose_blocks(60)
        hold_in_c_types(40)
        self.agent(book.read)
        sites = {}
        for node in range(1, len(book.nodes)):
            _, code, _ = book.nodes[node]
            sites.setdefault(book.codes[code][1].rpartition(".")[2], []).append(node)
        return sites

    def unsample(self, _):
        self.agent.stop()


def serve(exercise):
    """Do what each line of stdin says, until its end."""
    for line in sys.stdin:
        name, argument = json.loads(line)
        print(ascii(getattr(exercise, name)(argument)), flush=True)


def main():
    serve(Exercise())


if __name__ == "__main__":
    main()
