"""Holds buffers, some of them through several objects at once.

Arguments: names of packages whose objects it holds too. Prints ``ready`` and a dict: by a type's full name, how many
bytes of memory its objects own, as they or their library say; those of views are 0.
"""

import array
import ctypes
import mmap
import sys
import time
import zlib

from steady import ready

PAGE = mmap.PAGESIZE


class Holder:
    """Keeps a view of a buffer, and not the buffer."""

    def __init__(self, view):
        self.view = view


def plain():
    mappings = [mmap.mmap(-1, 100 * PAGE) for _ in range(20)]
    buffers = [bytearray(300_000) for _ in range(5)]
    arrays = [array.array("d", bytes(800_000)) for _ in range(4)]
    numbers = [(ctypes.c_double * 20_000)() for _ in range(10)]
    compressors = [zlib.compressobj() for _ in range(50)]
    chains = [Holder(memoryview(memoryview(each)[10:])[5:]) for each in buffers + arrays + mappings for _ in range(3)]
    owned = {
        "mmap.mmap": sum(map(len, mappings)),
        "bytearray": sum(map(sys.getsizeof, buffers)),
        "array.array": sum(map(sys.getsizeof, arrays)),
        "__main__.c_double_Array_20000": sum(map(ctypes.sizeof, numbers)),
        "zlib.Compress": len(compressors) << 18,  # zlib.h: (1 << wbits + 2) + (1 << memLevel + 9), and a few more
        "memoryview": 0,
        "managedbuffer": 0,
    }
    return owned, (mappings, arrays, numbers, compressors, chains)


def numpy():
    import numpy as np  # noqa: PLC0415

    arrays = [np.ones((100, 1000)) for _ in range(20)]
    views = [Holder(each[10:, ::2].T) for each in arrays for _ in range(10)]
    shared = [Holder(np.frombuffer(bytes(100_000), dtype="u1")) for _ in range(10)]
    return {"numpy.ndarray": sum(each.nbytes for each in arrays), "bytes": 1_000_000}, (views, shared)


def arrow():
    import pyarrow as pa  # noqa: PLC0415

    tables = [pa.table({"number": list(range(5_000)), "text": [f"text {i}" for i in range(5_000)]}) for _ in range(10)]
    parts = [each.slice(10, 100) for each in tables for _ in range(5)]
    columns = [each.column(0) for each in tables] + [each.column(1).chunk(0) for each in tables]
    return {"pyarrow.lib.*": pa.default_memory_pool().bytes_allocated()}, (tables[5:], parts, columns)


def pillow():
    from PIL import Image  # noqa: PLC0415

    images = [Image.new("RGB", (200, 150)) for _ in range(20)]
    return {"*ImagingCore": len(images) * 200 * 150 * 4}, images


def pandas():
    import numpy as np  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415

    frames = [pd.DataFrame(np.ones((20_000, 8)), columns=list("abcdefgh")) for _ in range(10)]
    columns = [each["b"] for each in frames]
    return {"numpy.ndarray": sum(int(each.memory_usage(index=False).sum()) for each in frames)}, (frames, columns)


def cffi():
    import cffi as package  # noqa: PLC0415

    ffi = package.FFI()
    texts = [ffi.new("char[]", 50_000) for _ in range(20)]
    views = [Holder(ffi.buffer(each)) for each in texts for _ in range(3)]
    return {"_cffi_backend.__CDataOwn": sum(map(ffi.sizeof, texts)), "_cffi_backend.buffer": 0}, views


def torch():
    import torch as pt  # noqa: PLC0415

    tensors = [pt.ones(300, 400) for _ in range(10)]
    views = [Holder(each[10:, ::2].T) for each in tensors for _ in range(5)]
    layers = [pt.nn.Linear(300, 200) for _ in range(5)]
    for each in layers:
        each(pt.ones(3, 300)).sum().backward()
    parameters = [each for layer in layers for each in layer.parameters()]
    owned = {
        "torch.Tensor": sum(each.nbytes for each in tensors),
        "torch.nn.parameter.Parameter": sum(2 * each.nbytes for each in parameters),  # and their gradients
    }
    return owned, (views, layers)


KEPT = []
OWNED = {}
for make in (plain, *(globals()[name] for name in sys.argv[1:])):
    found, kept = make()
    OWNED.update(found)
    KEPT.append(kept)

if __name__ == "__main__":
    ready(OWNED)
    while True:
        time.sleep(0.1)
