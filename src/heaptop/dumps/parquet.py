"""Writes the objects of a heap dump as a table in a Parquet file, for DuckDB, pandas, Polars and others.

A row is an object. Rows are taken from the core and written group by group, so memory is bounded. pyarrow writes the
file: who imports this module reports that the package is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow
from pyarrow import compute, parquet

from heaptop import files
from heaptop.analysis.samples.sampling import Sampling
from heaptop.dumps.reader import HeapDump
from heaptop.errors import DumpDamaged, SaveFailed, os_reason
from heaptop.protocol.images import KINDS

GROUP: Final = 100_000  # Rows of a row group
COLUMNS: Final = (
    ("address", "uint64"),
    ("dominator", "uint64"),
    ("size", "uint64"),
    ("retained", "uint64"),
    ("length", "int64"),
    ("type", "uint32"),
    ("site", "uint32"),
    ("generation", "int8"),
    ("root", "uint8"),
)
"""Of the file, and how the core's columns are packed: of ``type``, ``site`` and ``root`` numbers of names."""
UNKNOWN: Final = {"dominator": 0, "length": -1, "generation": -1}
"""What the core has where nothing is known: null in the file."""
Told = Callable[[int, int], None]


def write_parquet(dump: HeapDump, path: str, *, force: bool = False, told: Told = lambda done, total: None) -> int:
    """Write a table of all objects of a dump, which is loaded; how many there are.

    Errors: DumpDamaged and SaveFailed.
    """
    if not dump.whole:
        raise DumpDamaged(f"The heap dump {dump.path} is incomplete, so retained sizes are not known.")
    dump.counts()  # refuses types without a name
    try:
        file = files.create(path, force=force)
    except FileExistsError:
        fix = "Choose another file, or overwrite it: `--force`."
        raise SaveFailed(f"The file {path} exists already.", why="Nothing was written.", fix=fix) from None
    except (OSError, ValueError) as error:
        raise _failed(path, error) from None
    try:
        written = 0
        with os.fdopen(os.dup(file.fd), "wb") as sink, parquet.ParquetWriter(sink, _schema()) as writer:
            for batch in _batches(dump):
                writer.write_batch(batch, row_group_size=GROUP)
                written += batch.num_rows
                told(written, dump.image.objects)
        file.take_place()
    except OSError as error:
        file.give_up()
        raise _failed(path, error) from None
    except BaseException:
        file.give_up()
        raise
    os.close(file.fd)
    return written


def _failed(path: str, error: Exception) -> SaveFailed:
    return SaveFailed(f"{path} cannot be written: {os_reason(error)}.")


def _schema() -> Any:
    names = pyarrow.dictionary(pyarrow.uint32(), pyarrow.string())
    kinds = {"type": names, "site": names, "root": names}
    return pyarrow.schema([(name, kinds.get(name) or pyarrow.type_for_alias(packed)) for name, packed in COLUMNS])


def _batches(dump: HeapDump) -> Iterator[Any]:
    sites, schema = _Sites(dump), _schema()
    types, kinds = pyarrow.array([name.full for name in dump.types]), pyarrow.array(KINDS)
    first = 0
    while (columns := dump.rows(first, GROUP)) and columns[0]:
        count = len(columns[0]) // 8
        arrays = {}
        for (name, packed), content in zip(COLUMNS, columns, strict=True):
            buffers = [None, pyarrow.py_buffer(content)]
            arrays[name] = pyarrow.Array.from_buffers(pyarrow.type_for_alias(packed), count, buffers)
        for name, value in UNKNOWN.items():
            whole = arrays[name]
            unknown = compute.equal(whole, pyarrow.scalar(value, whole.type))
            arrays[name] = compute.if_else(unknown, pyarrow.scalar(None, whole.type), whole)
        for name, names in (("type", types), ("root", kinds)):
            arrays[name] = pyarrow.DictionaryArray.from_arrays(arrays[name].cast(pyarrow.uint32()), names)
        at = pyarrow.array([sites[stack] for stack in arrays["site"].to_pylist()], pyarrow.string())
        arrays["site"] = at.dictionary_encode().cast(schema.field("site").type)
        yield pyarrow.record_batch([arrays[name] for name, _ in COLUMNS], schema=schema)
        first += count


class _Sites(dict[int, str | None]):
    """The site of each stack that sampled blocks have, by the sampler's number of it; None where it is not known."""

    def __init__(self, dump: HeapDump) -> None:
        super().__init__({0: None})
        self._sampling = Sampling()
        for message in dump.state:
            self._sampling.feed(message)

    def __missing__(self, stack: int) -> str | None:
        self[stack] = site = self._sampling.sites.reported_site(stack) or None
        return site
