"""Containers of every sort with leaves in them, and whether the native core sees each reference just as often as it is.

Argument: the core's library. Prints {"containers", "objects", "leaves": how many were compared, "faults": sentences}.

Two oracles, neither of which is the core's:

- ``gc.get_referents`` as a multiset, for each object of each container. What the core visits besides has a rule in
  :func:`left_out`, with the reason.
- ``ob_refcnt`` of each leaf, which nothing but its container refers to.

And of every object in the process, other than texts, no more references may be known than are counted.
"""

import array
import ast
import asyncio
import builtins
import collections
import contextvars
import copy
import ctypes
import dataclasses
import datetime
import enum
import functools
import gc
import io
import itertools
import json
import operator
import pickle
import queue
import re
import select
import ssl
import sys
import threading
import types
import typing
import weakref
from xml.etree import ElementTree

import core_breaks

try:
    import sqlite3
except ImportError:
    sqlite3 = None
try:
    import numpy
except ImportError:
    numpy = None

HAVE_GC, HEAP_TYPE = 1 << 14, 1 << 9
INLINE_VALUES = 1 << 2 if sys.version_info >= (3, 13) else 0
FAULTS = 20
DICTS = (dict, getattr(builtins, "frozendict", dict))
FLAGS_OF = type.__dict__["__flags__"].__get__
PLANTS = {}


class Leaf:
    __slots__ = ("__weakref__",)

    def __call__(self, *_):
        return self


class Plain:
    pass


class Slotted:
    __slots__ = ("one", "two")


class SlottedHeir(Slotted):
    __slots__ = ("__dict__", "three")


class Items(list):
    pass


class SlottedItems(list):
    __slots__ = ("slot",)


class Pair(tuple):
    pass


class Bag(set):
    pass


class SealedBag(frozenset):
    __slots__ = ("__dict__", "slot")


class Text(str):
    pass


class SlottedText(str):
    __slots__ = ()


class Number(int):
    pass


class Octets(bytes):
    pass


class Table(dict):
    pass


class SlottedTable(dict):
    __slots__ = ("__weakref__", "slot")


class TableHeir(Table):
    __slots__ = ("slot",)


class Ordered(collections.OrderedDict):
    pass


class SlottedOrdered(collections.OrderedDict):
    __slots__ = ("slot",)


class Default(collections.defaultdict):
    pass


class Tally(collections.Counter):
    pass


class Zone(datetime.tzinfo):
    pass


class Meta(type):
    pass


