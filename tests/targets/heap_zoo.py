"""Heaps of objects of every sort: what censuses are compared on, and what they are measured on.

Runs on every Python from 3.8 on, with nothing but the standard library; numpy and greenlet take part where they can
be imported. Nothing here counts, and nothing here is heaptop's.

- ``everything()``: a few of each kind, by the name of the kind, in all the shapes that a layout can have.
- ``records(count, aged)``: about ``count`` objects in the proportions of a service's heap. A fresh one lies in memory
  in the order it was made; an aged one was filled, thinned out and filled again, so that neighbours in a list are
  strangers in memory, and there are holes.
"""

import abc
import array
import asyncio
import builtins
import collections
import contextvars
import csv
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import gc
import hashlib
import io
import itertools
import json
import mmap
import operator
import os
import pathlib
import pickle
import random
import re
import struct
import sys
import threading
import types
import typing
import weakref
import zlib
from xml.etree import ElementTree

try:
    import numpy
except ImportError:
    numpy = None
try:
    import greenlet
except ImportError:
    greenlet = None

KINDS = {}


def kind(make):
    """Registers a maker under its name; what it returns is kept by :func:`everything`."""
    KINDS[make.__name__] = make
    return make


def everything():
    """{name of a kind: what its maker returned}."""
    return {name: make() for name, make in KINDS.items()}


# -- numbers and texts --------------------------------------------------------------------------------------


class Text(str):
    pass


class Number(int):
    pass


class Real(float):
    __slots__ = ("unit",)


class Octets(bytes):
    pass


class Buffer(bytearray):
    pass


@kind
def strings():
    made = [letter * count for letter in ("a", "\xe9", "\u20ac", "\U0001f600") for count in (1, 2, 3, 7, 8, 100, 5000)]
    made += [Text(letter * count) for letter in ("", "b", "\xe9", "\u20ac", "\U0001f600") for count in (0, 1, 9, 300)]
    named = ["Caf\xe9 %d" % i for i in range(5)]
    made += [type(name, (), {}) for name in named]  # a type's name keeps its UTF-8 form in the string
    made += [sys.intern("interned %d" % i) for i in range(5)] + ["", "x", "".join(["joi", "ned"])]
    if sys.version_info < (3, 12):  # the wide form that older versions keep beside the string
        wide = [letter * 20 for letter in ("c", "\xe8", "\u20ad", "\U0001f601")]
        as_wide = ctypes.pythonapi.PyUnicode_AsUnicode
        as_wide.argtypes, as_wide.restype = [ctypes.py_object], ctypes.c_void_p
        for text in wide:
            as_wide(text)
        made += wide
    return made


@kind
def numbers():
    around = [
        2**bits + off
        for bits in (8, 15, 16, 29, 30, 31, 32, 59, 60, 61, 63, 64, 90, 119, 120, 121)
        for off in (-1, 0, 1)
    ]
    made = around + [-n for n in around] + [7**n for n in range(0, 900, 60)] + [0, 1, -1, -5, -6, 256, 257, True, False]
    made += [Number(n) for n in (0, 1, -(2**30), 2**90)] + [Real(1.5), 1.5, -0.0, float("inf"), 2j, -1 + 3.5j]
    return [
        *made,
        decimal.Decimal("1.1"),
        decimal.Decimal(10) ** 300 + 1,
        fractions.Fraction(1, 3),
        None,
        ...,
        NotImplemented,
    ]


@kind
def octets():
    made = [b"x" * n for n in (0, 1, 2, 7, 8, 15, 16, 17, 4000)] + [Octets(b"y" * n) for n in (0, 1, 50)]
    made += [bytearray(n) for n in (0, 1, 7, 8, 9, 3000)] + [Buffer(b"sub"), bytearray(b"appended")]
    made[-1].extend(b"more" * 20)
    shifted = bytearray(500)
    del shifted[:300]  # the beginning of its memory is not where its bytes begin
    made += [shifted, memoryview(b"bytes" * 9), memoryview(bytearray(24)).cast("I").cast("B").cast("H", (3, 4))]
    return made + [array.array(code, [1, 2, 3]) for code in "bHiLqd"] + [array.array("d"), array.array("B", bytes(999))]


