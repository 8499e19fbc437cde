"""Marks: what is kept of one moment, outside the target, to find later what is new since, and what has gone.

    Mark ─┬─ facts     its name, when it was, how much lived
          ├─ types     objects and bytes by type
          ├─ trends    how large its containers were, and how much was kept along which path
          └─ around    what is known beside the snapshot: threads, garbage, sums over sampled blocks

Which addresses had an object of which type, and at how many marks in a row, is kept of the latest mark alone, as pieces
that only snapshots read: :func:`take_pieces`, :func:`send_pieces`.

This module never asks a snapshot by itself: its generators yield questions (:mod:`heaptop.analysis.snapshot.asking`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from heaptop.analysis.heap.history import Amount, History
from heaptop.analysis.heap.path_words import path_words, type_of
from heaptop.analysis.leaks.unreached import SiteBlocks, unreached_of
from heaptop.analysis.samples.producers import Flow
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.asking import Asking, NotAnswered, answered
from heaptop.protocol import images
from heaptop.protocol.findings import MarkFacts
from heaptop.protocol.images import Ages, Image, Known, Live, Objects, Paths, Question, Step
from heaptop.protocol.messages import Memory, TypeName

_MOST_HOLDERS: Final = 2_000
"""Containers, the largest: how long they are is kept with each mark."""
_MOST_PATHS: Final = 600
NOTHING: Final = Amount(0, 0)
_HEAD_BYTES: Final = 8
_MOST_BYTES: Final = 18
"""Of an object that is alone in its cell: 6 of the place, 8 of bits, two of its type, and two of the marks it has seen
(the core's answers_live.c)."""
_FULL: Final = 2
"""The generation whose collections are full ones."""

K = TypeVar("K")
FlowKey = tuple[str, str]
"""A site's name, and the full name of a type."""


@dataclass(frozen=True, slots=True)
class MarkContext:
    """What is known beside the snapshot at one moment."""

    time_ns: int = 0
    """Of the last thing said; 0: nothing was."""
    rss: int | None = None
    collections: int | None = None
    """Full ones, since the attach."""
    gc_enabled: bool = True
    threads: int = -1
    """-1 where it is not known."""
    garbage: int = 0
    exits: int | None = None
    clock: int = 0
    """The sampler's, by which births are told."""
    voids: int = -1
    """How often what was sampled had been given up; -1 where blocks are not followed. Sums of two moments are about
    the same blocks where this is the same."""
    flows: Mapping[FlowKey, Flow] = field(default_factory=dict)
    memory: Memory | None = None
    """What allocators and the kernel said about then."""

    @classmethod
    def of(cls, history: History, sampling: Sampling, memory: Memory | None = None) -> MarkContext:
        tick = history.ticks[-1] if history.ticks else None
        full = [each.collections for each in sampling.gc.totals.generations if each.generation == _FULL]
        return cls(
            time_ns=tick.time_ns if tick else 0,
            rss=tick.rss if tick else None,
            collections=sum(full) if tick else None,
            gc_enabled=tick.gc_enabled if tick else True,
            threads=tick.threads if tick else -1,
            garbage=tick.garbage if tick else 0,
            exits=tick.exits if tick else None,
            clock=sampling.samples.clock,
            voids=sampling.sampling_status.voids if sampling.follows else -1,
            flows=_flows(sampling) if sampling.follows else {},
            memory=memory,
        )


def _flows(sampling: Sampling) -> dict[FlowKey, Flow]:
    samples, found = sampling.samples, dict[FlowKey, Flow]()
    for tally in samples.tallies():
        key = sampling.sites.name(tally.stack, "site"), samples.type_name(tally.type).full
        found.setdefault(key, Flow()).add(tally)
    return found


@dataclass(frozen=True, slots=True)
class Holder:
    """A container at one moment."""

    type: str
    length: int
    """As :attr:`~heaptop.protocol.images.ObjectRow.length`."""
    size: int
    retained: int
    changes: int = -1
    """Likewise."""


@dataclass(frozen=True, slots=True)
class Trends:
    """How large things were that may turn out to grow."""

    holders: Mapping[int, Holder] = field(default_factory=dict)
    """By address: the containers that retained most."""
    least: int = 0
    """A container that is not among them retained no more than this; 0 where all are."""
    kept: Mapping[tuple[str, str], Amount] = field(default_factory=dict)
    """By retainer (:func:`retainer_words`) and full name of a type: its objects that were kept so, of the largest."""
    all_kept: bool = True
    """No other objects are kept in any other way."""
    unreached: Mapping[str, SiteBlocks] | None = None
    """By site, the sampled blocks that no object has; None where that is not known."""

    def amount(self, retainer: str, type: str) -> Amount | None:
        """How much of the type was kept by this retainer, or along a path that goes on from it; None: nobody knows."""
        found = [
            amount
            for (words, name), amount in self.kept.items()
            if name == type and (words == retainer or words.startswith(retainer + " "))
        ]
        if not found:
            return NOTHING if self.all_kept else None
        return Amount(sum(each.count for each in found), sum(each.bytes for each in found))


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment to which later ones are compared."""

    facts: MarkFacts
    types: Mapping[TypeName, Amount]
    trends: Trends
    around: MarkContext


# -- words of paths ------------------------------------------------------------------------------------------


def is_item(label: str) -> bool:
    """Whether a step goes to one of many that are alike: ``[*]``, ``[3]``, ``{*}``, ``(a key)``, a thread's own."""
    return label[:1] in ("[", "{", "(") or label.endswith(" of a thread")


def retainer_steps(steps: Sequence[Step]) -> Sequence[Step]:
    """The beginning of a path that names a retainer: up to the first item of a container, or link of a chain."""
    for place, step in enumerate(steps):
        if place and (is_item(step.label) or step.repeated):
            end = place
            while step.repeated and end > 1 and steps[end - 1].label == step.label:
                end -= 1
            return steps[:end]
    return steps


def retainer_words(steps: Sequence[Step]) -> str:
    """``module app.cache ._sessions``"""
    return " ".join(path_words(retainer_steps(steps)))


# -- asking --------------------------------------------------------------------------------------------------


def send_pieces(pieces: Iterable[bytes]) -> Asking[int]:
    """Send an image the latest mark; how many of its objects were there at that."""
    count = 0
    for piece in pieces:
        answer = yield from answered(Known, Question(images.KNOWN, known=piece))
        count = answer.objects
    return count


def take_pieces(image: Image) -> Asking[tuple[bytes, ...]]:
    """The mark that this image is, in pieces. It has to know the mark before, where there is one.

    Raises:
        NotAnswered: in the generator, where the image cannot say what lives, or says more than can be.
    """
    pieces, offset = [], 0
    while True:
        answer = yield from answered(Live, Question(images.LIVE, offset=offset))
        end = answer.next or image.objects
        most = min(_HEAD_BYTES + _MOST_BYTES * (end - offset), images.LONGEST_PIECE)
        if not offset < end <= image.objects or len(answer.data) > most:
            raise NotAnswered("its mark is larger than its objects allow")
        pieces.append(answer.data)
        offset = answer.next
        if not offset:
            return tuple(pieces)


def facts(image: Image, name: str, around: MarkContext, collected: bool = False) -> MarkFacts:
    return MarkFacts(
        name, image.time_ns, image.objects, image.bytes, around.rss, around.collections, collected=collected
    )


def totals_by_type(ages: Ages, types: Sequence[TypeName]) -> dict[TypeName, Amount]:
    """Of all ages."""
    return sums_by((type_of(types, row.type), row.count, row.bytes) for row in ages.rows)


def sums_by(rows: Iterable[tuple[K, int, int]]) -> dict[K, Amount]:
    """Objects and bytes added up by what comes first."""
    found: dict[K, Amount] = {}
    for key, count, size in rows:
        before = found.get(key, NOTHING)
        found[key] = Amount(before.count + count, before.bytes + size)
    return found


def trends_of(types: Sequence[TypeName], sampling: Sampling) -> Asking[Trends]:
    """How large the containers of this image are, what is kept along which paths, and which blocks no object has."""
    answer = yield from answered(Objects, Question(images.OBJECTS, limit=_MOST_HOLDERS, containers=True))
    holders = {
        row.address: Holder(type_of(types, row.type).full, row.length, row.size, row.retained, row.changes)
        for row in answer.rows
    }
    least = answer.rows[-1].retained if answer.total > len(answer.rows) and answer.rows else 0
    paths = yield from answered(Paths, Question(images.PATHS, limit=_MOST_PATHS, beginnings=True))
    kept, all_kept = sums_by(kept_rows(paths, types)), not paths.other_groups and paths.complete
    return Trends(holders, least, kept, all_kept, (yield from unreached_of(sampling)))


def kept_rows(paths: Paths, types: Sequence[TypeName]) -> Iterator[tuple[tuple[str, str], int, int]]:
    """((retainer, type), objects, bytes) of each group."""
    for group in paths.groups:
        if group.steps:
            type = type_of(types, group.steps[-1].type).full
            yield (retainer_words(group.steps), type), group.count, group.bytes
