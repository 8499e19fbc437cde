"""The messages of the wire, as frozen dataclasses; each one's ``KIND`` is its name there.

:mod:`heaptop.protocol.codec` packs them, driven by the annotations here, so a new message is one dataclass and one line
at the end of this file.

Times are nanoseconds of CLOCK_MONOTONIC in the target, sizes are bytes, identifiers count from 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Final

PROTOCOL_VERSION: Final = 1
"""Raised when an old reader would misunderstand; new fields and kinds do not raise it (unknown kinds are skipped)."""

UNTRACKED: Final = -1
"""Generation of an object the collector does not know (str, int, float, …), reached from one it knows."""

NO_INTERPRETER: Final = -1  # Interpreter of an object where interpreters are not distinguished

PERMANENT: Final = 3  # Generation of an object moved away by `gc.freeze()`

NATIVE: Final = "native"
TRACEMALLOC: Final = "tracemalloc"  # By what allocations are observed


class Message:
    """Base of every message; exists so that signatures can say "any message"."""

    KIND: ClassVar[str]


# -- heaptop to agent ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CensusRequest(Message):
    """Count the heap once. In Python mode the agent works ``slice_ns`` at a time and then rests ``rest_ns`` without
    the GIL; the other modes pause the target once, for as long as a page-table copy or the whole count takes."""

    KIND: ClassVar[str] = "census?"
    id: int
    slice_ns: int = 1_000_000
    rest_ns: int = 1_000_000
    mode: str = "clone"
    """The best mode that may be tried: one of :data:`heaptop.choices.MODES`; the agent falls back from it in their
    order."""
    reason: str = ""  # Why heaptop asks for no better mode; comes back in the census
    budget_ns: int = 100_000_000
    """The longest pause that may be made without asking: above it the agent answers :class:`Decision`."""
    stop_ns: int = 0
    """Count in the stopped process first, where that is expected to take at most half as long, give up after so long,
    and do as :attr:`mode` says; 0: do that at once. For a clone that would be a far longer pause."""


@dataclass(frozen=True, slots=True)
class CoreRequest(Message):
    """A piece of the native core's shared library. The piece that ends it is answered by :class:`Core`."""

    KIND: ClassVar[str] = "core?"
    id: int
    build: str  # Identifies a build: 16 hexadecimal digits made from the file's content
    size: int  # Of the whole file
    at: int  # Where this piece begins; pieces come in order, from 0
    data: bytes


@dataclass(frozen=True, slots=True)
class TickRequest(Message):
    """Say how the process is: allocator and collector figures, and the GC events since the last tick."""

    KIND: ClassVar[str] = "tick?"
    id: int


@dataclass(frozen=True, slots=True)
class MemoryRequest(Message):
    """Say what the allocators hold. On request only: malloc's figures take the lock of each of its arenas."""

    KIND: ClassVar[str] = "memory?"
    id: int


@dataclass(frozen=True, slots=True)
class SamplerRequest(Message):
    """Switch the sampler of allocations on, off, or to another rate or depth. Answered by :class:`Sampler`.

    While it is on, every tick, and every census that the native core has counted, is preceded by what was sampled:
    :class:`Codes`, :class:`Stacks`, :class:`Samples`, several times where that is much. Where tracemalloc does it,
    every census is preceded by :class:`Codes`, :class:`Stacks` and :class:`Traced`.
    """

    KIND: ClassVar[str] = "sampler?"
    id: int
    interval: int  # Bytes from one sample to the next, on average; 0 switches it off
    depth: int = 128  # Frames kept of a stack, at most: the innermost
    tracer: bool = False
    """Where there is no native core, trace every allocation by tracemalloc: a person has been shown what that costs."""
    exact: bool = False
    """Follow objects in blocks that free lists hand on, by a reference tracer (3.13 and later), or sample nothing. It
    is examined when sampling begins, and not when only its rate changes."""
    target: int = 0
    """Samples a second: the interval follows the program from now on, beginning with ``interval``, or with the one in
    force where it follows already. 0: it stays."""
    memory: int = 0
    """Bytes that the sampler's tables may take, where that is less than its own limit; 0: unknown. It is examined when
    sampling begins."""


@dataclass(frozen=True, slots=True)
class CollectRequest(Message):
    """Collect garbage, in full, at once: the target's finalizers run on the agent's thread, and all its threads wait.
    Only for a person who has asked for it. Answered by :class:`Collected`."""

    KIND: ClassVar[str] = "collect?"
    id: int


