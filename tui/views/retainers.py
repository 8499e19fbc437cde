"""View 3, Retainers: what keeps objects alive, from types and retainer sets down to single objects and back up.

Rows and trees are :mod:`heaptop.census.retaining`, drawn by :mod:`heaptop.tui.retainer_sheets`; what the open snapshot
is asked goes through :class:`~heaptop.tui.asking.Answers`. This module only keeps what the reader chose: levels, key,
filter, sort, what is expanded, tagged and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar, cast

from textual.app import ComposeResult
from textual.containers import Horizontal

from heaptop.census.filters import EVERYTHING, Filter
from heaptop.census.retaining import (
    AMOUNTS,
    NAMES,
    Drop,
    Measure,
    PathTree,
    Row,
    TreeRow,
    first_opened,
    garbage_words,
    kept,
    kind_rows,
    left_out_rows,
    list_rows,
    names_only,
    narrowed,
    opened_below,
    set_rows,
    sorted_rows,
    tree_rows,
    type_name,
    type_rows,
    within_bounds,
)
from heaptop.errors import UsageError
from heaptop.protocol.images import (
    GROUPS,
    LOSE,
    NO_TYPE,
    OBJECT,
    OBJECTS,
    PATHS,
    RETAINERS,
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
from heaptop.tui import drill
from heaptop.tui.asking import Answers
from heaptop.tui.desk import Desk, Stage, Subject
from heaptop.tui.desk_words import desk_words, seconds
from heaptop.tui.look import Look
from heaptop.tui.retainer_sheets import (
    PAGE,
    Card,
    Facts,
    Line,
    Pages,
    card_rows,
    drop_rows,
    line_sheet,
    object_lines,
    object_sheet,
    row_columns,
    row_sheet,
    tree_columns,
    tree_sheet,
    unit_sheet,
)
from heaptop.tui.session import Display
from heaptop.tui.views.table_view import WIDE, LevelView
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import Sheet, VirtualTable

A = TypeVar("A", Groups, Paths, Objects, Object, Retainers, Losses)
T = TypeVar("T")

Key = Literal["type", "path", "retainers", "kind", "new"]
TOP: Final[tuple[Key, ...]] = ("type", "path", "retainers", "kind", "new")
INNER: Final[tuple[Key, ...]] = ("path", "retainers", "kind", "type")
NUMBERS: Final = (1, 2, 3, 5, 8)
"""Rounds of N, beyond which retainer sets are not told apart."""
ALL: Final = Subject("everything")
NEW: Final = Subject("what came since the mark", new=True)
FIRST_PATHS: Final = 300
MOST_PATHS: Final = 2_000
FIRST_LINKS: Final = 100
MOST_LINKS: Final = 1_000
MOST_TAGGED: Final = 64
_WHAT: Final = {"type": "Types", "new": "Types", "path": "Paths", "retainers": "Retainer sets", "kind": "Kinds"}
"""What a filter that means nothing is told."""
NOW: Final = -1
"""In place of an image's number: the one that is open when it is looked at first."""


@dataclass
class Unfolded:
    """What of a tree the reader has expanded."""

    open: set[str] = field(default_factory=set)
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Level(drill.Level):
    """What is looked into, and what of it is shown: ``rows`` of it by the key, the ``units`` of a retainer set, its
    ``objects``, or one ``object`` and what is around it."""

    key: Key = "type"
    what: Literal["rows", "units", "objects", "object"] = "rows"
    subject: Subject = ALL
    title: str = ""
    kinds: tuple[int, ...] = ()
    retainers: tuple[int, ...] = ()
    modules: bool = False
    excluded: tuple[int, ...] = ()
    """These two are of ``retainers``: how they were told apart."""
    path: tuple[int, ...] = ()
    below: tuple[int, ...] = ()
    """The object with which they would go."""
    units: tuple[Unit, ...] = ()
    address: int = 0
    image: int = 0
    """The snapshot that it means something in; 0: in all of them."""
    as_list: bool = False
    paths: int = FIRST_PATHS
    links: int = FIRST_LINKS
    unfolded: Unfolded = field(default_factory=Unfolded)
    cursor: int = 0

    @property
    def is_tree(self) -> bool:
        return self.what == "rows" and self.key == "path"

    @property
    def is_all(self) -> bool:
        """All there is, as far as the filter lets it through."""
        return self.subject == ALL and not (self.kinds or self.retainers or self.path or self.below)

    @property
    def is_some(self) -> bool:
        """Objects of some types or producers, of which few keep one another: what they retain is a figure of its own,
        where of all that is kept by something it is but the same as that something's."""
        return bool(self.subject.types or self.subject.stacks)


