"""Plants one structure of each kind, with an object of a class of its own in each, and stands still.

Argument: the library made of keeping.c. Behind ``ready``: a literal, {name: (address, objects, bytes)} of what would go
with an object, by sys.getsizeof.
"""

import asyncio
import atexit
import contextvars
import ctypes
import functools
import gc
import sys
import threading
import time
import types
import weakref

from steady import ready

CYCLES = 7
LARGE = 10_000
told = {}
standing = threading.Semaphore(0)


def held(name):
    """An instance of a new class of that name: nothing else leads to either."""
    return type(name, (), {"__slots__": ("__weakref__",)})()


def tell(name, *going):
    """What would go with the first of these."""
    told[name] = id(going[0]), len(going), sum(map(sys.getsizeof, going))


# -- names ----------------------------------------------------------------------------------------------------

by_global = held("HeldByGlobal")


class Classy:
    kept = held("HeldByClass")


class Plain:
    def __init__(self, kept):
        self.first = None
        self.kept = kept


class Slotted:
    __slots__ = ("kept",)

    def __init__(self, kept):
        self.kept = kept


with_values = Plain(held("HeldByValues"))
with_dict = Plain(held("HeldByDict"))
assert with_dict.__dict__
with_slots = Slotted(held("HeldBySlots"))

cache = sys.modules["app.cache"] = types.ModuleType("app.cache")


class User:
    pass


class Session:
    def __init__(self):
        self.user = User()


cache._sessions = {f"a secret {i}": Session() for i in range(5)}
by_str = {"another secret": held("HeldByStr")}


# -- functions ------------------------------------------------------------------------------------------------


def make_handler(record):
    def handler():
        return record

    return handler


handler = make_handler(held("HeldByClosure"))


def with_defaults(number, user=held("HeldByDefault"), *, option=held("HeldByOption")):  # noqa: B008
    return number, user, option


@functools.lru_cache(maxsize=10)
def bounded(number):
    return held("HeldByCache")


class Invoice:
    @functools.lru_cache(maxsize=None)  # noqa: B019, UP033
    def total(self):
        return held("HeldByMethodsCache")


bounded(1)
Invoice().total()
Bound = type("HeldByBound", (), {"method": lambda self: None})
bound_method = Bound().method
del Bound
partial = functools.partial(print, held("HeldByPartial"), end=held("HeldByPartialsKeyword"))


# -- what stands still ----------------------------------------------------------------------------------------


def generate(kept):
    yield kept


@types.coroutine
def stop_here():
    yield


async def wait_here(kept):
    await stop_here()
    return kept


generator = generate(held("HeldByGenerator"))
next(generator)
coroutine = wait_here(held("HeldByCoroutine"))
coroutine.send(None)
local = threading.local()
variable = contextvars.ContextVar("variable")


class HeldByFrame:
    pass


def worker():
    rows = [HeldByFrame() for _ in range(3)]
    local.request = held("HeldByThread")
    variable.set(held("HeldByVariable"))
    standing.release()
    threading.Event().wait()
    return rows


def rest():
    standing.release()
    time.sleep(10_000)
    yield


def resting():
    here = held("HeldByTracked")
    for _ in rest():  # up to 3.10 the generator's frame leads back to this one, which is an object then
        pass
    return here


async def pending(kept):
    await asyncio.sleep(10_000)
    return kept


async def run_task(name, keep):
    task = asyncio.ensure_future(pending(held(name)))
    await asyncio.sleep(0)
    if keep:
        run_task.task = task
    del task
    standing.release()
    await asyncio.sleep(10_000)


def run_loop(name, keep):
    asyncio.run(run_task(name, keep))


def start(target, *arguments):
    threading.Thread(target=target, args=arguments, name=f"planted {target.__name__}", daemon=True).start()
    standing.acquire()


def fail(kept):
    raise ValueError(kept.__class__)


def keep_error():
    try:
        fail(held("HeldByTraceback"))
    except ValueError as error:
        return error


# -- what does not retain, and what is not seen ---------------------------------------------------------------

weak_values, weak_references = weakref.WeakValueDictionary(), []


def plant_weak():
    """A weak way that is shorter than the other, and objects with a weak way alone."""
    kept, called_back = held("HeldElsewhere"), held("HeldElsewhereToo")
    weak_values["kept"] = kept
    weak_references.append(weakref.ref(called_back, print))
    weak_values["gone"] = gone = held("Gone")
    weak_references.append(weakref.ref(gone, print))
    del weak_references[-1]
    return [[[[[kept]]]], [[[[called_back]]]]]


def at_exit(kept):
    pass


def plant_in_c():
    atexit.register(at_exit, held("HeldByAtexit"))
    extension = ctypes.PyDLL(sys.argv[1])
    for o in (held("HeldByC"), [held("BelowC")]):
        extension.keep(ctypes.py_object(o))


# -- what is retained -----------------------------------------------------------------------------------------


class Payload:
    __slots__ = ("data",)

    def __init__(self, character):
        self.data = character * LARGE


class Shared(Payload):
    __slots__ = ()


class Caches:
    """Both are below this one, and so is what they share."""

    __slots__ = ("first", "second")

    def __init__(self):
        shared, own, other = Shared(b"s"), Payload(b"a"), Payload(b"b")
        self.first, self.second = {1: shared, 2: own}, {1: shared, 2: other}
        tell("shared", shared, shared.data)
        tell("first", self.first, own, own.data)
        tell("second", self.second, other, other.data)
        tell("caches", self, self.first, self.second, shared, own, other, *(each.data for each in (shared, own, other)))


def plant_names():
    """A dict whose keys are str: the collector is not told of them."""
    names = {f"{i:05}" + LARGE * "k": None for i in range(3)}
    tell("names", names, *names)
    return names


class HeldByNothing:
    __slots__ = ("itself", "kept")


class BelowNothing:
    pass


def plant_cycles():
    for _ in range(CYCLES):
        one = HeldByNothing()
        one.itself, one.kept = one, BelowNothing()


def plant_arrays():
    try:
        import numpy  # noqa: PLC0415
    except ImportError:
        return None
    whole = type("HeldByView", (numpy.ndarray,), {})((100,))
    return numpy.asarray(whole)


view = plant_arrays()
start(worker)
start(resting)
start(run_loop, "HeldByTask", False)
start(run_loop, "HeldByNamedTask", True)
kept_error = keep_error()
deep = plant_weak()
plant_in_c()
caches = Caches()
names = plant_names()
gc.collect()
gc.disable()
plant_cycles()
ready(ascii(told))


def stand(kept):
    while True:
        time.sleep(1000)


stand(held("HeldByMain"))
