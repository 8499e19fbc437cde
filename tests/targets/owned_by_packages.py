"""Objects of packages that own memory natively, each with what the package itself says of that memory.

Argument: the native core. Prints {name: (bytes elsewhere by the core, whether it may own more, bytes by the package)}.
"""

import sys

from core_breaks import load, lookalike

del sys.path[0]

import pyarrow as pa  # noqa: E402
from PIL import Image  # noqa: E402

WIDTH, HEIGHT = 1001, 703
PIXEL = {"RGB": 4, "RGBA": 4, "CMYK": 4, "LA": 4, "F": 4, "I": 4, "I;16": 2, "L": 1, "P": 1, "1": 1}
"""Bytes: Pillow's Concepts, and Image data organization in its Imaging.h."""

POOL = pa.default_memory_pool()
BUFFER = pa.allocate_buffer(100_000)
NUMBERS = pa.array(range(50_000))
TABLE = pa.table({"number": list(range(10_000)), "text": [f"text {i}" for i in range(10_000)]})


def size_of(*buffers):
    """Of whole buffers: the pool rounds each up."""
    return sum((each.size + 63) // 64 * 64 for each in buffers if each is not None)


ALLOCATED = {
    "buffer": lambda: pa.allocate_buffer(100_000),
    "resizable": lambda: pa.allocate_buffer(5_000, resizable=True),
    "numbers": lambda: pa.array(range(50_000)),
    "texts": lambda: pa.array(["x" * i for i in range(500)]),
    "nulls": lambda: pa.array([1, None, 3] * 1_000),
    "lists": lambda: pa.array([[1, 2, 3]] * 1_000),
    "structures": lambda: pa.array([{"a": 1, "b": "x"}] * 1_000),
    "dictionary": lambda: pa.array(["a", "b"] * 1_000).dictionary_encode(),
    "chunks": lambda: pa.chunked_array([[1, 2, 3] * 100, [4] * 1_000]),
    "table": lambda: pa.table({"a": list(range(10_000)), "b": [f"s{i}" for i in range(10_000)]}),
    "empty": lambda: pa.array([], pa.int64()),
    "empty table": lambda: pa.table({}),
    "no values": lambda: pa.nulls(100),
}


def main():
    core = load(sys.argv[1])
    found = {}
    for name, make in ALLOCATED.items():
        before = POOL.bytes_allocated()
        made = make()
        found[name] = (*core.owned_by(made), POOL.bytes_allocated() - before)
        made = None  # else what it has is given back while the next one is made
    whole = size_of(BUFFER)
    found["slice of a buffer"] = (*core.owned_by(BUFFER.slice(100, 50)), whole)
    found["slice of numbers"] = (*core.owned_by(NUMBERS.slice(10, 100)), size_of(*NUMBERS.buffers()))
    found["batch of a table"] = (*core.owned_by(TABLE.to_batches()[0]), core.owned_by(TABLE)[0])
    found["table twice"] = (*core.owned_by(pa.concat_tables([TABLE, TABLE])), core.owned_by(TABLE)[0])
    found["over bytes"] = (*core.owned_by(pa.py_buffer(bytes(1_000))), None)
    for mode, pixel in PIXEL.items():
        image = Image.new(mode, (WIDTH, HEIGHT))
        found[f"image {mode}"] = (*core.owned_by(image.im), WIDTH * HEIGHT * pixel + 8 * HEIGHT)
    found["large image"] = (*core.owned_by(Image.new("RGB", (6_000, 5_000)).im), 6_000 * 5_000 * 4 + 8 * 5_000)
    found["no pixels"] = (*core.owned_by(Image.new("L", (0, 0)).im), 0)
    lent = Image.frombuffer("L", (100, 100), bytes(10_000), "raw", "L", 0, 1)
    found["image over bytes"] = (*core.owned_by(lent.im), 800)
    for name in ("ImagingCore", "pyarrow.lib.Table", "pyarrow.lib.Buffer", "pyarrow.lib.ChunkedArray"):
        found[f"no {name}"] = (*core.owned_by(lookalike(name, TABLE)), None)
    print(ascii(found))


if __name__ == "__main__":
    main()
