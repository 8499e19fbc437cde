"""What heaptop itself finds: the result of a leak hunt, as it is shown, printed and recorded.

An agent never sends these. :mod:`heaptop.analysis.leaks.hunting` makes them. Texts are whole words for a person, times,
sizes and counts as in :mod:`heaptop.protocol.messages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from heaptop.protocol.messages import Message

LEAK: Final = "leak"
BACKLOG: Final = "backlog"
NO_LEAK: Final = "no leak"
UNCLEAR: Final = "unclear"
VERDICTS: Final = (LEAK, BACKLOG, UNCLEAR, NO_LEAK)
"""The most severe first. A backlog is a queue that grows, as more is put into it than is taken out."""
GROWING: Final = frozenset((LEAK, BACKLOG))  # What takes more memory as long as the program continues like that

UNREACHED: Final = "memory block"  # The type of a suspect that is no object: blocks of memory that no live object has

OBJECTS: Final = "objects"
ITEMS: Final = "items"
BYTES: Final = "bytes"

GROWTH_KEYS: Final = ("type", "module", "site", "retainer")


@dataclass(frozen=True, slots=True)
class MarkFacts:
    """A moment that was marked."""

    name: str
    time_ns: int
    objects: int
    bytes: int
    rss: int | None = None
    collections: int | None = None  # Full collections (of the oldest generation) since the attach
    collected: bool = False  # Garbage was collected right before, because it was asked for


@dataclass(frozen=True, slots=True)
class GrownRow:
    """What grew between the first mark and the last moment, by one attribute."""

    name: str
    count: int  # Objects more than at the first mark; below 0: fewer
    bytes: int
    now: int  # Objects at the last moment
    now_bytes: int
    born: int | None
    """Objects born since that are there now, at least; None where it is not known. By site: blocks allocated, an
    estimate."""
    died: int | None
    """Objects that were there at the first mark and are gone, at least; None where it is not known. By site: blocks
    freed of those allocated since, an estimate."""
    generations: tuple[int, ...] = ()
    """Survivors by the stretch between two marks in which they were born, the oldest stretch first: a leak has some in
    each, a cache at its bound only in the last ones. As far as addresses tell: one used again makes an object pass for
    older, so the last interval has at least so many. By site: an estimate."""
    error: int = 0  # By site: of `bytes`, the larger side of the interval; else 0


@dataclass(frozen=True, slots=True)
class Growth:
    """All of it by one of :data:`GROWTH_KEYS`, by bytes, descending."""

    key: str
    rows: tuple[GrownRow, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class HandlerShare:
    """How much of a suspect one request, task or thread allocated."""

    name: str  # `request create_session (shop/views.py)`, or in parentheses what is no handler
    share: float  # Of the bytes sampled of these objects: 0 to 1


@dataclass(frozen=True, slots=True)
class Suspect:
    """One explained growth."""

    verdict: str
    type: str  # Full name, or UNREACHED, of which all figures are estimates
    count: int
    """Of this type: new since the first mark, there now, wherever, at least. 1 where a container has grown in place."""
    bytes: int  # Of all that is new and held here, of whatever type
    rate: float  # Objects a second, in the last interval; or of what else is counted
    site: str  # `path/views.py:88 create_session`; empty where no sample is among them
    stack: tuple[str, ...]  # `path/views.py:88 create_session`, the innermost frame first
    site_share: float  # Of the bytes sampled of these objects, how much this site allocated: 0 to 1
    samples: int  # Sampled blocks by which the site is known
    retainer: str  # `module app.cache ._sessions`
    holder: str
    """Full name of the type of the object where they collect; empty where that is several objects, or a frame."""
    path: tuple[str, ...]  # From the root to an object, as `heaptop why --json` writes paths
    kind: str  # Of the root: one of KINDS
    held: int  # Of `count`, how many this retainer holds: all, as far as paths show, or fewer
    point: int  # Address of the holder in the snapshot that this was found in; 0 where it is several, or a frame
    example: int  # Address of one of the objects, likewise
    generations: tuple[int, ...]  # As GrownRow.generations, of the objects of this type held here
    series: tuple[int, ...]
    """How many there were, old ones among them, at each mark and at last; -1 where it is not known. Of a container that
    has grown in place: how long it was; of what is made anew, larger each time: how many bytes it took."""
    evidence: tuple[str, ...]  # Why the verdict is so: sentences without their full stops, the weightiest first
    sentence: str
    site_is_own: bool = True
    """Else the site is of samples of what is new with them: of these there are none, or none to go by."""
    proven_check: int = 0  # Number of the first check that called it a leak; 0 where none did
    proven_seconds: float = 0.0  # Since the first mark
    confirmed_check: int = 0
    """Likewise the last one. Where later checks could not decide, and nothing refutes it, the verdict is still
    *leak*."""
    confirmed_seconds: float = 0.0
    holding: str = ""
    """``all held by module app.cache → ._sessions (dict)``, as in the sentence; empty in what 0.1 recorded."""
    handlers: tuple[HandlerShare, ...] = ()
    """On behalf of which requests, tasks or threads the site allocated, the largest share first, a few at most; empty
    where no handler is known."""
    counted: str = OBJECTS
    """What ``rate``, ``generations`` and ``series`` are numbers of: :data:`OBJECTS`, or :data:`ITEMS` or :data:`BYTES`
    where as many objects as before are larger."""

    @property
    def byte_rate(self) -> float:
        """Bytes a second: what comes now is taken to be as large as what is new."""
        if self.counted == BYTES:
            return self.rate
        new = sum(self.generations) if self.counted == ITEMS else self.count
        return self.rate * self.bytes / max(new, 1)


@dataclass(frozen=True, slots=True)
class Lint:
    """Something known to go wrong, that can be seen without knowing the program."""

    name: str  # `gc-off-cycles`: as `--allow` takes it
    sentence: str
    before: int
    now: int
    threshold: int  # It is reported from this growth, or number, on


@dataclass(frozen=True, slots=True)
class Findings(Message):
    """A leak hunt: what grew between the first of its marks and the last moment, and what is suspected."""

    KIND: ClassVar[str] = "findings"
    time_ns: int  # Of the last moment
    marks: tuple[MarkFacts, ...]  # At least one; the last moment is the last of them
    verdict: str
    count: int  # Objects more than at the first mark; below 0: fewer
    bytes: int
    suspects: tuple[Suspect, ...]  # The most severe first, then the largest
    growths: tuple[Growth, ...]
    lints: tuple[Lint, ...]
    notes: tuple[str, ...] = ()  # What is approximate, partial or not known: sentences without their full stops

    @property
    def seconds(self) -> float:
        return (self.time_ns - self.marks[0].time_ns) / 1e9


NOTED: Final[tuple[type[Message], ...]] = (Findings,)
