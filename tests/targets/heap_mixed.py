"""A heap of every sort of object, which stands still and can count itself: the reference for a census.

Runs on every Python from 3.8 on. Commands on stdin, a byte each: ``r`` print the reference, ``s`` print facts that
a test explains differences with, ``a`` start the agent (stdin begins with its bootstrap: 4 bytes of length, text),
``f`` fork and say what the child found, ``w`` keep changing the heap in four threads, ``c`` collect, ``q`` quit.
The reference is the plainest closure there is, and shares nothing with the agent. Argument ``small``: without the
long containers, where the sorts of objects matter and not how many there are.
"""

import _thread
import collections
import gc
import itertools
import os
import sys
import warnings
import weakref

CALLED = []


class Hostile(type):
    """A metaclass that notices every touch."""

    def __getattribute__(cls, name):
        CALLED.append("getattribute " + name)
        return type.__getattribute__(cls, name)

    def __hash__(cls):
        CALLED.append("hash")
        return 1

    def __eq__(cls, other):
        CALLED.append("eq")
        return True

    def __instancecheck__(cls, o):
        CALLED.append("instancecheck")
        return True

    __name__ = property(lambda cls: CALLED.append("name"))
    __module__ = property(lambda cls: CALLED.append("module"))
    __mro_entries__ = None


class Victim(metaclass=Hostile):
    def __init__(self):
        self.value = [object()]

    def __getattribute__(self, name):
        CALLED.append("instance " + name)
        return object.__getattribute__(self, name)

    def __eq__(self, other):
        CALLED.append("instance eq")
        return True

    def __hash__(self):
        CALLED.append("instance hash")
        return 7

    def __repr__(self):
        CALLED.append("repr")
        return ""

    @property
    def __class__(self):
        CALLED.append("class")
        return int


class HostileDict(dict, metaclass=Hostile):
    def __iter__(self):
        CALLED.append("iter")
        return iter(())

    def keys(self):
        CALLED.append("keys")
        return ()

    def __len__(self):
        CALLED.append("len")
        return 10**6


class OwnSize:
    def __sizeof__(self):
        CALLED.append("sizeof")
        return 1000


class RaisingSize(dict):
    def __sizeof__(self):
        CALLED.append("raising sizeof")
        raise ValueError("no size")


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, i):
        self.a, self.b = str(i) * 3, float(i)


class Plain:
    def __init__(self, i):
        for k in range(i % 40):
            setattr(self, "attribute%d" % k, (i, k))


class NamedOddly:
    pass


NamedOddly.__module__ = 5
NamedOddly.__qualname__ = "odd \ud800"


def generator(x):
    y = [x, "local of a generator"]
    yield y
    yield x


def closure(x):
    def inner():
        return x

    return inner


def deep(depth):
    chain = None
    for _ in range(depth):
        chain = (chain,)
    return chain


def build(length):
    heap = [Victim() for _ in range(5)] + [HostileDict({"k%d" % i: i}) for i in range(3)]
    heap += [OwnSize() for _ in range(7)] + [RaisingSize(a=i) for i in range(6)]
    heap += [Slots(i) for i in range(50)] + [Plain(i) for i in range(80)] + [NamedOddly()]
    heap += [closure([i]) for i in range(20)] + [generator(i) for i in range(9)]
    for g in heap[-4:]:
        next(g)
    heap += [b"x" * i for i in range(30)] + [bytearray(i) for i in range(9)] + [memoryview(b"m" * 50)]
    heap += [s * 17 for s in ("a", "\xe9", "\u20ac", "\U0001f600")] + [10**i for i in range(0, 200, 7)]
    heap += [-(7**50), 1.5, 2j, True, None, range(10**6), slice(1, 10**9), ..., 2**64]
    heap += [set(range(i)) for i in range(40)] + [frozenset(map(str, range(i))) for i in range(40)]
    heap += [dict.fromkeys(range(i)) for i in range(30)] + [
        dict.fromkeys("key%d" % k for k in range(i)) for i in range(30)
    ]
    heap += [
        {"a": {"b": {"c": {1: [{2: "deep"}]}}}},
        collections.deque(map(str, range(700))),
        collections.Counter("abcab"),
    ]
    heap += [collections.OrderedDict((str(i), i) for i in range(9)), collections.defaultdict(list, {1: [2]})]
    heap += [{str(i): (i, str(i)) for i in range(length)}, {i: float(i) for i in range(length)}]
    heap += [
        list(map(str, range(length))),
        tuple(map(float, range(length))),
        set(map(str, range(9000, 10_000 + length))),
    ]
    heap += [weakref.ref(heap[0]), weakref.WeakValueDictionary(), deep(3000), property(len), Plain(3).__init__]
    heap += [itertools.count(10**9), iter([1, "it"]), zip("ab", [1]), int, type, object, Hostile, len, "".join]
    cycle = []
    cycle.append(cycle)
    heap.append(cycle)
    return heap


MODULE_OF = type.__dict__["__module__"].__get__
NAME_OF = type.__dict__["__qualname__"].__get__
GETTERS = [type.__dict__[n].__get__ for n in ("__name__", "__qualname__")]
STATIC = [type.__dict__[n].__get__ for n in ("__mro__", "__bases__")]
FLAGS = type.__dict__["__flags__"].__get__
SPACE = type.__dict__["__dict__"].__get__
CODE = type(build.__code__)
MEMBERS = ["co_consts", "co_names", "co_filename", "co_name"]
if sys.version_info >= (3, 11):
    MEMBERS += ["co_qualname", "co_linetable", "co_exceptiontable"]
elif sys.version_info >= (3, 10):
    MEMBERS += ["co_code", "co_varnames", "co_freevars", "co_cellvars", "co_linetable"]