class RetainersView(LevelView[Level]):
    """Above the table one object, beside it the one under the cursor, below it what was tagged."""

    NAME = "retainers"
    NUMBER = 3
    TITLE = "Retainers"
    HELP = (
        "Of a frozen copy of the program: who keeps what. Retained is what would be freed if the objects of a row "
        "went, one by one; what they share with others is in nobody's figure. ≤ is a sum in which some may be "
        "twice. Each object has one path, a shortest one from the first sort of root that leads to it; there may "
        "be others. Frees is what would go with the one object that a step leads to.\n\n"
        "Retainer sets (Runciman and Röjemo, New dimensions in heap profiling, §3) tell objects apart by all that "
        "keep them: the nearest globals, class attributes, closures, caches, locals on all ways from the roots. "
        "Objects with more than N of them are one row, MANY; key R changes N, key v takes modules for units, key e "
        "leaves a retainer out, so that those behind it count. What is new since a mark is at least that: an "
        "address may have been used again.\n\n"
        "b what it is by · Enter looks in, Esc back · v tree or list · t tags an object: below the table stands "
        "what dropping all tagged would free, and what of that is shared · w what keeps the type of a row.\n\n"
        "Filters: type: module: kind:; size> count> retained> of rows by type."
    )
    FROZEN = True
    DEFAULT_CSS = """
    RetainersView > #head { height: auto; }
    RetainersView > Horizontal { height: 1fr; }
    RetainersView VirtualTable { width: 1fr; height: 1fr; }
    RetainersView #card { width: 38%; height: 1fr; margin: 0 0 0 1; }
    RetainersView > #drop { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__(Level())
        self._answers = Answers()
        self._rows: Sequence[Any] = ()
        self._tree: PathTree | None = None
        self._frees: dict[int, ObjectRow] = {}
        """Objects that steps lead to, as far as they were asked for."""
        self._number = 3
        self._modules = False
        self._excluded: dict[str, int] = {}
        """Labels of what is no retainer, and its address in this snapshot; 0 where that is not known."""
        self._tagged: dict[int, str] = {}
        self._telling = self._told = 0
        """Snapshots that are being told, and know, what was there at the mark."""
        self._made: dict[Hashable, object] = {}
        self._made_of = 0
        self._nothing = ""
        self._partial = False
        self._remark = ""
        self._place_kept = 0
        """Where the cursor stood when there were rows last; they are asked for again."""

    def compose(self) -> ComposeResult:
        yield Picture(id="head")
        with Horizontal():
            yield VirtualTable()
            yield Picture(id="card")
        yield Picture(id="drop")

    # -- drawing ---------------------------------------------------------------------------------------------

    def show(self, display: Display, look: Look) -> None:
        self._shown = (display, look)
        desk = display.desk
        if not self.size.width or desk is None:
            return
        if self._answers.begin(desk):
            self._renew()
        if self._made_of != self._answers.version:
            self._made, self._made_of = {}, self._answers.version
        self._partial = False
        self._nothing = _stage_words(desk) or "Asking the snapshot…"
        had_rows = bool(self._rows)
        at = self.list.cursor
        self.list.show(self._sheet(desk, look))
        if had_rows and not self._rows:
            self._place_kept = at
        elif self._rows and not had_rows and self._place_kept:
            self.list.move_to(self._place_kept)
            self._place_kept = 0
        self._draw_panes(desk, look)
        self._answers.end()

    def _renew(self) -> None:
        """There is another snapshot, or none: what was of the one before means nothing any more."""
        self._frees.clear()
        self._excluded = dict.fromkeys(self._excluded, 0)
        image = self._answers.image
        self._levels = [replace(level, image=image) if level.image == NOW else level for level in self._levels]
        if not image:
            return
        gone = next((n for n, level in enumerate(self._levels) if level.image not in (0, image)), None)
        if self._tagged:
            self._tagged.clear()
            self._remark = "what was tagged was of the snapshot before"
        if gone is not None:
            self._remark = f"back to {self._levels[gone - 1].title or 'the top'}: the rest was of the snapshot before"
            del self._levels[gone:]
            self.list.move_to(self._level.cursor)

    def _sheet(self, desk: Desk, look: Look) -> Sheet[Any]:
        level = self._level
        selection = self._selection(desk, level)
        if selection is not None and desk.image is not None:
            if level.what == "objects":
                return self._object_sheet(desk, selection, look)
            if level.what == "object":
                return self._line_sheet(desk, look)
            if level.what == "units":
                return self._unit_sheet(desk, look)
            if level.is_tree:
                return self._tree_sheet(desk, selection, look)
            return self._row_sheet(desk, selection, look)
        self._rows = ()
        return row_sheet((), "type", self._facts(desk, look))

    def _facts(self, desk: Desk, look: Look) -> Facts:
        wide = self.size.width >= WIDE
        return Facts(
            width=self.size.width * 62 // 100 if self._has_card else self.size.width,
            look=look,
            types=desk.types,
            sort=self._sort if self._sortable else "",
            descending=self._descending,
            nothing=self._nothing,
            tagged=frozenset(self._tagged),
            wide=wide,
        )

    # -- asking ----------------------------------------------------------------------------------------------

    def _selection(self, desk: Desk, level: Level) -> Selection | None:
        """The objects of a level; None, and a sentence for the screen, where there are none to ask about."""
        if desk.image is None or (level.subject.new and not self._knows_mark(desk)):
            return None
        found = desk.selection(level.subject)
        if found is not None:
            found = replace(found, kinds=level.kinds, retainers=level.retainers, path=level.path, below=level.below)
            if level.what == "objects" or level.key in ("path", "retainers"):
                found = narrowed(level.where, desk.types, found)
        if found is None:
            self._nothing = "There is nothing of it in this snapshot."
        return found

    def _knows_mark(self, desk: Desk) -> bool:
        """Whether the snapshot was told what was there at the mark; tells it."""
        mark, image = desk.mark, desk.image
        if mark is None or image is None:
            self._nothing = "There is no mark. Key m marks what is there; a later snapshot (key o) shows what is new."
        elif mark.time_ns == image.time_ns:
            self._nothing = "This snapshot is the mark itself. Key o freezes a later one."
        else:
            if self._telling != image.image and desk.is_open:
                self._telling = image.image
                desk.tell_mark(lambda: self._note_told(image.image))
            if self._told == image.image:
                return True
            self._nothing = _stage_words(desk) or "Telling the snapshot what was there at the mark…"
        return False

    def _note_told(self, image: int) -> None:
        self._told = image

    def _ask(self, question: Question, kind: type[A]) -> A | None:
        """The answer, once it is there; what the screen says instead where there is none."""
        answer = self._answers.get(question)
        if isinstance(answer, Failure):
            gone = _stage_words(self.now.desk) if self.now.desk is not None else ""
            self._nothing = gone or f"The snapshot could not say it: {answer.text}."
        if not isinstance(answer, kind):
            return None
        self._partial = self._partial or not getattr(answer, "complete", True)
        self._nothing = (
            "The filter leaves nothing." if self._level.where else "There is nothing of it in this snapshot."
        )
        return answer

    def _question(self, what: int, selection: Selection, *, limit: int, offset: int = 0) -> Question:
        level = self._level
        return Question(
            what, selection, limit=limit, offset=offset, modules=level.modules, excluded=level.excluded
        )  # fmt: skip

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is made once of the answers that there are, however often it is drawn."""
        if key not in self._made:
            self._made[key] = make()
        return cast("T", self._made[key])

    # -- tables ----------------------------------------------------------------------------------------------

    def _row_sheet(self, desk: Desk, selection: Selection, look: Look) -> Sheet[Row]:
        level = self._level
        rows = self._sets(desk, selection) if level.key == "retainers" else self._groups(desk, selection)
        where = level.where
        shown = [row for row in rows if row.left_out or within_bounds(where, row)] if where.bounds else rows
        column, descending = self._chosen
        self._rows = sorted_rows(shown, column, descending=descending)
        return row_sheet(self._rows, "type" if level.key == "new" else level.key, self._facts(desk, look))

    def _groups(self, desk: Desk, selection: Selection) -> list[Row]:
        answer = self._ask(self._question(GROUPS, selection, limit=10_000), Groups)
        if answer is None:
            return []
        level, image = self._level, desk.image
        make = kind_rows if level.key == "kind" else type_rows
        rows = self._once(
            ("rows", answer.id, level.key, level.where.text),
            lambda: make(kept(answer, level.where, desk.types), desk.types),
        )
        if image is None or level.key != "kind" or not level.is_all:
            return rows
        words = garbage_words(image.cycles, collects=image.gc_enabled)
        return [replace(row, name=f"{row.name}: {words}") if row.key == "none" else row for row in rows]

    def _sets(self, desk: Desk, selection: Selection) -> list[Row]:
        excluded = self._excluded
        question = Question(
            RETAINERS,
            selection,
            limit=1_000,
            number=self._number,
            modules=self._modules,
            excluded=tuple(sorted(address for address in excluded.values() if address)),
        )
        answer = self._ask(question, Retainers)
        out = left_out_rows(Unit(label, 0, address) for label, address in excluded.items())
        if answer is None:
            return out
        again = {unit.label: unit.address for unit in answer.units if unit.address and excluded.get(unit.label) == 0}
        if again:  # left out of the snapshot before, where they had other addresses
            excluded |= again
            return self._sets(desk, selection)
        return [*self._once(("sets", answer.id), lambda: set_rows(answer, desk.types)), *out]

    def _unit_sheet(self, desk: Desk, look: Look) -> Sheet[Unit]:
        units = self._level.units
        addresses = tuple(unit.address for unit in units if unit.address)
        answer = self._ask(Question(LOSE, Selection(addresses=addresses)), Losses) if addresses else None
        self._rows = units
        return unit_sheet(units, Drop.of(answer) if answer is not None else None, self._facts(desk, look))

    def _tree_sheet(self, desk: Desk, selection: Selection, look: Look) -> Sheet[TreeRow]:
        level = self._level
        answer = self._ask(self._question(PATHS, selection, limit=level.paths), Paths)
        if answer is None and level.paths > FIRST_PATHS:
            answer = self._ask(self._question(PATHS, selection, limit=FIRST_PATHS), Paths)
        measure, descending = cast("Measure", self._sort), self._descending
        rows: list[TreeRow] = []
        self._tree = None
        if answer is not None and answer.groups:
            tree = self._tree = self._once(("tree", answer.id), lambda: PathTree(answer, desk.types))
            unfolded = level.unfolded
            if not unfolded.begun:
                unfolded.open, unfolded.begun = first_opened(tree, measure), True
            if level.as_list:
                rows = list_rows(tree, measure, descending=descending)
            else:
                rows = tree_rows(tree, unfolded.open, measure, descending=descending)
        self._rows = rows
        self._find_frees([row.node.address for row in rows])
        frees = {address: row.retained for address, row in self._frees.items()}
        return tree_sheet(
            rows, self._tree, frees, measure, self._facts(desk, look),
            by_retained=level.is_some, as_list=level.as_list,
        )  # fmt: skip

    def _find_frees(self, addresses: Sequence[int]) -> None:
        """What the objects at these addresses retain: asked for together."""
        missing = tuple(sorted({each for each in addresses if each and each not in self._frees}))[:5_000]
        if not missing:
            return
        answer = self._answers.get(Question(OBJECTS, Selection(addresses=missing), limit=len(missing)))
        if isinstance(answer, Objects):
            self._frees |= {row.address: row for row in answer.rows}

    def _object_sheet(self, desk: Desk, selection: Selection, look: Look) -> Sheet[ObjectRow | None]:
        first = self._page(selection, 0)
        pages, total = {}, 0
        if first is not None:
            total = first.total
            at, room = self.list.cursor, self.list.page_rows
            places = {0, *(min(max(place, 0), max(total - 1, 0)) // PAGE for place in (at - room, at, at + room))}
            found = {number: self._page(selection, number) for number in sorted(places)}
            pages = {number: page.rows for number, page in found.items() if page is not None}
        self._rows = Pages(total, pages)
        return object_sheet(self._rows, self._facts(desk, look), self._site)

    def _page(self, selection: Selection, number: int) -> Objects | None:
        return self._ask(self._question(OBJECTS, selection, limit=PAGE, offset=PAGE * number), Objects)

    def _line_sheet(self, desk: Desk, look: Look) -> Sheet[Line]:
        found = self._looked_into(desk)
        lines: list[Line] = []
        if found is not None:
            name = f"{type_name(desk.types, found.row.type)} {found.row.address:#x}"
            self._levels[-1] = replace(self._level, title=name)
            dominator = self._object(desk, found.dominator) if found.dominator else None
            self._find_frees([step.address for step in found.path])
            lines = object_lines(found, self._frees, dominator, MOST_LINKS)
        self._rows = lines
        return line_sheet(lines, self._facts(desk, look))

    def _looked_into(self, desk: Desk) -> Object | None:
        """The level's object, with fewer links as long as more are waited for."""
        level = self._level
        found = self._object(desk, level.address, level.links)
        if found is None and level.links > FIRST_LINKS:
            found = self._object(desk, level.address, FIRST_LINKS)
        return found

    def _object(self, desk: Desk, address: int, links: int = 0) -> Object | None:
        selection = Selection(addresses=(address,))
        return self._ask(Question(OBJECT, selection, limit=links, values=desk.values), Object)

    def _site(self, stack: int) -> str:
        sampling = self.now.sampling
        known = stack and sampling is not None and stack < len(sampling.samples.stacks.parents)
        return sampling.sites.name(stack, "site") if known and sampling is not None else ""

    # -- panes -----------------------------------------------------------------------------------------------

    def _draw_panes(self, desk: Desk, look: Look) -> None:
        level, width = self._level, self.size.width
        own = self._looked_into(desk) if level.what == "object" and desk.image else None
        card = Card(own, desk.types, self._site(own.row.stack)) if own is not None else None
        self._show_pane("#head", card_rows(card, width, look) if card is not None else [], look)
        drops = []
        if self._tagged:
            answer = self._ask(Question(LOSE, Selection(addresses=tuple(sorted(self._tagged)))), Losses)
            room = 9 if self.size.height > 30 else 4
            drops = drop_rows(self._tagged, Drop.of(answer) if answer is not None else None, room, width, look)
        self._show_pane("#drop", drops, look)
        self._show_card(desk, look)

    def _show_pane(self, name: str, rows: list[Any], look: Look) -> None:
        pane = self.query_one(name, Picture)
        pane.display = bool(rows)
        pane.styles.height = len(rows)
        pane.show(lambda width, height: rows, look)

    def _show_card(self, desk: Desk, look: Look) -> None:
        """Beside a table that has room for it, the object of the row under the cursor, or one of its objects."""
        pane = self.query_one("#card", Picture)
        pane.display = self._has_card
        if not pane.display:
            return
        address = self._looked_at()
        found = self._object(desk, address) if address and desk.image is not None else None
        card = Card(found, desk.types, self._site(found.row.stack), with_path=True) if found is not None else None
        pane.show(lambda width, height: card_rows(card, width, look) if card is not None else [], look)

    @property
    def _has_card(self) -> bool:
        """Whether there is room for it, and rows stand for objects."""
        level = self._level
        return self.size.width >= WIDE and (level.what != "rows" or level.key in ("path", "retainers"))

    @property
    def _row(self) -> object:
        """The row under the cursor."""
        at = self.list.cursor
        return self._rows[at] if at < len(self._rows) else None

    def _looked_at(self) -> int:
        row = self._row
        if isinstance(row, TreeRow) and row.node.ends and not row.node.address:
            return row.node.ends[0].example
        return self._named(row)[1]

    @staticmethod
    def _named(row: object) -> tuple[str, int]:
        """The name and the address of the one object that a row stands for; 0 where there is none."""
        if isinstance(row, Row):
            return (row.units[0].label, row.units[0].address) if len(row.units) == 1 else ("", 0)
        if isinstance(row, Unit):
            return row.label, row.address
        if isinstance(row, TreeRow):
            return row.node.text, row.node.address
        if isinstance(row, Line):
            return row.name or row.text.strip(), row.address
        return ("", row.address) if isinstance(row, ObjectRow) else ("", 0)

    @property
    def note(self) -> str:
        return desk_words(self.now.desk)

    @property
    def table(self) -> VirtualTable:
        return self.list

    @property
    def words(self) -> tuple[str, str]:
        level = self._level
        where = f"  ›  {level.where}" if level.where else ""
        said = [self._remark, "partial" if self._partial else "", self._place(len(self._rows))]
        if self._answers.is_asking:
            said[-1] = "asking…"
        return f"{self.TITLE}{self._title(level)}{where}", " · ".join(word for word in said if word)

    def _title(self, level: Level) -> str:
        if level.what == "object":
            return f"  ›  {level.title}"
        if level.what == "objects":
            return f"  ›  objects along {level.title}"
        if level.what == "units":
            return "  ›  one retainer set"
        of = f" of {level.title}" if level.title else ""
        mark = self.now.desk.mark if self.now.desk is not None else None
        if level.subject.new and mark is not None:
            new = "" if level.title == NEW.title else " new since the mark"
            of += f"{new} {seconds((self.now.now_ns - mark.time_ns) / 1e9)} ago, at least,"
        by = {
            "retainers": f"sets of at most {self._number}" + (" modules" if self._modules else ""),
            "path": "path" if level.as_list else "tree",
            "new": "type",
        }.get(level.key, level.key)
        return f"{of} by {by}"

    # -- what the keys do ------------------------------------------------------------------------------------

    def moved(self) -> None:
        self._remark = ""
        if self._level.what == "objects" or self.size.width >= WIDE:
            self._again()

    def ask_about(self, subject: Subject) -> None:
        """Show what keeps these objects alive."""
        if subject.address:
            self.inspect(subject.address)
        else:
            self._go(Level(key="path", subject=subject, title=subject.title))

    def inspect(self, address: int) -> None:
        """Show one object."""
        self._look_at(address)

    def _look_at(self, address: int) -> None:
        self._go(Level(what="object", address=address, title=hex(address), image=self._answers.image or NOW))

    def _go(self, inner: Level) -> None:
        """Look into something, and remember where one comes from."""
        self._remark = ""
        self._levels[-1] = replace(self._level, cursor=self.list.cursor)
        self._answers.again()
        self._enter(inner)
        self._place_kept = 0

    def back(self) -> bool:
        self._remark = ""
        was_inside = len(self._levels) > 1
        self._answers.again()
        if not super().back():
            return False
        if was_inside:
            self.list.move_to(self._level.cursor)
            self._place_kept = 0 if self._rows else self._level.cursor
            self._again()
        return True

    def cycle_key(self) -> None:
        level = self._level
        self._remark = ""
        if level.what != "rows":
            return
        self._answers.again()
        if len(self._levels) == 1:
            desk = self.now.desk
            keys = TOP if desk is not None and (desk.mark is not None or desk.marking) else TOP[:-1]
            key = keys[(keys.index(level.key) + 1) % len(keys)] if level.key in keys else keys[0]
            inner = Level(key=key, subject=NEW, title=NEW.title) if key == "new" else Level(key=key)
        else:
            keys = INNER[:-1] if len(level.subject.types) == 1 else INNER
            inner = replace(level, key=keys[(keys.index(level.key) + 1) % len(keys)], as_list=False)
        try:
            level.where.allow(_allowed(inner), "")
        except UsageError:
            inner = replace(inner, where=EVERYTHING)
        else:
            inner = replace(inner, where=level.where)
        self._levels[-1] = inner
        self._again()
        self.list.move_to(0)
        self._place_kept = 0

    def variant(self) -> None:
        """Tree or list; retainers one by one or modules."""
        level = self._level
        self._remark = ""
        if level.is_tree:
            self._levels[-1] = replace(level, as_list=not level.as_list)
        elif level.what == "rows" and level.key == "retainers":
            self._modules = not self._modules
        self._again()

    def change_number(self) -> bool:
        if self._level.what != "rows" or self._level.key != "retainers":
            return False
        self._number = NUMBERS[(NUMBERS.index(self._number) + 1) % len(NUMBERS)]
        self._again()
        return True

    @property
    def subject(self) -> Subject | None:
        row, level, desk = self._row, self._level, self.now.desk
        if isinstance(row, Row) and level.what == "rows" and level.key in ("type", "new"):
            return replace(level.subject, title=row.name, types=(row.name,))
        if isinstance(row, ObjectRow | Line) and row.type != NO_TYPE and desk is not None:
            name = type_name(desk.types, row.type)
            return Subject(name, types=(name,))
        name, address = self._named(row)
        return Subject(name, address=address) if address else None

    def drill(self) -> bool:
        row = self._row
        if isinstance(row, Row):
            return self._into_row(row)
        if isinstance(row, Unit):
            return self._into_units((row,))
        if isinstance(row, TreeRow):
            return self._into_tree(row)
        if isinstance(row, Line):
            return self._into_line(row)
        if isinstance(row, ObjectRow):
            self._look_at(row.address)
            return True
        return False

    def _into_row(self, row: Row) -> bool:
        level = self._level
        inner = replace(
            level, key="path", where=names_only(level.where), title=row.name, unfolded=Unfolded(), as_list=False
        )
        if row.left_out or row.rest:
            return False
        if level.key == "retainers":
            return self._into_set(row)
        if level.key == "kind":
            self._go(replace(inner, kinds=(row.kind,), title=f"kind {row.key}"))
        else:
            self._go(replace(inner, subject=replace(level.subject, title=row.name, types=(row.name,))))
        return True

    def _into_set(self, row: Row) -> bool:
        if row.many:
            self._remark = "these have too many retainers to be told apart; key R raises N"
            return True
        if len(row.units) != 1:
            if row.units:
                self._go(replace(self._level, what="units", units=row.units, image=self._answers.image))
            return bool(row.units)
        return self._into_units(row.units)

    def _into_units(self, units: tuple[Unit, ...]) -> bool:
        """What has this retainer, alone or with others."""
        unit, level = units[0], self._level
        if not unit.address:
            return False
        self._go(
            replace(
                level,
                what="rows",
                key="path",
                where=names_only(level.where),
                title=f"what {unit.label} keeps (alone or not)",
                retainers=(unit.address,),
                modules=self._modules,
                excluded=tuple(sorted(address for address in self._excluded.values() if address)),
                image=self._answers.image,
                unfolded=Unfolded(),
                as_list=False,
            )
        )
        return True

    def _into_tree(self, row: TreeRow) -> bool:
        level, opened = self._level, self._level.unfolded.open
        if row.what == "rest":
            if level.paths >= MOST_PATHS:
                self._remark = f"the {MOST_PATHS:,} largest paths are shown; a filter tells others"
                return True
            self._levels[-1] = replace(level, paths=MOST_PATHS)
        elif row.what == "open":
            opened.discard(row.node.key)
        elif row.what == "closed":
            opened.update(opened_below(row.node, cast("Measure", self._sort)))
        else:
            keys = tuple(group.key for group in row.node.ends)
            title = row.node.text
            self._go(replace(level, what="objects", path=keys, title=title, image=self._answers.image))
            return True
        self._again()
        return True

    def _into_line(self, line: Line) -> bool:
        level = self._level
        if line.what == "below":
            title = f"what {level.title} retains"
            self._go(Level(key="type", below=(level.address,), title=title, image=level.image))
            return True
        if line.what == "more":
            if level.links >= MOST_LINKS:
                self._remark = f"no more than {MOST_LINKS:,} are shown"
                return True
            self._levels[-1] = replace(level, links=MOST_LINKS)
            self._again()
            return True
        if not line.address or line.address == level.address:
            return False
        self._look_at(line.address)
        return True

    def tag(self) -> bool:
        row = self._row
        name, address = self._named(row)
        desk = self.now.desk
        if not address or desk is None:
            return False
        if address in self._tagged:
            del self._tagged[address]
        elif len(self._tagged) >= MOST_TAGGED:
            self._remark = f"no more than {MOST_TAGGED} can be tagged"
        else:
            type = row.type if isinstance(row, ObjectRow | Line) else NO_TYPE
            said = "" if type == NO_TYPE else f"{type_name(desk.types, type)} {address:#x}"
            self._tagged[address] = f"{name}  {said}".strip()
        self._again()
        return True

    def exclude(self) -> bool:
        row = self._row
        label, address = self._named(row)
        if isinstance(row, ObjectRow) or (isinstance(row, Line) and row.what != "step"):
            return False
        if label in self._excluded:
            del self._excluded[label]
            self._remark = f"a retainer again: {label}"
        elif address:
            self._excluded[label] = address
            self._remark = f"no retainer: {label}"
        else:
            return False
        self._again()
        return True

    def set_where(self, where: Filter) -> None:
        level = self._level
        where.allow(_allowed(level), _WHAT[level.key] if level.what == "rows" else "Objects")
        self._levels[-1] = replace(level, where=where)
        self._again()

    # -- sorting ---------------------------------------------------------------------------------------------

    @property
    def _sorted_as(self) -> str:
        level = self._level
        return f"{level.what} {level.key} {level.is_some:d}"

    @property
    def _sortable(self) -> Sequence[str]:
        level = self._level
        if level.what != "rows":
            return ()
        if level.is_tree:
            return tree_columns(by_retained=level.is_some)
        return row_columns("type" if level.key == "new" else level.key)

    @property
    def _first_sort(self) -> tuple[str, bool]:
        level = self._level
        by_retained = level.key in ("type", "new") or (level.is_tree and level.is_some)
        return ("retained" if by_retained else "bytes"), True


def _allowed(level: Level) -> tuple[str, ...]:
    """What a filter may ask of what is shown."""
    if level.what in ("units", "object"):
        return ()
    if level.what == "objects" or level.key == "path":
        return NAMES
    return AMOUNTS if level.key in ("type", "new") else AMOUNTS[:-1]


def _stage_words(desk: Desk) -> str:
    """Why the snapshot cannot be asked; empty where it can."""
    if desk.stage is Stage.BUILDING:
        return "The snapshot is being built."
    if desk.stage is Stage.GONE:
        return f"The snapshot is closed: {desk.why}. Key o freezes another one."
    return "No snapshot is open. Key o freezes one." if desk.stage is Stage.NONE else ""
