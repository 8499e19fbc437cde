"""From a snapshot's answers about what is new to suspects: where it collects, which type to name, what a person reads.

Rules after Eclipse MAT's leak suspects, on new objects in place of all: an **accumulation point** is where the descent
along the dominator tree ends, as no single child has most of what is new below its parent. What is new and below no
point (it is shared by two roots, held by the frames of many threads, by C, or by nothing) is grouped by the paths that
keep it.

Of the types below a point the one is named that a person would: a class of the program's own of which there are half as
many as objects right below the point, or more; where those are mere data, a class of a library; else what they are.

This module never asks a snapshot, and never judges a growth.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heaptop.analysis.heap.path_words import path_text, path_words, type_name, type_of
from heaptop.analysis.leaks.marks import retainer_steps
from heaptop.analysis.samples.estimate import whole
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.samples.stacks import FORGOTTEN
from heaptop.analysis.snapshot.kept_sites import SamplingIntervals, handler_shares
from heaptop.analysis.text.units import format_bytes, format_count, format_number, format_rate
from heaptop.protocol.findings import GROWING, HandlerShare, Suspect
from heaptop.protocol.images import (
    KINDS,
    AccumulationPoint,
    Group,
    Groups,
    PathGroup,
    Paths,
    Points,
    Selection,
    StackBlocks,
    Step,
)
from heaptop.protocol.messages import TypeName

MOST_CANDIDATES: Final = 12
LEAST_SHARE: Final = 0.01  # Of the bytes that are new: what is less is named only where it is …
LEAST_OBJECTS: Final = 16  # … so many objects
_LITTLE: Final = 16 << 10  # Bytes: parts of less than this are not looked at as such
NAMES: Final = ".__dict__"
_A_FEW: Final = 3
_MUCH: Final = 0.25
_WAITING_CALLS: Final = ("coroutine ", "async generator ")  # What labels of their local variables begin with
_LOOPS: Final = re.compile(r"module _?asyncio(\.|$)")  # The beginning of labels of modules that hold event loops
INSIDE: Final = "(inside)"  # The label of what belongs to the object before it and has no name
UNKNOWN_SITE: Final = "allocated at an unknown site (no sample among them)"
NEAR: Final = "from samples of other new objects there"
HOLDER_GREW: Final = "where their container grew"
HANDED_ON: Final = "where their memory was first allocated: free lists reuse it"
_FEW_SAMPLES: Final = 5  # With fewer samples their number is shown, even where they agree
_MOST_KEYS: Final = 2_000  # Path groups that one selection has room for, and points

_DATA: Final = frozenset(
    (
        *("dict", "list", "tuple", "set", "frozenset", "str", "bytes", "bytearray", "int", "float", "complex", "bool"),
        *("cell", "object", "NoneType", "collections.deque", "collections.OrderedDict", "collections.defaultdict"),
        *(
            "memoryview",
            "weakref",
            "weakref.ReferenceType",
            "weakref.KeyedRef",
            "types.SimpleNamespace",
            "mappingproxy",
        ),
        # The nodes of a context's table of variables, which is never changed in place: setting one makes nodes anew.
        *("hamt", "hamt_array_node", "hamt_bitmap_node", "hamt_collision_node"),
    )
)
"""Types whose names mean little for a program: heaptop looks for a better name in what they hold."""
_CODE: Final = frozenset(("function", "method", "generator", "coroutine", "async_generator", "ContextVar"))
"""Types without a module that mean as much as those of the standard library: they name code that will run or use it."""


# -- candidates ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place where new objects collect: points that read alike, or what is kept along paths that read alike."""

    steps: tuple[Step, ...]  # To the first of the points, or to what holds the groups
    kind: int
    points: tuple[AccumulationPoint, ...]
    groups: tuple[PathGroup, ...]  # Paths to what is new here, where it has no point, or the point is no object
    bytes: int  # New and held here
    heads: int  # Objects that are held here directly, with all that they hold; those of `head_type`
    head_type: int
    places: int  # How many such places this represents

    @property
    def holder(self) -> AccumulationPoint | None:
        """The one object where they collect."""
        return self.points[0] if len(self.points) == 1 and self.points[0].address else None

    @property
    def container(self) -> int:
        """The type of what holds them directly, one of several that are alike perhaps: of a point's heads, or the step
        before the last of a path."""
        paths = [group.steps for group in self.groups if len(group.steps) > 1]
        return self.head_type if self.points or not paths else paths[0][-2].type

    @property
    def is_of_names(self) -> bool:
        """The one object is the dict of a module's or an instance's names: what holds is one of these."""
        return self.holder is not None and path_words(self.holder.path)[-1:] == [NAMES]

    def selection(self, types: tuple[int, ...] = (), seen: tuple[int, ...] = ()) -> Selection:
        """What is held here, of these types and ages: of no more of them than one question has room for."""
        types = types[:_MOST_KEYS]
        below = tuple(point.address for point in self.points if point.address)
        if below:
            return Selection(types=types, below=below[:_MOST_KEYS], seen=seen)
        return Selection(types=types, path=tuple(group.key for group in self.groups)[:_MOST_KEYS], seen=seen)


