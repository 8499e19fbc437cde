"""When a graph census is taken, for bands by retainers and by kind: only while somebody looks, slower than censuses.

Each one is a snapshot that is opened, asked two things (four where producers are shown by retainers) and closed. This
module never opens one while a person has a snapshot, or has asked for one; what it says of itself is for a line on the
screen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from heaptop.analysis.filters.kept_samples import KeptBlocks, matching, parts_of
from heaptop.analysis.filters.predicates import NameTerm
from heaptop.analysis.heap.graph_history import NUMBER, GraphHistory, GraphRecord
from heaptop.analysis.text.units import format_bytes, format_duration_ns
from heaptop.protocol.images import (
    GROUPS,
    RETAINERS,
    STACKS,
    Blocks,
    Groups,
    Image,
    Question,
    Retainers,
    Selection,
)
from heaptop.protocol.messages import Failure, Message
from heaptop.tui.state.snapshot_client import SnapshotClient, SnapshotPurpose, SnapshotStage
from heaptop.tui.state.snapshot_status import seconds

KEEP: Final = 30.0  # Seconds that its snapshot stays open at most, when something goes wrong
SHORTEST: Final = 10.0  # Seconds from the beginning of one to that of the next, at least
REST: Final = 20  # And so many times as long as the last one took: five percent of a core, as for censuses
MOST_GROUPS, MOST_SETS, MOST_STACKS = 10_000, 2_000, 10_000  # Rows of the answers; what is smaller is one
WAITS: Final = "graph censuses wait for the snapshot: x closes it"
FIRST: Final = "taking a graph census"


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """What is known of graph censuses at one moment."""

    kinds: tuple[GraphRecord, ...] = ()  # By type and kind of root
    retainers: tuple[GraphRecord, ...] = ()  # By type and retainer set, of the same times
    words: str = ""  # What they cost, or what they wait for
    kept: KeptBlocks | None = None  # Which sampled blocks some retainers keep, where a view asked for it
    failure: str = ""  # Why the last one failed, in a few words; empty where it did not


@dataclass(frozen=True, slots=True)
class GraphCensusCost:
    """Of one graph census."""

    interval: float  # Seconds to the beginning of the next
    busy_ns: int  # That the clone worked, building and answering, and that its answers were on their way
    pause_ns: int  # For how long the target was paused
    memory: int

    @property
    def words(self) -> str:
        return (
            f"graph census every {seconds(self.interval)}: up to {format_duration_ns(self.busy_ns)} on another "
            f"core, pause {format_duration_ns(self.pause_ns)}, {format_bytes(self.memory)}"
        )


class GraphWatch:
    """The graph censuses of one screen, taken by way of its snapshot client."""

    def __init__(
        self, client: SnapshotClient, stack_of: Callable[[int], int], clock: Callable[[], float] = monotonic
    ) -> None:
        """``stack_of``: our number of a stack that the sampler says, as :meth:`SampledBlocks.stack_of`."""
        self._client = client
        self._stack_of = stack_of
        self._clock = clock
        self._history = GraphHistory()
        self._cost: GraphCensusCost | None = None
        self._failure = ""
        self._gaps: tuple[str, ...] = ()
        self._under_way = False
        self._waits = False
        self._began = 0.0
        self._asked_at = 0.0
        self._due = float("-inf")
        self._image: Image | None = None
        self._groups: Groups | None = None
        self._sets: Retainers | None = None
        self._kept_by: NameTerm | None = None
        self._retainers: tuple[int, ...] = ()
        self._kept: KeptBlocks | None = None
        self._blocks: Blocks | None = None  # All that are sampled
        self._refused = ""  # The failure in place of an answer

    @property
    def facts(self) -> GraphFacts:
        return GraphFacts(
            tuple(self._history.kinds.records),
            tuple(self._history.retainers.records),
            self._words,
            self._kept,
            self._failure,
        )

    @property
    def _words(self) -> str:
        if self._waits:
            return WAITS
        if self._failure and self._cost is not None:
            return f"the last graph census failed: {self._failure}"
        if self._cost is None:
            return FIRST if self._under_way else ""
        return "".join((self._cost.words, *(f" · {gap}" for gap in self._gaps)))

    def turn(self, wanted: bool, kept_by: NameTerm | None = None) -> None:
        """Called about once a second: take one if it is due, and somebody looks at what it would show.

        With ``kept_by`` it is also asked which sampled blocks these retainers keep.
        """
        client = self._client
        if self._under_way and client.purpose is not SnapshotPurpose.GRAPH:
            self._under_way = False  # a person has asked for a snapshot in the middle of it
        elif self._under_way and self._refused and self._sets is not None and self._kept_by is not None:
            self._done(KeptBlocks(self._kept_by, 0, 0, failure=self._refused))
        elif self._under_way and (self._refused or client.stage is SnapshotStage.GONE):
            self._fail(self._refused or client.why)
        self._waits = (
            wanted
            and client.purpose is not SnapshotPurpose.GRAPH
            and client.stage in (SnapshotStage.BUILDING, SnapshotStage.OPEN)
        )
        is_news = kept_by is not None and (self._kept is None or self._kept.term != kept_by)
        due = min(self._due, self._began + SHORTEST) if is_news else self._due
        if wanted and not self._waits and not self._under_way and self._clock() >= due:
            self._begin(kept_by)

    def _begin(self, kept_by: NameTerm | None) -> None:
        self._under_way, self._began, self._kept_by = True, self._clock(), kept_by
        self._image = self._groups = self._sets = self._blocks = None
        self._refused = ""
        self._client.open(KEEP, SnapshotPurpose.GRAPH, self._ask)

    def _ask(self) -> None:
        self._asked_at = self._clock()
        self._image = self._client.image
        self._client.ask(Question(GROUPS, limit=MOST_GROUPS), self._take)

    def _take(self, answer: Message) -> None:
        """The answers one after the other. That there is none may be because a person's snapshot is there instead."""
        match answer:
            case Groups():
                self._groups = answer
                self._client.ask(Question(RETAINERS, limit=MOST_SETS, number=NUMBER), self._take)
            case Retainers():
                self._sets = answer
                self._ask_blocks(answer)
            case Blocks():
                self._take_blocks(answer)
            case Failure():
                self._refused = answer.text
            case _:
                self._refused = "unexpected answer"

    def _take_blocks(self, answer: Blocks) -> None:
        """All that are sampled, then those that the retainers keep."""
        if self._blocks is None:
            self._blocks = answer
            self._ask_stacks(Selection(retainers=self._retainers))
        elif self._kept_by is not None:
            self._done(KeptBlocks(self._kept_by, 0, 0, parts_of(answer, self._blocks, self._stack_of)))

    def _ask_blocks(self, sets: Retainers) -> None:
        if self._kept_by is None:
            self._done(None)
            return
        self._retainers = matching(self._kept_by, sets.units)
        if self._retainers:
            self._ask_stacks(Selection())
        else:
            self._done(KeptBlocks(self._kept_by, 0, 0))

    def _ask_stacks(self, selection: Selection) -> None:
        self._client.ask(Question(STACKS, selection, limit=MOST_STACKS, number=NUMBER), self._take)

    def _done(self, kept: KeptBlocks | None) -> None:
        image, groups, sets = self._image, self._groups, self._sets
        assert image is not None
        assert groups is not None
        assert sets is not None
        if kept is not None:
            self._kept = replace(kept, time_ns=image.time_ns, retainers=len(self._retainers))
        self._history.take(image, self._client.types, groups, sets)
        asked_ns = int((self._clock() - self._asked_at) * 1e9)
        busy_ns = image.build_ns + asked_ns
        interval = max(SHORTEST, REST * (busy_ns + image.pause_ns) / 1e9)
        self._cost = GraphCensusCost(interval, busy_ns, image.pause_ns, image.memory)
        self._gaps = image.gaps if groups.complete and sets.complete else (*image.gaps, "stopped halfway")
        self._failure = ""
        self._end(interval)

    def _fail(self, why: str) -> None:
        """It is not tried again at once, and the rarer the longer it took to fail."""
        self._failure = why
        self._end(max(SHORTEST, REST * (self._clock() - self._began)))

    def _end(self, interval: float) -> None:
        self._under_way = False
        self._due = self._began + interval
        self._client.close()
