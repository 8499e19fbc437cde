"""What of a process's memory is heaptop's own, seen from outside.

    by name         the native core's library and its data, the table of native samples (memfds)
    by thread       the stack of the agent's thread, and the malloc arena that it alone allocates from
    by what is in   the pages of the way in (a magic)
    told            the core's tables: :class:`~heaptop.protocol.messages.OwnPages`

What lies in memory that the target uses too (Python's arenas, malloc's main heap) is not separated here. This module
never writes, and never reads an absent page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from heaptop.injector.entry import stub
from heaptop.injector.inspect import process
from heaptop.injector.inspect.memory import RemoteFault, read_mappings
from heaptop.injector.preload.malloc_table import MAPPED
from heaptop.injector.rss import bss, stacks
from heaptop.injector.rss.residency import ResidentMemory
from heaptop.injector.rss.smaps import FILE, HEAP, HEAP_ALIGNMENT, OWN, Sort, Vma

CORE: Final = "/memfd:heaptop-core-"
LIBRARY, DATA = "native core: library", "native core: data"
LARGEST_IMAGE: Final = 64 << 20
"""Ten times what a core takes: the header is in the target's memory, and may say anything."""
WAY_IN: Final = "attach code"
STACK: Final = "agent's thread: stack"


@dataclass(frozen=True, slots=True)
class AttachBaseline:
    """A process before heaptop began to attach."""

    rss: int | None = None
    heaps: frozenset[int] | None = None
    """Where a heap of a thread's arena may have been: none of them is of heaptop's making. None: it is not known."""
    native: bool = False  # It has a table of native samples


UNKNOWN: Final = AttachBaseline()
NOTHING: Final = AttachBaseline(None, frozenset())  # Of a process that heaptop starts


def before(pid: int) -> AttachBaseline:
    """As it is now."""
    try:
        mappings = read_mappings(pid)
    except OSError:
        return AttachBaseline()
    heaps = frozenset(each.start for each in mappings if each.start % HEAP_ALIGNMENT == 0)
    native = any(each.path.split(" ")[0] == MAPPED for each in mappings)
    return AttachBaseline(process.rss_bytes(pid), heaps, native)


def sort_of(vma: Vma, kind: str, name: str) -> tuple[str, str]:
    """The kind and name of a mapping, or of a piece of one that belongs to a file; heaptop's own where it is."""
    if kind == FILE and name.startswith(CORE):
        return OWN, LIBRARY if vma.inode else DATA
    if vma.permissions[3] == "s" and name == MAPPED:
        return OWN, "native samples"
    return kind, name


def kept(pid: int) -> int | None:
    """Bytes of heaptop's own that are resident where no agent is: native cores, and the pages of the way in. None where
    that is unknown."""
    try:
        mappings = read_mappings(pid)
        with ResidentMemory(pid) as memory:
            places = [*images(memory, ((each.start, each.path) for each in mappings))]
            pages = (each.start for each in mappings if each.permissions == "r-xp" and not each.path)
            if place := way_in(memory, pages):
                places.append(place)
            return sum(memory.pages.rss(*place) for place in places)
    except (OSError, RemoteFault):
        return None


def has_core(pid: int) -> bool:
    """Whether a native core is mapped: from an attach on, until the process becomes another program, or has given all
    its memory back."""
    try:
        mappings = read_mappings(pid)
    except OSError:
        return False
    return not mappings or any(each.path.startswith(CORE) for each in mappings)


def images(memory: ResidentMemory, named: Iterable[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    """Where the native cores lie, to the end of their zero-initialized data, which the kernel knows nothing of."""
    bases: dict[str, int] = {}
    for start, name in named:
        if name.startswith(CORE):
            bases.setdefault(name, start)
    for base in bases.values():
        end = bss.data_end(memory, base)
        if end is not None and base < end <= base + LARGEST_IMAGE:
            yield base, end


def way_in(memory: ResidentMemory, executable: Iterable[int]) -> tuple[int, int] | None:
    """The pages that an attach keeps in the target, if one of the executable mappings of no file begins them."""
    for start in executable:
        try:
            if memory.read(start, len(stub.MAGIC)) == stub.MAGIC:
                return start, start + stub.TOTAL_SIZE
        except RemoteFault:
            continue
    return None


def arena(memory: ResidentMemory, tids: Iterable[int], agent: int, sorts: Sequence[Sort]) -> list[Vma]:
    """The heaps of the arena that the agent's thread allocates from; none where another thread does so too.

    ``malloc/arena.c``: each heap begins with the address of its arena, and a thread has that in a variable of its own
    (``thread_arena``), a little below its descriptor.
    """
    heaps: dict[int, list[Vma]] = {}
    for vma, kind, name in sorts:
        if kind == HEAP and name != "main":
            try:
                heaps.setdefault(int.from_bytes(memory.read(vma.start, 8), "little"), []).append(vma)
            except RemoteFault:
                continue
    found = stacks.variable(memory, agent, heaps)
    if found is None:
        return []
    below, own = found
    others = (stacks.variable_at(memory, tid, below) for tid in tids if tid != agent)
    return [] if own in others else heaps[own]
