"""Who allocated what lives: live bytes by site, function, module and handler, each with its interval.

The **site** of a block is the innermost frame of its stack that is the user's own code, for it is there that something
can be changed ("the first user function, not a library's", KBDB: Serrano and Boehm, 2000, §4). In a stack without one
it is the innermost frame outside the standard library, and in a stack of nothing else the innermost frame: the
outermost one is ``Thread._bootstrap`` for every thread. Frames outside an event loop or a server, such as
``asyncio.run(main())`` at the end of a program, are no site of what that allocates by itself; a request that runs a
loop is. What was allocated while no Python code ran has ``(no Python frame)``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from heaptop.analysis.heap.history import Amount
from heaptop.analysis.samples.estimate import Estimate, Sums
from heaptop.analysis.samples.handlers import STARTERS, WORK, Handlers, entry_of
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.stacks import FORGOTTEN
from heaptop.analysis.samples.tallies import Tally
from heaptop.analysis.text.code_places import CodePlaces
from heaptop.errors import UsageError

NO_FRAME_NAME: Final = "(no Python frame)"
FORGOTTEN_NAME: Final = "(other sites)"
NO_SITE: Final = "(no site)"
"""What a census counted beyond the samples: older than the sampling, no longer followed, or an error of the samples."""
NO_SITE_MEANS: Final = "allocated before sampling began, or not sampled"
"""The same for a person, wherever one reads :data:`NO_SITE`."""
PRODUCER_KEYS: Final = ("site", "function", "module", "handler")
_MODULE: Final = "<module>"
_COMPREHENSIONS: Final = ("<listcomp>", "<setcomp>", "<dictcomp>")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stack, as a screen shows it."""

    file: str  # From the code object
    short: str  # The file's name for the screen; for what is no frame its name in brackets
    line: int  # 0 where it is not known
    function: str
    module: str
    is_user: bool

    @property
    def label(self) -> str:
        """``shop/views.py:88 create_session``."""
        place = f"{self.short}:{self.line}" if self.line else self.short
        return f"{place} {self.function}" if self.function else place


@dataclass(frozen=True, slots=True)
class Producer:
    """One row: what was allocated by one site, function, module or handler since sampling began, and lives."""

    name: str
    """``shop/views.py:88 create_session``, ``create_session (shop/views.py)``, ``shop.views``, or ``request index
    (shop/views.py)``."""
    frame: Frame | None  # Of the site, or of one site of the other sorts; None for the objects older than the sampling
    live: Estimate
    allocated: Estimate | None
    freed: Estimate | None  # None of both where nothing but what lives is known
    share: float  # Of the bytes of all rows, 0 to 1


class SumsByOutcome(Protocol):
    """What has the sums of sampled blocks by what became of them."""

    @property
    def live(self) -> Sums: ...
    @property
    def freed(self) -> Sums: ...
    @property
    def lost(self) -> Sums:
        """Alive when samples became void."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Sums over the sampled blocks of a group, from the beginning of sampling on."""

    live: Sums = field(default_factory=Sums)
    freed: Sums = field(default_factory=Sums)
    lost: Sums = field(default_factory=Sums)

    def add(self, other: SumsByOutcome) -> None:
        """All the blocks of another group, which shares none with this one."""
        self.live.merge(other.live)
        self.freed.merge(other.freed)
        self.lost.merge(other.lost)

    @property
    def allocated(self) -> Sums:
        """All of them."""
        return self.live + self.freed + self.lost


