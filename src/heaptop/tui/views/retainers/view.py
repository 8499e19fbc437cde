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

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.snapshot.retaining import Measure, RetainerRow, TreeRow
from heaptop.protocol.messages import TypeName
from heaptop.protocol.text import printable
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.bindings import Key
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.state.snapshot_status import seconds, snapshot_status
from heaptop.tui.views.retainers.retainer_finder import NUMBERS, Finder
from heaptop.tui.views.retainers.retainer_help import EXPLAINED
from heaptop.tui.views.retainers.retainer_levels import BY_WORDS, NOW, TOP, By, RetainersLevel
from heaptop.tui.views.retainers.retainer_rows import (
    example_of,
    level_inside,
    named,
    path_of,
    place_of,
    retainer_of,
    shown_more,
    subject_of,
    tag_of,
)
from heaptop.tui.views.retainers.retainer_sheets import (
    Card,
    RetainerFacts,
    card_rows,
    drop_rows,
    place_rows,
    row_columns,
    text_rows,
    tree_columns,
)
from heaptop.tui.views.retainers.retainer_tables import retainer_sheet
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
    EXPLAINS = EXPLAINED
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
            *("t", "t", "tag", "tag rows: what they would free", "Snapshot"),
            word="tag",
            otherwise="this row cannot be tagged",
        ),
    )
    OFFERS = (
        "cycle_key", "filter", "drill", "why", "mark", "tag", "snapshot", "exclude", "unfold", "depth=limit", "values",
        "shut", "variant", "sort_column(-1)", "sort_column(1)", "invert",
    )  # fmt: skip
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
        self._tagged: dict[int, str] = {}  # Names of the objects chosen, by address
        self._notice = ""  # The outcome of a key, or of another snapshot; until the next key
        self._place_kept = 0  # Where the cursor was when there were rows last; they are asked for again

    def compose(self) -> ComposeResult:
        yield Picture(id="head")
        with Horizontal():
            yield VirtualTable()
            yield Picture(id="card")
        yield Picture(id="drop")

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self, display: Display, look: ChartStyle) -> None:
        client = display.client
        if client is None:
            return
        if self._finder.begin(client, display.sampling):
            self._renew()
        self._name_object()
        had_rows = bool(self._rows)
        at = self.list.cursor
        sheet = retainer_sheet(self._finder, self._level, self._facts(look), at, self.list.page_rows)
        self._rows = sheet.rows
        self.list.show(sheet)
        if had_rows and not self._rows:
            self._place_kept = at
        elif self._rows and not had_rows and self._place_kept:
            self.list.move_to(self._place_kept)
            self._place_kept = 0
        self._draw_panes(look)
        self._filtered = self._find_filtered()
        self._finder.end()

    def _name_object(self) -> None:
        """Call the level of one object by its type, once that is known."""
        found = self._finder.around(self._level) if self._level.what == "object" else None
        if found is not None:
            name = f"{type_name(self._types, found.row.type)} {found.row.address:#x}"
            self._levels[-1] = replace(self._level, title=name)

    def _find_filtered(self) -> str:
        if not self._level.where:
            return ""
        rows = [row for row in self._rows if isinstance(row, RetainerRow)] if self._level.what == "rows" else []
        if not rows and self._finder.answers.is_asking:
            return ""
        return self._finder.filtered(self._level, [row for row in rows if not row.left_out])

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

    def _facts(self, look: ChartStyle) -> RetainerFacts:
        sort, descending = self._chosen
        return RetainerFacts(
            width=self.size.width * 62 // 100 if self._has_card else self.size.width,
            look=look,
            types=self._types,
            sort=sort if self._sortable else "",
            descending=descending,
            tagged=frozenset(self._tagged),
            wide=self.size.width >= WIDE,
            site=self._site,
        )

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
        place = place_of(self._row)
        places = place_rows(place, width, look) if place is not None else []
        self._show_pane("#drop", [*places, *drops], look)
        self._show_card(look)

    def _show_pane(self, name: str, rows: list[Any], look: ChartStyle) -> None:
        pane = self.query_one(name, Picture)
        pane.display = bool(rows)
        pane.show_lines(rows, look)

    def _show_card(self, look: ChartStyle) -> None:
        """Beside a table that has room for it, the object of the row under the cursor, or one of its objects."""
        pane = self.query_one("#card", Picture)
        pane.display = self._has_card
        if not pane.display:
            return
        found = self._finder.object(example_of(self._row))
        card = Card(found, self._types, self._site(found.row.stack), with_path=True) if found is not None else None
        pane.show(lambda width, height: card_rows(card, width, look) if card is not None else [], look)

    @property
    def _has_card(self) -> bool:
        """Whether there is room for it, and rows represent objects."""
        level = self._level
        return self.size.width >= WIDE and (level.what != "rows" or level.key in ("path", "retainers"))

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
        title = level.words(self._finder.units, since_words(self.now))
        return f"{self.TITLE}{title}{self.trail}", " · ".join(word for word in said if word)

    def _crumb(self, outer: RetainersLevel, level: RetainersLevel) -> str:
        return level.crumb

    @property
    def copied(self) -> str:
        """Of a path all of it, from the root on."""
        way, copied = path_of(self._row), super().copied
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
            level = RetainersLevel.of_object(subject.address, image)
        else:
            level = RetainersLevel(key="path", subject=subject, title=subject.title)
        self._go(replace(level, apart=not from_here), keep_cursor=is_here)

    @property
    def _asked_at(self) -> int:
        """The level that another view has opened; 0 where none has."""
        return next((place for place, level in enumerate(self._levels) if level.apart), 0)

    @property
    def _outset(self) -> int:
        return max(super()._outset, self._asked_at)

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
        return {key: BY_WORDS.get(key, f"by {key}") for key in self._keys}

    def show_by(self, key: str) -> None:
        self._finder.answers.again()
        self._levels[-1] = self._level.shown_by(cast("By", key), self._types, is_top=self.depth == 1)
        self._again()
        self.list.move_to(0)
        self._place_kept = 0

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
        return subject_of(self._row, self._level, self._types)

    def action_drill(self) -> bool:
        here = shown_more(self._row, self._level, cast("Measure", self._sort))
        if here is not None:
            self._levels[-1] = here
            self._again()
            return True
        inner = level_inside(self._row, self._level, self._finder)
        if isinstance(inner, str):
            self._notice = inner
        elif inner is not None:
            self._go(inner)
        return inner is not None

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
        address = named(self._row)[1]
        if not address:
            return False
        if address in self._tagged:
            del self._tagged[address]
        elif len(self._tagged) >= MOST_TAGGED:
            self._notice = f"no more than {MOST_TAGGED} can be tagged"
        else:
            self._tagged[address] = tag_of(self._row, self._types)
        self._again()
        return True

    def action_exclude(self) -> bool:
        unit = retainer_of(self._row)
        done = self._finder.exclude(*unit) if unit is not None else ""
        if done:
            self._notice = done
            self._again()
        return bool(done)

    def _check_filter(self, where: Filter) -> None:
        self._level.admit(where, self._types)

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
        return tree_columns(by_retained=level.is_some) if level.is_tree else row_columns(level.table)

    @property
    def _is_tree(self) -> bool:
        return self._level.is_tree and not self._level.as_list

    @property
    def _first_sort(self) -> tuple[str, bool]:
        level = self._level
        by_retained = level.table == "type" or (level.is_tree and level.is_some)
        return ("retained" if by_retained else "bytes"), True


def since_words(display: Display) -> str:
    """How long ago the mark was set; empty where there is none. With a second one, until when."""
    client = display.client
    if client is None or client.mark is None:
        return ""
    since = seconds((display.now_ns - client.mark.time_ns) / 1e9)
    until = client.second_mark
    return f"{since} ago, until {seconds((display.now_ns - until.time_ns) / 1e9)}" if until is not None else since
