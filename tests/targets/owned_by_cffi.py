"""Objects that cffi's new() makes, each with what cffi itself says of their data.

Argument: the native core. Prints {name: (bytes elsewhere by the core, whether it may own more, bytes by cffi)}: the
data, and 8 bytes in front of it, or where a pointer keeps the structure's object all of that object's fields.
"""

import sys

from core_breaks import load, lookalike

del sys.path[0]

import cffi  # noqa: E402

FFI = cffi.FFI()
FFI.cdef("struct pair { int first; char text[100]; struct pair *next; }; struct open { int size; char text[]; };")
PADDING, FIELDS = 8, 48

INSIDE = {
    "text": FFI.new("char[]", 100_000),
    "of a text": FFI.new("char[]", b"some text"),
    "numbers": FFI.new("int[1000]"),
    "two dimensions": FFI.new("int[10][20]"),
    "pairs": FFI.new("struct pair[]", 30),
    "none": FFI.new("int[]", 0),
    "number": FFI.new("double *"),
}
POINTERS = {"pair": FFI.new("struct pair *"), "open pair": FFI.new("struct open *", {"size": 1, "text": b"x" * 500})}
BASE = INSIDE["numbers"]
PAIR = FFI.new("struct pair *")
NOTHING = {
    "cast": FFI.cast("int *", BASE),
    "part": BASE + 5,
    "of a buffer": FFI.from_buffer(bytearray(5000)),
    "buffer": FFI.buffer(BASE),
    "collected by": FFI.gc(BASE, len),
    "handle": FFI.new_handle(BASE),
    "null": FFI.NULL,
}


def main():
    core = load(sys.argv[1])
    found = {}
    for name, o in INSIDE.items():
        size = FFI.sizeof(FFI.typeof(o).item) if name == "number" else FFI.sizeof(o)
        found[name] = (*core.owned_by(o), size + PADDING)
    for name, o in POINTERS.items():
        found[name] = (*core.owned_by(o), FFI.sizeof(o[0]) + FIELDS)
    found["structure"] = (*core.owned_by(PAIR[0]), FFI.sizeof(PAIR[0]) + PADDING)
    found.update((name, (*core.owned_by(o), 0)) for name, o in NOTHING.items())
    for name in ("_cffi_backend.__CDataOwn", "builtins.PyDataFrame", "h5py.h5f.FileID"):
        found[f"no {name}"] = (*core.owned_by(lookalike(name, BASE)), None)
    print(ascii(found))


if __name__ == "__main__":
    main()
