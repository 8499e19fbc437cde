"""Messages about an open snapshot: a frozen image of the target that stays, and answers while the target runs on.

heaptop asks the agent for an image; the agent makes a clone that builds the object graph in it and stays. A question
goes through the agent to the clone as bytes that only the clone reads (:meth:`Question.pack`), and its answer comes
back as the clone wrote it: a message of this module, with the question's id. A question never touches the target.

    ImageRequest ──► Progress … ──► ImageTypes … Image            (or Failure)
    AskRequest   ──► Progress … ──► one answer: Groups, Paths, …  (or Failure)
    CancelRequest    ends what is under way: an answer that is partial, or a Failure
    CloseRequest ──► ImageGone, which also comes by itself: its time was over, it was killed

Times, sizes and ids are as in :mod:`heaptop.protocol.messages`. An object is identified by its address, which
means this object as long as the image lives, and nothing afterwards.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import ClassVar, Final

from heaptop.protocol.messages import Message, TypeName

KINDS: Final = ("module", "frame", "runtime", "interpreter", "c", "none")
"""By which sort of root an object is reached, in the order in which they are followed: the first that leads there
counts. ``runtime``: the interpreter itself; ``interpreter``: another one under the same lock; ``c``: more references
are counted of it than any object has, so a C extension or a call under way holds it; ``none``: uncollected garbage."""

NO_TYPE: Final = 0xFFFFFFFF

FIRST_ID: Final = 1 << 32
"""Ids of requests in this module begin here: a failure with such an id is none of a census or a tick."""


# -- heaptop to agent ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImageRequest(Message):
    """Freeze the target once, in a clone that stays open. Answered by :class:`ImageTypes` and :class:`Image`. One image
    at a time: another one is closed first."""

    KIND: ClassVar[str] = "image?"
    id: int
    keep_ns: int  # How long it may stay open at most, building included
    memory: int = 0  # Bytes that the clone may take for its own tables; 0: as many as it needs


@dataclass(frozen=True, slots=True)
class AskRequest(Message):
    """Put a question to the open image."""

    KIND: ClassVar[str] = "ask?"
    id: int
    image: int
    body: bytes  # Question.pack()


@dataclass(frozen=True, slots=True)
class CancelRequest(Message):
    """Give up the image that is being built, or the question that is being answered."""

    KIND: ClassVar[str] = "cancel?"
    id: int  # Of what is given up


@dataclass(frozen=True, slots=True)
class CloseRequest(Message):
    """End the clone. Answered by :class:`ImageGone`."""

    KIND: ClassVar[str] = "close?"
    id: int
    why: str = ""
    """Where it is no person's wish: the reason that its ImageGone gives, and those who still wait for an answer get."""


# -- what is asked ------------------------------------------------------------------------------------------

GROUPS, PATHS, OBJECTS, OBJECT, MAP, LOSE, RETAINERS, STACKS = range(1, 9)
LIVE, KNOWN, AGES, POINTS, WASTE, UNREACHED, DUMP = range(9, 16)

DUMP_SECTIONS: Final = 6  # Of a heap dump: kinds, objects, frames, references, searches, roots (`native/dump/piece.h`)

MOST_MARKS: Final = 200  # The most marks in one hunt: a mark stores the number of earlier marks in one byte
LONGEST_PIECE: Final = 500_000
"""Bytes of a piece of a mark: an agent takes no request above 512 KiB, and each is copied with the GIL held."""

