"""Where native memory was allocated, read from outside: the table of a program that ``heaptop run --native`` started.

Only what the program has written of it is read: no page of it comes into its memory by that.
"""

from __future__ import annotations

from collections.abc import Iterable

from heaptop.injector.inspect.memory import RemoteMemory
from heaptop.injector.preload.malloc_table import MAPPED, SIZE, executable, read_sites
from heaptop.injector.rss.smaps import Vma
from heaptop.protocol.messages import MallocSites

MOST_SITES = 200


def read(pid: int, tid: int, vmas: Iterable[Vma]) -> MallocSites | None:
    """Its largest sites; None where there is no table. Errors: OSError, RemoteFault, TableInvalid."""
    start = next((vma.start for vma in vmas if vma.name.split(" ")[0] == MAPPED and vma.size >= SIZE), None)
    if start is None:
        return None
    with RemoteMemory(pid, tid) as memory:
        return read_sites(
            lambda at, size: memory.read(start + at, size) if size else b"", executable(pid), pid, MOST_SITES
        )
