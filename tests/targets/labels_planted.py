"""Plants one structure of each kind, and prints what the native core calls the way from its holder to what it holds.

Argument: the core's library. Prints {case: [label of each step that is not collapsed]}; None where there is no numpy.
"""

import asyncio
import collections
import contextvars
import ctypes
import functools
import gc
import mmap
import struct
import sys
import threading
import types
import weakref

import core_breaks

core = core_breaks.load(sys.argv[1])
cases = {}
kept = []


class Held:
    """What is looked for: each one is held in one way only."""


planted_global = Held()


def way(holder, held):
    """The shortest way between two objects, both included."""
    before, level = {id(holder): None}, [holder]
    avoided = {id(sys.modules), id(before), id(level)}
    if holder is not sys.modules[__name__] and held is not globals():
        avoided.add(id(globals()))
    while level and id(held) not in before:
        deeper = []
        for o in level:
            for referent in core.edges_of(o):
                if id(referent) not in before and id(referent) not in avoided and referent is not sys._getframe():
                    before[id(referent)] = o
                    if not isinstance(referent, (type, types.ModuleType, types.CodeType)) or referent is held:
                        deeper.append(referent)
        level = deeper
    found = [held]
    while before[id(found[0])] is not None:
        found.insert(0, before[id(found[0])])
    return found


def case(name, holder, held, *values):
    cases[name] = [label for label in core.path_of(way(holder, held), *values) if label]


class Empty:
    pass


class Slotted:
    __slots__ = ["__weakref__", "slot"]


class Derived(Slotted):
    __slots__ = ["_Derived__own"]


class Classy:
    kept = Held()

    @property
    def computed(self):
        return self.kept

    @staticmethod
    def still(held=Held()):  # noqa: B008
        return held

    @classmethod
    def of_class(cls, held=Held()):  # noqa: B008
        return held


class Named(bytes):
    pass