# -- containers ---------------------------------------------------------------------------------------------


class Row(list):
    pass


class Pair(tuple):
    __slots__ = ()


class Registry(dict):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.note = ["attribute of a dict"]


class SlottedRegistry(dict):
    __slots__ = ("first", "second")


class Bag(set):
    pass


class SealedBag(frozenset):
    __slots__ = ("seal",)


Point = collections.namedtuple("Point", "x y z")


class Employee(typing.NamedTuple):
    name: str
    number: int = 3


@kind
def sequences():
    made = [list(range(1000, 1000 + n)) for n in (0, 1, 2, 3, 4, 5, 8, 9, 100, 3000)]
    grown = []
    for i in range(77):
        grown.append((i,))
    shrunk = [[i] for i in range(100)]
    del shrunk[5:]
    emptied = [1, 2, 3]
    emptied.clear()
    made += [grown, shrunk, emptied, [None] * 50, list("text"), [*range(3), *"abc"], list(iter([object()]))]
    made += [
        Row(),
        Row([[1], 2]),
        Pair((1, [2])),
        Point(1, [2], "z"),
        Employee("n"),
        (),
        (1,),
        ((), ((),)),
        tuple(range(9999, 11000)),
    ]
    untracked = [(i, "text %d" % i, float(i)) for i in range(40)]
    made += [untracked, os.stat("/"), sys.version_info, sys.flags, os.times()]
    made += [collections.deque(range(n)) for n in (0, 1, 62, 63, 64, 65, 700)] + [
        collections.deque([[1]] * 5, maxlen=3)
    ]
    return [*made, range(10**6), slice(1, 10**9, [2]), collections.UserList([1]), collections.UserString("user")]


@kind
def dicts():
    made = [{i: [i] for i in range(n)} for n in (0, 1, 5, 6, 10, 11, 200, 3000)]
    made += [{"key %d" % i: float(i) for i in range(n)} for n in (1, 5, 6, 11, 170, 5000)]
    made += [dict.fromkeys(range(70000))]  # indices of 4 bytes, which stay when most keys go again
    for i in range(70000):
        if i % 70:
            del made[-1][i]
    made += [dict.fromkeys("abcdef"), dict.fromkeys(range(1000)), dict(zip("xyz", [[1], [2], [3]])), {"a": 1, 2: "b"}]
    holes = {"hole %d" % i: i for i in range(100)}
    numbered = {i: str(i) for i in range(100)}
    for i in range(0, 100, 3):
        del holes["hole %d" % i]
        del numbered[i]
    popped = dict(numbered)
    popped.popitem()
    cleared = {1: 2}
    cleared.clear()
    turned = {"text": 1}
    turned[3] = "no text: the table is made anew"
    made += [holes, holes.copy(), numbered, popped, cleared, turned, {}, {Text("subclass"): [1]}, {(1, "tuple"): {}}]
    made += [{"nested": {"deeper": {1: [{2: "deepest"}]}}}, collections.ChainMap({}, {"chained": 1})]
    made += [Registry({"r": 1}), Registry(), SlottedRegistry({1: [2]}), collections.UserDict({1: 2})]
    made[-2].first = ["slot of a dict"]
    ordered = collections.OrderedDict((i, [i]) for i in range(50))
    for i in range(0, 50, 2):
        del ordered[i]
    ordered.move_to_end(7)
    noted = collections.OrderedDict(a=1)
    noted.note = "attribute of an ordered dict"
    made += [
        ordered,
        noted,
        collections.OrderedDict(),
        collections.defaultdict(list, {1: [2]}),
        collections.Counter("abcab"),
    ]
    if hasattr(builtins, "frozendict"):
        made += [builtins.frozendict({"frozen %d" % i: [i] for i in range(n)}) for n in (0, 1, 9, 50)]
        made += [builtins.frozendict({i: (i, [i]) for i in range(9)}), {builtins.frozendict(key="of another")}]
    views = [
        holes.keys(),
        holes.values(),
        holes.items(),
        iter(numbered),
        iter(numbered.items()),
        types.MappingProxyType({1: 2}),
    ]
    return [*made, *views, types.SimpleNamespace(a=1, b=[2]), types.SimpleNamespace()]