_HEAD: Final = struct.Struct("<IIIIIIQQQ")
_MOST: Final = 50_000  # Bytes of a packed question, without a piece of a mark


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects are meant: those for which every field that is set holds; all of them where none is."""

    types: tuple[int, ...] = ()  # Ids of the image's types; one of these
    kinds: tuple[int, ...] = ()  # Positions in KINDS; one of these
    addresses: tuple[int, ...] = ()
    stacks: tuple[int, ...] = ()  # Nodes of Stacks: sampled blocks that one of these allocated
    below: tuple[int, ...] = ()  # Addresses: what one of these dominates, itself left out: all that would go if it went
    path: tuple[int, ...] = ()  # PathGroup.key of these groups: what is kept along one of them
    retainers: tuple[int, ...] = ()
    """:attr:`Unit.address`: objects of which one of these is a retainer, however many others they have. What is a
    retainer depends on the question's ``modules`` and ``excluded``."""
    seen: tuple[int, ...] = ()
    """Objects that were there at exactly so many marks in a row, one of these numbers, counted from the latest mark
    back (:data:`KNOWN`): 0 is new since the latest one. An object is taken to be the same where its address and its
    type are, so what is new is *at least* so many: an address may have been used again for another of the type."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question, whose ``what`` decides which of the other fields count.

    ========= ============================================================ ==============
    what      asks for                                                     answer
    ========= ============================================================ ==============
    GROUPS    the selection by type and kind                               Groups
    PATHS     by which paths it is kept, the ``limit`` largest             Paths
    OBJECTS   its objects, from ``offset`` on, largest first               Objects
    OBJECT    the one object selected; values only with ``values``         Object
    MAP       ``limit`` cells from address ``low`` to ``high``             Cells
    LOSE      what would go if the objects selected went, and each alone   Losses
    RETAINERS the selection by retainer sets of ``number`` at most         Retainers
    STACKS    its sampled blocks, by the stack that allocated them         Blocks
    LIVE      a piece of a mark: all objects from ``offset`` on, and how   Live
              many marks in a row each has seen
    KNOWN     notes a piece of the latest mark (``known``), for            Known
              :attr:`Selection.seen`; the first piece forgets what was
              noted until then
    AGES      the selection by type and number of marks it has seen        Ages
    POINTS    where it accumulates: the ``limit`` largest points           Points
    WASTE     what its objects could do without, the ``limit`` largest     Waste
              rows
    UNREACHED the sampled blocks that no object has, by stack; the         Blocks
              selection does not count
    DUMP      a piece of a heap dump: section ``number``, its records      Dumped
              from ``offset`` on, in order; ``buffers``: with lengths
    ========= ============================================================ ==============
    """

    what: int
    selection: Selection = field(default_factory=Selection)
    offset: int = 0
    limit: int = 100
    number: int = 3  # N of nhc's retainer sets: those of more than so many members are one, MANY
    modules: bool = False  # Retainers are modules, in place of single globals, functions and so on
    excluded: tuple[int, ...] = ()  # Addresses of objects that are no candidates for retainers
    values: bool = False
    """Values of exact built-in types may be shown: heaps hold secrets, so a person has asked for it."""
    buffers: bool = False
    """STACKS: also the blocks of tables and buffers that objects have elsewhere, as far as they are known: a list's
    items, the table of a dict or set, a bytearray's bytes, a NumPy array's data; of a process, not of a dump, also a
    deque's blocks, the nodes of an OrderedDict, and what an array.array or io.StringIO keeps its contents in."""
    beginnings: bool = False
    """PATHS: those that read alike up to the first item of a container, or the third link of a chain, are one. The
    largest are those of most bytes. What they retain is not computed (0), nor are addresses of the steps before the
    last (0)."""
    containers: bool = False
    """Only what things collect in, of the selection: objects whose type is CPython's dict, list, set, deque, bytearray,
    array, BytesIO, StringIO or lru_cache, or made from one of these. Not of a dump."""
    low: int = 0
    high: int = 0
    known: bytes = b""

    def pack(self, id: int) -> bytes:
        """As the clone reads it: a head, and lists of numbers behind it, each with its length. Little-endian.

        Raises:
            ValueError: the lists are too long for one request.
        """
        flags = self.modules | self.values << 1 | self.buffers << 2 | self.beginnings << 3 | self.containers << 4
        head = _HEAD.pack(self.what, flags, self.offset, self.limit, self.number, 0, id, self.low, self.high)
        s = self.selection
        lists = (s.types, s.kinds, s.addresses, s.stacks, s.below, s.path, self.excluded, s.retainers, s.seen)
        packed = head + b"".join(struct.pack(f"<I{len(each)}Q", len(each), *each) for each in lists)
        if len(packed) > _MOST:
            raise ValueError(f"a query of {len(packed)} bytes; the limit is {_MOST}")
        if len(self.known) > LONGEST_PIECE:
            raise ValueError(f"a piece of {len(self.known)} bytes; the limit is {LONGEST_PIECE}")
        return packed + self.known


# -- agent to heaptop ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress(Message):
    """How far a long step has come."""

    KIND: ClassVar[str] = "progress"
    id: int
    phase: str
    done: int
    total: int  # 0 where it is not known
    memory: int = 0  # Bytes of the clone's own tables so far


