"""bench/explained.py: its tables sum to RSS, and each of its promises can be broken."""

from __future__ import annotations

from typing import Any

from bench.explained import MIB, by_line, by_owner, promises
from bench.promises import Verdict

COUNTERS = {"numpy": 60 * MIB, "pandas": 30 * MIB, "tables": 10 * MIB, "pillow": 50 * MIB, "torch": 40 * MIB}


def census(numpy: int = 100) -> dict[str, Any]:
    sizes = {
        "numpy.ndarray": numpy,
        "ImagingCore": 50,
        "torch.Tensor": 30,
        "torch.nn.parameter.Parameter": 10,
        "pyarrow.lib.Table": 20,
        "dict": 40,
    }
    rows = [{"name": name, "bytes": size * MIB, "hidden_bytes": 0} for name, size in sizes.items()]
    return {"mapped_bytes": 20 * MIB, "rows": rows}


def site(library: str, function: str, mib: int, line: int) -> dict[str, Any]:
    stack = [{"file": "/srv/batch.py", "line": line}] if line else []
    return {"library": f"/lib/{library}", "function": function, "bytes": mib * MIB, "stack": stack, "no_stack": "none"}


def memory(rest: int = 2) -> dict[str, Any]:
    uses = {"live": 230, "other": 20, "pools": 1, "free_pools": 1, "overhead": 1, "malloc_free": 5, "stacks": 1}
    uses |= {"files": 100, "shared": 0, "rest": 30 + rest, "own": 2}
    native = [
        site("_multiarray_umath.so", "default_malloc", numpy := 100, 29),
        site("_imaging.so", "memory_get_block", 50, 54),
        site("libc10.so", "_ZN3c109alloc_cpuEm", 40, 60),
        site("libarrow.so.2600", "unix_mmap_prim_aligned", 30, 49),
        site("libpython3.11.so.1.0", "_PyObject_ArenaMmap", 43, 69),
        site("libtorch_cpu.so", "", 20, 0),
    ]
    assert numpy == sum(COUNTERS[name] for name in ("numpy", "pandas", "tables")) // MIB
    rows = [{"key": key, "bytes": mib * MIB} for key, mib in uses.items()]
    return {"rows": rows, "rss": sum(uses.values()) * MIB, "native": native}


def kept(census_: dict[str, Any], memory_: dict[str, Any], arrow: int = 20) -> dict[str, Verdict]:
    owners = list(by_owner(census_, memory_, {**COUNTERS, "arrow": arrow * MIB}))
    found = promises(owners, list(by_line(memory_, 3)), memory_["rss"])
    return {promise.what.partition(",")[0]: promise.verdict for promise in found}


def test_rows_of_both_tables_sum_to_rss() -> None:
    for numpy in (100, 90):
        for rest in (0, 40):
            answer = memory(rest)
            owners = list(by_owner(census(numpy), answer, {**COUNTERS, "arrow": 1}))
            assert sum(row.bytes for row in owners) == answer["rss"]
            assert sum(row.bytes for row in by_line(answer, 3)) == answer["rss"]


def test_each_promise_is_kept_and_can_be_broken() -> None:
    assert set(kept(census(), memory()).values()) == {Verdict.KEPT}
    broken = kept(census(), memory(rest=40))
    assert broken["not explained by owner"] is broken["not explained by line"] is Verdict.BROKEN
    assert kept(census(90), memory())["arrays of NumPy"] is Verdict.BROKEN
    assert kept(census(), memory(), arrow=25)["tables"] is Verdict.BROKEN