@kind
def sets():
    made = [set(range(n)) for n in (0, 1, 4, 5, 6, 18, 19, 20, 3000)] + [
        frozenset(map(str, range(n))) for n in (0, 1, 4, 5, 90)
    ]
    dummies = {(i, "tuple") for i in range(200)}
    for i in range(0, 200, 2):
        dummies.discard((i, "tuple"))
    small = {"one", "two", "three"}
    small.discard("two")
    emptied = set(range(50))
    emptied.clear()
    popped = set(map(str, range(30)))
    popped.pop()
    made += [dummies, small, emptied, popped, Bag([1, 2]), Bag(), SealedBag(["s"]), frozenset([frozenset([1])])]
    made[-6].add(("added", "again"))
    return [*made, iter(small), weakref.WeakSet([Bag])]


# -- instances ----------------------------------------------------------------------------------------------


class Empty:
    pass


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, i):
        self.a, self.b = [i], "slot %d" % i


class Unset:
    __slots__ = ("filled", "never")


class SlottedMore(Slotted):
    __slots__ = ("__weakref__", "c")


class SlottedLoose(Slotted):
    """Slots, and a dict."""


class WithDictSlot:
    __slots__ = ("__dict__", "x")


class Attributes:
    def __init__(self, i):
        self.number, self.name, self.items = i * 1000, "name %d" % i, [i]


class Growing:
    """From 0 to 40 attributes, in one order and in another: past what a shared table of keys takes."""

    def __init__(self, names):
        for name in names:
            setattr(self, name, [name])


class Heir(Attributes):
    def __init__(self, i):
        super().__init__(i)
        self.extra = (i, [i])


class Weakly:
    __slots__ = ("__weakref__",)


class Forgetful:
    pass


class OwnSize:
    """Its size is said by Python code, which a census must not run."""

    def __sizeof__(self):
        raise AssertionError("a census ran a target's code")


class OwnSizeList(list):
    def __sizeof__(self):
        raise AssertionError("a census ran a target's code")


class BasicSize(list):
    """Says by C code what object says."""

    __sizeof__ = object.__sizeof__


NAMES = [sys.intern("attribute_%d" % i) for i in range(40)]


@kind
def instances():
    made = [Slotted(i) for i in range(5)] + [
        SlottedMore(1),
        SlottedLoose(2),
        WithDictSlot(),
        WithDictSlot(),
        Unset(),
        Weakly(),
    ]
    made[6].c, made[7].loose, made[8].x, made[8].y = [1], [2], 1, [2]
    made += [Empty() for _ in range(5)] + [Attributes(i) for i in range(30)] + [Heir(i) for i in range(5)]
    made += [Growing(NAMES[:n]) for n in range(41)] + [Growing(NAMES[n:0:-1]) for n in range(0, 40, 7)]
    return [*made, OwnSize(), OwnSizeList([1]), BasicSize([1, 2, 3]), object()]


@kind
def dicts_of_instances():
    """Instances whose dict was asked for, emptied, replaced, deleted from, or is shared with others."""
    looked_at = [Attributes(i) for i in range(10)]
    tables = [vars(o) for o in looked_at[:5]]
    deleted = Attributes(11)
    del deleted.name
    emptied = Attributes(12)
    emptied.__dict__.clear()
    replaced = Attributes(13)
    replaced.__dict__ = {"z": [1], 5: "not a text"}
    removed = Attributes(14)
    del removed.__dict__
    sharing = Attributes(15)
    sharing.__dict__ = looked_at[0].__dict__
    odd = Attributes(16)
    vars(odd)[17] = "no text"
    left = vars(Attributes(18))  # outlives its instance
    copied = vars(Attributes(19)).copy()
    more = Attributes(20)
    for name in NAMES:
        setattr(more, name, name)
    reset = Attributes(21)
    reset.number = reset.name = None
    del reset.items
    reset.items = [21]
    for i in range(5):  # names that only the table has that instances share
        setattr(Forgetful(), "forgotten %d" % i, i)
    return [looked_at, tables, deleted, emptied, replaced, removed, sharing, odd, left, copied, more, reset]