@dataclass(frozen=True, slots=True)
class KindTotal:
    """What one sort of root leads to."""

    kind: int
    objects: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Image(Message):
    """The graph is built: questions may be asked."""

    KIND: ClassVar[str] = "image"
    id: int
    image: int  # Number of this image in the session, from 1
    time_ns: int  # When the target was frozen
    pause_ns: int  # How long it was paused for that
    build_ns: int
    keep_ns: int  # What is left of its time
    pid: int  # The clone's, as the target sees it
    memory: int  # Bytes of the clone's own tables; not what copy-on-write costs
    objects: int
    edges: int
    bytes: int  # Of all objects, hidden bytes among them
    kinds: tuple[KindTotal, ...]
    cycles: int  # Of the garbage: groups that are kept by themselves alone
    gc_enabled: bool
    gaps: tuple[str, ...] = ()
    """Sentences on what is not known: a list of threads that was being changed, other interpreters."""
    opaque: int = 0
    """Of ``bytes``, those of objects in which C code keeps references that nobody knows, because none of it was called:
    in core files."""
    guessed: tuple[int, ...] = ()
    """Types whose sizes are estimates, because the code that measures them was not called: in core files."""


@dataclass(frozen=True, slots=True)
class ImageTypes(Message):
    """Types of the image: ids ``first``, ``first + 1``, … Sent before its :class:`Image`."""

    KIND: ClassVar[str] = "image-types"
    id: int
    first: int
    names: tuple[TypeName, ...]


@dataclass(frozen=True, slots=True)
class ImageMemory(Message):
    """Comes before each tick while an image is open, where the clone can see what it holds."""

    KIND: ClassVar[str] = "image-memory"
    image: int
    holding: int  # Bytes that are free again when it ends: its tables, and what the target has changed or freed since


@dataclass(frozen=True, slots=True)
class ImageGone(Message):
    """The image is closed."""

    KIND: ClassVar[str] = "image-gone"
    image: int
    reason: str  # A few words, without a full stop
    expected: bool = True  # It was asked to end, or its time was over


@dataclass(frozen=True, slots=True)
class Group:
    """Objects of one type and kind."""

    type: int
    kind: int
    count: int
    bytes: int
    retained: int  # Bytes that would go if they went one by one: those below another one of the group are in its figure


