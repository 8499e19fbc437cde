"""The plainest count of a heap there is, in Python alone: what the native census is compared with.

It shares nothing with the native core. Where it needs what no Python call tells (names that only C fields hold), it
finds the field by looking for a known object in a known type's memory, instead of knowing where it is.
Runs on every Python from 3.8 on, while nothing else runs; it never calls code of the heap's own.
"""

import builtins
import ctypes
import gc
import os
import sys
import types

try:
    import numpy
except ImportError:
    numpy = None

UNTRACKED = -1
DICTS = (dict, getattr(builtins, "frozendict", dict))
"""Both do not tell the collector of keys that are str; the second one is new in 3.15."""
CODE = types.CodeType
METHOD_DESCRIPTOR = type(list.append)
HAVE_GC, HEAP_TYPE = 1 << 14, 1 << 9
WORD = ctypes.sizeof(ctypes.c_void_p)
WITH_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
HEAD = WORD * (2 if WITH_GIL else 4)
"""Bytes of an object's head; its type is the last word of it."""

# Asked of `type` itself: a metaclass may answer otherwise.
MODULE_OF = type.__dict__["__module__"].__get__
NAME_OF = type.__dict__["__name__"].__get__
QUALNAME_OF = type.__dict__["__qualname__"].__get__
MRO_OF = type.__dict__["__mro__"].__get__
BASES_OF = type.__dict__["__bases__"].__get__
SPACE_OF = type.__dict__["__dict__"].__get__
FLAGS_OF = type.__dict__["__flags__"].__get__
BASIC_SIZE_OF = type.__dict__["__basicsize__"].__get__
if numpy is not None:
    BASE_OF_ARRAY = numpy.ndarray.__dict__["base"].__get__
    DTYPE_OF_ARRAY = numpy.ndarray.__dict__["dtype"].__get__

CODE_MEMBERS = ["co_consts", "co_names", "co_filename", "co_name"]
if sys.version_info >= (3, 11):
    # co_varnames and its like are made, and kept, when asked for: asking would change the heap
    CODE_MEMBERS += ["co_qualname", "co_linetable", "co_exceptiontable"]
else:
    CODE_MEMBERS += ["co_code", "co_varnames", "co_freevars", "co_cellvars"]
    CODE_MEMBERS += ["co_linetable" if sys.version_info >= (3, 10) else "co_lnotab"]
INLINE_VALUES = 1 << 2 if sys.version_info >= (3, 13) else 0
PRE_HEADER = 0 if sys.version_info < (3, 11) else 1 << 4 if sys.version_info < (3, 12) else 3 << 3


# -- what only memory shows ---------------------------------------------------------------------------------


def word_at(address):
    return ctypes.c_size_t.from_address(address).value


def object_at(address):
    """The object that the word at an address points to; None for a null pointer."""
    found = word_at(address)
    return ctypes.cast(found, ctypes.py_object).value if found else None


class Span(ctypes.Structure):
    _fields_ = [("address", ctypes.c_size_t), ("size", ctypes.c_size_t)]


def peek(address, words):
    """So many words from an address that may be none: an empty list then. The kernel reads, and minds no lie."""
    found = (ctypes.c_size_t * words)()
    here, there = Span(ctypes.addressof(found), WORD * words), Span(address, WORD * words)
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    copied = ctypes.CDLL(None).process_vm_readv(os.getpid(), ctypes.byref(here), one, ctypes.byref(there), one, none)
    return list(found) if copied == WORD * words else []


def looks_like(address, t):
    """Whether the word at an address points to an object of exactly that type."""
    return peek(word_at(address) + HEAD - WORD, 1) == [id(t)]


def field_of(holder, content):
    """Offset of the only word in ``holder`` that points to an object of the type of ``content``, and equal to it."""
    places = range(HEAD, BASIC_SIZE_OF(type(holder)), WORD)
    likely = [place for place in places if looks_like(id(holder) + place, type(content))]
    (offset,) = [place for place in likely if object_at(id(holder) + place) == content]
    return offset


def find_slots_field():
    """Where a heap type holds the tuple of its slots' names."""
    probe = type("Probe", (), {"__slots__": ["probe_slot_b", "probe_slot_a"]})
    return field_of(probe, ("probe_slot_a", "probe_slot_b"))


def find_qualname_field():
    """Where a heap type holds its qualified name."""
    return field_of(type("Probe", (), {"__qualname__": "nested.Probe"}), "nested.Probe")