@dataclasses.dataclass
class Order:
    number: int
    lines: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Sealed:
    value: str = "sealed"


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"


class Permission(enum.Flag):
    READ = 1
    WRITE = 2


@kind
def declared():
    made = [Order(1), Order(2, [Order(3)]), Sealed(), Colour.RED, list(Colour), Permission.READ | Permission.WRITE]
    if sys.version_info >= (3, 10):
        made.append(dataclasses.make_dataclass("Slim", [("x", int), ("y", list)], slots=True)(1, [2]))
    return [*made, typing.List[int], typing.Dict[str, typing.Optional[int]], typing.TypeVar("T")]


class Failing(Exception):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.detail = ["detail"]


@kind
def exceptions():
    """With their tracebacks, and so with frames that nobody runs any more."""

    def fail(depth, local):
        if depth:
            fail(depth - 1, [depth])
        raise Failing("failed", local)

    try:
        fail(4, ["outermost"])
    except Failing as error:
        failed = error
    made = [
        failed,
        failed.__traceback__,
        KeyError("key"),
        OSError(2, "no", "file"),
        UnicodeDecodeError("ascii", b"\xff", 0, 1, "no"),
    ]
    try:
        raise ValueError("second") from failed
    except ValueError as error:
        made.append(error)
    return made


# -- code that stands still ---------------------------------------------------------------------------------


def counter(start, step=1, *, limit=(10**6, "limit")):
    total = [start]

    def add(n: "int" = 2) -> "int":
        def inner():
            return total, n, limit

        total[0] += n * step
        return inner

    return add


@kind
def functions():
    made = [counter(i) for i in range(5)]
    made += [add(7) for add in made] + [lambda x, y=[1]: (x, y), functools.partial(counter, 1, step=[2])]
    made += [made[0].__get__(Empty()), Attributes(1).__init__, "text".join, [].append, len, object.__init__, str.upper]
    made += [
        staticmethod(counter),
        classmethod(counter),
        property(counter, doc="documented"),
        int.from_bytes,
        "".__len__,
    ]
    cached = functools.lru_cache(maxsize=100)(lambda i: [i])
    for i in range(50):
        cached(i)
    noted = counter(3)
    noted.note = ["attribute of a function"]

    def recursive(n):
        return recursive(n - 1) if n else [n]

    def typed(x: typing.List[int], y: Point = Point(1, 2, 3)) -> None:  # noqa: B008
        return None

    wrapped = functools.wraps(counter)(lambda: counter)
    singled = functools.singledispatch(lambda o: o)
    singled.register(int, lambda o: -o)
    return [
        *made,
        cached,
        noted,
        recursive,
        typed,
        wrapped,
        singled,
        operator.attrgetter("a.b"),
        operator.itemgetter(1, 2),
    ]


def produce(first):
    local = [first, "local of a generator"]
    for item in local:
        yield item
    yield from produce_inner((first,))


def produce_inner(second):
    yield [second]
    yield second


class Pause:
    def __await__(self):
        got = yield ["awaited"]
        return got


async def wait(argument):
    local = {"argument": argument}
    await Pause()
    return local


async def stream(argument):
    local = [argument]
    await Pause()
    yield local


def advanced(generator, steps):
    for _ in range(steps):
        next(generator)
    return generator


def awaiting(coroutine):
    coroutine.send(None)
    return coroutine


def finished(coroutine):
    coroutine.close()
    return coroutine


@kind
def suspended():
    made = [advanced(produce([i]), i) for i in range(5)] + [(x for x in [[1], [2]])]
    made += [
        advanced((x for x in [[3], [4]]), 1),
        awaiting(wait(["a"])),
        awaiting(wait(Attributes(1))),
        finished(wait(["b"])),
    ]
    streaming = stream(["c"])
    step = streaming.__anext__()
    step.send(None)
    made += [streaming, step, advanced(produce("drained"), 4)]
    list(made[-1])
    context = contextvars.copy_context()
    variable = contextvars.ContextVar("variable", default=(1, []))
    context.run(variable.set, ["set"])
    return [*made, context, variable, sys._getframe()]