@dataclass(frozen=True, slots=True)
class Groups(Message):
    """Answer to GROUPS, by bytes retained, descending."""

    KIND: ClassVar[str] = "groups"
    id: int
    rows: tuple[Group, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the frame that something is a local of."""

    file: str  # As the code object has it; a full path, mostly
    line: int  # That it is at; of several frames that read alike, where the function begins. 0: not known.
    thread: str  # The thread's name, or its number in the kernel; empty for several frames, and a suspended generator's


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path, and the object it leads to."""

    label: str  # As Python would write it: `module app.cache`, `._sessions`, `[*]`
    type: int  # Of the object it leads to; NO_TYPE for a frame
    address: int  # Of the object it leads to; 0 where there are several
    repeated: bool = False
    """It represents one or more steps of this sort in a row, from one object to another of its type."""
    place: Place | None = None  # Of a label that begins with a frame


@dataclass(frozen=True, slots=True)
class PathGroup:
    """Objects that are kept along paths that read alike."""

    key: int
    kind: int
    count: int
    bytes: int  # Their own
    retained: int  # As Group.retained
    example: int  # The address of one of them
    steps: tuple[Step, ...]
    """From the root on; the last one leads to the objects. The middle of what is longer than 64 is left out."""


@dataclass(frozen=True, slots=True)
class Paths(Message):
    """Answer to PATHS, by bytes retained, descending. Each object has one path: a shortest one from the first sort of
    root that leads to it."""

    KIND: ClassVar[str] = "paths"
    id: int
    count: int  # Of the whole selection
    bytes: int
    retained: int
    groups: tuple[PathGroup, ...]
    other_groups: int = 0  # Those beyond the limit
    complete: bool = True


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """One object of a list."""

    address: int
    type: int
    size: int  # Bytes, hidden ones among them
    retained: int
    generation: int
    kind: int
    length: int
    """Items of a container, characters of a text; of an instance that counts by itself how full it is (``currsize``)
    that number; -1 where there are none."""
    stack: int  # Node of Stacks that allocated it; 0 where it was not sampled
    bound: int = -1
    """The most items that it takes, of a deque, an lru_cache, or an instance with an attribute ``maxsize``,
    ``_maxsize``, ``capacity`` or the like that is an int; 0: any number, by its own attribute; -1: not known."""
    changes: int = -1  # How often items were added to a deque or taken from it since it was made; -1 of others


@dataclass(frozen=True, slots=True)
class Objects(Message):
    """Answer to OBJECTS, by bytes retained, descending."""

    KIND: ClassVar[str] = "objects"
    id: int
    total: int  # Of the whole selection
    rows: tuple[ObjectRow, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Link:
    """A reference of an object, or to it."""

    label: str
    address: int  # 0 for a frame
    type: int
    size: int
    retained: int
    place: Place | None = None  # As Step.place


@dataclass(frozen=True, slots=True)
class Object(Message):
    """Answer to OBJECT."""

    KIND: ClassVar[str] = "object"
    id: int
    row: ObjectRow
    preview: str  # What it is, in a few words: a length, the types of keys; a value only where it was asked for
    path: tuple[Step, ...]
    dominator: int  # Address of the nearest object without which it would go; 0 where there is none
    referrers: tuple[Link, ...]
    referrer_count: int
    referents: tuple[Link, ...]
    referent_count: int
    surplus: int = 0  # References that are counted of it and that no object has


CELL: Final = struct.Struct("<IIHBB")
"""A cell of the heap map: bytes of objects, type that takes most of them (:data:`NO_TYPE`: none), how many tenths of a
percent of the cell are taken, lowest generation (255: none), kind that takes most."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Addresses in use, without a large gap."""

    low: int
    high: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Cells(Message):
    """Answer to MAP. Without a range, the extents alone."""

    KIND: ClassVar[str] = "cells"
    id: int
    low: int
    high: int
    cells: bytes  # Records of CELL
    extents: tuple[Extent, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Losses(Message):
    """Answer to LOSE."""

    KIND: ClassVar[str] = "losses"
    id: int
    objects: int
    bytes: int  # Of all that would go if they all went
    alone: tuple[tuple[int, int, int], ...]
    """(address, objects, bytes) of each: what would go with it alone. The rest of the total they share."""
    complete: bool = True


@dataclass(frozen=True, slots=True)
class RetainerSet:
    """Objects with the same retainers."""

    units: tuple[int, ...]  # Positions in Retainers.units, ascending; none for what has more than N (`many`), or none
    many: bool
    type: int
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unit:
    """A retainer, by which others go."""

    label: str  # `module app.cache ._sessions`
    kind: int
    address: int  # By which it is asked about; 0 for a frame
    several: bool = False
    """It represents several objects, of paths that read alike; the address is that of the first, and means all."""
    place: Place | None = None  # As Step.place, where the label begins with a frame


@dataclass(frozen=True, slots=True)
class Retainers(Message):
    """Answer to RETAINERS, by bytes, descending."""

    KIND: ClassVar[str] = "retainers"
    id: int
    number: int
    units: tuple[Unit, ...]
    rows: tuple[RetainerSet, ...]
    other_count: int = 0  # Objects of the rows left out
    other_bytes: int = 0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class StackBlocks:
    """Sampled blocks of the selection, by the stack that asked for them."""

    stack: int  # Node of Stacks
    count: int  # Blocks that were sampled; how many there are is estimated from `bytes` and the rate
    bytes: int


@dataclass(frozen=True, slots=True)
class Blocks(Message):
    """Answer to STACKS, by bytes, descending."""

    KIND: ClassVar[str] = "blocks"
    id: int
    rows: tuple[StackBlocks, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Live(Message):
    """Answer to LIVE: one piece of a mark."""

    KIND: ClassVar[str] = "live"
    id: int
    data: bytes  # Only for Question.known, and no longer than LONGEST_PIECE
    next: int  # Offset of the piece after it; 0: there is none


@dataclass(frozen=True, slots=True)
class Dumped(Message):
    """Answer to DUMP: one piece."""

    KIND: ClassVar[str] = "dumped"
    id: int
    data: bytes  # As `native/dump/piece.h` says, for a file
    section: int  # Of the piece after it; DUMP_SECTIONS behind the last one
    next: int  # Its first record
    records: int  # Of this piece's section, in all


@dataclass(frozen=True, slots=True)
class Known(Message):
    """Answer to KNOWN."""

    KIND: ClassVar[str] = "known"
    id: int
    objects: int  # Of this image, those that were there at the mark, as far as its pieces have come


@dataclass(frozen=True, slots=True)
class Age:
    """Objects of one type that have seen as many marks."""

    type: int
    seen: int  # As in Selection.seen
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Ages(Message):
    """Answer to AGES, by bytes, descending."""

    KIND: ClassVar[str] = "ages"
    id: int
    rows: tuple[Age, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class AccumulationPoint:
    """An object, or a frame, below which much of the selection lies, and none of the objects that it dominates directly
    has most of that, nor have a few together: where a leak collects (Eclipse MAT's accumulation point). Weights are
    bytes of objects selected."""

    address: int  # 0 for a frame
    type: int  # NO_TYPE for a frame
    kind: int
    size: int
    retained: int  # What would go with it, selected or not; 0 for a frame
    length: int  # As ObjectRow.length
    seen: int  # As in Selection.seen; 0 for a frame
    count: int  # Objects selected that it dominates; it is not among them itself
    bytes: int
    heads: int  # Objects that it dominates directly and that are selected, or dominate some that are
    head_type: int  # The type of the heads that most of the weight is of or below
    head_count: int  # Heads of this type
    head_bytes: int  # Weight of these and of what is below them
    example: int  # Address of one of them
    path: tuple[Step, ...]  # To it, as Object.path


@dataclass(frozen=True, slots=True)
class Points(Message):
    """Answer to POINTS, by bytes, descending; none of them is below another one. What counts of an object is the weight
    of what it dominates, itself left out. One goes down the dominator tree from each root that has half a per cent of
    the whole (a tenth, if it is selected: several hold it, and there may be many like it) to the one child that has
    ``number`` per cent of its parent's (70; it is refused below 51), and to those children that are not selected and
    have a tenth of it, and half a per cent of the whole. Where all these together have not so many, it is a point.

    A chain is not gone down: three objects selected, or 16, of one type, on a way on which each has so many per cent of
    the one before it, and the last has less of the first. Its point is the last object with all of it below."""

    KIND: ClassVar[str] = "points"
    id: int
    count: int  # Of the whole selection
    bytes: int
    points: tuple[AccumulationPoint, ...]
    loose_count: int = 0
    """Below none of the points in the answer: several roots hold it, it is a root itself, or a point, or on the way to
    one, or it is little."""
    loose_bytes: int = 0
    complete: bool = True


WASTES: Final = (
    "duplicate",
    "equal",
    "empty",
    "spare",
    "sparse",
    "slots",
    "ints",
    "floats",
    "interned",
)
"""What can be wrong, in the order of the numbers in :attr:`WasteRow.sort`: str and bytes of equal content, of which one
would do; equal ints and floats, likewise; list, dict or set without an item; one of which at most a quarter is used;
dicts of which at least half was deleted; instances of a class with the same few attributes in a dict; lists of nothing
but ints of up to 60 bits, or floats; interned strings that live forever, with no reference that is known of."""

INTERNED_FREED, INTERNED_COUNTED, INTERNED_UNKNOWN = range(3)


@dataclass(frozen=True, slots=True)
class WasteRow:
    """Objects of one type and holder with which the same is wrong."""

    sort: int  # Position in WASTES
    type: int
    count: int
    """Of duplicates and equal ones, those that could go: one of each content stays, the one of the lowest address."""
    bytes: int  # What they could do without
    own: int  # Of that, what is not claimed by rows of another sort too: the sum over all rows has each byte once
    detail: int
    """What advice needs: attributes of an instance (slots), deleted entries (sparse), items (spare, ints, floats)."""
    holder: int
    """Type of the nearest instance of a heap type on the path to them; :data:`NO_TYPE` where a module, a frame or a
    root is nearer: the path begins with that. Of ``slots`` and ``interned`` there is none."""
    example: int  # Address of one of them; 0 for `interned`
    path: tuple[Step, ...]  # To it, as Object.path; empty for `interned`


@dataclass(frozen=True, slots=True)
class WasteTotal:
    """All rows of one sort, also those beyond the limit."""

    sort: int
    count: int
    bytes: int
    own: int
    kept: int  # Of duplicates and equal ones: contents that there is more than one object of


@dataclass(frozen=True, slots=True)
class Waste(Message):
    """Answer to WASTE, by bytes, descending. Equal contents are found by a keyed hash and not sent. What rows claim of
    one object counts in each of them, and in ``own`` once, as the largest of these claims."""

    KIND: ClassVar[str] = "waste"
    id: int
    totals: tuple[WasteTotal, ...]  # Of each sort, in their order
    rows: tuple[WasteRow, ...]
    other_rows: int
    interned: int
    """INTERNED_FREED: here an interned string goes with its last reference, so that none is unused. INTERNED_COUNTED:
    such as live forever were looked through. INTERNED_UNKNOWN: where they are was not found."""
    complete: bool = True


REQUESTS: Final[tuple[type[Message], ...]] = (ImageRequest, AskRequest, CancelRequest, CloseRequest)
_FOUND: Final = (Groups, Paths, Objects, Object, Cells, Losses, Retainers, Blocks, Waste)
ANSWERS: Final = (*_FOUND, Live, Known, Ages, Points, Dumped)
REPLIES: Final[tuple[type[Message], ...]] = (Progress, Image, ImageTypes, ImageMemory, ImageGone, *ANSWERS)