def find_variables_field():
    """Where a code object holds the names of its local variables, from 3.11 on; their kinds stand behind them."""
    space = {}
    exec("def probe(probe_variable_a):\n probe_variable_b = 1", space)
    field = field_of(space["probe"].__code__, ("probe_variable_a", "probe_variable_b"))
    assert type(object_at(id(space["probe"].__code__) + field + WORD)) is bytes
    return field


CACHED = 4
"""co_code, co_varnames, co_cellvars, co_freevars: made when asked for, and kept together, from 3.12 on."""


def find_cached_field():
    """(where a code object keeps what was asked for, whether that is a pointer to several); None where it does not."""
    code = compile("probe_name", "", "exec")
    asked = code.co_code
    for offset in range(HEAD, BASIC_SIZE_OF(CODE), WORD):
        word = word_at(id(code) + offset)
        if word == id(asked):
            return offset, False
        if id(asked) in peek(word, CACHED):
            return offset, True
    return None


def find_all():
    """{name of a field: its offset}. The tables of keys that instances share stand right behind the qualified name."""
    fields = {"slots": find_slots_field(), "qualname": find_qualname_field()}
    if sys.version_info >= (3, 11):
        fields["variables"] = find_variables_field()
        fields["cached"] = find_cached_field()
    return fields


FIELDS = find_all()


def shared_names(t):
    """Names of attributes that a heap type's instances share a table of, also those that no instance has by now."""
    keys = word_at(id(t) + FIELDS["qualname"] + WORD)
    if not keys:
        return []
    if sys.version_info >= (3, 11):
        # dk_refcnt, one byte each log2_size, log2_index_bytes, kind, ..., dk_nentries at 24, the indices at 32
        entries = keys + 32 + (1 << ctypes.c_uint8.from_address(keys + 9).value)
        count, step, first = word_at(keys + 24), 2 * WORD, 0
    else:
        # dk_refcnt, dk_size, dk_lookup, dk_usable, dk_nentries, the indices; an entry is hash, key, value
        size = word_at(keys + WORD)
        width = 1 if size <= 0xFF else 2 if size <= 0xFFFF else 4
        entries, count, step, first = keys + 5 * WORD + size * width, word_at(keys + 4 * WORD), 3 * WORD, WORD
    names = [object_at(entries + i * step + first) for i in range(count)]
    return [name for name in names if name is not None]


def cached_members(code):
    if FIELDS["cached"] is None:
        return []
    offset, several = FIELDS["cached"]
    place = id(code) + offset
    if several:
        place, several = word_at(place), CACHED
    found = [object_at(place + i * WORD) for i in range(several or 1)] if place else []
    return [member for member in found if member is not None]


def variables(code):
    place = id(code) + FIELDS["variables"]
    return [object_at(place), object_at(place + WORD)]


def slots(t):
    found = object_at(id(t) + FIELDS["slots"])
    return [] if found is None else [found]


def dict_of_inline(o):
    """The dict that was asked of an instance with inline values; a pointer to it stands before the object."""
    found = object_at(id(o) - WORD * (3 if WITH_GIL else 1))
    return [] if found is None else [found]


# -- edges, sizes and names ---------------------------------------------------------------------------------


def objects_in(array):
    """Every object in a plain array of any shape and dtype; what a stride of nothing repeats is looked at once."""
    if array.dtype.names is not None:
        return [o for name in array.dtype.names for o in objects_in(array[name])]
    if array.dtype != object:
        return []
    return array[tuple(slice(0, None if stride else 1) for stride in array.strides)].ravel().tolist()


def members_of_array(array):
    """numpy's arrays are unknown to the collector altogether. No code of a class made from them is called."""
    base = BASE_OF_ARRAY(array)
    found = [] if base is None else [base]
    found.append(DTYPE_OF_ARRAY(array))
    return found + objects_in(numpy.ndarray.view(array, numpy.ndarray))


HIDDEN = {
    "keys": lambda o: (dict if issubclass(type(o), dict) else DICTS[-1]).keys(o),
    "members of code": lambda o: [getattr(o, member) for member in CODE_MEMBERS],
    "variables of code": variables,
    "kept by code": cached_members,
    "names of types": lambda t: [NAME_OF(t), QUALNAME_OF(t)],
    "slots of types": slots,
    "shared names": shared_names,
    "static types": lambda t: [MRO_OF(t), BASES_OF(t), *gc.get_referents(SPACE_OF(t))],
    "arrays": members_of_array,
    "inline dicts": dict_of_inline,
}
"""What the collector is not told of, by a name for it: functions of an object that has such."""