def candidates(points: Points, paths: Paths, types: Sequence[TypeName]) -> list[Candidate]:
    """Where what is new collects, the largest first: ``points`` and ``paths`` are of all that is new."""
    found = [*_at_points(points, paths, types), *_loose(points, paths, types)]
    least = LEAST_SHARE * points.bytes
    named = [each for each in found if each.bytes >= least or each.heads >= LEAST_OBJECTS]
    named.sort(key=lambda each: -each.bytes)
    return named[:MOST_CANDIDATES]


def _at_points(points: Points, paths: Paths, types: Sequence[TypeName]) -> Iterator[Candidate]:
    alike: dict[tuple[str, ...], list[AccumulationPoint]] = {}
    for point in points.points:
        key = (_alike(point.path), type_name(types, point.type), type_name(types, point.head_type))
        alike.setdefault(key, []).append(point)
    for group in alike.values():
        first = group[0]
        framed = () if first.address else tuple(each for each in paths.groups if _is_below(each, group))
        if not (first.address or framed):
            continue  # what is below a frame that no path names is unknown
        yield Candidate(
            steps=first.path,
            kind=first.kind,
            points=tuple(group),
            groups=framed,
            bytes=sum(point.bytes for point in group),
            heads=sum(point.head_count for point in group),
            head_type=first.head_type,
            places=len(group),
        )


def _is_below(group: PathGroup, points: Iterable[AccumulationPoint]) -> bool:
    """Whether the path begins with one to such a point. A dict of attributes is no step of a path that leads on."""
    words = path_words(group.steps)
    for point in points:
        begin = path_words(point.path)
        if begin[-1:] == [NAMES]:
            begin.pop()
        if begin and words[: len(begin)] == begin:
            return True
    return False


def _loose(points: Points, paths: Paths, types: Sequence[TypeName]) -> Iterator[Candidate]:
    """Path groups that lead through no point, by what retains them."""
    addresses = {point.address for point in points.points} - {0}
    unnamed = [point for point in points.points if not point.address or path_words(point.path)[-1:] == [NAMES]]
    loose = [
        group
        for group in paths.groups
        if group.steps and not any(step.address in addresses for step in group.steps[:-1])
        if not _is_below(group, unnamed)
    ]
    heads = _heads(loose)
    alike: dict[tuple[str, ...], list[PathGroup]] = {}
    for group in loose:
        if KINDS[group.kind] != "none":
            alike.setdefault(_loose_key(heads[group.key], types), []).append(group)
    for groups in [*alike.values(), *_garbage(loose, types)]:
        top = [each for each in groups if heads[each.key] is each] or groups  # words of other garbage may be the same
        largest = max(top, key=lambda each: each.retained)
        yield Candidate(
            steps=tuple(_shared(largest.steps)),
            kind=largest.kind,
            points=(),
            groups=tuple(groups),
            bytes=sum(group.bytes for group in groups),
            heads=sum(each.count for each in top if each.steps[-1].type == largest.steps[-1].type),
            head_type=largest.steps[-1].type,
            places=len({" ".join(path_words(_shared(group.steps))) for group in top}),
        )


def _heads(groups: Sequence[PathGroup]) -> dict[int, PathGroup]:
    """By key: the group of what is new and nearest to the root on the path to each."""
    by_words: dict[tuple[str, ...], PathGroup] = {}
    for group in groups:
        by_words.setdefault(tuple(path_words(group.steps)), group)
    found = {}
    for group in groups:
        words = tuple(path_words(group.steps))
        before = (by_words.get(words[:end]) for end in range(1, len(words)))
        found[group.key] = next((each for each in before if each is not None), group)
    return found


