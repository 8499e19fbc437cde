"""What view 3 asks of the open snapshot, and what the answers come to: rows, trees, pages and single objects.

Each is asked for when it is first looked for, while the view draws: :mod:`heaptop.tui.state.asking`. It never draws
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.filters.kept_samples import matching, retainer_term
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.kept_sites import SampledShare, sampled_of, site_rows
from heaptop.analysis.snapshot.retaining import (
    FreedIfDropped,
    PathTree,
    RetainerRow,
    garbage_words,
    kept,
    kept_sets,
    kind_rows,
    left_out_rows,
    narrowed,
    set_rows,
    type_rows,
)
from heaptop.analysis.text.units import filtered_words
from heaptop.errors import UsageError
from heaptop.protocol.images import (
    GROUPS,
    LOSE,
    OBJECT,
    OBJECTS,
    PATHS,
    RETAINERS,
    STACKS,
    Blocks,
    Groups,
    Losses,
    Object,
    ObjectRow,
    Objects,
    Paths,
    Question,
    Retainers,
    Selection,
    Unit,
)
from heaptop.protocol.messages import Failure
from heaptop.tui.state.asking import SnapshotAnswers
from heaptop.tui.state.sampling_words import not_sampled
from heaptop.tui.state.snapshot_client import SnapshotClient
from heaptop.tui.state.snapshot_status import stage_words
from heaptop.tui.views.retainers.retainer_levels import FIRST_LINKS, FIRST_PATHS, RetainersLevel
from heaptop.tui.views.retainers.retainer_sheets import PAGE, ObjectPages

A = TypeVar("A", Groups, Paths, Objects, Object, Retainers, Losses, Blocks)
T = TypeVar("T")

NUMBERS: Final = (1, 2, 3, 5, 8)  # Rounds of N, beyond which retainer sets are not distinguished
MOST_SETS: Final = 5_000  # Pairs of a retainer set and a type that are asked for: no snapshot answers with more
MOST_STACKS: Final = 10_000  # Likewise of stacks
NOTHING: Final = "This snapshot has no such objects."


class Finder:
    """Asks the snapshot that the view shows; :meth:`begin` and :meth:`end` are around each drawing."""

    def __init__(self) -> None:
        self.answers = SnapshotAnswers()
        self.number = 3
        self.modules = False
        self.excluded: dict[str, int] = {}
        """Labels of what is no retainer, and its address in this snapshot; 0 where that is not known."""
        self.steps: dict[int, ObjectRow] = {}  # Objects that steps lead to, as far as they were asked for
        self.nothing = ""  # Why there are no rows
        self.is_partial = False  # Something that is drawn is so
        self._client: SnapshotClient | None = None
        self._sampling: Sampling | None = None
        self._telling: tuple[int, int, int | None] | None = None
        """The snapshot that marks are being sent to, and which; None once it has them."""
        self._made: dict[Hashable, object] = {}
        self._made_of = 0

    def begin(self, client: SnapshotClient, sampling: Sampling | None) -> bool:
        """A drawing begins. Whether the snapshot is not the one that was asked before."""
        self._client, self._sampling = client, sampling
        is_new = self.answers.begin(client)
        if is_new:
            self.steps.clear()
            self.excluded = dict.fromkeys(self.excluded, 0)
        if self._made_of != self.answers.version:
            self._made, self._made_of = {}, self.answers.version
        self.is_partial = False
        self.nothing = stage_words(client) or "Asking the snapshot…"
        return is_new

    def end(self) -> None:
        self.answers.end()

    @property
    def image(self) -> int:
        """Number of the snapshot that is asked; 0 where there is none."""
        return self.answers.image

    @property
    def client(self) -> SnapshotClient:
        assert self._client is not None, "only while the view draws"
        return self._client

    @property
    def left_out(self) -> tuple[int, ...]:
        """Addresses of what is no retainer, as far as they are known."""
        return tuple(sorted(address for address in self.excluded.values() if address))

    def exclude(self, label: str, address: int) -> str:
        """Take this for no retainer, or for one again. What was done; empty where it has no address."""
        if label in self.excluded:
            del self.excluded[label]
            return f"included again: {label}"
        if not address:
            return ""
        self.excluded[label] = address
        return f"excluded from retainer sets: {label}"

    @property
    def units(self) -> str:
        """By what retainer sets are distinguished."""
        return f"sets of at most {self.number} {'module' if self.modules else 'retainer'}{'s' * (self.number != 1)}"

    def ask(self, question: Question, kind: type[A], nothing: str = NOTHING) -> A | None:
        """The answer, once it is there. Where there is none, or nothing in it, :attr:`nothing` gives the reason."""
        answer = self.answers.get(question)
        if isinstance(answer, Failure):
            self.nothing = stage_words(self.client) or f"The snapshot did not answer: {answer.text}."
        if not isinstance(answer, kind):
            return None
        self.is_partial = self.is_partial or not getattr(answer, "complete", True)
        self.nothing = nothing
        return answer

    def _ask_of(self, level: RetainersLevel, what: int, kind: type[A], limit: int, offset: int = 0) -> A | None:
        """About the objects of a level."""
        selection = self.selection(level)
        if selection is None:
            return None
        modules, excluded = self._told_apart(level) if selection.retainers else (False, ())
        question = Question(what, selection, limit=limit, offset=offset, modules=modules, excluded=excluded)
        return self.ask(question, kind, "Nothing matches the filter." if level.where else NOTHING)

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is made once of the answers that there are, however often it is drawn."""
        if key not in self._made:
            self._made[key] = make()
        return cast("T", self._made[key])

    # -- which objects ---------------------------------------------------------------------------------------

    def selection(self, level: RetainersLevel) -> Selection | None:
        """The objects of a level; None where there are none to ask about."""
        client = self.client
        if client.image is None or (level.subject.new and not self._knows_mark()):
            return None
        found = client.selection(level.subject)
        if found is not None:
            found = replace(found, kinds=level.kinds, retainers=level.retainers, path=level.path, below=level.below)
            if level.is_narrowed:
                try:
                    found = narrowed(level.where, client.types, found)
                except UsageError as error:
                    self.nothing = error.message
                    return None
        if found is None:
            self.nothing = NOTHING
        return self._kept_by(level, found) if found is not None else None

    def _kept_by(self, level: RetainersLevel, found: Selection) -> Selection | None:
        """What of it the retainers keep that a filter asks for; retainer sets are filtered themselves."""
        term = retainer_term(level.where) if not level.is_sets else None
        if term is None:
            return found
        known = self._ask_sets(Selection(), *self._told_apart(level))
        if known is None:
            return None
        retainers = matching(term, known.units)
        if not retainers:
            self.nothing = f"No retainer in this snapshot fits {level.where}."
        return replace(found, retainers=retainers) if retainers else None

    def _told_apart(self, level: RetainersLevel) -> tuple[bool, tuple[int, ...]]:
        """What is a retainer of a level's objects: as it was when one of them was chosen, or as it is chosen now."""
        return (level.modules, level.excluded) if level.retainers else (self.modules, self.left_out)

    def _knows_mark(self) -> bool:
        """Whether the snapshot has the mark; sends it where it has not."""
        client = self.client
        mark, image = client.mark, client.image
        if mark is None or image is None:
            self.nothing = "No mark yet. Press m to mark what is there; a later snapshot (key o) shows what is new."
        elif mark.time_ns == image.time_ns:
            self.nothing = "This snapshot is the mark itself. Press o to take a later one."
        else:
            telling = image.image, client.since, client.until
            if not client.marks_sent and self._telling != telling and client.is_open:
                self._telling = telling
                client.send_mark(lambda: None)
            if client.marks_sent:
                self._telling = None
                return True
            if client.marks_failure:
                self.nothing = f"Comparing with the mark failed: {client.marks_failure}."
            else:
                self.nothing = stage_words(client) or "Comparing with the mark…"
        return False

    # -- what is known of them -------------------------------------------------------------------------------

    def rows(self, level: RetainersLevel) -> list[RetainerRow]:
        """By type, kind, retainer set or site."""
        if level.key == "site":
            return self._sites(level)
        return self._sets(level) if level.key == "retainers" else self._groups(level)

    def filtered(self, level: RetainersLevel, rows: Sequence[RetainerRow]) -> str:
        """How much of a level's objects the filter hides; empty while it is not known.

        Args:
            rows: of the level, where it has rows whose figures add up.
        """
        whole = self._ask_of(replace(level, key="type", what="rows", where=EVERYTHING), GROUPS, Groups, 10_000)
        if whole is None:
            return ""
        hidden = 0
        if level.what == "rows" and level.key in ("type", "new", "kind", "retainers"):
            passing = sum(row.bytes for row in rows)
            if level.key != "retainers":
                make = kind_rows if level.key == "kind" else type_rows
                hidden = len(make(whole, self.client.types)) - len(rows)
        else:
            try:
                narrowed(level.where, self.client.types, Selection())
            except UsageError:
                return ""
            some = self._ask_of(level, GROUPS, Groups, 10_000)
            if some is None:
                return "" if self.answers.is_asking else filtered_words(size=sum(row.bytes for row in whole.rows))
            passing = sum(row.bytes for row in some.rows)
        return filtered_words(hidden, sum(row.bytes for row in whole.rows) - passing)

    def _groups(self, level: RetainersLevel) -> list[RetainerRow]:
        answer = self._ask_of(level, GROUPS, Groups, 10_000)
        if answer is None:
            return []
        image, types = self.client.image, self.client.types
        make = kind_rows if level.key == "kind" else type_rows
        key = "rows", answer.id, level.key, level.where.text
        rows = self._once(key, lambda: make(kept(answer, level.where, types, level.key), types))
        if image is None or level.key != "kind" or not level.is_all:
            return rows
        words = garbage_words(image.cycles, collects=image.gc_enabled)
        return [replace(row, name=f"{row.name}: {words}") if row.key == "none" else row for row in rows]

    def _sets(self, level: RetainersLevel) -> list[RetainerRow]:
        selection, excluded = self.selection(level), self.excluded
        out = left_out_rows(Unit(label, 0, address) for label, address in excluded.items())
        if selection is None:
            return out
        answer = self._ask_sets(selection, *self._told_apart(level))
        if answer is None:
            return out
        again = {unit.label: unit.address for unit in answer.units if unit.address and excluded.get(unit.label) == 0}
        if again:  # left out of the snapshot before, where they had other addresses
            excluded |= again
            return self._sets(level)
        types, where = self.client.types, level.where
        if where:
            self.nothing = "Nothing matches the filter."
        key = "sets", answer.id, where.text
        return [*self._once(key, lambda: set_rows(kept_sets(answer, where, types), types)), *out]

    def _ask_sets(self, selection: Selection, modules: bool, excluded: tuple[int, ...]) -> Retainers | None:
        most, number = MOST_SETS, self.number
        question = Question(RETAINERS, selection, limit=most, number=number, modules=modules, excluded=excluded)
        return self.ask(question, Retainers)

    def _sites(self, level: RetainersLevel) -> list[RetainerRow]:
        sampling, image = self._sampling, self.client.image
        if image is None:
            return []
        why = _not_sampled(sampling, image.time_ns)
        if sampling is None or why:
            self.nothing = why
            return []
        answer = self._ask_of(level, STACKS, Blocks, MOST_STACKS)
        if answer is None:
            return []
        if not answer.rows:
            self.nothing = "None of these objects was sampled."
        everything = image.bytes if level.is_all and not level.where else 0
        key = "sites", answer.id, len(sampling.samples.stacks), everything  # a stack may arrive later than its blocks
        return self._once(key, lambda: site_rows(answer, sampling, everything))

    def sampled(self, level: RetainersLevel) -> SampledShare | None:
        """Of a level whose objects are those of some stacks, which are sampled ones, how many there are about; None
        where it is not known yet, or the objects are all there are."""
        sampling = self._sampling
        if not level.subject.stacks or sampling is None or sampling.samples.is_traced or level.what == "object":
            return None
        nothing, answer = self.nothing, self._ask_of(level, STACKS, Blocks, MOST_STACKS)
        self.nothing = nothing  # the reason that is shown for rows
        return self._once(("sampled", answer.id), lambda: sampled_of(answer, sampling)) if answer is not None else None

    def tree(self, level: RetainersLevel) -> PathTree | None:
        """Its paths, fewer of them as long as more are waited for."""
        answer = self._ask_of(level, PATHS, Paths, level.paths)
        if answer is None and level.paths > FIRST_PATHS:
            answer = self._ask_of(level, PATHS, Paths, FIRST_PATHS)
        if answer is None or not answer.groups:
            return None
        found, types = answer, self.client.types
        return self._once(("tree", found.id), lambda: PathTree(found, types))

    def pages(self, level: RetainersLevel, at: int, room: int) -> ObjectPages:
        """Its objects, those known that are around a place, ``room`` rows up and down."""
        first = self._page(level, 0)
        if first is None:
            return ObjectPages(0, {})
        places = (min(max(place, 0), max(first.total - 1, 0)) for place in (at - room, at, at + room))
        found = {number: self._page(level, number) for number in sorted({0, *(place // PAGE for place in places)})}
        return ObjectPages(first.total, {number: page.rows for number, page in found.items() if page is not None})

    def _page(self, level: RetainersLevel, number: int) -> Objects | None:
        return self._ask_of(level, OBJECTS, Objects, PAGE, PAGE * number)

    def around(self, level: RetainersLevel) -> Object | None:
        """The level's one object, with fewer links as long as more are waited for."""
        found = self.object(level.address, level.links)
        if found is None and level.links > FIRST_LINKS:
            found = self.object(level.address, FIRST_LINKS)
        return found

    def object(self, address: int, links: int = 0) -> Object | None:
        if not address or self.client.image is None:
            return None
        return self.ask(
            Question(OBJECT, Selection(addresses=(address,)), limit=links, values=self.client.values), Object
        )

    def find_steps(self, addresses: Collection[int]) -> Mapping[int, ObjectRow]:
        """The objects at these addresses, as far as they are known: asked for together."""
        missing = tuple(sorted({each for each in addresses if each and each not in self.steps}))[:5_000]
        if missing:
            answer = self.answers.get(Question(OBJECTS, Selection(addresses=missing), limit=len(missing)))
            if isinstance(answer, Objects):
                self.steps |= {row.address: row for row in answer.rows}
        return self.steps

    def drop(self, addresses: Collection[int]) -> FreedIfDropped | None:
        """What would go with these objects."""
        known = tuple(sorted(address for address in addresses if address))
        answer = self.ask(Question(LOSE, Selection(addresses=known)), Losses) if known else None
        return FreedIfDropped.of(answer) if answer is not None else None


def _not_sampled(sampling: Sampling | None, time_ns: int) -> str:
    """Why a snapshot of this moment knows no sites; empty where it does."""
    if sampling is None or sampling.samples.is_traced:
        return not_sampled(sampling)
    sampling_status = sampling.sampling_status
    changed = max(sampling_status.since_ns or 0, sampling_status.void_ns or 0)
    if sampling_status.on and changed > time_ns:
        return "Sampling began after this snapshot. Press o to take a later one."
    return "" if sampling_status.on or (sampling_status.ever_on and changed > time_ns) else not_sampled(sampling)