else:
    MEMBERS += ["co_code", "co_varnames", "co_freevars", "co_cellvars", "co_lnotab"]


MODULE_DICT = type(sys).__dict__["__dict__"].__get__


def edges(o):
    if issubclass(type(o), type(sys)):
        return [MODULE_DICT(o)]  # what it keeps in C may have ended already
    found = gc.get_referents(o)
    if issubclass(type(o), dict):
        found.extend(dict.keys(o))
    if type(o) is CODE:
        for name in MEMBERS:
            found.append(getattr(o, name))
    if issubclass(type(o), type):
        if FLAGS(o) & 512:
            for get in GETTERS:
                found.append(get(o))
        else:
            for get in STATIC:
                found.append(get(o))
            found.extend(gc.get_referents(SPACE(o)))
    return found


class PlainTwin:
    pass


class DictTwin(dict):
    pass


def size(o):
    if type(o) is OwnSize:
        return sys.getsizeof(PlainTwin())
    if type(o) is RaisingSize:
        return object.__sizeof__(o) + sys.getsizeof(DictTwin()) - DictTwin().__sizeof__()
    return sys.getsizeof(o)


def name(t):
    parts = []
    for get in (MODULE_OF, NAME_OF):
        part = get(t)
        parts.append(part.encode("utf-8", "backslashreplace").decode() if type(part) is str else "?")
    return tuple(parts)


def reference():
    """{(module, qualname, generation): (count, bytes)} of all that is tracked and what it reaches."""
    frozen = gc.get_freeze_count()
    listed = []
    listed.append(gc.get_objects(generation=0))
    listed.append(gc.get_objects(generation=1))
    listed.append(gc.get_objects(generation=2))
    ours = [id(listed), id(sys._getframe())] + [id(x) for x in listed]
    seen = set(ours)
    met = []
    for generation in (0, 1, 2):
        for o in listed[generation]:
            if id(o) not in seen:
                seen.add(id(o))
                met.append((generation, o))
    mine = set(map(id, [listed, seen, met, ours]))
    todo = [o for _, o in met]
    if frozen:
        todo += [[sys.modules], [vars(sys)], [vars(__import__("builtins"))]]
    mine.add(id(todo))
    while todo:
        for r in edges(todo.pop()):
            if id(r) in seen or id(r) in mine:
                continue
            if gc.is_tracked(r):
                if not frozen:
                    continue  # made by this function itself
                met.append((3, r))
            else:
                met.append((-1, r))
            seen.add(id(r))
            todo.append(r)
    rows = {}
    for generation, o in met:
        key = (*name(type(o)), generation)
        count, total = rows.get(key, (0, 0))
        rows[key] = (count + 1, total + size(o))
    for objects in listed:
        objects.clear()  # the first holds ``listed``: a cycle, and nobody collects here
    return rows


def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def facts():
    return {
        "called": sorted(set(CALLED)),
        "list bytes": sys.getsizeof(gc.callbacks) + sys.getsizeof(warnings.filters),
        "callbacks": len(gc.callbacks),
        "filters": len(warnings.filters),
        "fds": len([fd for fd in range(256) if is_open(fd)]),
        "threads": _thread._count(),
        "modules": len(sys.modules),
        "frozen": gc.get_freeze_count(),
    }


def tell(what):
    os.write(1, (ascii(what) + "\n").encode())


def enter():
    # compiled apart from running: exec of a text keeps the parser's notes on it until the end
    exec(compile(SOURCE, "bootstrap", "exec"), {})


def fork():
    """What a child sees: it collects, and says what hooks are left; with its exit code, which is 0."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        gc.collect()
        gc.collect()
        os.write(writing, ascii(facts()).encode())
        os._exit(0)
    code = os.waitpid(pid, 0)[1]
    found = os.read(reading, 1 << 16).decode()
    os.close(reading)
    os.close(writing)
    return [code, found]


def churn(i):
    """Grow, shrink and replace containers for as long as the process lives."""
    kept = HEAP[-20 - i :]
    big = {}
    n = 0
    while True:
        n += 1
        big[n] = [str(n), {"n": n}]
        big.pop(n - 5000, None)
        kept[n % len(kept)] = {n, str(n)}
        HEAP.append((n, [n]))
        if len(HEAP) > 20000:
            del HEAP[1000:]


def main():
    while True:
        command = os.read(0, 1)
        if command == b"r":
            for _ in range(2):  # the first warms caches up
                found = None
                found = reference()
            CALLED.clear()
            tell(found)
            found = None
        elif command == b"s":
            tell(facts())
        elif command == b"a":
            _thread.start_new_thread(enter, ())
            tell("started")
        elif command == b"f":
            tell(fork())
        elif command == b"w":
            sys.setswitchinterval(0.0005)  # ten turns for one: more changes between two looks at the heap, and sooner
            for i in range(4):
                _thread.start_new_thread(churn, (i,))
            tell("churning")
        elif command == b"c":
            gc.enable()
            tell(gc.collect())
        else:
            return


if __name__ == "__main__":
    HEAP = build(50 if "small" in sys.argv else 5000)
    SOURCE = os.read(0, int.from_bytes(os.read(0, 4), "big")).decode()
    if "other pid" in sys.argv:
        SOURCE = SOURCE.replace("getpid()==", "getpid()==1+")
    if "arrays" in sys.argv:
        import numpy

        HEAP += [numpy.array([0.5 + i for i in range(1000)], dtype=object), numpy.arange(9)]
    compile("0", "this makes the classes of _ast", "exec")
    gc.collect()
    gc.disable()
    if "freeze" in sys.argv:
        gc.freeze()
    YOUNG = [[i, {"young": i}] for i in range(100)]
    main()