def _loose_key(head: PathGroup, types: Sequence[TypeName]) -> tuple[str, ...]:
    kind = KINDS[head.kind]
    if kind == "c":  # each is a root of its own, and all read alike
        return kind, type_name(types, head.steps[0].type)
    return kind, _alike(_shared(head.steps))


def _shared(steps: Sequence[Step]) -> Sequence[Step]:
    """The beginning of a path that all objects of the group have in common: there is one object at each step."""
    steps = retainer_steps(steps)
    for place, step in enumerate(steps):
        if place and not step.address:
            return steps[:place]
    return steps


def _garbage(groups: Sequence[PathGroup], types: Sequence[TypeName]) -> list[list[PathGroup]]:
    """What nothing keeps. Which object of a cycle leads to the others is chance: what shares a class goes together."""
    found: list[tuple[set[str], list[PathGroup]]] = []
    for group in groups:
        if KINDS[group.kind] != "none":
            continue
        names = {type_name(types, step.type) for step in group.steps}
        classes = {name for name in names if "." in name} or names
        joined = [group]
        for each in [each for each in found if each[0] & classes]:
            found.remove(each)
            classes |= each[0]
            joined = each[1] + joined
        found.append((classes, joined))
    return [groups for _, groups in found]


def _alike(steps: Sequence[Step]) -> str:
    return numberless(" ".join(path_words(steps)))


def numberless(retainer: str) -> str:
    """``module rules_0`` of ``module rules_3052``: modules and threads that differ by a number are alike."""
    return re.sub(r"\d+", "0", retainer)


def is_base(steps: Sequence[Step], types: Sequence[TypeName]) -> bool:
    """Whether the path leads to a NumPy array through a view of it."""
    last = steps[-2:]
    return last[-1].label == ".base" and all(type_name(types, step.type) == "numpy.ndarray" for step in last)


# -- types ---------------------------------------------------------------------------------------------------

USER, LIBRARY, STANDARD, PLAIN = 3, 2, 1, 0
"""How much a type's name means to a person who looks for a leak in their program."""


def is_large_enough(held: int, size: int, new: int) -> bool:
    """Whether so many objects, with ``size`` bytes of all that are ``new``, are named: one alone has to be much."""
    if held >= LEAST_OBJECTS:
        return True
    return size >= (LEAST_SHARE if held >= _A_FEW else _MUCH) * max(new, _LITTLE)


class TypeRanks:
    """Whose a type is, by its module's name and by where code of that package lies."""

    def __init__(self, sampling: Sampling) -> None:
        places = sampling.sites.places
        self._user, self._library = {"__main__"}, set[str]()
        for code in sampling.samples.codes:
            top = places.module(code.file).partition(".")[0]
            (self._user if places.is_user(code.file) else self._library).add(top)

    def rank(self, type: TypeName) -> int:
        if type.full in _DATA or type.module in ("", "builtins"):
            return STANDARD if type.full in _CODE else PLAIN
        top = type.module.partition(".")[0]
        if top in self._user:
            return USER
        if top in sys.stdlib_module_names:
            return STANDARD
        # No sample has code of a module in C. By PEP 8, its name begins with an underscore where a library in Python is
        # around it.
        is_inner = type.module.rpartition(".")[2].startswith("_")
        return LIBRARY if is_inner or top in self._library else USER


@dataclass(frozen=True, slots=True)
class TypeSum:
    """New objects of one type at one place."""

    type: TypeName
    ids: tuple[int, ...]
    count: int
    bytes: int
    retained: int


def type_sums(groups: Groups, types: Sequence[TypeName]) -> list[TypeSum]:
    """Classes that share all of their name are one: a module that is loaded again makes them anew."""
    alike: dict[TypeName, list[Group]] = {}
    for row in groups.rows:
        alike.setdefault(type_of(types, row.type), []).append(row)
    return [
        TypeSum(
            name,
            tuple(dict.fromkeys(row.type for row in rows)),
            sum(row.count for row in rows),
            sum(row.bytes for row in rows),
            sum(row.retained for row in rows),
        )
        for name, rows in alike.items()
    ]


