"""View 3, Retainers: what keeps objects alive, from types and retainer sets down to single objects and back up.

What is asked and answered is :mod:`heaptop.tui.views.retainers.retainer_finder`, drawn by
:mod:`heaptop.tui.views.retainers.retainer_sheets`. This module only keeps what the reader chose: levels, key, filter,
sort, what is expanded and tagged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, cast

from textual.app import ComposeResult
from textual.containers import Horizontal

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.filters.kept_samples import MOST_ASKED
from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.snapshot.retaining import (
    Measure,
    RetainerRow,
    TreeRow,
    first_opened,
    list_rows,
    names_only,
    narrowed,
    opened_below,
    sorted_rows,
    tree_rows,
)
from heaptop.errors import UsageError
from heaptop.protocol.images import (
    NO_TYPE,
    ObjectRow,
    Selection,
    Unit,
)
from heaptop.protocol.messages import TypeName
from heaptop.protocol.text import printable
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.bindings import Key
from heaptop.tui.keys.explaining import BEE, CPYTHON, NHC, STATMEMPROF, FigureHelp
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, Sheet
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.state.snapshot_status import seconds, snapshot_status
from heaptop.tui.views.retainers.retainer_finder import NUMBERS, Finder
from heaptop.tui.views.retainers.retainer_levels import (
    MOST_LINKS,
    MOST_PATHS,
    NEW,
    NOW,
    TOP,
    By,
    ExpandedNodes,
    RetainersLevel,
)
from heaptop.tui.views.retainers.retainer_sheets import (
    Card,
    ObjectLine,
    RetainerFacts,
    card_rows,
    drop_rows,
    line_sheet,
    object_lines,
    object_sheet,
    place_rows,
    row_columns,
    row_sheet,
    text_rows,
    tree_columns,
    tree_sheet,
    unit_sheet,
)
from heaptop.tui.views.table_view import ExploringView
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable

MOST_TAGGED: Final = 64


class RetainersView(ExploringView[RetainersLevel]):
    """Above the table one object, beside it the one under the cursor, below it what was tagged."""

    NAME = "retainers"
    NUMBER = 3
    TITLE = "Retainers"
    ABOUT = "what keeps it alive"
    SHOWS = (
        "What keeps objects alive, in a snapshot: types, paths and retainer sets down to single objects. A path "
        "shows which reference to drop, and how much that frees."
    )
    EXPLAINS = (
        FigureHelp(
            ("Retained",),
            "Bytes freed if single objects of the row went, summed one by one; of a path, those at its end. What "
            "they share with others is in no figure.",
        ),
        FigureHelp(
            ("≤",),
            "An upper bound: some objects may be counted twice.",
        ),
        FigureHelp(
            ("Objects", "Share", "█"),
            "The number of objects, and their share of the bytes of all rows. Bars are relative to the largest row.",
        ),
        FigureHelp(
            ("Own bytes",),
            "Shallow size: the objects themselves, without what they refer to. View 1 may show less for a type: it "
            "leaves out what sys.getsizeof does (its column Attributes), at another moment.",
            CPYTHON.at("Objects/object.c and each type's __sizeof__"),
        ),
        FigureHelp(
            ("What keeps it", "Path", "▸", "▾"),
            "Each object has one path, a shortest one from the first kind of root that reaches it; there may be "
            "others. ▸ opens with Enter, ▾ is open, v shows a list. Steps below one another are one row where each is "
            "several objects and their figures are the same; key u shows each on a row of its own.",
            BEE.at("§4.1"),
        ),
        FigureHelp(
            ("Frees", "Frees"),
            "Retained size of the one object at this step of the path, or of this retainer: everything that only "
            "it keeps. It can exceed Retained, and it is smaller where something else keeps the objects too.",
        ),
        FigureHelp(
            ("Retainers", "Retainer", "(more than…"),
            "A retainer set is everything that keeps an object: the nearest globals, class attributes, closures, "
            "caches and locals on all paths from the roots. Objects with more than N retainers are one row; R "
            "changes N, e excludes one, v groups by module.",
            NHC.at("§3, fig. 13"),
        ),
        FigureHelp(
            ("Kind", "Kind of root"),
            "The first kind of GC root that reaches it: module, frame, runtime (the interpreter), c (an "
            "extension), none (garbage).",
            NHC.at("§4.4"),
        ),
        FigureHelp(
            ("Allocated at", "Sampled", "≈ bytes", "≈"),
            "Objects whose blocks were sampled, by allocation site, and what they represent. For others, and for "
            "tables and buffers, the site is unknown.",
            STATMEMPROF.at("“Sampling allocations”"),
        ),
        FigureHelp(("Type", "Largest types"), "The class of the objects; of several, the largest first."),
        FigureHelp(
            ("Object", "Length", "Age", "Address"),
            "One object: address, length, and collector generation. gen 2 is the oldest.",
            BEE.at("§4.1"),
        ),
        FigureHelp(
            ("new",),
            "New since the mark (key m): a lower bound, because addresses are reused.",
            BEE.at("§4.2"),
        ),
        FigureHelp(
            ("●", "tagged"),
            "Tagged with t. The line below the table shows what dropping all tagged objects would free, and how "
            "much of it is shared.",
        ),
    )
    HELP = (
        "Filters: type: module: kind: retainer:cache (what it keeps, alone or not; for retainer sets, those that "
        "contain it); size> count> of rows; retained> of rows by type."
    )
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "by type, path, retainer set, kind, site, newness",
        "variant": "paths as tree or list; retainers one by one or by module",
        "drill": "paths of a row; objects of a path; neighbours of an object",
        "why": "what keeps the type of the row",
        "depth": "retainer sets: the next N",
    }
    FROZEN = True
    KEYS = (
        Key(
            *("e", "e", "exclude", "exclude this retainer", "Snapshot"),
            word="exclude",
            otherwise="this row cannot be excluded",
        ),
        Key(
            *("t", "t", "tag", "tag it: what it would free", "Snapshot"),
            word="tag",
            otherwise="this row cannot be tagged",
        ),
    )
    OFFERS = (
        "cycle_key",
        "filter",
        "drill",
        "why",
        "mark",
        "tag",
        "snapshot",
        "exclude",
        "unfold",
        "depth=N",
        "values",
        "shut",
        "variant",
        "sort_column(-1)",
        "sort_column(1)",
        "invert",
    )
    DEFAULT_CSS = """
    RetainersView > #head { height: auto; }
    RetainersView > Horizontal { height: 1fr; }
    RetainersView VirtualTable { width: 1fr; height: 1fr; }
    RetainersView #card { width: 38%; height: 1fr; margin: 0 0 0 1; }
    RetainersView > #drop { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__(RetainersLevel())
        self._finder = Finder()
        self._tagged: dict[int, str] = {}
        """Names of the objects chosen, by address."""
        self._filtered = ""
        self._notice = ""
        """What a key, or another snapshot, came to; until the next key."""
        self._place_kept = 0
        """Where the cursor stood when there were rows last; they are asked for again."""

    def compose(self) -> ComposeResult:
        yield Picture(id="head")
        with Horizontal():
            yield VirtualTable()
            yield Picture(id="card")
        yield Picture(id="drop")

    # -- drawing ---------------------------------------------------------------------------------------------

    def show(self, display: Display, look: ChartStyle) -> None:
        self._shown = (display, look)
        client = display.client
        if not self.size.width or client is None:
            return
        if self._finder.begin(client, display.sampling):
            self._renew()
        had_rows = bool(self._rows)
        at = self.list.cursor
        self.list.show(self._sheet(look))
        if had_rows and not self._rows:
            self._place_kept = at
        elif self._rows and not had_rows and self._place_kept:
            self.list.move_to(self._place_kept)
            self._place_kept = 0
        self._draw_panes(look)
        self._filtered = self._find_filtered()
        self._finder.end()

    def _find_filtered(self) -> str:
        if not self._level.where:
            return ""
        rows = [row for row in self._rows if isinstance(row, RetainerRow)] if self._level.what == "rows" else []
        if not rows and self._finder.answers.is_asking:
            return ""
        return self._finder.filtered(self._level, [row for row in rows if not row.left_out])

    @property
    def filtered(self) -> str:
        return self._filtered

    def _renew(self) -> None:
        """There is another snapshot, or none: what was of the one before means nothing any more."""
        image = self._finder.image
        if not image:
            return
        self._levels = [replace(level, image=image) if level.image == NOW else level for level in self._levels]
        if self._tagged:
            self._tagged.clear()
            self._notice = "tags were dropped: they belonged to the previous snapshot"
        if self._drop_gone(image):
            self._notice = f"back to {self._level.title or 'the top'}: deeper levels belonged to the previous snapshot"
            self.list.move_to(self._level.cursor)

    def _drop_gone(self, image: int) -> bool:
        """Leave the levels that mean something in another snapshot than this one. Whether there are any."""
        gone = next((n for n, level in enumerate(self._levels) if level.image not in (0, NOW, image)), None)
        if gone is not None:
            del self._levels[gone:]
        return gone is not None

    def _sheet(self, look: ChartStyle) -> Sheet[Any]:
        level = self._level
        if level.what == "objects":
            return self._object_sheet(look)
        if level.what == "object":
            return self._line_sheet(look)
        if level.what == "units":
            return self._unit_sheet(look)
        return self._tree_sheet(look) if level.is_tree else self._row_sheet(look)

    def _facts(self, look: ChartStyle) -> RetainerFacts:
        wide = self.size.width >= WIDE
        return RetainerFacts(
            width=self.size.width * 62 // 100 if self._has_card else self.size.width,
            look=look,
            types=self._types,
            sort=self._sort if self._sortable else "",
            descending=self._descending,
            nothing=self._finder.nothing,
            tagged=frozenset(self._tagged),
            wide=wide,
        )

    # -- tables ----------------------------------------------------------------------------------------------

    def _row_sheet(self, look: ChartStyle) -> Sheet[RetainerRow]:
        level = self._level
        column, descending = self._chosen
        self._rows = sorted_rows(self._finder.rows(level), column, descending=descending)
        return row_sheet(self._rows, "type" if level.key == "new" else level.key, self._facts(look))

    def _unit_sheet(self, look: ChartStyle) -> Sheet[Unit]:
        units = self._level.units
        drop = self._finder.drop([unit.address for unit in units if not unit.several])
        self._rows = units
        return unit_sheet(units, drop, self._facts(look))

    def _tree_sheet(self, look: ChartStyle) -> Sheet[TreeRow]:
        level, tree = self._level, self._finder.tree(self._level)
        measure, descending, expanded = cast("Measure", self._sort), self._descending, level.expanded
        rows: list[TreeRow] = []
        if tree is not None:
            if not expanded.begun:
                expanded.open, expanded.begun = first_opened(tree, measure), True
            if level.as_list:
                rows = list_rows(tree, measure, descending=descending)
            else:
                rows = tree_rows(tree, expanded.open, measure, descending=descending, unfolded=expanded.unfolded)
        self._rows = rows
        steps = self._finder.find_steps([row.node.address for row in rows])
        return tree_sheet(
            rows, tree, steps, measure, self._facts(look), by_retained=level.is_some, as_list=level.as_list
        )  # fmt: skip

    def _object_sheet(self, look: ChartStyle) -> Sheet[ObjectRow | None]:
        self._rows = self._finder.pages(self._level, self.list.cursor, self.list.page_rows)
        return object_sheet(self._rows, self._facts(look), self._site)

    def _line_sheet(self, look: ChartStyle) -> Sheet[ObjectLine]:
        found = self._finder.around(self._level)
        lines: list[ObjectLine] = []
        if found is not None:
            name = f"{type_name(self._types, found.row.type)} {found.row.address:#x}"
            self._levels[-1] = replace(self._level, title=name)
            dominator = self._finder.object(found.dominator)
            lines = object_lines(
                found, self._finder.find_steps([step.address for step in found.path]), dominator, MOST_LINKS
            )  # fmt: skip
        self._rows = lines
        return line_sheet(lines, self._facts(look))

    def _site(self, stack: int) -> str:
        sampling = self.now.sampling
        return sampling.sites.reported_site(stack) if stack and sampling is not None else ""

    @property
    def _types(self) -> Sequence[TypeName]:
        return self.now.client.types if self.now.client is not None else ()

    # -- panes -----------------------------------------------------------------------------------------------

    def _draw_panes(self, look: ChartStyle) -> None:
        level, width = self._level, self.size.width
        own = self._finder.around(level) if level.what == "object" else None
        card = Card(own, self._types, self._site(own.row.stack)) if own is not None else None
        sampled = self._finder.sampled(level) if card is None else None
        said = text_rows(sampled.words, width, look) if sampled is not None else []
        self._show_pane("#head", card_rows(card, width, look) if card is not None else said, look)
        drops = []
        if self._tagged:
            room = 9 if self.size.height > 30 else 4
            drops = drop_rows(self._tagged, self._finder.drop(self._tagged), room, width, look)
        row = self._row
        place = row.node.place if isinstance(row, TreeRow) else row.place if isinstance(row, ObjectLine) else None
        places = place_rows(place, width, look) if place is not None else []
        self._show_pane("#drop", [*places, *drops], look)
        self._show_card(look)

    def _show_pane(self, name: str, rows: list[Any], look: ChartStyle) -> None:
        pane = self.query_one(name, Picture)
        pane.display = bool(rows)
        pane.styles.height = len(rows)
        pane.show(lambda width, height: rows, look)

    def _show_card(self, look: ChartStyle) -> None:
        """Beside a table that has room for it, the object of the row under the cursor, or one of its objects."""
        pane = self.query_one("#card", Picture)
        pane.display = self._has_card
        if not pane.display:
            return
        found = self._finder.object(self._looked_at())
        card = Card(found, self._types, self._site(found.row.stack), with_path=True) if found is not None else None
        pane.show(lambda width, height: card_rows(card, width, look) if card is not None else [], look)

    @property
    def _has_card(self) -> bool:
        """Whether there is room for it, and rows represent objects."""
        level = self._level
        return self.size.width >= WIDE and (level.what != "rows" or level.key in ("path", "retainers"))

    def _looked_at(self) -> int:
        row = self._row
        if isinstance(row, TreeRow) and row.node.ends and not row.node.address:
            return row.node.ends[0].example
        return self._named(row)[1]

    @staticmethod
    def _named(row: object) -> tuple[str, int]:
        """The name and the address of the one object that a row represents; 0 where there is none."""
        if isinstance(row, RetainerRow):
            row = row.units[0] if len(row.units) == 1 else None
        match row:
            case Unit():
                return row.label, 0 if row.several else row.address
            case TreeRow():
                return row.node.text, row.node.address
            case ObjectLine():
                return row.name or row.text.strip(), row.address
            case ObjectRow():
                return "", row.address
        return "", 0

    @property
    def unavailable(self) -> str:
        if self._shown is None:
            return super().unavailable
        if self._rows:
            return "not an object or type: Enter opens it"
        why = self._finder.nothing.rstrip(".…")
        busy = self.now.client is not None and self.now.client.is_busy
        when = ", w again then" if busy else ""
        return f"no row to select yet: {why[:1].lower()}{why[1:]}{when}"

    @property
    def note(self) -> str:
        return snapshot_status(self.now.client, has_rows=bool(self._rows))

    @property
    def words(self) -> tuple[str, str]:
        level = self._level
        said = [self._notice, "partial" if self._finder.is_partial else "", self._place(len(self._rows))]
        if self._finder.answers.is_asking:
            said[-1] = "asking…"
        title = level.words(self._finder.units, self._since)
        return f"{self.TITLE}{title}{self.trail}", " · ".join(word for word in said if word)

    def _crumb(self, outer: RetainersLevel, level: RetainersLevel) -> str:
        return level.crumb

    @property
    def _since(self) -> str:
        """How long ago the mark was set; empty where there is none. With a second one, until when."""
        client = self.now.client
        if client is None or client.mark is None:
            return ""
        since = seconds((self.now.now_ns - client.mark.time_ns) / 1e9)
        until = client.second_mark
        return f"{since} ago, until {seconds((self.now.now_ns - until.time_ns) / 1e9)}" if until is not None else since

    @property
    def copied(self) -> str:
        """Of a path all of it, from the root on."""
        row, copied = self._row, super().copied
        way = row.node.text if isinstance(row, TreeRow) and row.what != "rest" else ""
        if isinstance(row, ObjectLine) and row.what == "step":
            way = row.name
        return "\t".join([printable(way), *copied.split("\t")[1:]]) if way else copied

    # -- what the keys do ------------------------------------------------------------------------------------

    def moved(self) -> None:
        self._notice = ""
        if self._level.is_tree or self._level.what in ("objects", "object") or self.size.width >= WIDE:
            self._again()

    def ask_about(self, subject: QuerySubject, image: int, *, from_here: bool) -> None:
        asked = self._asked_at
        if asked and not from_here:
            del self._levels[asked:]
        is_here = not self._drop_gone(image) and (from_here or not asked)
        if subject.address:
            level = _one_object(subject.address, image)
        else:
            level = RetainersLevel(key="path", subject=subject, title=subject.title)
        self._go(replace(level, apart=not from_here), keep_cursor=is_here)

    @property
    def _asked_at(self) -> int:
        """Where what was asked from another view stands among the levels; 0 where there is none."""
        return next((place for place, level in enumerate(self._levels) if level.apart), 0)

    @property
    def _outset(self) -> int:
        return max(super()._outset, self._asked_at)

    def _look_at(self, address: int) -> None:
        self._go(_one_object(address, self._finder.image))

    def _go(self, inner: RetainersLevel, *, keep_cursor: bool = True) -> None:
        self._notice = ""
        self._finder.answers.again()
        self._enter(inner, keep_cursor=keep_cursor)
        self._place_kept = 0

    def back(self) -> bool:
        self._notice = ""
        depth = self.depth
        self._finder.answers.again()
        if not super().back():
            return False
        if self.depth < depth:
            self._place_kept = 0 if self._rows else self._level.cursor
        return True

    @property
    def _keys(self) -> Sequence[By]:
        """By what the level can be shown."""
        level = self._level
        if level.what != "rows":
            return ()
        if len(self._levels) > 1:
            return level.inner_keys
        client = self.now.client
        return TOP if client is not None and client.mark is not None else TOP[:-1]

    @property
    def bys(self) -> Mapping[str, str]:
        words = {"retainers": "by retainer set", "kind": "by kind of root", "new": "what is new since the mark"}
        return {key: words.get(key, f"by {key}") for key in self._keys}

    @property
    def by(self) -> str:
        return self._level.key

    def action_cycle_key(self) -> bool:
        level, keys = self._level, self._keys
        self._notice = ""
        if level.what != "rows":
            return False
        self._finder.answers.again()
        if len(self._levels) == 1:
            key = keys[(keys.index(level.key) + 1) % len(keys)] if level.key in keys else keys[0]
            inner = RetainersLevel(key=key, subject=NEW, title=NEW.title) if key == "new" else RetainersLevel(key=key)
        else:
            inner = replace(level, key=keys[(keys.index(level.key) + 1) % len(keys)], as_list=False)
        try:
            self._admit(inner, level.where)
        except UsageError:
            inner = replace(inner, where=EVERYTHING, given=EVERYTHING)
        else:
            inner = replace(inner, where=level.where)
        self._levels[-1] = inner
        self._again()
        self.list.move_to(0)
        self._place_kept = 0
        return True

    def action_variant(self) -> bool:
        """Tree or list; retainers one by one or modules."""
        level = self._level
        self._notice = ""
        if level.is_tree:
            self._levels[-1] = replace(level, as_list=not level.as_list)
        elif level.what == "rows" and level.key == "retainers":
            self._finder.modules = not self._finder.modules
        else:
            return False
        self._again()
        return True

    def action_depth(self) -> str:
        """The next N of retainer sets. Where R is that, no sampling is changed by the way."""
        if self._level.what != "rows" or self._level.key != "retainers":
            return "key R changes N where retainer sets are shown: key b"
        self._finder.number = NUMBERS[(NUMBERS.index(self._finder.number) + 1) % len(NUMBERS)]
        self._again()
        return ""

    @property
    def subject(self) -> QuerySubject | None:
        row, level, client = self._row, self._level, self.now.client
        match row:
            case RetainerRow() if level.what == "rows" and level.key in ("type", "new"):
                return replace(level.subject, title=row.name, types=(row.name,))
            case RetainerRow() if level.key == "site":
                return self._site_subject(row)
            case ObjectRow() | ObjectLine() if row.type != NO_TYPE and client is not None:
                name = type_name(client.types, row.type)
                return QuerySubject(name, types=(name,))
        name, address = self._named(row)
        return QuerySubject(name, address=address) if address else None

    def _site_subject(self, row: RetainerRow) -> QuerySubject | None:
        """What the site has allocated, of what is looked into; of the stacks that more was allocated by, where there
        are more than one question has room for."""
        if not row.stacks:
            return None
        return replace(self._level.subject, title=row.name, stacks=row.stacks[:MOST_ASKED])

    def action_drill(self) -> bool:
        match self._row:
            case RetainerRow() as row:
                return self._into_row(row)
            case Unit() as unit:
                return self._into_units((unit,))
            case TreeRow() as row:
                return self._into_tree(row)
            case ObjectLine() as row:
                return self._into_line(row)
            case ObjectRow(address):
                self._look_at(address)
                return True
        return False

    def _into_row(self, row: RetainerRow) -> bool:
        level = self._level
        inner = replace(
            level, key="path", where=names_only(level.where), title=row.name, expanded=ExpandedNodes(), as_list=False
        )
        if row.left_out or row.rest:
            return False
        if level.key == "retainers":
            return self._into_set(row)
        if level.key == "site":
            subject = self._site_subject(row)
            self._go(replace(inner, subject=subject)) if subject is not None else None
            return subject is not None
        if level.key == "kind":
            self._go(replace(inner, kinds=(row.kind,), title=f"kind {row.key}"))
        else:
            self._go(replace(inner, subject=replace(level.subject, title=row.name, types=(row.name,))))
        return True

    def _into_set(self, row: RetainerRow) -> bool:
        if row.many:
            self._notice = "too many retainers to separate; key R raises N"
            return True
        if len(row.units) != 1:
            if row.units:
                self._go(replace(self._level, what="units", units=row.units, image=self._finder.image))
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
                where=names_only(level.where.without("retainer")),
                title=f"what {unit.label} keeps (alone or not)",
                retainers=(unit.address,),
                modules=self._finder.modules,
                excluded=self._finder.left_out,
                image=self._finder.image,
                expanded=ExpandedNodes(),
                as_list=False,
            )
        )
        return True

    def _into_tree(self, row: TreeRow) -> bool:
        level, opened = self._level, self._level.expanded.open
        if row.what == "rest":
            if level.paths >= MOST_PATHS:
                self._notice = f"the {MOST_PATHS:,} largest paths are shown; filter for others"
                return True
            self._levels[-1] = replace(level, paths=MOST_PATHS)
        elif row.what == "open":
            opened.discard(row.node.key)
        elif row.what == "closed":
            opened.update(opened_below(row.node, cast("Measure", self._sort)))
        else:
            keys = tuple(group.key for group in row.node.ends)
            title = row.node.text
            self._go(replace(level, what="objects", path=keys, title=title, image=self._finder.image))
            return True
        self._again()
        return True

    def _into_line(self, line: ObjectLine) -> bool:
        level = self._level
        if line.what == "below":
            title = f"what {level.title} retains"
            self._go(RetainersLevel(key="type", below=(level.address,), title=title, image=level.image))
            return True
        if line.what == "more":
            if level.links >= MOST_LINKS:
                self._notice = f"no more than {MOST_LINKS:,} are shown"
                return True
            self._levels[-1] = replace(level, links=MOST_LINKS)
            self._again()
            return True
        if not line.address or line.address == level.address:
            return False
        self._look_at(line.address)
        return True

    def action_unfold(self) -> bool:
        """Give each step of a line of the tree its own, or fold them again."""
        row, expanded = self._row, self._level.expanded
        if not isinstance(row, TreeRow) or not (row.folded or row.head in expanded.unfolded):
            return False
        expanded.unfolded ^= {row.head}
        expanded.open.update(step.key for step in row.folded)
        self._again()
        return True

    def action_tag(self) -> bool:
        row = self._row
        name, address = self._named(row)
        client = self.now.client
        if not address or client is None:
            return False
        if address in self._tagged:
            del self._tagged[address]
        elif len(self._tagged) >= MOST_TAGGED:
            self._notice = f"no more than {MOST_TAGGED} can be tagged"
        else:
            type = row.type if isinstance(row, ObjectRow | ObjectLine) else NO_TYPE
            said = "" if type == NO_TYPE else f"{type_name(client.types, type)} {address:#x}"
            self._tagged[address] = f"{name}  {said}".strip()
        self._again()
        return True

    def action_exclude(self) -> bool:
        row, excluded = self._row, self._finder.excluded
        label, address = self._named(row)
        units = row.units if isinstance(row, RetainerRow) else (row,)
        if len(units) == 1 and isinstance(units[0], Unit):
            address = units[0].address  # of several that read alike too: all are meant
        if isinstance(row, ObjectRow) or (isinstance(row, ObjectLine) and row.what != "step"):
            return False
        if label in excluded:
            del excluded[label]
            self._notice = f"retainer again: {label}"
        elif address:
            excluded[label] = address
            self._notice = f"excluded from retainer sets: {label}"
        else:
            return False
        self._again()
        return True

    def _check_filter(self, where: Filter) -> None:
        self._admit(self._level, where)

    def _admit(self, level: RetainersLevel, where: Filter) -> None:
        """Raises UsageError where a level knows nothing of what a filter asks for, or the snapshot cannot be asked."""
        level.admit(where)
        if level.what == "objects" or level.key in ("path", "retainers", "site"):
            narrowed(where, self._types, Selection())

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
    def _is_tree(self) -> bool:
        return self._level.is_tree and not self._level.as_list

    @property
    def _first_sort(self) -> tuple[str, bool]:
        level = self._level
        by_retained = level.key in ("type", "new") or (level.is_tree and level.is_some)
        return ("retained" if by_retained else "bytes"), True


def _one_object(address: int, image: int) -> RetainersLevel:
    """In the snapshot of this number; 0 for the one that is open when it is examined first."""
    return RetainersLevel(what="object", address=address, title=hex(address), image=image or NOW)
