"""What a census in slices knows of each type, read by ``type``'s own descriptors: no code of a metaclass runs."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import CODE, FUNCTION, gc
from heaptop.injector.agent.values import MAX_NAME

MAX_TYPES = 50_000

raw = type.__dict__
raw_mro = raw["__mro__"].__get__
raw_dict = raw["__dict__"].__get__
raw_flags = raw["__flags__"].__get__
raw_bases = raw["__bases__"].__get__
raw_module = raw["__module__"].__get__
raw_repr = raw["__repr__"]
raw_name = raw["__name__"].__get__
raw_qualname = raw["__qualname__"].__get__
raw_basicsize = raw["__basicsize__"].__get__
raw_itemsize = raw["__itemsize__"].__get__
METHOD_DESCRIPTOR = type(raw["mro"])
MODULE: Any = type(sys)
SEQUENCES = (list, tuple, set, frozenset)
HEAP_TYPE = 1 << 9
HAVE_GC = 1 << 14
PRE_HEADER = 0 if sys.version_info < (3, 11) else 1 << 4 if sys.version_info < (3, 12) else 3 << 3
INLINE_VALUES = 1 << 2 if sys.version_info >= (3, 13) else 0


def add_type(c: Any, t: Any) -> int:
    """Give a type its place, and decide once how its instances are measured and expanded."""
    k = len(c.types)
    mro = raw_mro(t) or ()
    flags = raw_flags(t)
    size, guessed = size_rule(t, mro, flags)
    if t is CODE:
        queue = c.codes
    elif not flags & HAVE_GC:
        queue = None
    elif any(base is type for base in mro):
        queue = c.klasses
    elif any(base is MODULE for base in mro):
        queue = c.modules
    elif t is dict:
        queue = c.dicts
    elif any(base is dict for base in mro):
        queue = c.mappings  # these may hold more than items
    elif t is FUNCTION:
        queue = c.functions  # the interpreter makes one for the bootstrap's text, with no way to it but this
    elif any(t is sequence for sequence in SEQUENCES):
        queue = c.sequences
    else:
        queue = c.plain
    if any(is_array(base) for base in mro):
        c.arrays.append(k)
    c.wire.append(intern_type(c.session, t))
    c.sizes.append(size)
    c.guess.append(guessed)
    c.queue_of.append(queue)
    c.strange.append((queue is c.plain or queue is c.mappings) and is_strange(t, mro, flags))
    for rows in (c.counts, c.bytes):
        for row in rows:
            row.append(0)
    c.types.append(t)  # keeps it alive, so that its id stays its own
    c.index[id(t)] = k
    return k


def is_strange(t: Any, mro: Any, flags: int) -> bool:
    """Whether a traversal may run C code that is neither CPython's nor numpy's. An instance that the collector does not
    track may be half made, and such code crash then. A tuple's own copes with that."""
    if any(base is tuple for base in mro):
        return False
    return bool(flags & HEAP_TYPE) or module_of(t).partition(".")[0] not in ("builtins", "numpy", "_contextvars")


def is_array(t: Any) -> bool:
    return not raw_flags(t) & HEAP_TYPE and type_text(raw_qualname, t) == "ndarray" and raw_module(t) == "numpy"


def size_rule(t: Any, mro: Any, flags: int) -> tuple[int, bool]:
    """(bytes of every instance, or 0 to ask ``sys.getsizeof`` of each; whether that is a guess).

    As ``sys.getsizeof`` looks ``__sizeof__`` up: on the type, along the mro. Written in C it may be called; in
    Python it never is, and the basic size stands for it. So it does for a static type that its module never made
    ready (asyncio's holder of the running loop, up to 3.8): it has no mro yet, and ``sys.getsizeof`` would give it one.
    """
    for base in mro:
        found = raw_dict(base).get("__sizeof__")
        if found is None:
            continue
        if type(found) is not METHOD_DESCRIPTOR:
            return basic_size(t), True
        if base is object and not raw_itemsize(t) and not flags & INLINE_VALUES:
            return basic_size(t), False
        return 0, False
    return basic_size(t), True


def basic_size(t: Any) -> int:
    """``tp_basicsize`` and what stands before the object: 16 bytes for the collector, 16 for dict and weakrefs."""
    flags = raw_flags(t)
    before = (16 if flags & HAVE_GC else 0) + (16 if flags & PRE_HEADER else 0)
    return raw_basicsize(t) + before  # type: ignore[no-any-return]


def intern_type(s: Any, t: Any) -> int:
    """The session's number for (module, qualname); one number for all others when the table is full."""
    module, qualname = type_text(module_of, t), type_text(raw_qualname, t)
    key = module + "\0" + qualname
    number = s.names.get(key)
    if number is None:
        if s.type_count >= MAX_TYPES:
            key = "builtins\0(other types)"
            number = s.names.get(key)
        if number is None:
            number = s.names[key] = s.type_count
            s.type_count += 1
            s.new_names.append(key)
    return int(number)


def module_of(t: Any) -> Any:
    """As ``raw_module`` says; else what ``tp_name`` has before its last dot, which only ``type``'s own repr shows, and
    only then: ``__module__`` in the type of Cython's functions is the member that their instances have."""
    try:
        found = raw_module(t)
    except AttributeError:
        found = None
    return found if type(found) is str else raw_repr(t)[len("<class '") : -len("'>")].rpartition(".")[0] or "?"


def type_text(getter: Any, t: Any) -> str:
    """A type's name by its raw descriptor; ``?`` when there is none, or it is not a plain string."""
    try:
        found = getter(t)
    except Exception:
        return "?"
    return found[:MAX_NAME].replace("\0", "?") if type(found) is str else "?"


def type_members(o: Any) -> list[Any]:
    """What a type's own traversal leaves out: names of heap types, everything of static ones."""
    if raw_flags(o) & HEAP_TYPE:
        return [raw_name(o), raw_qualname(o)]
    return [raw_mro(o), raw_bases(o), *gc.get_referents(raw_dict(o))]