SOURCE = """
def outer(first, *rest, key=b'constant bytes', **others):
    hidden, captured = first, rest
    def inner(x, y=(1, ('nested', 2.5), frozenset({3, 4}))):
        class Local:
            attribute = captured
            def method(self): return __class__, x
        return captured, Local, 10**40
    try:
        return inner, [i for i in rest if i in {'frozen', 'set'}]
    finally:
        del hidden
"""


@kind
def codes():
    """Compiled, never run, run once, and run often enough to be specialised."""
    made = [compile("x = %d\ny = 'text %d'" % (i, i), "file %d" % i, "exec") for i in range(5)]
    spaces = [{}, {}]
    for space in spaces:
        exec(compile(SOURCE, "outer.py", "exec"), space)
    for _ in range(200):
        spaces[0]["outer"](1, 2)
    asked = compile(SOURCE, "asked.py", "exec")
    inner = [constant for constant in asked.co_consts if isinstance(constant, types.CodeType)]
    for code in inner:
        assert code.co_code  # from 3.11 on it is made when asked for, and then kept
        assert code.co_varnames
    return [*made, spaces, asked, inner]


# -- types and modules --------------------------------------------------------------------------------------


class Meta(type):
    def __new__(cls, name, bases, space, **extra):
        made = super().__new__(cls, name, bases, space)
        made.extra = extra
        return made


class MetaSized(type):
    """Types whose size is said by Python code."""

    def __sizeof__(cls):
        raise AssertionError("a census ran a target's code")


class MetaSlotted(type):
    def __call__(cls, *arguments):
        return super().__call__(*arguments)


class Abstract(abc.ABC):
    @abc.abstractmethod
    def method(self):
        """Nothing."""


T = typing.TypeVar("T")


class Generic(typing.Generic[T]):
    pass


@kind
def classes():
    made = [Meta("Made%d" % i, (), {"__slots__": NAMES[:i]}, option=[i]) for i in range(5)]
    made += [Meta("Below%d" % i, (base,), {}) for i, base in enumerate(made)] + [base() for base in made]
    made += [type("Dynamic%d" % i, (Empty,), {"attribute": [i], "method": lambda self: self}) for i in range(20)]
    made += [MetaSized("Sized", (), {}), MetaSlotted("Called", (), {})(), Generic[int], Generic, Abstract]
    renamed = type("Before", (), {})
    renamed.__name__, renamed.__qualname__, renamed.__module__ = "After", "Some.where.After", "else.where"
    used = type("Used", (Attributes,), {})
    for i in range(30):
        used(i).number  # noqa: B018 - fills the type's caches
    return [
        *made,
        renamed,
        renamed(),
        used,
        type("Two", (Empty, Abstract), {}),
        type("OfInt", (int,), {"__slots__": ()})(2**70),
    ]


@kind
def modules():
    made = [types.ModuleType("made_%d" % i, "documented") for i in range(5)]
    for i, module in enumerate(made):
        exec("import sys\nvalue = [%d]\ndef function(x=[value]): return x" % i, module.__dict__)
    sub = type("SubModule", (types.ModuleType,), {})("sub_module")
    sub.more = [1]
    return [*made, sub, sys.modules[__name__]]


# -- references ---------------------------------------------------------------------------------------------


def forget(_reference):
    """A weak reference's callback."""


@kind
def weak():
    kept = [Attributes(i) for i in range(10)] + [Weakly()]
    table = weakref.WeakValueDictionary(enumerate(kept))
    keyed = weakref.WeakKeyDictionary((o, [i]) for i, o in enumerate(kept))
    made = [
        weakref.ref(kept[0]),
        weakref.ref(kept[0], forget),
        weakref.proxy(kept[1]),
        weakref.WeakMethod(kept[2].__init__),
    ]
    dead = weakref.ref(Attributes(99))
    return [
        kept,
        table,
        keyed,
        made,
        dead,
        weakref.WeakSet(kept),
        weakref.finalize(kept[3], forget, None).detach() and None,
    ]