def type_to_name(sums: Sequence[TypeSum], heads: int, head: TypeName, ranks: TypeRanks) -> TypeSum | None:
    """Which of the new types at a place describes best what collects there; None where there are none."""
    if not sums:
        return None
    own = next((each for each in sums if each.type == head), None)
    many = [each for each in sums if 2 * each.count >= heads]
    for rank in (USER, LIBRARY, STANDARD):
        if own is not None and (ranks.rank(head) >= rank or (rank < USER and head.full not in _DATA)):
            break  # the type there itself means as much
        better = [each for each in many if ranks.rank(each.type) == rank]
        if better:
            return max(better, key=lambda each: each.retained)
    return own or max(sums, key=lambda each: each.retained)


# -- sites ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Site:
    """Where sampled blocks of a selection were allocated, for the most part."""

    label: str
    stack: tuple[str, ...]
    share: float
    samples: int  # At this site
    of: int  # All samples of the selection
    is_own: bool = True  # They are of the objects themselves; else of what is held together with them
    bytes: int = 0  # Estimated, of all blocks at this site
    handlers: tuple[HandlerShare, ...] = ()  # Of all samples of the selection
    near: str = NEAR  # What the samples are where they are not the objects' own

    is_user: bool = True  # It is the user's own code
    is_standard: bool = False
    """No code of the user's own or of a package is on the stack, inside an event loop at least."""

    @property
    def words(self) -> str:
        """``app/views.py:88 in create_session``"""
        return _site_words(self.label)


def less(blocks: Iterable[StackBlocks], others: Iterable[StackBlocks]) -> list[StackBlocks]:
    """Those that are not among the others."""
    gone = {row.stack: row for row in others}
    return [
        StackBlocks(row.stack, row.count - gone[row.stack].count, row.bytes - gone[row.stack].bytes)
        if row.stack in gone
        else row
        for row in blocks
    ]


def main_site(blocks: Iterable[StackBlocks], sampling: Sampling, near: str = "") -> Site | None:
    """The site of most of the bytes, one in the standard library where no other has ``LEAST_SHARE`` of them; None where
    no sample is among them. A stack's blocks count as for :func:`~heaptop.analysis.snapshot.kept_sites.site_rows`.

    Args:
        near: what the blocks are if they are not the objects' own.
    """
    samples, sites = sampling.samples, sampling.sites
    told = [(samples.stack_of(row.stack), row) for row in blocks if row.count > 0]
    told = [(stack, row) for stack, row in told if stack != FORGOTTEN]
    if not told:
        return None
    rates, found, sizes = SamplingIntervals(samples), dict[str, _AtSite](), Counter[int]()
    for stack, row in told:
        stands_for = whole(row.count * rates.weight(row, stack).bytes)
        sizes[stack] += stands_for
        found.setdefault(sites.name(stack, "site"), _AtSite()).add(row.count, stands_for, stack)
    is_standard = {name: sites.places.is_standard_library(sites.site(at.stack).file) for name, at in found.items()}
    size, of = sum(each.bytes for each in found.values()), sum(each.count for each in found.values())
    counts = {name: not is_standard[name] and at.bytes >= LEAST_SHARE * size for name, at in found.items()}
    name = max(found, key=lambda each: (counts[each], found[each].bytes))
    here = found[name]
    share = here.bytes / (size or 1)
    labels = tuple(frame.label for frame in sites.frames(here.stack))
    frame, handlers = sites.site(here.stack), handler_shares(sizes, sampling)
    is_user, standard = frame.is_user, is_standard[name]
    return Site(name, labels, share, here.count, of, not near, here.bytes, handlers, near, is_user, standard)