@dataclass(frozen=True, slots=True)
class DetachRequest(Message):
    """Remove every hook and callback, answer :class:`Bye`, and end. Closing the socket does the same."""

    KIND: ClassVar[str] = "detach?"


# -- agent to heaptop ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """First message of a session."""

    KIND: ClassVar[str] = "hello"
    protocol: int
    token: str  # What heaptop gave at injection: proves that this socket's other end is the agent it started
    pid: int  # As the target sees it, in its own pid namespace
    python: str  # `major.minor.micro`, with a suffix for pre-releases
    executable: str
    capabilities: tuple[str, ...]
    """What the agent can answer or say: ``census.python``, ``gc``, ``ticks``, ``memory``, ``phases``; ``core`` when it
    takes a native core, and ``sampler`` when it can sample with one."""
    gc_enabled: bool
    time_ns: int


@dataclass(frozen=True, slots=True)
class TypeName:
    """An interned type: what the rows of a census point at by position."""

    module: str
    qualname: str

    @property
    def full(self) -> str:
        """``module.qualname``, as the JSON and the screen write it; builtins, and what has no module, are left bare."""
        return self.qualname if self.module in ("", "builtins") else f"{self.module}.{self.qualname}"


@dataclass(frozen=True, slots=True)
class Types(Message):
    """Types met for the first time in this session: ids ``first``, ``first + 1``, …  Sent before their census."""

    KIND: ClassVar[str] = "types"
    first: int
    names: tuple[TypeName, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Objects of one type in one GC generation, and in one interpreter where there are several."""

    type: int
    generation: int  # 0, 1, 2, PERMANENT or UNTRACKED
    count: int
    bytes: int
    """As from ``sys.getsizeof``, the collector's head included, and what the objects own natively
    (:attr:`Census.owned`)."""
    hidden: int = 0
    """Bytes that ``sys.getsizeof`` leaves out: attribute values kept without a dict (3.11 and later). 0 in Python mode,
    where it is not known."""
    guessed: int = 0
    """How many of the objects may be larger: their ``__sizeof__`` is written in Python, and their basic size is
    counted, or they own memory of a C library, and nobody knows how much."""
    interpreter: int = NO_INTERPRETER
    """The id of the interpreter they are of, as Python has it; :data:`NO_INTERPRETER` where interpreters are not
    distinguished: Python mode counted, or Python 3.8 runs several."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """For how long at a time no Python code of the target's could run because of the agent, by cause, at the most.

    A clone and a stop by the clock. The others by the agent's own CPU time while it had the GIL: the clock would add
    how long it has waited itself.
    """

    start_ns: int = 0
    """While the bootstrap and the agent's first lines were compiled; follows the stop in which the agent got in."""
    compile_ns: int = 0  # While the rest of the agent was compiled, in pieces
    core_ns: int = 0  # While the native core was loaded and checked; 0 without one
    gil_ns: int = 0  # Since then, or the last census, in whatever the agent has done beside the next
    stopped_ns: int = 0  # For the copy of the page tables, or in mode `stop` the whole count; 0 in Python mode
    stopped_cpu_ns: int = 0  # Of that, CPU time: it does not grow with what else the machine does


@dataclass(frozen=True, slots=True)
class Census(Message):
    """One count of every live object, and what it cost the target."""

    KIND: ClassVar[str] = "census"
    id: int
    time_ns: int  # When counting began
    mode: str  # How it was counted: one of choices.MODES
    complete: bool
    cut: str  # What is missing when not complete, as a short phrase; else empty
    rows: tuple[Row, ...]
    duration_ns: int
    pause_ns: int
    """The longest pause of the target's Python code since the last census; that of the attach is not in it. Where
    :attr:`pauses` is None: how long a clone took, or the whole count."""
    cpu_ns: int  # CPU time spent on this census, by the agent's thread and by a clone
    agent_bytes: int  # Bytes the agent itself held at the census's peak; not in the rows
    sizeof_guessed: int
    """Objects whose type overrides ``__sizeof__`` in Python: never called, so their basic size is counted."""
    mode_reason: str = ""
    """Why not in a better mode, a sentence without its full stop; empty for ``clone``, and where it was asked for."""
    pauses: Pauses | None = None  # The target's pauses, the attach's among them; None in older recordings
    owned: int = 0
    """Bytes in the rows that objects own natively, beyond ``sys.getsizeof``: mappings, and states of C libraries. 0 in
    Python mode, where they are not known."""
    mapped: int = 0
    """Of :attr:`owned`, bytes of mappings: neither Python's allocators nor malloc have given them, and not all of them
    need be resident."""
    at_least: int = 0  # Objects that own memory of a C library of which nobody knows how much it is

    @property
    def exact(self) -> bool:
        """Whether the figures are of one moment, nothing is left out, and no size is a guess."""
        return self.mode != "python" and self.complete and not self.sizeof_guessed


@dataclass(frozen=True, slots=True)
class Core(Message):
    """What became of the native core: once it was given, and again when it is given up in the middle of a session."""

    KIND: ClassVar[str] = "core"
    id: int
    build: str
    loaded: bool
    reused: bool  # It was there already, from an earlier session
    text: str  # Why it is not used, as a sentence without its full stop; empty when it is


@dataclass(frozen=True, slots=True)
class Decision(Message):
    """The census was not made: it would pause the target for longer than may be without asking.

    The answer is another request, with a larger ``budget_ns`` or with mode ``python``. The session also asks so about
    a snapshot, whose id :attr:`request` is then.
    """

    KIND: ClassVar[str] = "decision"
    request: int
    mode: str  # How it would be counted: `clone` or `stop`
    reason: str  # Why not in a better mode; empty for `clone`
    pause_ns: int
    budget_ns: int
    stop_ns: int = 0  # The pause to expect in mode `stop` instead; 0 where that is not offered


@dataclass(frozen=True, slots=True)
class Tick(Message):
    """The process between two censuses."""

    KIND: ClassVar[str] = "tick"
    id: int
    time_ns: int
    rss: int | None
    """Resident bytes; None when the target cannot read its own /proc (heaptop then fills it in from outside)."""
    blocks: int | None
    """``sys.getallocatedblocks()``: memory blocks the allocator has given out. None where counting them is not safe:
    beside other interpreters, from 3.12 on."""
    gc_enabled: bool
    gc_counts: tuple[int, int, int]  # `gc.get_count()`
    frozen: int  # `gc.get_freeze_count()`
    threads: int  # Threads the interpreter knows, the agent's own left out; -1 where it is unknown (gevent hides them)
    agent_cpu_ns: int  # CPU time of the agent's thread since it came, and of its clones
    garbage: int = 0  # `len(gc.garbage)`
    exits: int | None = None
    """Callbacks registered with :mod:`atexit`, up to 3.13 also those that were unregistered since; None where the
    program has not imported it, or it cannot say."""


@dataclass(frozen=True, slots=True)
class Collected(Message):
    """Garbage was collected in full, because it was asked for."""

    KIND: ClassVar[str] = "collected"
    id: int
    time_ns: int  # When it began
    duration_ns: int  # For which all threads of the target waited
    collected: int
    uncollectable: int


@dataclass(frozen=True, slots=True)
class Malloc:
    """glibc's own figures, summed over its arenas, by ``mallinfo2`` (glibc 2.33) or ``mallinfo``."""

    heaps: int  # Bytes that the heaps of all arenas take of the address space, touched or not
    in_use: int  # Bytes of the heaps given out, with what threads keep for reuse in their caches (tcache)
    free: int
    mapped: int  # Bytes of the chunks that have a mapping of their own, because they are large
    mapped_chunks: int
    wraps: bool  # An older glibc's figures, which are of 32 bits: a figure of 4 GiB and more has lost its upper part
    free_chunks: int = 0  # How many pieces `free` is in; 0 where that is not known


MALLOCS: Final = ("jemalloc", "tcmalloc", "mimalloc")  # Allocators that take malloc's place, by their names


@dataclass(frozen=True, slots=True)
class OtherMalloc:
    """Figures of an allocator of :data:`MALLOCS`, by its own functions."""

    in_use: int  # Bytes given out: of jemalloc with what threads keep for reuse in their caches
    free_blocks: int  # Bytes of free blocks in partly used pages; of tcmalloc all that its caches keep
    free_pages: int  # Bytes of unused pages that the allocator has not returned to the kernel
    metadata: int  # Bytes of its own tables; 0 where it does not report them


@dataclass(frozen=True, slots=True)
class Pymalloc:
    """Resident bytes of the arenas of CPython's allocator of small objects (up to 512 bytes), by use."""

    arenas: int  # All of them: the sum of what follows
    in_use: int  # Bytes of the blocks given out, with what the interpreter's free lists keep
    free_blocks: int  # Free blocks in pools that have others in use
    free_pools: int  # Pools with no block in use
    overhead: int  # Pool headers, what does not fill a block, and what is lost to alignment


@dataclass(frozen=True, slots=True)
class Region:
    """Memory of one sort and name, and how much of it is resident."""

    kind: str
    """``file``, ``shared``, ``heap`` (glibc's), ``chunk`` (of glibc's, mapped alone), ``stack``, ``arena``,
    ``anonymous``, ``kernel``, or ``own``: heaptop's."""
    name: str  # A path; `thread 4711 worker` for a stack; else empty, or a few words
    rss: int
    size: int  # Bytes of address space


OWN_ARENA: Final = "agent's thread: malloc's arena"
"""The name of the region of kind ``own`` that malloc's figures know of too."""


@dataclass(frozen=True, slots=True)
class MallocFrame:
    """A Python frame of a stack."""

    file: str
    function: str
    line: int


@dataclass(frozen=True, slots=True)
class MallocBlocks:
    """Sampled blocks of one size that live."""

    size: int  # When they were sampled
    left: int
    """Bytes of each that are mapped now: less than ``size`` where a part of a mapping was unmapped, more where mremap
    made it larger. In :attr:`MallocSites.resident` those that are resident."""
    interval: int  # Mean bytes between samples when they were
    number: int


@dataclass(frozen=True, slots=True)
class MallocSite:
    """Where native memory is allocated: a call in a library, and the Python stack above it."""

    library: str  # The path of the library that called; `?` where it is not known
    symbol: str  # The function in it, by its symbols; empty where they do not have it
    stack: tuple[MallocFrame, ...]  # The innermost first
    gap: str
    """Why there is no stack: ``none`` (no Python, or no GIL), ``early`` (before the agent was there), ``full``. Else
    empty."""
    blocks: tuple[MallocBlocks, ...]


@dataclass(frozen=True, slots=True)
class MallocSites:
    """What a library that heaptop preloaded has sampled of malloc and mmap (``heaptop run --native``)."""

    interval: int  # Bytes between samples, on average, as asked for
    coarsest: int  # The largest that was in force: it grows where samples come too fast
    sampled: int  # Blocks, whether they live or not
    dropped: int  # Samples that are not in the figures: they are too low by some `coarsest` bytes each
    missed: int  # Frees that were not seen: figures may be too high
    sites: tuple[MallocSite, ...]
    """The largest of those with live blocks; each has a line, library and function of its own."""
    left_out: int = 0  # Sites that are smaller than these
    own_new: bool = False  # The program's allocator has an `operator new` of its own, which is not sampled
    resident: bool = False  # Of mappings and large blocks only what is resident is counted


@dataclass(frozen=True, slots=True)
class Outside:
    """The kernel's figures of the process's memory, read by heaptop: regions that do not overlap."""

    regions: tuple[Region, ...]
    """Every mapping belongs to one; their ``rss`` sums to that of the process. The largest first."""
    huge: int  # Resident bytes in huge pages
    hugetlb: int  # Bytes of hugetlbfs pages, which are in no RSS
    swap: int  # Bytes swapped out
    pymalloc: Pymalloc | None  # By the allocator's own tables, read from outside; None where they were not found
    duration_ns: int  # From the first to the last reading
    gaps: tuple[str, ...]  # Sentences on what could not be read
    rss_before: int | None = None  # Resident bytes when heaptop began to attach; None where it was not read
    native: MallocSites | None = None  # Of a program that was started by `heaptop run --native`: its largest sites


@dataclass(frozen=True, slots=True)
class OwnPages:
    """Pages of heaptop's own in the target, which nothing tells from others but who mapped them."""

    start: int
    size: int
    name: str  # What they are for


@dataclass(frozen=True, slots=True)
class Memory(Message):
    """What the allocators and the kernel say of the process's memory at nearly the same moment."""

    KIND: ClassVar[str] = "memory"
    id: int
    time_ns: int
    blocks: int | None  # `sys.getallocatedblocks()`; 0 where pymalloc is not in use, None as in Tick.blocks
    allocator: str = ""
    """By CPython's own name: ``pymalloc``, ``malloc``, ``pymalloc_debug``, ``malloc_debug``, ``mimalloc``…; empty
    where it is unknown: no native core, or something is hooked in."""
    malloc: Malloc | None = None
    malloc_gap: str = ""  # Why there is no `malloc`: a sentence
    malloc_library: str = ""
    """The library that the program's malloc belongs to, when it is not glibc's: its heaps are anonymous memory."""
    duration_ns: int = 0
    """How long malloc took to answer: without the GIL, under the lock of each of its arenas in turn."""
    outside: Outside | None = None
    """Filled in by heaptop when the message arrives, since no target need be able to read its own /proc."""
    own_pages: tuple[OwnPages, ...] = ()  # Taken out when the message arrives: in `outside` they are regions
    own_small: int = 0
    """Bytes that the agent's Python objects take, about: of those that lie in Python's arenas, where it has any."""
    own_large: int = 0  # And of those that are too large for these: malloc's
    malloc_name: str = ""
    """Which of :data:`MALLOCS` the program's malloc is, by the functions of its library; empty for none of them."""
    other_malloc: OtherMalloc | None = None  # Its figures, where it has any that can be asked for


@dataclass(frozen=True, slots=True)
class Sampler(Message):
    """The sampler's status: the answer to a request, and again whenever something else changed it."""

    KIND: ClassVar[str] = "sampler"
    id: int  # Of the request, or of the last one
    time_ns: int
    on: bool
    interval: int  # Bytes from one sample to the next, on average; 0 when off
    depth: int
    intervals: tuple[int, ...]  # Every interval of this session: a sample has the position of the one in force for it
    epoch: int  # Raised when all samples before are void: none of those that live are followed any more
    text: str = ""
    """Why it is off though it was asked for, or what voided the samples: a sentence without its full stop."""
    approximate: tuple[str, ...] = ()
    """Builtin types whose sites are approximate, because freed ones are handed on by free lists; empty where those are
    followed (:attr:`SamplerRequest.exact`)."""
    arrays: bool = False  # Whether the buffers of NumPy's arrays are sampled too
    path: tuple[str, ...] = ()  # `sys.path`: a file's module follows from it
    prefixes: tuple[str, ...] = ()
    """``sys.base_prefix``, ``sys.prefix`` and their like: what lies in their ``lib`` is no user's code."""
    means: str = NATIVE
    """By what: :data:`NATIVE` or :data:`TRACEMALLOC`, whose interval is 1: every object is in its figures. While it is
    off, by what it was."""
    offer: bool = False
    """It is off for want of a native core, and tracemalloc could do it: at a cost that only a person may agree to."""
    target: int = 0
    """Samples a second that the interval follows the program for: it comes again with each change. 0: it stays."""


@dataclass(frozen=True, slots=True)
class CodeName:
    """A piece of code, by its code object."""

    file: str
    function: str
    """``co_qualname``, or ``co_name`` up to 3.10; empty where it comes from tracemalloc, which has files and lines
    only."""
    line: int  # The first one's; from tracemalloc the one that was being executed


@dataclass(frozen=True, slots=True)
class Codes(Message):
    """Code met for the first time since sampling began: ids ``first``, ``first + 1``, … from 0. Sent before the stacks
    that use it. They restart with every :attr:`Sampler.epoch` in which the sampler was switched on."""

    KIND: ClassVar[str] = "codes"
    first: int
    names: tuple[CodeName, ...]


@dataclass(frozen=True, slots=True)
class StackNode:
    """A frame and, through its parent, those that called it."""

    parent: int  # Id of the caller's node; 0 for none
    code: int
    line: int  # The line that was being executed; 0 where it is not known


@dataclass(frozen=True, slots=True)
class Stacks(Message):
    """Stacks met for the first time, as nodes of one tree: ids ``first``, …, from 1. Sent before their samples. They
    restart as those of :class:`Codes` do."""

    KIND: ClassVar[str] = "stacks"
    first: int
    nodes: tuple[StackNode, ...]


BIRTH: Final = struct.Struct("<IIQQIBBH")
"""A sampled block: id, stack (0: no Python frame), clock, size, type (number + 1, 0: not known), domain (one of
:data:`DOMAINS`), position of the interval in force, 0. An id is used again after its death was reported."""
DEATH: Final = struct.Struct("<IIQ")  # A sampled block was freed: id, type (number + 1, 0: not known), clock
TYPED: Final = struct.Struct("<II")  # What a census found a living sampled block to be: id, type
MAX_BLOCK: Final = 1 << 47  # Bytes of the largest block that there can be: what a process can address
MAX_INTERVAL: Final = 1 << 40  # Bytes from one sample to the next, at most
MAX_CLOCK: Final = 1 << 60  # Bytes allocated since sampling began: a year of more than 30 GB a second
DOMAINS: Final = ("mem", "object", "array")
"""``PyMem_Malloc``, ``PyObject_Malloc``, and buffers that NumPy's arrays say of through ``PyTraceMalloc_Track``."""


@dataclass(frozen=True, slots=True)
class Samples(Message):
    """What the sampler saw since the last message of this kind. Records are packed: there may be thousands a second."""

    KIND: ClassVar[str] = "samples"
    time_ns: int
    clock: int  # Bytes allocated since sampling began: the clock of births and deaths
    births: bytes  # Records of BIRTH, in no order. To be taken before the others.
    deaths: bytes  # Records of DEATH, in no order. To be taken after the others.
    typed: bytes = b""  # Records of TYPED; of samples that died meanwhile too, and those are of no use
    dropped: int = 0  # Samples lost since the last message, for not all could be followed: figures are too low by these


TRACED: Final = struct.Struct("<IIIQQ")
"""Objects that live: stack (0: no Python frame), type, size class (0 up to 32 bytes, 1 up to 256, 2 up to 2048, 3), how
many, and their bytes as :attr:`Row.bytes` has them."""


@dataclass(frozen=True, slots=True)
class Traced(Message):
    """Who allocated what the census that follows has counted, as far as tracemalloc knows: what is in no row was
    allocated before it began. It replaces the last one."""

    KIND: ClassVar[str] = "traced"
    time_ns: int
    rows: bytes  # Records of TRACED, each stack, type and class once
    left_out: int = 0
    """Objects that tracemalloc knows and no row has: the agent's tables of rows or of stacks were full."""
    left_out_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Phase:
    """An interval of the program's work that it named itself, by ``heaptop.phase``."""

    name: str
    begin_ns: int
    end_ns: int | None  # None while it lasts: it is reported again when it ends


@dataclass(frozen=True, slots=True)
class Phases(Message):
    """Phases that began or ended since the last message of this kind."""

    KIND: ClassVar[str] = "phases"
    phases: tuple[Phase, ...]
    dropped: int  # Phases lost because the agent's bounded list was full


@dataclass(frozen=True, slots=True)
class GcEvent:
    """One collection, seen through ``gc.callbacks``."""

    time_ns: int  # When it began
    generation: int
    collected: int
    uncollectable: int
    duration_ns: int
    live_blocks: int | None
    """Allocated blocks right after; taken for full collections only (it walks the arenas), else None."""
    clock: int | None = None
    """The sampler's clock right after, as the thread that collected sees it: bytes allocated since sampling began, to
    within an interval for each other thread; None while it is off."""


@dataclass(frozen=True, slots=True)
class GcEvents(Message):
    """Collections since the last message of this kind, oldest first."""

    KIND: ClassVar[str] = "gc"
    events: tuple[GcEvent, ...]
    dropped: int  # Events lost because the agent's bounded list was full


@dataclass(frozen=True, slots=True)
class Failure(Message):
    """A request failed; the agent lives on."""

    KIND: ClassVar[str] = "failure"
    request: int  # The id of the request, or -1
    text: str


@dataclass(frozen=True, slots=True)
class Bye(Message):
    """The agent has removed what it had put into the target, and ends now."""

    KIND: ClassVar[str] = "bye"
    reason: str
    left: str = ""  # What could not be removed, as a sentence without its full stop; empty where nothing stays


# -- by who sends them --------------------------------------------------------------------------------------

REQUESTS: Final[tuple[type[Message], ...]] = (
    CensusRequest,
    TickRequest,
    CoreRequest,
    MemoryRequest,
    SamplerRequest,
    CollectRequest,
    DetachRequest,
)
"""heaptop to agent; those about snapshots are in :mod:`heaptop.protocol.images`."""

REPLIES: Final[tuple[type[Message], ...]] = (
    Hello,
    Types,
    Census,
    Core,
    Decision,
    Tick,
    Memory,
    Sampler,
    Codes,
    Stacks,
    Samples,
    Traced,
    Phases,
    GcEvents,
    Collected,
    Failure,
    Bye,
)
"""Agent to heaptop, likewise."""