@kind
def cycles():
    alone = []
    alone.append(alone)
    table = {}
    table["self"] = table
    node = Attributes(1)
    node.items = [node]
    pair = ([], [])
    pair[0].append(pair)
    lost = Attributes(2)  # garbage that nobody has collected yet
    lost.items = [lost]
    return [alone, table, node, pair]


@kind
def deep():
    """Chains that a counter by recursion would die of."""
    depth = 8000
    in_lists, in_tuples, in_dicts, in_instances, in_cells = [], (), {}, Empty(), None
    for i in range(depth):
        in_lists, in_tuples, in_dicts = [in_lists], (in_tuples,), {i: in_dicts}
        following = Empty()
        following.next = in_instances
        in_instances = following
        if i < 2000:
            in_cells = functools.partial(forget, in_cells)
    return [in_lists, in_tuples, in_dicts, in_instances, in_cells]


# -- objects of extension modules ---------------------------------------------------------------------------


class Record(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double * 4), ("c", ctypes.c_char_p)]


@kind
def extensions():
    record = Record(1, (1.0, 2.0), b"held by a structure")
    made = [record, record.b, ctypes.pointer(record), ctypes.create_string_buffer(500), ctypes.py_object([1])]
    made += [re.compile("a(b)?(?P<name>c)+%d" % i) for i in range(3)] + [
        re.match("(a)(b)", "ab"),
        re.finditer("a", "aaa"),
    ]
    made += [
        struct.Struct("<iqd"),
        datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
        datetime.date(2020, 1, 1),
    ]
    made += [datetime.timedelta(1), datetime.timezone(datetime.timedelta(hours=1), "name"), decimal.Context(prec=9)]
    made += [
        io.BytesIO(b"x" * 100),
        io.StringIO("text" * 20),
        io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"line\n"))),
    ]
    made += [
        csv.reader(["a,b"]),
        csv.writer(io.StringIO()),
        json.JSONDecoder(),
        json.JSONEncoder(),
        pickle.Pickler(io.BytesIO()),
    ]
    made += [hashlib.sha256(b"x"), zlib.compressobj(), zlib.decompressobj(), random.Random(1), mmap.mmap(-1, 4096)]
    made += [
        ElementTree.fromstring("<a x='1'>text<b>inner</b>tail</a>"),
        threading.Lock(),
        threading.RLock(),
        threading.local(),
    ]
    made[-1].value = ["of this thread"]
    made += [threading.Event(), threading.Condition(), pathlib.Path("/a/b"), pathlib.PurePosixPath("c"), asyncio.Event]
    made += [itertools.count(10**9), itertools.chain([1], [2]), itertools.groupby("aab"), itertools.islice([[1]], 1)]
    made += [itertools.product("ab", repeat=2), itertools.permutations([[1], 2]), *itertools.tee([[1], [2]])]
    made += [
        zip("ab", [[1]]),
        map(str, [[1]]),
        filter(None, [[1]]),
        enumerate([[1]], 10**20),
        reversed([[1]]),
        iter(forget, None),
    ]
    return [*made, iter([[1]]), iter(([1],)), iter("text"), iter({1: 2}), iter({1}), iter(range(10**10)), iter(b"b")]


if numpy is not None:

    class SubArray(numpy.ndarray):
        """The collector knows its instances, and nothing of their items."""


