"""What a planted heap could do without, computed by Python alone: what the core's answer to WASTE is compared with.

It shares nothing with the core. What only a C field holds (entries of a dict's table, room of a set) is read from
memory, at places that are known by version here. Sizes of instances are compared with those of a class that has slots
and is otherwise the same. Runs on every Python from 3.8 on; everything planted hangs on one object, and nothing else.
"""

import ctypes
import sys

OLD_KEYS = sys.version_info < (3, 11)
LONG, SHORT = 24, 16
LEAST_NUMBERS, MOST_KEYS, SPARE_SHARE = 16, 32, 4
LEAVES = (str, bytes, int, float)
LIST = sys.getsizeof([])
SET_TABLE = 32
DICT_KEYS, DICT_VALUES = 32, 40


def word_at(address):
    return ctypes.c_size_t.from_address(address).value


def byte_at(address):
    return ctypes.c_ubyte.from_address(address).value


# -- everything below a holder --------------------------------------------------------------------------------


def is_shared(o):
    """What others have too: classes, and what the interpreter keeps one of."""
    return isinstance(o, (type, type(None), bool)) or (type(o) is int and -6 < o < 1025)


def edges(o):
    """All that an object refers to, as often as it does, and no type."""
    if type(o) in (list, tuple, set):
        return list(o)
    if type(o) is dict:
        return [*(key for key in o if key not in NAMES), *o.values()]
    if not hasattr(type(o), "NAMES"):
        return []
    own = hidden_dict(o)
    return [own] if own is not None else [getattr(o, name) for name in type(o).NAMES if hasattr(o, name)]


def below(holder):
    """All that hangs on it, itself left out, in the order of addresses, and how many references each has."""
    found, degree, todo = {}, {}, [holder]
    while todo:
        for each in edges(todo.pop()):
            if is_shared(each):
                continue
            degree[id(each)] = degree.get(id(each), 0) + 1
            if id(each) not in found:
                found[id(each)] = each
                todo.append(each)
    return [found[address] for address in sorted(found)], degree


NAMES = set()
"""Of attributes: they belong to classes."""


# -- tables ---------------------------------------------------------------------------------------------------


class Table:
    """That of a dict, as it stands in memory."""

    def __init__(self, d):
        keys = word_at(id(d) + DICT_KEYS)
        self.shared = word_at(keys) != 1 or word_at(id(d) + DICT_VALUES) != 0
        if OLD_KEYS:
            self.slots, self.entries, self.width = word_at(keys + 8), word_at(keys + 32), LONG
        else:
            self.slots, self.entries = 1 << byte_at(keys + 8), word_at(keys + 24)
            self.width = SHORT if byte_at(keys + 10) else LONG
        self.room = self.slots * 2 // 3

    def bytes(self, slots):
        index = 1 if slots < 1 << 8 else 2 if slots < 1 << 16 else 4
        return (40 if OLD_KEYS else 32) + slots * index + slots * 2 // 3 * self.width

    def saved(self, used):
        """What is saved by a table that is made anew for so many."""
        if not used:
            return self.bytes(self.slots)
        slots = 16
        while slots * 2 // 3 < used:
            slots *= 2
        return self.bytes(self.slots) - self.bytes(slots) if slots < self.slots else 0


# -- attributes -----------------------------------------------------------------------------------------------


def hidden_dict(o):
    """The dict of an instance, where there is one already; asking for it by name may make it."""
    if sys.version_info < (3, 11):
        return vars(o)
    address = word_at(id(o) - 24)
    if not address or address & 1:
        return None
    return ctypes.cast(address, ctypes.py_object).value


SIZES = {}


def slotted_size(names):
    """Of an instance that has slots for them, and may be referred to weakly as before."""
    if names not in SIZES:
        made = type("Slotted", (), {"__slots__": (*sorted(names), "__weakref__")})()
        SIZES[names] = sys.getsizeof(made)
    return SIZES[names]


def values_bytes(o, cached):
    """Of attributes outside a dict, what is in no getsizeof. 3.11, 3.12: a block of its own; later inside."""
    if sys.version_info < (3, 11):
        return 0
    if sys.version_info < (3, 13):
        place = id(o) - (32 if sys.version_info < (3, 12) else 24)
        values = word_at(place)
        if not values or (sys.version_info >= (3, 12) and not values & 1):
            return 0
        room = word_at(cached + 16) + word_at(cached + 24)
        return (2 + room + 7) // 8 * 8 + 8 * room
    basic = type(o).__basicsize__
    room = byte_at(id(o) + basic)
    own = hidden_dict(o)
    inside = own is not None and word_at(id(own) + DICT_VALUES) == id(o) + basic
    return 8 + (room + 7) // 8 * 8 + (0 if inside else 8 * room)


