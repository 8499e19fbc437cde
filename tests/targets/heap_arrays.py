"""What the native core sees of numpy arrays of objects, one array after the other; needs numpy.

Argument: the core's library. Prints {name: (objects of the array's that were not reached, edges of the array itself)}.
Nothing here is as large as it says: a walk of shapes, instead of memory, would not come to its end.
"""

import ctypes
import gc
import sys

import core_breaks
import numpy
from numpy.lib.stride_tricks import as_strided

BASE = 48
"""Where an array holds what its memory belongs to: ndarraytypes.h, PyArrayObject_fields."""
MANY = 10**6
MOST = 500


class Sub(numpy.ndarray):
    """Collected, unlike its base."""


class Slotted(numpy.ndarray):
    __slots__ = ("more",)


def things(count):
    return [["thing", i] for i in range(count)]


def filled(shape, objects):
    array = numpy.empty(shape, dtype=object)
    array.reshape(-1)[:] = objects
    return array


def records(dtype, length, fields):
    """An array of records, and objects that were put into those of its fields that ``fields`` leads to."""
    array = numpy.zeros(length, dtype=dtype)
    found = []
    for path in fields:
        field = array
        for name in path:
            field = field[name]
        objects = things(field.size)
        places = numpy.empty(field.size, dtype=object)
        places[:] = objects
        field[...] = places.reshape(field.shape)
        found += objects
    return array, found


def lent(objects, shape, strides, base):
    """An array whose items lie in memory that belongs to ``base``, a stranger."""
    memory = (ctypes.py_object * len(objects))(*objects)
    LENT.append(memory)
    array = numpy.ndarray(shape, object, memoryview(memory).cast("B"), 0, strides)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(base))
    ctypes.c_void_p.from_address(id(array) + BASE).value = id(base)
    return array


def build():
    """{name: (array, objects it holds)}."""
    made = {}
    held = things(50)
    made["owned"] = filled(50, held), held
    made["grid"] = filled((5, 10), held), held
    made["view"] = filled(50, held)[40:3:-2], held
    made["long broadcast"] = numpy.broadcast_to(filled(1, held[:1]), (1000, 1000)), held[:1]
    made["endless broadcast"] = numpy.broadcast_to(filled(1, held[:1]), (MANY, MANY)), held[:1]
    made["windows"] = as_strided(filled(50, held), (MANY, 50), (0, 8)), held
    made["through memory"] = numpy.asarray(memoryview(filled(50, held))), held
    made["empty and long"] = numpy.empty((MANY, MANY, 0), dtype=object), []
    made["longer empty"] = numpy.empty((0,), dtype=[("things", object, (10**8,))]), []
    made["subclass"] = filled(50, held).view(Sub), held
    own = numpy.ndarray.__new__(Sub, (50,), dtype=object)
    own[:] = held
    own.attribute = ["of the instance"]
    made["subclass that owns"] = own, [*held, own.attribute]
    slotted = filled(50, held).view(Slotted)
    slotted.more = ["in a slot"]
    made["subclass with slots"] = slotted, [*held, slotted.more]
    made["masked"] = numpy.ma.array(filled(50, held), mask=[0, 1] * 25), held
    made["plain record"] = records([("number", "i4"), ("thing", "O"), ("real", "f8")], 9, [["thing"]])
    made["aligned record"] = records(
        numpy.dtype([("letter", "S1"), ("thing", "O"), ("other", "O")], align=True), 9, [["thing"], ["other"]]
    )
    made["array in a record"] = records([("letter", "S1"), ("things", "O", (2, 3))], 9, [["things"]])
    inner = [("letter", "S3"), ("thing", "O"), ("things", "O", 2)]
    made["nested record"] = records(
        [("inner", inner), ("letter", "S1"), ("several", inner, (2, 2))],
        9,
        [["inner", "thing"], ["inner", "things"], ["several", "thing"], ["several", "things"]],
    )
    made["titled record"] = records([(("a title", "thing"), "O"), ("number", "i2")], 9, [["thing"]])
    array, found = records([("thing", "O"), ("number", "i4")], 9, [["thing"]])
    made["view of a record"] = array[["thing"]], found
    made["field of a record"] = array["thing"], found
    made["subclass of records"] = array.view(numpy.recarray), found
    made["grid of records"] = array.reshape(3, 3)[::-1], found
    made["lent by C"] = lent(held, (50,), (8,), CAPSULE), held
    made["lent by C, again and again"] = lent(held, (MANY, MANY, 50), (0, 0, 8), CAPSULE), held
    made["lent by nobody known"] = lent(held[:1], (MANY, MANY), (0, 0), b""), []
    return made


def unreached(core, array, objects):
    """How many of the objects nothing leads to that starts at the array."""
    seen, todo = {id(array)}, [array]
    while todo:
        for referent in core.edges_of(todo.pop()):
            if id(referent) not in seen and not isinstance(referent, (type, type(sys))):
                seen.add(id(referent))
                todo.append(referent)
    return len({id(o) for o in objects} - seen)


def main():
    core = core_breaks.load(sys.argv[1])
    made = build()
    gc.collect()
    gc.freeze()
    told = {}
    for name, (array, objects) in made.items():
        edges = len(core.edges_of(array))
        told[name] = unreached(core, array, objects), edges
        if edges > MOST:
            break  # the next one would take the machine's memory
    print(told)


LENT = []
NEW_CAPSULE = ctypes.pythonapi.PyCapsule_New
NEW_CAPSULE.restype, NEW_CAPSULE.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
CAPSULE = NEW_CAPSULE(1, None, None)

if __name__ == "__main__":
    main()