class Colour(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


class Record(typing.NamedTuple):
    x: object


@dataclasses.dataclass
class Data:
    x: object


class Holding(Exception):
    pass


def filled(made, **attributes):
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def plant(make):
    PLANTS[make.__name__] = make
    return make


def plants(**makers):
    PLANTS.update(makers)


plants(
    a_list=lambda new: [new(), new(), new()],
    list_subclass=lambda new: filled(Items([new(), new()]), a=new(), b=new()),
    list_with_slot=lambda new: filled(SlottedItems([new()]), slot=new()),
    a_tuple=lambda new: (new(), (new(), ())),
    tuple_subclass=lambda new: filled(Pair((new(), new())), a=new()),
    named_tuples=lambda new: [Point(new(), new()), Record(new())],
    struct_sequence=lambda new: type(sys.version_info) and __import__("time").struct_time([new() for _ in range(9)]),
    sets=lambda new: [{new(), new()}, frozenset([new()]), {new() for _ in range(40)}],
    set_subclasses=lambda new: [filled(Bag([new()]), a=new()), filled(SealedBag([new()]), slot=new(), a=new())],
    texts=lambda new: [filled(Text("a"), a=new()), filled(Number(10**30), a=new()), filled(Octets(b"b"), a=new())],
    a_dict=lambda new: {"a": new(), "b": new(), "c": [new()]},
    dict_with_keys=lambda new: {new(): new(), new(): "text", "text": new()},
    dict_subclass=lambda new: Table(a=new(), b=new()),
    dict_subclass_with_keys=lambda new: Table({new(): new(), 3: new(), "t": new()}),
    dict_subclass_with_attributes=lambda new: filled(Table({"a": new(), "b": new()}), c=new(), d=new()),
    dict_subclass_with_slot=lambda new: filled(SlottedTable({"a": new(), 4: new()}), slot=new()),
    dict_subclass_of_subclass=lambda new: filled(TableHeir({"a": new(), "b": new()}), slot=new(), c=new()),
    ordered=lambda new: collections.OrderedDict([("a", new()), ("b", new()), ("c", new())]),
    ordered_with_keys=lambda new: collections.OrderedDict([(new(), new()), (new(), new()), (3, new())]),
    ordered_subclass=lambda new: filled(Ordered([(new(), new()), ("b", new())]), attribute=new()),
    ordered_with_slot=lambda new: filled(SlottedOrdered([("a", new()), ("b", new())]), slot=new(), c=new()),
    default=lambda new: collections.defaultdict(new(), {"a": new(), "b": new()}),
    default_with_keys=lambda new: collections.defaultdict(None, {new(): new()}),
    default_subclass=lambda new: filled(Default(new(), {1: new(), "b": new()}), a=new()),
    counter=lambda new: filled(collections.Counter({"a": new(), "b": new()}), note=new()),
    counter_with_keys=lambda new: Tally({new(): 2, new(): 3}),
    empty_subclasses=lambda new: [filled(Table(), a=new()), collections.defaultdict(new()), filled(Ordered(), a=new())],
    chain_map=lambda new: collections.ChainMap({"a": new()}, Table(b=new())),
    user_containers=lambda new: [collections.UserDict(a=new()), collections.UserList([new()])],
    deques=lambda new: [collections.deque([new() for _ in range(n)]) for n in (1, 64, 65, 200)],
    bounded_deque=lambda new: collections.deque([new(), new(), new()], maxlen=2),
    proxies=lambda new: [types.MappingProxyType({"a": new()}), types.MappingProxyType(Table(b=new()))],
    namespaces=lambda new: [types.SimpleNamespace(a=new()), argparse_like(new)],
    partials=lambda new: [functools.partial(new(), new(), a=new()), functools.partial(new())],
    partial_with_attribute=lambda new: filled(functools.partial(new()), a=new()),
    properties=lambda new: [property(new(), new(), new(), "doc"), staticmethod(new()), classmethod(new())],
    methods=lambda new: [types.MethodType(new(), new()), [new()].append, {new(): new()}.get],
    cells=lambda new: [types.CellType(new()), closure(new())],
    slices=lambda new: slice(new(), new(), new()),
    views=lambda new: [each for d in [{"a": new(), new(): new()}] for each in (d.keys(), d.values(), d.items())],
    dict_iterators=lambda new: [each for d in [{"a": new(), new(): new()}] for each in (iter(d), iter(d.values()))],
    ordered_iterators=lambda new: [iter(collections.OrderedDict([(new(), new())])), reversed({"a": new()})],
    iterators=lambda new: [iter([new()]), iter((new(),)), iter({new()}), reversed([new()]), iter(new(), new())],
    wrappers=lambda new: [zip([new()], (new(),)), map(new(), [new()]), filter(new(), [new()]), enumerate([new()])],
    itertools_1=lambda new: [itertools.chain([new()], [new()]), itertools.islice([new()], 1), itertools.repeat(new())],
    itertools_2=lambda new: [itertools.cycle([new()]), itertools.starmap(new(), [new()]), itertools.count(10**20)],
    itertools_3=lambda new: [itertools.product([new()], [new()]), itertools.permutations([new(), new()])],
    itertools_4=lambda new: [itertools.combinations([new()], 1), itertools.takewhile(new(), [new()])],
    itertools_5=lambda new: [itertools.groupby([new()], new()), itertools.zip_longest([new()], fillvalue=new())],
    itertools_6=lambda new: [itertools.accumulate([new()], new()), itertools.compress([new()], [new()])],
    tees=lambda new: [advanced(each) for each in itertools.tee([new(), new(), new()])],
    operators=lambda new: [operator.itemgetter(new(), new()), operator.methodcaller("name", new(), a=new())],
    contexts=lambda new: context_of([new() for _ in range(40)]),
    context_variable=lambda new: contextvars.ContextVar("planted", default=new()),  # noqa: B039 a leaf is not shared
    simple_queue=lambda new: queue_of(new(), new()),
    queues=lambda new: queue.Queue() and filled(queue.Queue(), a=new()),
    data_class=lambda new: [Data(new()), filled(Data(1), y=new())],
    generic_alias=lambda new: [typing.List[Leaf], list[Leaf] if sys.version_info >= (3, 9) else None, new()],
    ctypes_objects=lambda new: [ctypes.py_object(new()), (ctypes.py_object * 3)(new(), new(), new())],
    ctypes_callback=lambda new: ctypes.CFUNCTYPE(ctypes.c_int)(new()),
    memory_views=lambda new: memoryview(filled(Buffer(b"x" * 9), a=new())),
    buffers=lambda new: [filled(Buffer(b"x"), a=new()), filled(ArrayHeir("d", [1.0]), a=new())],
    streams=lambda new: [filled(io.BytesIO(b"x"), a=new()), filled(io.StringIO("x"), a=new())],
    buffered=lambda new: io.BufferedReader(filled(Raw(), a=new())),
    text_stream=lambda new: io.TextIOWrapper(io.BufferedReader(filled(Raw(), a=new()))),
    pickler=lambda new: filled(pickle.Pickler(io.BytesIO()), dispatch_table={"a": new()}),
    unpickler=lambda new: filled(PickleHeir(io.BytesIO()), a=new()),
    json_scanner=lambda new: json.JSONDecoder(object_hook=new(), parse_float=new()),
    json_encoder=lambda new: json.JSONEncoder(default=new()),
    locks=lambda new: [filled(threading.Condition(), a=new()), filled(threading.Event(), a=new())],
    thread_local=lambda new: filled(threading.local(), a=new()),
    elements=lambda new: element(new),  # noqa: PLW0108 it is defined below
    nodes=lambda new: filled(ast.parse("a = b + 1"), a=new(), b=new()),
    regular_expression=lambda new: re.compile("planted %d" % id(new)),
    match=lambda new: re.match("(a)(b)?", filled(Text("ab"), a=new())),
    contexts_of_ssl=lambda new: filled(ssl_heir(), a=new()),
    polls=lambda new: [select.poll(), new()],
    bound_to_zone=lambda new: datetime.datetime(2020, 1, 1, tzinfo=filled(Zone(), a=new())),
    code_and_function=lambda new: filled(types.FunctionType((lambda a=1: a).__code__, {}, "f", (new(),)), a=new()),
    keyword_defaults=lambda new: function_with(new),  # noqa: PLW0108 likewise
    modules=lambda new: filled(types.ModuleType("planted"), a=new()),
    deep=lambda new: functools.reduce(lambda inner, i: [inner, {i: inner}, new()], range(30), new()),
)


class Buffer(bytearray):
    pass


class ArrayHeir(array.array):
    pass


class PickleHeir(pickle.Unpickler):
    pass


class Raw(io.RawIOBase):
    def readable(self):
        return True


def argparse_like(new):
    return filled(types.SimpleNamespace(), **{"a%d" % i: new() for i in range(40)})


def advanced(iterator):
    next(iterator)
    return iterator


def context_of(values):
    context = contextvars.copy_context()
    for i, value in enumerate(values):
        context.run(contextvars.ContextVar("planted %d" % i).set, value)
    return context


def queue_of(*values):
    made = queue.SimpleQueue()
    for value in values:
        made.put(value)
    return made


def element(new):
    root = ElementTree.Element("a", {"x": new()})
    root.append(ElementTree.Element("b", {"y": new()}))
    root.text, root.tail = new(), new()
    return root


def ssl_heir():
    return type("Context", (ssl.SSLContext,), {})(ssl.PROTOCOL_TLS_CLIENT)


def function_with(new):
    first, second = new(), new()

    def inner(*, a=first, b=None):
        return a, second

    inner.__annotations__ = {"a": new()}
    return inner


@plant
def instances(new):
    """Attributes in a dict, outside one, and in both: asked for, replaced, and more than there are places for."""
    asked, replaced, removed, many, itself = (filled(Plain(), a=new(), b=new()) for _ in range(5))
    vars(asked)
    replaced.__dict__ = {"c": new()}
    vars(removed)
    del removed.a
    filled(many, **{"attribute_%d" % i: new() for i in range(40)})
    itself.own = itself.__dict__
    table = filled(Plain(), x=1)
    table.__dict__ = Table(d=new())
    odd = filled(Plain(), z=new())
    odd.__dict__[5] = new()
    kept = vars(filled(Plain(), gone=new()))
    return [filled(Plain(), a=new()), asked, replaced, removed, many, itself, table, odd, kept]


def closure(inside):
    return lambda: inside


@plant
def weak_references(new):
    kept, other = new(), new()
    made = [kept, weakref.ref(kept, new()), weakref.WeakValueDictionary(a=kept), weakref.WeakSet([kept])]
    return [*made, other, weakref.WeakKeyDictionary({other: new()})]


@plant
def slots(new):
    return [filled(Slotted(), one=new()), filled(SlottedHeir(), one=new(), two=new(), three=new(), four=new())]


@plant
def classes(new):
    """Heap types, with a metaclass, too; and their instances."""
    made = Meta("Made", (Plain,), {"a": new(), "method": lambda self: None})
    made.b = new()
    heir = type("Heir", (made,), {"__slots__": ("c",), "d": new()})
    return [made, heir, filled(heir(), c=new(), e=new()), Colour.RED]


@plant
def caches(new):
    """Bounded, unbounded, and of one argument or several; keys that are no texts."""
    made = []
    for size in (None, 2, 100, 0):
        cache = functools.lru_cache(size)(new().__call__)
        cache(new())
        cache(new(), new())
        cache(new())
        made.append(filled(cache, a=new()))
    return made


@plant
def generators(new):
    """At rest: not begun, in the middle, and of every sort."""

    def simple(held):
        inside = [held, new()]
        yield new()
        return inside

    async def coroutine(held):
        return [held]

    async def asynchronous(held):
        yield held

    begun = simple(new())
    kept = next(begun)
    waiting = coroutine(new())
    made = [simple(new()), begun, kept, (each for each in [new()]), asynchronous(new()), waiting]
    KEPT.append(waiting)
    return made


KEPT = []


@plant
def tracebacks(new):
    def failing(inside):
        try:
            raise Holding(inside, new())
        except Holding as error:
            raise filled(KeyError(new()), a=new()) from error

    try:
        failing(new())
    except KeyError as error:
        kept = error
    chained = filled(OSError(1, "two", new()), a=new())
    return [kept, chained, StopIteration(new()), ImportError("x", name=new(), path=new()), AttributeError(new())]


@plant
def asynchronous_things(new):
    loop = asyncio.new_event_loop()
    KEPT.append(loop)
    done = loop.create_future()
    done.set_result(new())
    waiting = loop.create_future()
    waiting.add_done_callback(new())
    waiting.add_done_callback(new())
    failed = loop.create_future()
    failed.set_exception(Holding(new()))
    failed.exception()

    async def work(held):
        await waiting
        return held

    task = loop.create_task(work(new()))
    loop.run_until_complete(asyncio.sleep(0))
    return [done, waiting, failed, task]


@plant
def frozen_dicts(new):
    if len({*DICTS}) == 1:
        return []
    return [DICTS[-1]({"a": new(), "b": new()}), DICTS[-1]({new(): new(), 4: new()})]


@plant
def database(new):
    if sqlite3 is None:
        return []
    connection = sqlite3.connect(":memory:")
    connection.row_factory = new()
    connection.text_factory = new()
    cursor = connection.cursor()
    cursor.row_factory = new()
    return [connection, cursor]


if numpy is not None:

    class SubArray(numpy.ndarray):
        pass

    @plant
    def arrays(new):
        """The owner has the items; a view has its owner."""
        plain = numpy.array([new(), new(), None], dtype=object)
        grid = numpy.empty((2, 3), dtype=object)
        grid[1, 2] = new()
        records = numpy.zeros(2, dtype=[("number", "i4"), ("thing", "O")])
        records["thing"][1] = new()
        heir = plain.copy().view(SubArray)
        heir.attribute = new()
        return [plain, plain[1:], grid.T, records, heir, numpy.ma.array([new()], dtype=object), plain.flat]

    @plant
    def cython(new):
        """numpy.random is made by Cython: functions, methods and instances of extension types."""
        state = numpy.random.RandomState(1)
        generator = numpy.random.default_rng(2)
        return [state, generator, state.uniform, generator.normal, numpy.random.PCG64, copy.copy, new()]


# -- what is asked ------------------------------------------------------------------------------------------


def word_at(address):
    return ctypes.c_size_t.from_address(address).value


def counted(address):
    """``ob_refcnt``, or None of what is immortal."""
    if sys.version_info < (3, 12):
        return ctypes.c_ssize_t.from_address(address).value
    count = ctypes.c_int32.from_address(address).value
    return None if count < 0 else count


def own_dict(o):
    """The dict of an instance with inline values: a pointer to it stands before the object."""
    address = word_at(id(o) - 24)
    return ctypes.cast(address, ctypes.py_object).value if address else None


def left_out(o, told, inline_dicts):
    """What ``o`` refers to and the collector is not told of, by rule. ``told``: a Counter of addresses that it is."""
    t = type(o)
    found = []
    if isinstance(o, DICTS):
        table = dict if isinstance(o, dict) else DICTS[-1]
        keys = list(table.keys(o))
        # No text refers to anything: dict_traverse leaves them out, where no key was ever anything else.
        if all(type(key) is str for key in keys) and not (t is dict and sum(told.values()) == 2 * len(keys)):
            found += keys
        if id(o) in inline_dicts:  # its instance visits the values: they are the same
            found += table.values(o)
    elif FLAGS_OF(t) & INLINE_VALUES:
        own = own_dict(o)
        if own is not None and id(own) in inline_dicts:  # PyObject_VisitManagedDict: the values in the dict's place
            found.append(own)
    if FLAGS_OF(t) & HEAP_TYPE and not told[id(t)]:  # not collected, or its C code forgets it: counted all the same
        found.append(t)
    return found


def is_compared(o):
    """Types, code and arrays have rules of their own, which heap_reference knows; a text is an end."""
    opaque = isinstance(o, (type, types.CodeType, types.ModuleType, types.FrameType))
    return not opaque and not (numpy is not None and isinstance(o, numpy.ndarray))


def inline_dicts_of(objects):
    """Addresses of the dicts of instances that have their values still inside."""
    found = {}
    for o in objects:
        own = own_dict(o) if FLAGS_OF(type(o)) & INLINE_VALUES else None
        if own is not None and len(own) and not gc.get_referents(own):
            found[id(own)] = own
    return found


def reached(core, root, before):
    found, todo = {}, [root]
    while todo:
        o = todo.pop()
        if id(o) not in found and id(o) not in before:
            found[id(o)] = o
            todo += core.edges_of(o)
    return list(found.values())


def compare_with_collector(core, name, objects, faults):
    inline_dicts = inline_dicts_of(objects)
    compared = 0
    for o in filter(is_compared, objects):
        told = collections.Counter(map(id, gc.get_referents(o)))
        wanted = told + collections.Counter(map(id, left_out(o, told, inline_dicts)))
        seen = collections.Counter(map(id, core.edges_of(o)))
        compared += 1
        if seen != wanted:
            more, less = sum((seen - wanted).values()), sum((wanted - seen).values())
            faults.append("%s: of %s %d references more and %d less than there are" % (name, type(o), more, less))
    return compared


def words(core, name, code="I"):
    made = array.array(code)
    made.frombytes(core.graph_array(name))
    return made


def compare_with_counts(core, heap, leaves, faults):
    """Each leaf has as many references known as counted, unless a type keeps it that is not collected."""
    asked = {"own": [], "also": [heap]}
    core.graph_build(asked)
    known = dict(zip(words(core, "addresses", "Q"), words(core, "references")))
    core.graph_close()
    for name, addresses in leaves.items():
        roots = heap[name] if type(heap[name]) is list else [heap[name]]
        opaque = any(not FLAGS_OF(type(o)) & HAVE_GC for o in roots if type(o) is not Leaf and o is not None)
        for address in addresses:
            if known.get(address) != counted(address) and not (opaque and known.get(address, 0) < counted(address)):
                faults.append("%s: %s of %d references" % (name, known.get(address), counted(address)))
    return known


def compare_all(known, before, faults):
    """No object of those that were there has more references than are counted. Left out: texts, which tables of
    attributes share, and the interpreter's of interned ones; and True and False, which frozen code of 3.11 does not
    count."""
    for o in before:
        address = id(o)
        if address not in known or type(o) in (str, bool):
            continue
        count = counted(address)
        if count is not None and known[address] > count:
            faults.append("%s has %d references, of which %d are counted" % (type(o), known[address], count))


def main():
    core = core_breaks.load(sys.argv[1])
    gc.collect()
    gc.disable()
    before = set()
    heap, leaves, faults = {}, {}, []
    main.heap = heap
    everything = gc.get_objects()
    before.update(map(id, everything))
    for o in everything:
        before.update(map(id, gc.get_referents(o)))
    for name, make in PLANTS.items():
        made = leaves[name] = []

        def new(made=made):
            leaf = Leaf()
            made.append(weakref.ref(leaf))
            return leaf

        heap[name] = make(new)
    del o, make, new, made
    gc.collect()  # what a plant has left behind
    objects = 0
    for name in PLANTS:
        objects += compare_with_collector(core, name, reached(core, heap[name], before), faults)
    leaves = {name: [id(each()) for each in made if each() is not None] for name, made in leaves.items()}
    known = compare_with_counts(core, heap, leaves, faults)
    compare_all(known, everything, faults)
    count = sum(map(len, leaves.values()))
    print(ascii({"containers": len(PLANTS), "objects": objects, "leaves": count, "faults": faults[:FAULTS]}))
    for each in KEPT:
        each.close()


if __name__ == "__main__":
    main()