def label_of_far_dict():
    """Up to 3.11 the dict of such an object stands behind its items: here 2 GiB away, in sparse memory."""
    small, items = Named(b"x"), 1 << 31
    vars(small)["held"] = Held()
    if Named.__dictoffset__ != -8 or sys.version_info >= (3, 12):
        return core.label_of(small, vars(small))
    room = mmap.mmap(-1, items + (1 << 16), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
    word, begin = struct.Struct("q"), 64
    room[begin : begin + 40] = ctypes.string_at(id(small), 40)
    word.pack_into(room, begin, 1 << 20)  # never freed
    word.pack_into(room, begin + 16, items)
    word.pack_into(room, begin + (Named.__basicsize__ + items + 7) // 8 * 8 - 8, id(vars(small)))
    address = ctypes.addressof(ctypes.c_char.from_buffer(room)) + begin
    labels = core.label_of(ctypes.cast(address, ctypes.py_object).value, vars(small))
    kept.append((small, room))
    return labels


def plant_attributes():
    cases["dict far behind"] = label_of_far_dict()
    o, held = Empty(), Held()
    o.first, o.attribute = 1, held
    case("attribute", o, held)
    o, held = Empty(), Held()
    o.attribute = held
    assert o.__dict__["attribute"] is held
    case("attribute in a dict", o, held)
    o, held = Empty(), Held()
    for i in range(40):
        setattr(o, f"attribute_{i}", i)
    del o.attribute_3
    o.attribute_last = held
    case("many attributes", o, held)
    o, held = Slotted(), Held()
    o.slot = held
    case("slot", o, held)
    o, held = Derived(), Held()
    o.slot, o._Derived__own = 1, held
    case("slot of a derived class", o, held)
    o, held = Empty(), Held()
    o.__dict__["not a name"] = held
    case("no attribute's name", o, held)
    case("no attribute's name, shown", o, held, True)
    case("class attribute", Classy, Classy.kept)
    case("property", Classy, Classy.__dict__["computed"].fget)
    case("static method", Classy, Classy.__dict__["still"].__func__)
    case("class method", Classy, Classy.__dict__["of_class"].__func__)
    tables = [o for o in core.edges_of(Slotted) if type(o) is dict and id(Derived) in o]
    cases["table of subclasses"] = [label for table in tables for label in core.label_of(Slotted, table)]
    case("module global", sys.modules[__name__], planted_global)
    case("its class", Empty(), Empty)
    held = Held()
    module = types.ModuleType("another")
    module.inside = held
    case("in a module", module, held)
    held = Held()
    items = type("Items", (list,), {})([held])
    items.note = note = Held()
    case("item of a list's subclass", items, held)
    case("attribute of a list's subclass", items, note)


def plant_containers():
    held = Held()
    case("list", [1, held], held)
    case("list, shown", [1, held], held, True)
    case("tuple", (1, held), held)
    case("nested", [{"secret": ([held],)}], held)
    case("set", {held}, held)
    case("frozenset", frozenset([held]), held)
    case("dict of str", {"secret": held}, held)
    case("dict of str, shown", {"it's": held}, held, True)
    case("dict of int, shown", {-5: held}, held, True)
    case("dict of large int, shown", {1 << 40: held}, held, True)
    case("dict of huge int, shown", {1 << 90: held}, held, True)
    case("dict of None, shown", {None: held}, held, True)
    case("dict of tuples, shown", {(1, 2): held}, held, True)
    case("dict key", {held: 1}, held)
    case("deque", collections.deque([1, held]), held)
    case("default dict", collections.defaultdict(list, secret=held), held)
    factory = functools.partial(list)
    case("default dict's factory", collections.defaultdict(factory), factory)
    case("ordered dict", collections.OrderedDict(secret=held), held)
    case("named tuple", collections.namedtuple("Point", "x y")(1, held), held)
    emptied = {i: i for i in range(10)}
    for i in range(5):
        del emptied[i]
    emptied["last"] = held
    case("emptied dict, shown", emptied, held, True)
    cases["items of emptied dicts, shown"] = sorted(wrong_items())


def wrong_items():
    """Items that go by another one's key, in dicts with emptied entries; and keys that are told as items."""
    for make in (dict, collections.OrderedDict, lambda: collections.defaultdict(list)):
        for kind in (str, int):
            made = make()
            made.update({kind(i): Empty() for i in range(1000)})
            for i in [*range(100), *range(200, 900, 3), 998]:
                del made[kind(i)]
            for key, value in [*list(made.items())[::7], *list(made.items())[::-11]]:
                told = set(core.label_of(made, value, True))
                if told != {f"[{key!r}]"} or set(core.label_of(made, key)) - {"(a key)"}:
                    yield f"{type(made).__name__}: {key!r}: {told}"


def make_handler(first, record):
    own = first

    def handler():
        return own, record

    return handler


def with_defaults(a, b, user=Held(), *, option=Held()):  # noqa: B008
    return a, b, user, option


@functools.lru_cache(maxsize=10)
def bounded(key):
    return Held()


class Invoice:
    @functools.lru_cache(maxsize=None)  # noqa: B019, UP033
    def total(self):
        return Held()


def plant_functions():
    held = Held()
    case("closure", make_handler(1, held), held)
    held = Held()
    case("closure's other cell", make_handler(held, 1), held)
    case("default argument", with_defaults, with_defaults.__defaults__[0])
    case("default of an option", with_defaults, with_defaults.__kwdefaults__["option"])
    held = Held()
    with_defaults.note = held
    case("function's attribute", with_defaults, held)
    case("function's globals", with_defaults, globals())
    invoice = Invoice()
    case("lru_cache", bounded, bounded(1))
    case("lru_cache of a method", Invoice.__dict__["total"], invoice.total())
    case("lru_cache's key", Invoice.__dict__["total"], invoice)
    case("lru_cache's function", bounded, bounded.__wrapped__)
    held = Held()
    case("bound method", types.MethodType(with_defaults, held), held)
    case("method of C", [held].append, held)
    case("partial", functools.partial(print, 1, held), held)
    case("partial's keyword", functools.partial(print, end=held), held)


def generate(held):
    yield held


async def fetch(held):
    await asyncio.sleep(1000)
    return held


@types.coroutine
def stop_here():
    yield


async def wait_here(held):
    await stop_here()
    return held


async def generate_later(held):
    await stop_here()
    yield held


def plant_generators():
    held = Held()
    generator = generate(held)
    next(generator)
    case("generator", generator, held)
    fresh = generate(held)
    case("generator not begun", fresh, held)
    items = [held]
    case("generator's loop", loop_over(items), items)
    coroutine = wait_here(held)
    coroutine.send(None)
    case("coroutine", coroutine, held)
    asynchronous = generate_later(held)
    step = asynchronous.__anext__()
    step.send(None)
    case("async generator", asynchronous, held)
    step.close()
    coroutine.close()


def loop_over(items):
    def generate_items():
        for item in list_of():  # its iterator is nowhere else
            yield item, 1

    kept = [items]
    del items

    def list_of():
        return kept.pop()

    generator = generate_items()
    next(generator)
    return generator


def fail(held):
    raise ValueError(held.__class__)


def fail_outside(held):
    fail(held)


def plant_exceptions():
    held = Held()
    try:
        fail_outside(held)
    except ValueError as error:
        kept = error
    case("exception", kept, kept.__traceback__)
    inner = kept.__traceback__.tb_next.tb_next.tb_frame
    labels = core.path_of([kept.__traceback__.tb_next.tb_next, inner, *way(inner, held)[1:]])
    cases["frame of a traceback"] = [label for label in labels if label]
    held = Held()
    case("exception's argument", ValueError(held), held)
    cause, context = ValueError(), ValueError()
    error = KeyError()
    error.__cause__, error.__context__ = cause, context
    case("exception's cause", error, cause)
    case("exception's context", error, context)
    error = Noted()
    error.note = held
    case("exception's attribute", error, held)


class Noted(Exception):
    pass


def plant_references():
    o, callback = Slotted(), functools.partial(id)
    reference = weakref.ref(o, callback)
    case("weak reference", reference, callback)
    cases["weak reference to"] = core.label_of(reference, o)
    local, held = threading.local(), Held()
    local.request = held
    case("thread-local", local, held)
    context, held = contextvars.copy_context(), Held()
    variables = [contextvars.ContextVar(f"variable_{i}") for i in range(40)]
    for variable in variables:
        context.run(variable.set, held if variable is variables[7] else Held())
    case("context variable", context, held)
    function = Invoice.__dict__["total"].__wrapped__
    case("function's name", function, function.__name__)


async def plant_tasks():
    running = asyncio.get_running_loop()
    future, held = running.create_future(), Held()
    future.set_result(held)
    case("future", future, held)
    case("future's loop", future, running)
    failed, error = running.create_future(), ValueError()
    failed.set_exception(error)
    case("future's exception", failed, error)
    failed.exception()
    waiting, callback, other = running.create_future(), functools.partial(id), functools.partial(id)
    waiting.add_done_callback(callback)
    waiting.add_done_callback(other)
    case("future's callback", waiting, callback)
    case("future's other callback", waiting, other)
    held = Held()
    coroutine = fetch(held)
    task = running.create_task(coroutine)
    await asyncio.sleep(0)
    case("task", task, coroutine)
    case("task's local", task, held)
    case("task waits", task, task._fut_waiter)
    name = "".join(["heap", "top"])
    task.set_name(name)
    case("task's name", task, task.get_name())
    done = running.create_task(answer(held))
    await done
    case("task's result", done, held)
    task.cancel()
    waiting.cancel()


async def answer(held):
    return held


def plant_arrays():
    try:
        import numpy  # noqa: PLC0415
    except ImportError:
        for name in ("view", "array of objects", "array's type"):
            cases[name] = None
        return
    whole, held = numpy.zeros(10), Held()
    case("view", whole[2:5], whole)
    case("array of objects", numpy.array([held], dtype=object), held)
    case("array's type", whole, whole.dtype)


def main():
    gc.disable()
    plant_attributes()
    plant_containers()
    plant_functions()
    plant_generators()
    plant_exceptions()
    plant_references()
    asyncio.run(plant_tasks())
    plant_arrays()
    print(ascii(cases))


if __name__ == "__main__":
    main()