@kind
def arrays():
    """numpy's, where it is."""
    if numpy is None:
        return []
    objects = numpy.array([[i] for i in range(50)] + [None], dtype=object)
    grid = numpy.empty((3, 4), dtype=object)
    grid[1, 2] = {"in": "a grid"}
    made = [objects, objects[5:20:3], objects.reshape(3, 17), grid, grid.T, numpy.array(["object"], dtype=object)]
    made += [
        numpy.zeros((30, 40)),
        numpy.arange(100)[::2],
        numpy.float64(3),
        numpy.dtype("i4,f8"),
        numpy.zeros(3, "i4,f8"),
    ]
    mixed = numpy.zeros(4, dtype=[("number", "i4"), ("thing", "O")])
    mixed["thing"][1] = ["in a record"]
    inner = [("letter", "S3"), ("thing", "O")]
    nested = numpy.zeros(3, dtype=[(("a title", "several"), inner, (2, 2)), ("pair", "O", 2), ("letter", "S1")])
    nested["several"]["thing"][1, 0, 1] = ["in a record in a record"]
    nested["pair"][2, 1] = "in a pair %d" % len(made)
    made += [mixed, mixed[1], nested, nested["several"][1:], mixed.view(numpy.recarray)]
    many = [str(10**10 + i) for i in range(1000)]
    own = numpy.ndarray.__new__(SubArray, (1000,), dtype=object)
    own[:], own.attribute = many[:500] * 2, ["of an array"]
    made += [own, numpy.array(many, dtype=object)[500:].view(SubArray), own[5:9]]
    made += [numpy.ma.array([[i] for i in range(40)] + many[:1], dtype=object)]
    alone = numpy.array([["only in a broadcast"], None], dtype=object)
    made += [numpy.broadcast_to(alone[:1], (1000, 1000)), numpy.lib.stride_tricks.as_strided(alone, (9, 2), (0, 8))]
    return [
        *made,
        numpy.array(["text", "longer"]),
        numpy.ma.array([1, 2], mask=[0, 1]),
        numpy.random.RandomState(1),
    ]


@kind
def greenlets():
    """Stacks that are switched away from, where greenlet is: frames that no thread runs."""
    if greenlet is None:
        return []

    def pausing(depth):
        local = [depth, "local of a greenlet"]
        if depth:
            pausing(depth - 1)
        greenlet.getcurrent().parent.switch()
        return local

    made = [greenlet.greenlet(pausing) for _ in range(5)]
    for i, each in enumerate(made[1:]):
        each.switch(i)
    made[-1].switch()
    return made


# -- a service's heap ---------------------------------------------------------------------------------------


class Customer:
    def __init__(self, i, friend):
        self.number = 100000 + i
        self.name = "customer-%d" % i
        self.balance = i * 1.25
        self.lines = [Line(i, k) for k in range(3)]
        self.meta = {
            "city": "city-%d" % (i * 7),
            "position": (i * 3 + 1000, i * 0.5),
            "blob": b"%d" % i,
            "status": "open",
        }
        self.tags = {"a", "b"} if i & 1 else frozenset(("c", "d", "e"))
        self.extra = EXTRAS[i % len(EXTRAS)](i, friend)


class Line:
    __slots__ = ("amount", "article", "quantity")

    def __init__(self, i, k):
        self.quantity, self.article, self.amount = k, "article-%d-%d" % (i, k), i * 0.1 + k


EXTRAS = [
    lambda i, friend: collections.deque([i * 10 + 1000, [i]]),
    lambda i, friend: [[[i * 11]], {i * 13: (i * 17, [i])}],
    lambda i, friend: {"friend": friend, "since": i * 19},
    lambda i, friend: lambda x: (x, friend),
    lambda i, friend: {i * 100 + k for k in range(6)},
    lambda i, friend: friend,
    lambda i, friend: None,
    lambda i, friend: (friend, float(i)),
]
PER_CUSTOMER = 27.0
"""Objects for each customer, about; :func:`records` is asked for objects."""


def records(count, aged, seed=1):
    """A list of customers, an index and a cache over them: about ``count`` objects."""
    chance = random.Random(seed)
    wanted = max(2, int(count / PER_CUSTOMER))
    enabled = gc.isenabled()
    gc.disable()
    made = []
    number = itertools.count()
    rounds = 4 if aged else 1
    for remaining in range(rounds, 0, -1):
        while len(made) < wanted:
            made.append(Customer(next(number), made[-1] if made and chance.random() < 0.5 else None))
        if aged:
            chance.shuffle(made)
        if remaining > 1:
            del made[wanted // 2 :]
            gc.collect()
    heap = {"all": made, "index": {c.number: c for c in made}, "cache": {c.name: c.meta for c in made[::2]}}
    gc.collect()
    if enabled:
        gc.enable()
    return heap
