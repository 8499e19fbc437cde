"""The target of bench/explained.py: a batch program with NumPy, pandas, Arrow, Pillow and torch.

It imports nothing of heaptop.

Arguments: how large, as a factor; a file for what each library says of its memory; ``end`` to exit, else it sleeps.
"""

import json
import os
import sys
import time
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from PIL import Image

SCALE = float(sys.argv[1])


def many(number):
    return max(1, round(number * SCALE))


def arrays():
    """With views that must not count again."""
    bases = [np.random.default_rng(i).random((500, 1000)) for i in range(many(40))]
    return bases, [each[10:, ::2].T for base in bases for each in (base, base[5:])]


def frames():
    size = 50_000
    return [
        pd.DataFrame(
            {
                "number": np.arange(size) * i,
                "value": np.random.default_rng(i).random(size),
                "name": [f"name {j}" for j in range(size)],
            }
        )
        for i in range(many(25))
    ]


def tables():
    """Their numbers are one array of NumPy's, which Arrow does not copy."""
    numbers = np.arange(200_000)
    columns = {"number": numbers, "text": [f"text {i}" for i in range(200_000)]}
    whole = [pa.table(columns) for _ in range(many(20))]
    return whole, [each.slice(1000, 500) for each in whole], numbers


def images():
    return [Image.effect_noise((1200, 900), i).convert("RGB") for i in range(many(30))]


def tensors():
    whole = [torch.rand(500, 1000) for _ in range(many(40))]
    layers = [torch.nn.Linear(800, 800) for _ in range(many(12))]
    for each in layers:
        each(torch.ones(20, 800)).sum().backward()
    return whole, [each[10:20].T for each in whole], layers


def records():
    """Objects of Python's, in arenas."""
    return [{"id": i, "name": f"record {i}", "tags": [str(i), str(i * 2)]} for i in range(many(250_000))]


def by_the_libraries(kept):
    """Bytes by each library's own counter."""
    whole, _, layers = kept["torch"]
    parameters = [each for layer in layers for each in layer.parameters()]
    pool = pa.default_memory_pool()
    text = [frame["name"].array for frame in kept["pandas"]]
    return {
        "numpy": sum(each.nbytes for each in kept["numpy"][0]),
        "pandas": sum(int(frame[["number", "value"]].memory_usage(index=False).sum()) for frame in kept["pandas"]),
        "pandas text": sum(each.nbytes for each in text),
        "tables": kept["arrow"][2].nbytes,
        "arrow": pool.bytes_allocated(),
        "arrow pool": pool.backend_name,
        "pillow": sum(4 * each.width * each.height for each in kept["pillow"]),
        "torch": sum(each.nbytes for each in whole) + sum(each.nbytes + each.grad.nbytes for each in parameters),
    }


KEPT = {}
for name, make in [
    ("numpy", arrays),
    ("pandas", frames),
    ("arrow", tables),
    ("pillow", images),
    ("torch", tensors),
    ("python", records),
]:
    KEPT[name] = make()
FOUND = by_the_libraries(KEPT)
if tracemalloc.is_tracing():
    FOUND["tracemalloc"] = tracemalloc.get_traced_memory()[0]
    FOUND["tracemalloc lines"] = [
        [each.traceback[0].filename, each.traceback[0].lineno, each.size]
        for each in tracemalloc.take_snapshot().statistics("lineno")[:40]
    ]
FOUND["pid"] = os.getpid()
with open("/proc/self/statm") as statm:
    FOUND["rss"] = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
with open(sys.argv[2] + ".new", "w") as file:
    json.dump(FOUND, file)
os.replace(sys.argv[2] + ".new", sys.argv[2])
while sys.argv[3:] != ["end"]:
    time.sleep(0.1)
