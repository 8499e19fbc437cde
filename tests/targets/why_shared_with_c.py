"""Large objects in dicts of every sort, each of which C holds as well, and one that it does not; then it waits.

Behind ``ready``: a literal, {name: (address of the dict, address of the object)}.
"""

import collections
import ctypes
import threading

from steady import ready

LARGE = 10_000_000


class Table(dict):
    pass


class Attributes:
    pass


def held_by_c(o):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(o))
    return o


def attributes():
    """A dict that has been asked for: from 3.13 on it and the instance have the same values."""
    made = Attributes()
    made.key = held_by_c(bytearray(LARGE))
    return made


KEPT = {
    "dict": {"key": held_by_c(bytearray(LARGE))},
    "Table": Table(key=held_by_c(bytearray(LARGE))),
    "OrderedDict": collections.OrderedDict(key=held_by_c(bytearray(LARGE))),
    "defaultdict": collections.defaultdict(list, key=held_by_c(bytearray(LARGE))),
    "Counter": collections.Counter(key=held_by_c(bytearray(LARGE))),
    "alone": Table(key=bytearray(LARGE)),
}
INSTANCE = attributes()
PLANTED = {name: (id(kept), id(kept["key"])) for name, kept in KEPT.items()}
PLANTED["attributes"] = id(vars(INSTANCE)), id(INSTANCE.key)
ready(PLANTED)
while True:
    threading.Event().wait(1)