class Sites:
    """The sites of stacks: worked out once a stack, as stacks come."""

    def __init__(self, samples: SampledBlocks, places: CodePlaces) -> None:
        self._samples = samples
        self.places = places
        self._handlers = Handlers(samples, places)
        self._site = array("i", [0])  # by stack: the node of its innermost user frame, 0 for none
        self._outside = array("i", [0])  # likewise of its innermost frame outside the standard library
        self._is_work = array("b", [0])  # likewise whether a request, a task or a job is on it
        self._entries: list[str] = []  # by code: what such a function calls
        self._frames: dict[tuple[int, int], Frame] = {}
        self._names: dict[str, dict[int, str]] = {key: {} for key in PRODUCER_KEYS}

    def node(self, stack: int) -> int:
        """The node of the stack's site; 0 or :data:`~heaptop.analysis.samples.stacks.FORGOTTEN` for what has no
        frame."""
        if stack <= 0:
            return stack
        self._extend()
        return self._site[stack] or self._outside[stack] or stack

    def frame(self, stack: int) -> Frame:
        """The stack's innermost frame."""
        if stack <= 0:
            return Frame("", FORGOTTEN_NAME if stack == FORGOTTEN else NO_FRAME_NAME, 0, "", "", False)
        stacks = self._samples.stacks
        key = stacks.codes[stack], stacks.lines[stack]
        known = self._frames.get(key)
        if known is None:
            code, places = self._samples.codes[key[0]], self.places
            file = code.file
            function = self._function(stack)
            known = self._frames[key] = (
                Frame(file, places.short(file), key[1], function, places.module(file), places.is_user(file))
                if file
                else Frame("", code.function, 0, "", "", False)  # the sampler's own words: "(another interpreter)"
            )
        return known

    def frames(self, stack: int) -> tuple[Frame, ...]:
        """All frames of a stack, innermost first."""
        return tuple(self.frame(node) for node in self._samples.stacks.path(stack))

    def site(self, stack: int) -> Frame:
        """The frame of the stack's site."""
        return self.frame(self.node(stack))

    def reported_site(self, said: int) -> str:
        """The site of a stack by the sampler's own number of it; empty where that is not known yet."""
        stack = self._samples.stack_of(said)
        return "" if stack == FORGOTTEN else self.name(stack, "site")

    def name(self, stack: int, key: str) -> str:
        """The band of a stack by ``key``, one of :data:`PRODUCER_KEYS`.

        Raises:
            UsageError: there is no such key.
        """
        if key not in self._names:
            raise UsageError(f"Producers cannot be grouped by {key!r}.", fix=f"One of: {', '.join(PRODUCER_KEYS)}.")
        names = self._names[key]
        known = names.get(stack)
        if known is None:
            is_stack = key == "handler" and stack > 0
            known = names[stack] = self._handlers.name(stack) if is_stack else _name(self.site(stack), key)
        return known

    def _function(self, node: int) -> str:
        """Its function's name. A comprehension goes by the one it is in, as it does from 3.12 on (PEP 709)."""
        stacks, codes = self._samples.stacks, self._samples.codes
        code, caller = codes[stacks.codes[node]], stacks.parents[node]
        if code.function.endswith(_COMPREHENSIONS) and caller and codes[stacks.codes[caller]].file == code.file:
            return self._function(caller)
        return code.function

    def _extend(self) -> None:
        stacks, codes = self._samples.stacks, self._samples.codes
        self._entries += [entry_of(code.file, code.function) for code in codes[len(self._entries) :]]
        for node in range(len(self._site), len(stacks)):
            parent, code = stacks.parents[node], stacks.codes[node]
            file, entry, is_work = codes[code].file, self._entries[code], self._is_work[stacks.parents[node]]
            self._is_work.append(is_work or entry in WORK)
            if entry and not is_work and self._is_started(self._site[parent], entry):
                parent = 0  # what is outside only started it
            self._site.append(node if self.places.is_user(file) else self._site[parent])
            self._outside.append(self._outside[parent] if self.places.is_standard_library(file) else node)

    def _is_started(self, site: int, entry: str) -> bool:
        """Whether the user's frame that is nearest outside such an entry, if there is one, only started it."""
        stacks, codes = self._samples.stacks, self._samples.codes
        return entry in STARTERS or (site > 0 and codes[stacks.codes[site]].function == _MODULE)


def _name(frame: Frame, key: str) -> str:
    if key == "site" or not frame.file:
        return frame.label
    if key == "module":
        return frame.module
    return f"{frame.function} ({frame.short})" if frame.function else frame.label  # tracemalloc names no function


def producers(
    samples: SampledBlocks,
    sites: Sites,
    key: str,
    where: Callable[[Tally], bool] | None = None,
    older: Estimate | None = None,
) -> list[Producer]:
    """Rows of living bytes, the largest first, then by name: O(stacks, types and sizes that live).

    Args:
        key: one of :data:`PRODUCER_KEYS`.
        where: restricts what is counted.
        older: what lives and is not followed (:func:`older_than_sampling`), which becomes a row of its own.

    Raises:
        UsageError: there is no such key.
    """
    found: dict[str, tuple[int, Flow]] = {}  # a stack of the row, and its sums
    for tally in samples.tallies():
        if where is None or where(tally):
            name = sites.name(tally.stack, key)
            row = found.get(name)
            if row is None:
                row = found[name] = tally.stack, Flow()
            row[1].add(tally)
    total = sum(flow.live.rounded_bytes for _, flow in found.values()) + (older.bytes if older is not None else 0) or 1
    rows = []
    for name, (stack, flow) in found.items():
        if flow.live.samples:
            live = flow.live.estimate(samples.live_missed)
            allocated = None if samples.only_live else flow.allocated.estimate(samples.missed)
            freed = None if samples.only_live else flow.freed.estimate(samples.missed)
            rows.append(Producer(name, sites.site(stack), live, allocated, freed, live.bytes / total))
    if older is not None:
        rows.append(Producer(NO_SITE, None, older, None, None, older.bytes / total))
    return sorted(rows, key=lambda row: (-row.live.bytes, row.name))


def stacks_at(samples: SampledBlocks, sites: Sites, site: str) -> set[int]:
    """Stacks of what lives whose site has this name."""
    return {tally.stack for tally in samples.tallies() if sites.name(tally.stack, "site") == site}


def live_total(samples: SampledBlocks) -> Estimate:
    """All that was allocated since sampling began and lives."""
    total = Sums()
    for tally in samples.tallies():
        total.merge(tally.live)
    return total.estimate(samples.live_missed)


def older_than_sampling(census: Amount, sampled: Estimate) -> Estimate:
    """What a census counted beyond what was sampled: allocated before, so that its site is not known.

    The census counts objects as ``sys.getsizeof`` does, the sampler blocks: the difference is about right, and its
    count less so, as an object may be made of several blocks. Never below 0.
    """
    return Estimate(
        bytes=max(census.bytes - sampled.bytes, 0),
        count=max(census.count - sampled.count, 0),
        low=max(census.bytes - sampled.high, 0),
        high=max(census.bytes - sampled.low, 0),
        samples=0,
    )