class _AtSite:
    """Sampled blocks of one site."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.stack = 0  # That allocated most of them
        self._most = -1

    def add(self, count: int, size: int, stack: int) -> None:
        self.count += count
        self.bytes += size
        if size > self._most:
            self._most, self.stack = size, stack


# -- words ---------------------------------------------------------------------------------------------------


def holder_words(candidate: Candidate, types: Sequence[TypeName]) -> str:
    """``module app.cache → ._sessions (dict)``, and how many others are alike."""
    kind = KINDS[candidate.kind]
    steps = candidate.steps
    while len(steps) > 1 and steps[-1].label == INSIDE:
        steps = steps[:-1]
    if not candidate.points and kind == "none":
        return "nothing: uncollected garbage"
    text = arrows(steps)
    if candidate.holder is not None and not candidate.is_of_names:
        text += f" ({type_name(types, steps[-1].type)})"
    if candidate.places > 1:
        others = candidate.places - 1
        text += f" and {format_number(others, 'other')} alike"
    return text


def arrows(steps: Sequence[Step]) -> str:
    """``module app.cache → ._sessions``; without how an event loop holds a call that waits: ``module asyncio.events → …
    → coroutine main() local c``."""
    steps = [step for step in steps if step.label]
    waiting = [place for place, step in enumerate(steps) if step.label.startswith(_WAITING_CALLS)]
    text = path_text(steps)
    if waiting and waiting[-1] > 1 and _LOOPS.match(steps[0].label):
        text[1 : waiting[-1]] = ["…"]
    return " → ".join(text).removeprefix("held by ") or "an unnamed root"


def holding_words(candidate: Candidate, types: Sequence[TypeName], count: int, along: int | None = None) -> str:
    """``all held by module app.cache → ._sessions (dict)``: where nothing else holds them. Where paths alone are known,
    of each object one, others may hold them too: ``all reached from module app.cache → .recent``.

    Args:
        count: of the objects.
        along: of how many it is known that their path goes there; None for all.
    """
    is_certain = along is None and bool(candidate.selection().below or KINDS[candidate.kind] == "none")
    which = "all " if count > 1 else ""
    if along is not None and along < count:
        which = f"≥{format_count(along)} of them "
    return f"{which}{'held by' if is_certain else 'reached from'} {holder_words(candidate, types)}"


def sentence(suspect: Suspect, site: Site | None, own: int = 0, *, least: bool = True) -> str:
    """What a person reads: never more than is known.

    Args:
        own: what the objects that are named take by themselves, of the bytes of all that is new there.
        least: there are at least so many; else as many as addresses tell.
    """
    bound, name = "≥" if least else "", suspect.type
    what = f"{bound}{format_count(suspect.held)} {name}"
    if suspect.held < suspect.count:
        what = f"{bound}{format_count(suspect.held)} of ≥{format_count(suspect.count)} new {name}"
    size = f"{bound}{format_bytes(suspect.bytes)}{' including everything new there' if suspect.bytes > own else ''}"
    if suspect.verdict in GROWING and suspect.rate > 0:
        size += f", still growing {format_rate(suspect.rate)}"
        size += f", ≈{format_rate(suspect.byte_rate, bytes_=True)}"
    return f"{what} ({size}) {_where(site)}, {suspect.holding}"


def larger_sentence(suspect: Suspect, site: Site | None) -> str:
    """``1 str is replaced by a larger one each time (+876 KiB, now 1.44 MiB, still growing …) allocated at …``"""
    size = f"+{format_bytes(suspect.bytes)}, now {format_bytes(suspect.series[-1])}"
    if suspect.verdict in GROWING and suspect.rate > 0:
        size += f", still growing {format_rate(suspect.rate, bytes_=True)}"
    are = "is" if suspect.held == 1 else "are"
    what = f"{format_count(suspect.held)} {suspect.type} {are} replaced by a larger one each time"
    return f"{what} ({size}) {_where(site)}, {suspect.holding}"


def near_sites(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The same, and those without a sample have the site of the largest suspect below the same retainer: of a module
    that is loaded again and again, for one, its classes and texts may be sampled where the module itself is not."""
    return [suspect if suspect.site else _near_site(suspect, suspects) for suspect in suspects]


def _near_site(suspect: Suspect, suspects: Sequence[Suspect]) -> Suspect:
    above = f"{numberless(suspect.retainer)} "
    below = [each for each in suspects if each.site and numberless(each.retainer).startswith(above)]
    if not below or not suspect.retainer:
        return suspect
    by = max(below, key=lambda each: each.bytes)
    words = f"allocated near {_site_words(by.site)} ({NEAR})"
    return replace(
        suspect,
        site=by.site,
        stack=by.stack,
        site_share=by.site_share,
        samples=by.samples,
        handlers=by.handlers,
        site_is_own=False,
        sentence=suspect.sentence.replace(UNKNOWN_SITE, words, 1),
    )


def _site_words(label: str) -> str:
    place, _, function = label.partition(" ")
    return f"{place} in {function}" if function and not label.startswith("(") else label


def _where(site: Site | None) -> str:
    if site is None:
        return UNKNOWN_SITE
    words = site.words
    notes = [] if site.is_own else [site.near]
    if site.share < 0.995:
        notes.append(f"{100 * site.share:.0f} % of {site.of} samples")
    elif site.of < _FEW_SAMPLES:
        notes.append(format_number(site.of, "sample"))
    return f"allocated {'at' if site.is_own else 'near'} {words}" + (f" ({', '.join(notes)})" if notes else "")