def cached_keys(t):
    minor = sys.version_info[1]
    offset = {8: 872, 9: 864, 10: 872, 11: 872, 15: 888}.get(minor, 880)
    return word_at(id(t) + offset)


# -- what is wrong --------------------------------------------------------------------------------------------


class Reference:
    """``rows``: {(sort, type): [objects, bytes, detail]}; ``own``: bytes, each once; ``kept``: {sort: contents}."""

    def __init__(self, holder):
        self.rows, self.kept = {}, {}
        self.claims = {}
        self.contents = {}
        self.instances = {}
        objects, self.degree = below(holder)
        self.attribute_dicts = {
            id(own) for own in (hidden_dict(o) for o in objects if hasattr(type(o), "NAMES")) if own is not None
        }
        for o in objects:
            self.look_at(o)
        for (t, names), them in self.instances.items():
            if len(them) > 1:
                self.add("slots", f"{t.__name__} of {len(names)}", [(len(them), self.of_instances(them, names), 0)])
        self.own = sum(self.claims.values())

    def look_at(self, o):
        t = type(o)
        if t in LEAVES:
            self.equal(o)
        elif t is list:
            self.list(o)
        elif t is set:
            self.set(o)
        elif t is dict:
            if id(o) not in self.attribute_dicts:
                self.dict(o)
        elif hasattr(t, "NAMES"):
            names = frozenset(n for n in t.NAMES if n in self.attribute_names(o))
            if names:
                self.instances.setdefault((t, names), []).append(o)

    @staticmethod
    def attribute_names(o):
        """Without asking for its dict."""
        own = hidden_dict(o)
        if own is not None:
            return set(own)
        return {n for n in type(o).NAMES if hasattr(o, n)}

    def claim(self, o, size):
        self.claims[id(o)] = max(self.claims.get(id(o), 0), size)
        return size

    def add(self, sort, name, figures):
        row = self.rows.setdefault((sort, name), [0, 0, 0])
        for figure in figures:
            for i in range(3):
                row[i] += figure[i]

    def equal(self, o):
        content = (type(o), o.hex() if type(o) is float else o)
        first = self.contents.setdefault(content, [o, 0])
        first[1] += 1
        sort = "duplicate" if type(o) in (str, bytes) else "equal"
        if first[1] == 2:
            self.kept[sort] = self.kept.get(sort, 0) + 1
        if first[1] > 1:
            self.add(sort, type(o).__name__, [(1, self.claim(o, sys.getsizeof(o)), 0)])

    def list(self, o):
        room = (sys.getsizeof(o) - LIST) // 8
        if not o:
            self.add("empty", "list", [(1, self.claim(o, sys.getsizeof(o)), 0)])
            return
        spare = 8 * (room - len(o))
        for sort, t in (("ints", int), ("floats", float)):
            fit = all(type(each) is t and (t is float or abs(each) < 1 << 60) for each in o)
            if fit and len(o) >= LEAST_NUMBERS:
                alone = [each for each in o if self.degree.get(id(each)) == 1]
                saved = spare + sum(self.claim(each, sys.getsizeof(each)) for each in alone)
                if saved:
                    self.claim(o, spare)
                    self.add(sort, "list", [(1, saved, len(o))])
        if SPARE_SHARE * len(o) <= room:
            self.add("spare", "list", [(1, self.claim(o, spare), len(o))])

    def set(self, o):
        if not o:
            self.add("empty", "set", [(1, self.claim(o, sys.getsizeof(o)), 0)])
            return
        room = word_at(id(o) + SET_TABLE) + 1
        if SPARE_SHARE * len(o) <= room:
            self.add("spare", "set", [(1, self.claim(o, 16 * (room - len(o))), len(o))])

    def dict(self, o):
        table, used = Table(o), len(o)
        deleted = table.entries - used
        if not table.shared and deleted > 0 and deleted >= used:
            saved = table.saved(used)
            assert not used or saved <= sys.getsizeof(o) - sys.getsizeof(dict(o)), "the advice: make it anew"
            if saved:
                self.add("sparse", "dict", [(1, self.claim(o, saved), deleted)])
        elif not used:
            self.add("empty", "dict", [(1, self.claim(o, sys.getsizeof(o)), 0)])
        elif not table.shared and not deleted and SPARE_SHARE * used <= table.room:
            self.add("spare", "dict", [(1, self.claim(o, (table.room - used) * table.width), used)])

    def of_instances(self, them, names):
        """What they take more than they would with slots, each with its dict."""
        total, wanted = 0, slotted_size(names)
        for o in them:
            own = hidden_dict(o)
            size = sys.getsizeof(o) + values_bytes(o, cached_keys(type(o)))
            dict_size = sys.getsizeof(own) if own is not None else 0
            if size + dict_size <= wanted:
                continue
            total += self.claim(o, max(size - wanted, 0))
            if own is not None:
                total += self.claim(own, dict_size - max(wanted - size, 0))
        return total