LEFT_OUT = set()
"""Names of :data:`HIDDEN` that :func:`edges` acts as if it did not know."""


def hidden_by(t):
    """Names of what an instance of ``t``, which is no type, may hide."""
    if issubclass(t, DICTS):
        return ("keys",)
    if t is CODE:
        return ("members of code", "variables of code", "kept by code")[: 3 if sys.version_info >= (3, 11) else 1]
    if numpy is not None and issubclass(t, numpy.ndarray):
        return ("arrays",)
    # from 3.13 on
    return ("inline dicts",) if INLINE_VALUES and FLAGS_OF(t) & INLINE_VALUES else ()


def hidden_in(o, known):
    """Names of what an object may hide. ``known`` is filled: what its type says, by the type's address."""
    t = type(o)
    if issubclass(t, type):
        return ("names of types", "slots of types", "shared names") if FLAGS_OF(o) & HEAP_TYPE else ("static types",)
    if id(t) not in known:
        known[id(t)] = hidden_by(t)
    return known[id(t)]


def edges(o, known):
    """Every object that ``o`` refers to: what the collector is told, and what it is not."""
    found = gc.get_referents(o)
    for what in hidden_in(o, known):
        if what not in LEFT_OUT:
            found.extend(HIDDEN[what](o))
    return found


def sized_by_python(t):
    """Whether the ``__sizeof__`` of a type's instances is not C's."""
    for base in MRO_OF(t) or ():
        found = SPACE_OF(base).get("__sizeof__")
        if found is not None:
            return type(found) is not METHOD_DESCRIPTOR
    return True


def basic_size(t):
    """Bytes of a bare instance, with what stands before it."""
    flags = FLAGS_OF(t)
    return BASIC_SIZE_OF(t) + (16 if flags & HAVE_GC and WITH_GIL else 0) + (16 if flags & PRE_HEADER else 0)


def facts(t):
    """((module, qualname), bytes of a bare instance, whether Python sizes its instances)."""
    return name(t), basic_size(t), sized_by_python(t)


def module_of(t):
    """As Python says; of a heap type without one, what stands before the last dot of ``tp_name``."""
    try:
        found = MODULE_OF(t)
    except AttributeError:
        found = None
    if type(found) is str or not FLAGS_OF(t) & HEAP_TYPE:
        return found
    return ctypes.c_char_p.from_address(id(t) + HEAD + WORD).value.decode().rpartition(".")[0] or "?"


def name(t):
    """(module, qualname), with ``?`` for what is not a text."""
    parts = []
    for get in (module_of, QUALNAME_OF):
        try:
            part = get(t)
        except AttributeError:
            part = None
        parts.append(part.encode("utf-8", "backslashreplace").decode() if type(part) is str else "?")
    return tuple(parts)


# -- the count ----------------------------------------------------------------------------------------------


def count():
    """All that the collector lists, and what it reaches, by (module, qualname, generation).

    ``rows``: (count, bytes), as ``sys.getsizeof`` says, or a bare instance's where that would run Python code;
    ``guessed``: how many such there are; ``basic``: bytes of as many bare instances.
    What this function makes itself is left out: it is listed nowhere when the lists are taken.
    """
    listed = []
    # not in a loop: its iterator would be in the lists
    listed.append(gc.get_objects(generation=0))
    listed.append(gc.get_objects(generation=1))
    listed.append(gc.get_objects(generation=2))
    ours = {id(listed), *map(id, listed)}
    seen = set(ours)
    met = []
    for generation in (0, 1, 2):
        for o in listed[generation]:
            if id(o) not in seen:
                seen.add(id(o))
                met.append((generation, o))
    todo = [o for _, o in met]
    known = {}
    while todo:
        for referent in edges(todo.pop(), known):
            if id(referent) not in seen and not gc.is_tracked(referent):
                seen.add(id(referent))
                met.append((UNTRACKED, referent))
                todo.append(referent)
    rows, guessed, basic = {}, {}, {}
    known = {}
    for generation, o in met:
        t = type(o)
        if id(t) not in known:
            known[id(t)] = facts(t)
        names, bare, unknown = known[id(t)]
        key = (*names, generation)
        number, total = rows.get(key, (0, 0))
        rows[key] = (number + 1, total + (bare if unknown else sys.getsizeof(o)))
        guessed[key] = guessed.get(key, 0) + unknown
        basic[key] = basic.get(key, 0) + bare
    for objects in listed:
        objects.clear()  # the first one holds ``listed``: a cycle, and nobody collects here
    return {"rows": rows, "guessed": guessed, "basic": basic}
