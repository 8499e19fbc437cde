"""The leak hunt: the queries to an open snapshot at each mark, and the findings from its answers.

    send the mark  ──► ages of everything ──► points and paths of what is new ──► for each place where it collects:
    which types, which stacks, how old ──► verdicts, sentences ──► a new mark: what lives, how large containers are

This module never talks to an agent: :meth:`LeakHunt.check` yields questions and is sent answers
(:mod:`heaptop.analysis.snapshot.asking`), so a screen and a command hunt alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from heaptop.analysis.heap.history import History
from heaptop.analysis.heap.path_words import path_words, type_name, type_of
from heaptop.analysis.leaks.bounds import (
    CACHE,
    Fill,
    by_fill,
    fill_of,
    fill_of_all,
    fill_question,
    is_of_items,
    unknown_bound_words,
)
from heaptop.analysis.leaks.container_growth import (
    ContainerGrowth,
    container_growth_sentence,
    grown_containers,
    sizes_words,
)
from heaptop.analysis.leaks.courses import Courses, HuntMoment, LargerObjects
from heaptop.analysis.leaks.growth import (
    BirthCounts,
    BirthIntervals,
    aged_by_type,
    module_growth,
    modules_of,
    retainer_growth,
    site_growth,
    type_growth,
)
from heaptop.analysis.leaks.lints import LintContext, lints_of
from heaptop.analysis.leaks.marks import (
    Mark,
    MarkContext,
    facts,
    retainer_steps,
    retainer_words,
    send_pieces,
    take_pieces,
    totals_by_type,
    trends_of,
)
from heaptop.analysis.leaks.proofs import Key, Proofs, key_of
from heaptop.analysis.leaks.suspects import (
    HANDED_ON,
    HOLDER_GREW,
    LEAST_OBJECTS,
    LEAST_SHARE,
    NEAR,
    Candidate,
    Site,
    TypeRanks,
    TypeSum,
    arrows,
    candidates,
    holding_words,
    is_base,
    is_large_enough,
    larger_sentence,
    less,
    main_site,
    near_sites,
    sentence,
    type_sums,
    type_to_name,
)
from heaptop.analysis.leaks.unreached import SiteBlocks, unreached_suspects
from heaptop.analysis.leaks.verdicts import FEW, STEADY_GROWTH, WEAK, Judgement, Turnover, judge
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.asking import Asking, NotAnswered, answered
from heaptop.analysis.snapshot.why import path_json
from heaptop.analysis.text.units import format_count
from heaptop.protocol import images
from heaptop.protocol.findings import (
    BACKLOG,
    BYTES,
    GROWING,
    ITEMS,
    LEAK,
    NO_LEAK,
    UNCLEAR,
    UNREACHED,
    VERDICTS,
    Findings,
    Growth,
    Lint,
    Suspect,
)
from heaptop.protocol.images import (
    KINDS,
    Ages,
    Blocks,
    Groups,
    Image,
    Objects,
    PathGroup,
    Paths,
    Points,
    Question,
    Selection,
    StackBlocks,
    Step,
)
from heaptop.protocol.messages import Memory, TypeName

_MOST_POINTS: Final = 40
_MOST_AGES: Final = 50_000
"""Types, times marks."""
_MOST_COMPARED: Final = 12
"""Marks, for that many intervals can be shown and judged."""
_CHILD_PERCENT: Final = 70
"""Eclipse MAT's: a child that has so much of what is new below its parent is descended to."""
_MOST_PATHS: Final = 2_000
_MOST_TYPES: Final = 2_000
_MOST_IDS: Final = 2_000
"""Of types, in one question."""
_FIRM: Final = 5
"""Samples that an estimate of how much of the new memory a line made is drawn from, at least."""
_MOST_ALIKE: Final = 1_000
"""Containers whose bounds are added up."""
_MOST_APART: Final = 4
"""Types that are examined by themselves, beside those that earlier checks have proven to leak."""
_WAITING: Final = 0.3
"""Of all objects: CPython collects in full when new ones that got old are a quarter of the others (Modules/gcmodule.c,
long_lived_pending), so garbage of no more than this waits for its collection."""
_ECHO: Final = 0.8
"""Of new weak references: where so many other objects leak, they refer to these."""
_WEAK: Final = frozenset({"weakref", "weakref.ReferenceType", "weakref.KeyedRef", "weakref.WeakMethod"})
_NOISE: Final = 0.02
"""Of the heap: growth in the last interval that needs no explanation."""

