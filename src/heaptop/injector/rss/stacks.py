"""Where the stacks of a process's threads lie, by the descriptors that glibc keeps in them.

``nptl/allocatestack.c``: a thread's stack and its descriptor (struct pthread) are one mapping, the descriptor at the
upper end. The kernel knows an address in the descriptor: the head of the list of robust mutexes.

    start            stack pointer          struct pthread                       end
      ├── untouched ──┼──── in use ─────────┼ self … self … robust list … start, size ┤

``self`` is in the descriptor twice (tcbhead_t), and the stack's start and size next to each other: both prove
what is read, so no version's offsets are needed. This module never writes, and never reads an absent page.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Container
from typing import Final

from heaptop.injector.inspect.memory import RemoteFault
from heaptop.injector.inspect.threads import robust_list
from heaptop.injector.rss.residency import PAGE, ResidentMemory

DESCRIPTOR: Final = 0x1000  # Room for struct pthread: 0x900 in glibc 2.36
VARIABLES: Final = 0x4000
"""Room for libc's own variables: those of libraries that were there at the start lie between it and the descriptor."""
SELF: Final = 0x10  # `tcbhead_t.self`; `tcb` at 0 is the same for a thread's own descriptor. Part of the ABI of x86-64.


def stack_range(memory: ResidentMemory, tid: int) -> tuple[int, int] | None:
    """The stack of a thread that pthread_create made, without its guard; None for others, the main thread included."""
    head = robust_list(tid)
    if not head:
        return None
    try:
        descriptor = _descriptor(memory, head)
        return _range(memory, descriptor) if descriptor else None
    except RemoteFault:
        return None


def variable(memory: ResidentMemory, tid: int, values: Container[int]) -> tuple[int, int] | None:
    """How far below a thread's descriptor a word has one of ``values``, the nearest, and which: its variables begin
    there (static TLS), and its stack behind them."""
    head = robust_list(tid)
    try:
        descriptor = _descriptor(memory, head) if head else None
        at = descriptor or 0
        while descriptor and at > descriptor - VARIABLES:
            page = (at - 1) // PAGE * PAGE
            for place, (word,) in reversed([*enumerate(struct.iter_unpack("<Q", memory.read(page, at - page)))]):
                if word in values:
                    return descriptor - page - 8 * place, word
            at = page
    except RemoteFault:
        pass
    return None


def variable_at(memory: ResidentMemory, tid: int, below: int) -> int | None:
    """The word so far below a thread's descriptor: a variable has the same place in all threads."""
    head = robust_list(tid)
    try:
        descriptor = _descriptor(memory, head) if head else None
        return int.from_bytes(memory.read(descriptor - below, 8), "little") if descriptor else None
    except RemoteFault:
        return None


def _descriptor(memory: ResidentMemory, inside: int) -> int | None:
    """The descriptor that an address lies in: words up to a page before it are searched."""
    for candidate in range(inside - inside % 16, inside - DESCRIPTOR, -16):
        first, _, own = struct.unpack("<QQQ", memory.read(candidate, SELF + 8))
        if first == own == candidate:
            return candidate
    return None


def _range(memory: ResidentMemory, descriptor: int) -> tuple[int, int] | None:
    """The start and size that are in the descriptor; the guard, at the start, is taken off by the caller's map."""
    end = -(-(descriptor + 1) // PAGE) * PAGE
    words = [word for (word,) in struct.iter_unpack("<Q", memory.read(descriptor, (end - descriptor) // 8 * 8))]
    for start, size in itertools.pairwise(words):
        if start % PAGE == 0 and 0 < start < descriptor < start + size == end:
            return start, end
    return None
