"""Objects that own memory natively: what the native core reads of each, beside what was asked for while it was made.

Argument: the native core. Prints {name: (bytes elsewhere by the core, whether it may own more, how many they are)}.
What zlib, bz2 and ctypes take is asked of Python's allocators, which tracemalloc follows, or of malloc.
"""

import sys

from core_breaks import in_fork, load

del sys.path[0]  # other programs beside this one have names of the standard library's

import bz2  # noqa: E402
import ctypes  # noqa: E402
import io  # noqa: E402
import lzma  # noqa: E402
import mmap  # noqa: E402
import sqlite3  # noqa: E402
import ssl  # noqa: E402
import tempfile  # noqa: E402
import tracemalloc  # noqa: E402
import zlib  # noqa: E402

NOISE = bytes(range(256)) * 4000
PACKED = zlib.compress(NOISE), bz2.compress(NOISE)


class Part(ctypes.Structure):
    _fields_ = [("numbers", ctypes.c_long * 1000), ("more", ctypes.c_char * 999)]


class Mapping(mmap.mmap):
    """A class made from one that owns memory."""


def fed(o, data):
    o.decompress(data)
    return o


def filled(o):
    o.compress(NOISE)
    return o


LINES = ["a line\n" * 999, "\u1234" * 5000]


def written(*lines, times=1):
    text = io.StringIO()
    for line in lines * times:
        text.write(line)
    return text


def read(text):
    text.seek(5)
    text.write("x")
    text.read(1)
    return text


def ended_text():
    text = written(*LINES)
    text.close()
    return text


def ended(o):
    o.flush()
    return o


def mapped_file(size, offset=0):
    with tempfile.TemporaryFile() as file:
        file.truncate(offset + size)
        return mmap.mmap(file.fileno(), size, offset=offset)


def closed():
    mapping = mmap.mmap(-1, 1 << 20)
    mapping.close()
    return mapping


class Usage(ctypes.Structure):
    """``struct mallinfo``."""

    _fields_ = [(name, ctypes.c_int) for name in (*"abcd", "hblkhd", *"ef", "used", *"gh")]


def given():
    """What malloc has given."""
    usage = MALLINFO()
    return usage.used + usage.hblkhd


MALLINFO = ctypes.CDLL(None).mallinfo
MALLINFO.restype = Usage

SLOTS = [f"slot_{i:02}" for i in range(30)]


def lookalike():
    """Of a class whose C name is that of a compressor's, and as large; but its fields are anything."""
    made = type("zlib.Compress", (), {"__slots__": SLOTS})()
    for name in SLOTS:
        setattr(made, name, NOISE)
    return made


TRACED = {
    "compressor": zlib.compressobj,
    "small compressor": lambda: zlib.compressobj(1, zlib.DEFLATED, 9, 1),
    "gzip compressor": lambda: zlib.compressobj(9, zlib.DEFLATED, 31, 9),
    "working compressor": lambda: filled(zlib.compressobj()),
    "copied compressor": lambda: filled(zlib.compressobj()).copy(),
    "ended compressor": lambda: ended(zlib.compressobj()),
    "decompressor": zlib.decompressobj,
    "raw decompressor": lambda: zlib.decompressobj(-12),
    "working decompressor": lambda: fed(zlib.decompressobj(), PACKED[0][:500]),
    "empty text": io.StringIO,
    "written text": lambda: written(LINES[0], times=9),
    "wide text": lambda: written(*LINES, times=3),
    "read text": lambda: read(written(*LINES)),
    "text from a text": lambda: io.StringIO(LINES[0]),
    "closed text": ended_text,
    "bz2 compressor": bz2.BZ2Compressor,
    "small bz2 compressor": lambda: filled(bz2.BZ2Compressor(1)),
    "ctypes array": ctypes.c_double * 5000,
    "ctypes structure": Part,
    "ctypes buffer": lambda: ctypes.create_string_buffer(77777),
    "ctypes number": lambda: ctypes.c_long(5),
}

ALLOCATED = {
    "bz2 decompressor": bz2.BZ2Decompressor,
    "working bz2 decompressor": lambda: fed(bz2.BZ2Decompressor(), PACKED[1][:200]),
}

BUFFER = bytearray(50_000)
WHOLE = Part()
PAGE = mmap.PAGESIZE

KNOWN = {
    "mapping": (lambda: mmap.mmap(-1, 10 * PAGE), 10 * PAGE),
    "part of a page": (lambda: mmap.mmap(-1, 10 * PAGE + 1), 11 * PAGE),
    "file": (lambda: mapped_file(3 * PAGE), 3 * PAGE),
    "part of a file": (lambda: mapped_file(2 * PAGE, mmap.ALLOCATIONGRANULARITY), 2 * PAGE),
    "subclass": (lambda: Mapping(-1, 5 * PAGE), 5 * PAGE),
    "closed": (closed, 0),
    "view of a mapping": (lambda: memoryview(mmap.mmap(-1, 5 * PAGE)), 0),
    "ctypes from a buffer": (lambda: (ctypes.c_char * 50_000).from_buffer(BUFFER), 0),
    "ctypes part": (lambda: WHOLE.numbers, 0),
    "ctypes pointer": (lambda: ctypes.pointer(WHOLE), 0),
    "lookalike": (lookalike, None),
    "empty lookalike": (type("mmap.mmap", (), {}), 0),
    "lzma compressor": (lzma.LZMACompressor, None),
    "lzma decompressor": (lzma.LZMADecompressor, None),
    "context": (lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), None),
    "database": (lambda: sqlite3.connect(":memory:"), None),
}


FACTS = "mmap_", "ctypes_", "zlib_", "bz2_", "stringio_"


def owned_with(core, fact, difference):
    """The same with a wrong fact: all that should not be told as if it were so."""
    core.set_layout(fact, core.layout()[fact] + difference)
    made = [make() for make in (*TRACED.values(), *ALLOCATED.values())] + [make() for make, _ in KNOWN.values()]
    return sum(core.owned_by(each)[0] for each in made) < 1 << 40


def main():
    core = load(sys.argv[1])
    found = {}
    for name, make in TRACED.items():
        make()  # what is made once only
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        taken = tracemalloc.get_traced_memory()[0] - before - sys.getsizeof(made)
        tracemalloc.stop()
        found[name] = (*core.owned_by(made), taken)
    for name, make in ALLOCATED.items():
        make()
        made = None  # of the one before
        before = given()
        made = make()
        found[name] = (*core.owned_by(made), given() - before)
    for name, (make, wanted) in KNOWN.items():
        made = make()
        found[name] = (*core.owned_by(made), wanted)
    for fact in core.layout():
        if fact.startswith(FACTS):
            found[fact] = in_fork(lambda fact=fact: ascii([owned_with(core, fact, by) for by in (8, -8, 1)]))
    print(ascii(found))


if __name__ == "__main__":
    main()