NOW: Final = "now"
"""The name of a moment that was examined and not marked."""
AT_LEAST: Final = (
    "new and gone are lower bounds: an object at the address of an earlier one of its type counts as the earlier one, "
    "also among survivors"
)


def chosen_marks(count: int, since: int, until: int | None) -> list[int]:
    """Which of so many marks are compared with: from ``since`` on, evenly, with ``until`` and the latest among them."""
    steps = min(count - since, _MOST_COMPARED) - 1
    if steps < 1:
        return list(range(since, count))
    chosen = {since + (count - 1 - since) * step // steps for step in range(steps + 1)}
    return sorted(chosen | ({until} if until is not None and until < count else set()))


class LeakHunt:
    """All the marks of a session, and the hunt at each moment."""

    def __init__(self, *, rounds: bool = False, names: bool = False) -> None:
        """
        Args:
            rounds: the same work is done from each mark to the next, and nothing else.
            names: what is new is grouped by the name that leads to it, and not by the object where it collects.
        """
        self._rounds, self._names = rounds, names
        self.marks: list[Mark] = []
        self.pieces: tuple[bytes, ...] = ()
        """Of the latest mark, by which a later image knows all marks."""
        self._checks = 0
        self._proofs: dict[int, Proofs] = {}
        """By the mark since which it was new."""

    def check(
        self,
        image: Image,
        types: Sequence[TypeName],
        history: History,
        sampling: Sampling,
        *,
        mark: str | None,
        since: int = 0,
        until: int | None = None,
        collected: bool = False,
        memory: Memory | None = None,
        allowed: Sequence[str] = (),
        compares: bool = True,
    ) -> Asking[Findings | None]:
        """Send the image the latest mark, hunt for what is new since the one at ``since``, and take a new mark of the
        name ``mark``.

        Args:
            types: of the image, by id.
            mark: name of the mark to take and to append to :attr:`marks`; None: none is taken.
            since: position of the mark from which on what was born is new.
            until: position of a later one: only what was born before it, and lives, is examined.
            collected: garbage was collected right before.
            memory: what allocators and the kernel say about now, where it was asked.
            allowed: names of lints that are not to be said.
            compares: else only the mark is taken, which is quicker; a later check compares with it.

        Returns:
            None where nothing was compared: there was no mark before.

        Raises:
            ValueError: there is no mark at ``since``, or ``until`` is none after it.
            NotAnswered: in the generator; no mark was taken.
        """
        if self.marks and not 0 <= since < (until if until is not None else len(self.marks)) <= len(self.marks):
            raise ValueError("no such marks")
        chosen = chosen_marks(len(self.marks), since, until)
        marks, around = tuple(self.marks[each] for each in chosen), MarkContext.of(history, sampling, memory)
        yield from send_pieces(self.pieces)
        ages = yield from answered(Ages, Question(images.AGES, limit=_MOST_AGES))
        trends = yield from trends_of(types, sampling)
        findings = None
        if marks and compares:
            last = facts(image, mark or NOW, around, collected)
            epochs = BirthIntervals(len(self.marks), tuple(chosen), until if until in chosen else None)
            moment = HuntMoment(
                image, types, history, sampling, around, last, marks, epochs, ages, trends, self._rounds, self._names
            )
            # A comparison over a part of the time neither proves nor refutes anything for the whole.
            proofs = self._proofs.setdefault(since, Proofs()) if until is None else Proofs()
            self._checks += 1
            findings = yield from _Hunt(moment, proofs, self._checks).findings(allowed)
        if mark is not None:
            self.pieces = yield from take_pieces(image)
            taken = facts(image, mark, around, collected)
            self.marks.append(Mark(taken, totals_by_type(ages, types), trends, around))
        return findings


class _Hunt:
    """One hunt."""

    def __init__(self, moment: HuntMoment, proofs: Proofs, check: int) -> None:
        self._at = moment
        self._proofs = proofs
        self._check = check
        self._looked_at: dict[str, int] = {}
        """New objects by their type's name, at the places that were examined."""
        self._aged = aged_by_type(moment.ages, moment.types, moment.epochs)
        self._courses = Courses(moment, self._aged)
        self._by_name = {type.full: type for type in self._aged}
        self._totals = totals_by_type(moment.ages, moment.types)
        self._ranks = TypeRanks(moment.sampling)
        self._notes: list[str] = []
        self._knows_unreached = False
        """Which blocks no object has, at each mark and now."""
        self._garbage = Counter[str]()
        """Objects that are new and that nothing holds, by their type's name, as far as paths show."""
        self._has_reason: set[Key] = set()
        """Suspects that are no leak, or none yet, because of what is known of their container."""
        self._new_bytes = sum(aged.born_bytes for aged in self._aged.values())

    def findings(self, allowed: Sequence[str]) -> Asking[Findings]:
        at, first = self._at, self._at.marks[0]
        selection = Selection(seen=at.epochs.new)
        points = yield from self._points(selection)
        paths = yield from answered(Paths, Question(images.PATHS, selection, limit=_MOST_PATHS))
        for group in paths.groups:
            if KINDS[group.kind] == "none" and group.steps:
                self._garbage[type_of(at.types, group.steps[-1].type).full] += group.count
        suspects, missed = [], []
        found = candidates(points, paths, at.types)
        for candidate in found:
            try:
                suspect = yield from self._suspect(candidate)
            except NotAnswered as error:
                missed.append(str(error))
                continue
            if suspect is not None:
                suspects.append(suspect)
        if missed:
            places = f"{len(missed)} places" if len(missed) > 1 else "a place"
            were = "were" if len(missed) > 1 else "was"
            self._notes.append(f"{places} where new objects collect {were} not checked: {missed[0]}")
        explained = {step.address for each in found for step in each.steps}
        for each in grown_containers(at.marks, at.trends, explained | {point.address for point in points.points}):
            suspect = yield from self._grown_container(each, explained)
            if suspect is not None:
                suspects.append(suspect)
        yield from self._apart(suspects)
        suspects += self._unreached(suspects)
        suspects = _less_echoes(suspects)
        suspects, refuted = self._proofs.kept(
            suspects, self._check, at.seconds, self._of_all, self._has_reason
        )
        self._notes += refuted
        suspects = near_sites(_ranked(suspects))
        kept = tuple(lints_of(self._seen(suspects), allowed))
        return Findings(
            time_ns=at.last.time_ns,
            marks=(*(mark.facts for mark in at.marks), at.last),
            verdict=self._overall(suspects, kept),
            count=at.image.objects - first.facts.objects,
            bytes=at.image.bytes - first.facts.bytes,
            suspects=tuple(suspects),
            growths=tuple(self._growths(paths)),
            lints=kept,
            notes=tuple(dict.fromkeys((AT_LEAST, *self._notes, *at.image.gaps))),
        )

    def _points(self, selection: Selection) -> Asking[Points]:
        """Without them, only paths show where things collect."""
        if self._at.names:
            return Points(0, 0, self._new_bytes, ())
        question = Question(images.POINTS, selection, limit=_MOST_POINTS, number=_CHILD_PERCENT)
        try:
            return (yield from answered(Points, question))
        except NotAnswered as error:
            self._notes.append(f"what holds new objects is known from paths only: {error}")
            return Points(0, 0, self._new_bytes, ())

    def _apart(self, suspects: list[Suspect]) -> Asking[None]:
        """Types that grow as a leak does and that no place so far has: where something large is new, what is a small
        part of all that is new collects at no point of it. Each has a query of its own."""
        at = self._at
        met = {suspect.type: suspect for suspect in suspects}
        proven = {each.type: each for each in self._proofs.suspects if not _is_as_sure(met.get(each.type), each)}
        due = [
            (type.full not in proven, -self._ranks.rank(type), -aged.born_bytes, type.full, type)
            for type, aged in self._aged.items()
            if type.full in proven
            or (
                2 * self._looked_at.get(type.full, 0) < aged.new >= LEAST_OBJECTS
                and self._of_all(type.full)[0].verdict == LEAK
            )
        ]
        known = {suspect.point for suspect in suspects if suspect.point}
        for _, _, _, _, type in sorted(due, key=lambda each: each[:4])[: _MOST_APART + len(proven)]:
            if type.full not in proven and 2 * self._looked_at.get(type.full, 0) >= self._aged[type].new:
                continue  # it was met beside another one
            ids = tuple(id for id, name in enumerate(at.types) if name == type)[:_MOST_IDS]
            selection = Selection(types=ids, seen=at.epochs.new)
            try:
                points = yield from self._points(selection)
                paths = yield from answered(Paths, Question(images.PATHS, selection, limit=_MOST_PATHS))
                for candidate in candidates(points, paths, at.types)[:1]:
                    if type.full not in proven and candidate.holder is not None and candidate.holder.address in known:
                        continue
                    suspect = yield from self._suspect(candidate, type)
                    if suspect is not None:
                        suspects[:] = [each for each in suspects if key_of(each) != key_of(suspect)]
                        suspects.append(suspect)
            except NotAnswered as error:
                self._notes.append(f"what holds {type.full} was not checked: {error}")

    def _unreached(self, suspects: Sequence[Suspect]) -> list[Suspect]:
        """Sites of blocks that no object has; none where that is not known of each mark."""
        at = self._at
        moments = [(mark.trends, mark.around) for mark in at.marks] + [(at.trends, at.around)]
        courses = [trends.unreached for trends, around in moments if around.voids == at.around.voids >= 0]
        known = [each for each in courses if each is not None]
        if len(known) < len(moments):
            return []
        self._knows_unreached = True
        none = SiteBlocks()
        by_site = {site: [each.get(site, none) for each in known] for site in known[-1]}
        leaking = {each.site for each in suspects if each.verdict == LEAK}
        beside = {each.site: each.type for each in suspects if each.verdict != LEAK and each.held >= FEW and each.site}
        found = unreached_suspects(by_site, at.seconds, at.sampling, leaking, beside)
        self._has_reason.update(key_of(each) for each in found if each.verdict != LEAK and each.site in beside)
        return found

    def _of_all(self, name: str) -> tuple[Judgement, int]:
        """What all objects of a type, by its full name, are judged to be, and how many there are; -1: nobody knows."""
        if name == UNREACHED and self._knows_unreached:
            return Judgement(NO_LEAK, ("there are no more of them now than before",)), 1
        if name == UNREACHED:
            return Judgement(UNCLEAR, ("it is not known now which blocks belong to no object",)), -1
        type = self._by_name.get(name)
        if type is None:
            return Judgement(NO_LEAK, ("none of them is left",)), 0
        course = self._courses.everywhere(type)
        return judge(course), course.totals[-1]

    # -- one suspect

    def _suspect(self, candidate: Candidate, of: TypeName | None = None) -> Asking[Suspect | None]:
        """What collects there; with ``of`` the objects of this type."""
        at = self._at
        everything_new = candidate.selection(seen=at.epochs.new)
        answer = yield from answered(Groups, Question(images.GROUPS, everything_new, limit=_MOST_TYPES))
        sums = type_sums(answer, at.types)
        for each in sums:
            self._looked_at[each.type.full] = self._looked_at.get(each.type.full, 0) + each.count
        named = type_to_name(sums, candidate.heads, type_of(at.types, candidate.head_type), self._ranks)
        if of is not None:
            named = next((each for each in sums if each.type == of), None)
        if named is None:
            return None
        if of is not None:  # what others of the type hold here is no part of it
            everything = sum(each.bytes for each in sums)
            candidate = replace(candidate, bytes=min(everything, max(named.bytes, named.retained)))
        site = yield from self._site(candidate, named, sums)
        ages = yield from answered(Ages, Question(images.AGES, candidate.selection(named.ids), limit=_MOST_AGES))
        aged = aged_by_type(ages, at.types, at.epochs).get(named.type, BirthCounts([0] * at.epochs.birth_intervals))
        new = candidate.selection(named.ids, at.epochs.new)
        paths = yield from answered(Paths, Question(images.PATHS, new, limit=8))
        bases = yield from self._bases(candidate, named, paths.groups)
        is_one = candidate.places == 1 and not candidate.is_of_names
        fill = (yield from self._fill(candidate.steps)) if is_one else None
        if fill is None or fill.bound < 0:
            fill = (yield from self._fill_of_all(candidate)) or fill
        return self._explained(candidate, named, sums, aged, site, paths.groups, fill, bases)

    def _bases(self, candidate: Candidate, named: TypeSum, groups: Sequence[PathGroup]) -> Asking[BirthCounts]:
        """Those of them that are known through a view of theirs alone: a NumPy view and its base are one array."""
        none = BirthCounts([0] * self._at.epochs.birth_intervals)
        keys = tuple(group.key for group in groups if is_base(group.steps, self._at.types))
        if not keys:
            return none
        selection = replace(candidate.selection(named.ids), path=keys)
        ages = yield from answered(Ages, Question(images.AGES, selection, limit=_MOST_AGES))
        return aged_by_type(ages, self._at.types, self._at.epochs).get(named.type, none)

    def _site(self, candidate: Candidate, named: TypeSum, others: Sequence[TypeSum]) -> Asking[Site | None]:
        """Of the named objects themselves, or else of what is new with them where that is most of the bytes there, of
        the table of what holds them, or of any sample with them. Types that free lists hand on come last: their blocks
        have the site of the first that they were allocated for, but for the tables that they have. So do sites in the
        standard library. What a package makes before it calls the program has the line of the program that puts it
        there, where that is known."""
        state, sampling = self._at.sampling.state, self._at.sampling
        if state is None or not state.on:
            return None
        recycled = [each for each in others if each.type.full in state.approximate]
        own = main_site((yield from self._blocks(candidate, [named])), sampling, HANDED_ON * (named in recycled))
        if own is not None and own.is_own and not own.is_standard:
            table = None if own.is_user else (yield from self._table_site(candidate))
            return table if table is not None and table.is_user else own
        beside = yield from self._blocks(candidate, [each for each in others if each not in recycled])
        lists = [each for each in recycled if each.type.full == "list"]
        with_tables = yield from self._blocks(candidate, lists)
        without = yield from self._blocks(candidate, lists, buffers=False)
        site = main_site([*beside, *less(with_tables, without)], sampling, NEAR)
        whole = sum(each.bytes for each in others)
        if site is None or site.is_standard or site.samples < _FIRM or 2 * site.bytes < whole:
            # Who enlarges the table that holds them may only put in what another line has made; but small parts may
            # be made where the call is, as arguments.
            site = (yield from self._table_site(candidate)) or site
        if own is not None and own.is_own and (site is None or site.is_standard):
            return own
        return site or own

    def _table_site(self, candidate: Candidate) -> Asking[Site | None]:
        """Where the container that holds them was last enlarged: who does that puts something into it."""
        holder = candidate.holder
        if holder is None or candidate.is_of_names:
            return None
        return (yield from self._enlarged_at(holder.address, HOLDER_GREW))

    def _enlarged_at(self, address: int, near: str = "") -> Asking[Site | None]:
        """Where this object's table or buffer was allocated, which is where it last grew."""
        answers = []
        for buffers in (True, False):
            selection = Selection(addresses=(address,))
            answer = yield from answered(Blocks, Question(images.STACKS, selection, limit=_MOST_TYPES, buffers=buffers))
            answers.append(answer.rows)
        return main_site(less(*answers), self._at.sampling, near)

    def _blocks(
        self, candidate: Candidate, of: Sequence[TypeSum], *, buffers: bool = True
    ) -> Asking[Sequence[StackBlocks]]:
        """The sampled blocks of what is new at a place and of these types."""
        ids = tuple(id for each in of for id in each.ids)[:_MOST_IDS]
        if not ids:
            return ()
        selection = candidate.selection(ids, self._at.epochs.new)
        answer = yield from answered(Blocks, Question(images.STACKS, selection, limit=_MOST_TYPES, buffers=buffers))
        return answer.rows

    def _explained(
        self,
        candidate: Candidate,
        named: TypeSum,
        sums: Sequence[TypeSum],
        aged: BirthCounts,
        site: Site | None,
        paths: Sequence[PathGroup],
        fill: Fill | None,
        bases: BirthCounts,
    ) -> Suspect | None:
        at = self._at
        everywhere = self._aged[named.type].new if named.type in self._aged else named.count
        if not is_large_enough(named.count, candidate.bytes, self._new_bytes):
            return None
        held, views = named.count - bases.new, aged.less(bases)
        course, has_reason = self._courses.course(candidate, replace(named, count=held), views), False
        if bases.count and not course.is_exact:  # how many views there were at the marks is not known: both are counted
            held, views = named.count, aged
            course = self._courses.course(candidate, named, aged)
        judged = judge(course)
        head = type_of(at.types, candidate.head_type)
        if fill is not None:
            # Items at reused addresses count as older ones: the length shows that they are new.
            are_items = is_of_items(named, sums, head, candidate.heads) or 2 * fill.grown >= candidate.heads > 0
            judged = by_fill(judged, fill, course, are_items=are_items)
            has_reason = are_items and fill.is_explaining and judged.verdict != LEAK
        judged = self._courses.as_all_do(judged, course, named, candidate.kind)
        path = max(paths, key=lambda group: group.count, default=None)
        known = path.steps if path is not None and (candidate.is_of_names or len(paths) == 1) else candidate.steps
        larger = None if has_reason else self._courses.larger(judged, known, named)
        judged = larger.judged if larger is not None else self._courses.by_bytes(judged, named, candidate)
        if KINDS[candidate.kind] == "none" and judged.verdict != NO_LEAK:
            judged = self._of_garbage(judged)
        elif judged.verdict != NO_LEAK:
            judged = self._of_weak_references(judged, named)
        count, rate, series = max(everywhere - named.count, 0) + held, _rate(course), course.totals
        if judged.verdict == BACKLOG and fill is not None and fill.grown > 0 and named.type == head:
            held, rate, series = fill.grown, fill.rate, fill.lengths  # items, without what of the type is in them
        along = None
        if judged.verdict == LEAK and (fill is None or fill.bound < 0):
            why = unknown_bound_words(candidate.steps, at.types, named, sums)
            judged = Judgement(UNCLEAR, (why, *judged.evidence[1:])) if why else judged
        if candidate.is_of_names and path is not None:  # one of these names holds them, or most of them
            candidate = replace(candidate, steps=tuple(retainer_steps(path.steps)))
            words = retainer_words(path.steps)
            along = sum(each.count for each in paths if retainer_words(each.steps) == words)
        holder = candidate.holder
        suspect = Suspect(
            verdict=judged.verdict,
            type=named.type.full,
            count=count,
            bytes=candidate.bytes,
            rate=rate,
            site=site.label if site else "",
            stack=site.stack if site else (),
            site_share=site.share if site else 0.0,
            samples=site.samples if site else 0,
            retainer=" ".join(path_words(candidate.steps)),
            holder=type_name(at.types, holder.type) if holder else "",
            path=tuple(path_json(path.steps if path else candidate.steps, at.types)),
            kind=KINDS[candidate.kind],
            held=held,
            point=holder.address if holder else 0,
            example=path.example if path else 0,
            generations=tuple(views.born),
            series=(*series[:-1], series[-1] if series[-1] >= 0 else views.count),
            evidence=judged.evidence,
            sentence="",
            site_is_own=site is None or site.is_own,
            handlers=site.handlers if site else (),
        )
        if has_reason:
            self._has_reason.add(key_of(suspect))
        suspect = replace(suspect, holding=holding_words(candidate, at.types, named.count, along))
        if larger is not None and judged.verdict != NO_LEAK:
            return self._of_larger(suspect, larger, site, path)
        return replace(suspect, sentence=sentence(suspect, site, named.bytes, least=at.epochs.until is None))

    def _of_larger(
        self, suspect: Suspect, larger: LargerObjects, site: Site | None, path: PathGroup | None
    ) -> Suspect:
        """The same, by bytes; ``path``: to most of them."""
        seconds = self._at.seconds[-1]
        if suspect.held == 1 and path is not None:
            suspect = replace(suspect, holding=f"held by {arrows(path.steps)}")
        suspect = replace(
            suspect,
            bytes=larger.grown,
            rate=larger.born[-1] / seconds if seconds > 0 else 0.0,
            generations=larger.born,
            series=larger.sizes,
            evidence=(STEADY_GROWTH if suspect.verdict == LEAK else suspect.evidence[0], sizes_words(larger.sizes)),
            counted=BYTES,
        )
        return replace(suspect, sentence=larger_sentence(suspect, site))

    def _grown_container(self, each: ContainerGrowth, explained: Collection[int]) -> Asking[Suspect | None]:
        """A container that has grown in place; None where it is younger than it seemed, or the table of an lru_cache
        that was ``explained``: what is new collects there."""
        at, itself = self._at, Selection(addresses=(each.address,))
        ages = yield from answered(Ages, Question(images.AGES, itself, limit=_MOST_AGES))
        paths = yield from answered(Paths, Question(images.PATHS, itself, limit=1))
        if not paths.groups or any(not at.epochs.was_there(row.seen, 0) for row in ages.rows):
            return None
        path, course = paths.groups[0], each.course(at.seconds)
        judged, rate, where = judge(course), _rate(course), arrows(path.steps)
        fill = yield from self._fill(path.steps)
        if fill is not None and fill.holder == CACHE and any(step.address in explained for step in path.steps[-2:-1]):
            return None
        judged = by_fill(judged, fill, course) if fill is not None else judged
        is_sampled = at.sampling.state is not None and at.sampling.state.on
        site = (yield from self._enlarged_at(each.address)) if is_sampled else None
        suspect = Suspect(
            verdict=judged.verdict,
            type=each.type,
            count=1,
            bytes=each.grown,
            rate=rate,
            site=site.label if site else "",
            stack=site.stack if site else (),
            site_share=site.share if site else 0.0,
            samples=site.samples if site else 0,
            retainer=" ".join(path_words(path.steps)),
            holder=each.type,
            path=tuple(path_json(path.steps, at.types)),
            kind=KINDS[path.kind],
            held=1,
            point=each.address,
            example=each.address,
            generations=course.born,
            series=each.sizes,
            evidence=(STEADY_GROWTH if judged.verdict == LEAK else judged.evidence[0], each.words),
            sentence=container_growth_sentence(each, judged.verdict, where, rate, site.words if site else ""),
            holding=f"held by {where}",
            counted=BYTES if each.in_bytes else ITEMS,
            handlers=site.handlers if site else (),
        )
        if fill is not None and fill.is_explaining and judged.verdict != LEAK:
            self._has_reason.add(key_of(suspect))
        return suspect

    # -- what means more than numbers

    def _of_garbage(self, judged: Judgement) -> Judgement:
        """What nothing holds is no leak where it will be collected: with gc on, as long as garbage is no larger a part
        of the heap than what a full collection waits for."""
        image = self._at.image
        if not image.gc_enabled:
            return judged
        before, now = self._at.marks[0].around.collections, self._at.around.collections
        seen = "" if before is None or now is None else f"; there were {now - before} since the first mark"
        why = f"nothing holds them: gc is on, so a full collection will free them{seen}"
        garbage = sum(kind.objects for kind in image.kinds if KINDS[kind.kind] == "none")
        verdict = NO_LEAK if garbage <= _WAITING * image.objects else UNCLEAR
        return Judgement(verdict, (why, *judged.evidence[1:]))

    def _of_weak_references(self, judged: Judgement, named: TypeSum) -> Judgement:
        """Weak references go with what they refer to, which may be garbage that nothing has collected yet. Where so
        much garbage is new the verdict is one step milder; of two moments it stays unclear: a third may show more."""
        garbage = self._garbage.total()
        if named.type.full not in _WEAK or not self._at.image.gc_enabled or garbage < named.count:
            return judged
        why = f"{WEAK}: {format_count(garbage)} new objects wait for a full collection"
        is_milder = judged.verdict == UNCLEAR and len(self._at.marks) > 1
        return Judgement(NO_LEAK if is_milder else UNCLEAR, (why, *judged.evidence[1:]))

    def _fill(self, steps: Sequence[Step]) -> Asking[Fill | None]:
        """How full the container is to which these lead; None where it is not known which one that is."""
        question = fill_question(steps)
        answer = yield from _objects(question)
        if answer is None:
            return None
        return fill_of(steps, answer, self._at.types, self._courses.at_marks, self._at.seconds)

    def _fill_of_all(self, candidate: Candidate) -> Asking[Fill | None]:
        """How full several containers that are alike are, together: the points, or those below the only object to which
        paths lead; None where that is not known of each."""
        at, ways = self._at, [point.path for point in candidate.points]
        inside = candidate.container
        if len(ways) > 1:
            near = {step.address for way in ways for step in way[-2:] if step.address}
            question = Question(images.OBJECTS, Selection(addresses=tuple(near)), limit=len(near))
        elif candidate.steps and candidate.steps[-1].address:
            below = Selection(types=(inside,), below=(candidate.steps[-1].address,))
            question = Question(images.OBJECTS, below, limit=_MOST_ALIKE, containers=True)
        else:
            return None
        answer = yield from _objects(question)
        if answer is None or answer.total > len(answer.rows):
            return None
        ways = ways if len(ways) > 1 else [(Step("", row.type, row.address),) for row in answer.rows]
        return fill_of_all([fill_of(way, answer, at.types, self._courses.at_marks, at.seconds) for way in ways if way])

    # -- all of it

    def _growths(self, paths: Paths) -> list[Growth]:
        at, first = self._at, self._at.marks[0]
        by_type = type_growth(self._aged, first.types, at.ages.complete)
        by_site = site_growth(at.marks, at.around, at.sampling)
        if by_site is None:
            self._notes.append("growth by site is unknown: sampling was off at the first mark")
        found = [by_type, module_growth(by_type, modules_of(self._aged, first.types)), by_site]
        found.append(retainer_growth(paths, at.trends, first.trends))
        return [each for each in found if each is not None]

    def _overall(self, suspects: Sequence[Suspect], said: Sequence[Lint]) -> str:
        """No leak only where nothing indicates one: a lint may report one that no object shows."""
        verdicts = {suspect.verdict for suspect in suspects}
        if verdicts & GROWING:
            return LEAK if LEAK in verdicts else BACKLOG
        before = self._at.marks[-1].facts.bytes
        grown = self._at.image.bytes - before
        unclear = sum(suspect.bytes for suspect in suspects if suspect.verdict == UNCLEAR)
        # After several intervals a little that shows no leak is none; between two marks nothing could be shown yet.
        is_little = len(self._at.seconds) > 1 and unclear < LEAST_SHARE * self._new_bytes
        is_unclear = UNCLEAR in verdicts and not is_little
        return UNCLEAR if said or is_unclear or grown > _NOISE * before else NO_LEAK

    def _seen(self, suspects: Sequence[Suspect]) -> LintContext:
        at = self._at
        then = at.marks[0]
        ticks = [tick for tick in at.history.ticks if tick.time_ns >= then.around.time_ns]
        course = [(tick.time_ns, tick.rss) for tick in ticks if tick.rss is not None]
        return LintContext(
            at.image,
            at.around,
            self._totals,
            then.around,
            then.types,
            then.facts,
            suspects,
            course,
            self._garbage if at.image.gc_enabled else {},
            lambda type: self._of_all(type)[0].verdict,
        )


def _objects(question: Question | None) -> Asking[Objects | None]:
    """The answer; None where there is none, or no question."""
    try:
        return None if question is None else (yield from answered(Objects, question))
    except NotAnswered:
        return None


def _less_echoes(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The same, but weak references are no leak of their own where as many objects leak: they go with these."""
    leaking = max((each.held for each in suspects if each.verdict == LEAK and each.type not in _WEAK), default=0)
    why = f"they may refer to what leaks elsewhere ({format_count(leaking)} objects), and go with it"
    return [
        replace(each, verdict=UNCLEAR, evidence=(why, *each.evidence[1:]))
        if each.verdict == LEAK and each.type in _WEAK and leaking >= _ECHO * each.held
        else each
        for each in suspects
    ]


def _is_as_sure(now: Suspect | None, proven: Suspect) -> bool:
    """Whether what was found now confirms what was proven, and knows where they collect where that was known."""
    return now is not None and now.verdict == LEAK and bool(now.point or not proven.point)


def _rate(course: Turnover) -> float:
    """Objects a second in the last interval: by which the number rose, or at least as many as were born and live."""
    net = course.net_rates[-1]
    return max(0.0, net) if net is not None else course.rates[-1]


def _ranked(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The gravest first, those that are objects, then the largest; not those whose objects others before them have, for
    the most part."""
    ranked = sorted(
        suspects,
        key=lambda each: (
            VERDICTS.index(each.verdict),
            each.type == UNREACHED,
            -each.bytes,
            not each.point,
            -each.held,
        ),
    )
    left: dict[str, int] = {}
    kept = []
    for each in ranked:
        rest = left.get(each.type, each.count)
        if 2 * rest >= each.held:
            left[each.type] = rest - each.held
            kept.append(each)
    return kept
