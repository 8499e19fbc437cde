"""View 4, Leaks: what grew between marks, where it collects, who allocated it, and whether that is a leak.

What is found is :mod:`heaptop.analysis.leaks.hunting`'s, and is drawn by
:mod:`heaptop.tui.views.leaks.hunting_sheets`. This module only keeps what the reader chose: level, key, filter, sort.
It never asks the snapshot, and never has one opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual.app import ComposeResult

from heaptop.analysis.bands.census_growth import CountedGrowth
from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.text.units import filtered_words
from heaptop.errors import UsageError
from heaptop.protocol.findings import UNREACHED, Findings, GrownRow, Lint, MarkFacts, Suspect
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.state.hunting import CheckResult
from heaptop.tui.state.hunting_words import ago, comparisons
from heaptop.tui.state.messages import SubjectChosen
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, Sheet
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.views.leaks.hunting_sheets import (
    COUNTED_SORTS,
    SuspectFacts,
    SuspectLine,
    brief_lines,
    counted_sheet,
    grown_columns,
    grown_sheet,
    line_sheet,
    lint_lines,
    lint_sheet,
    mark_sheet,
    pane_rows,
    suspect_columns,
    suspect_sheet,
)
from heaptop.tui.views.leaks.leaks_help import EXPLAINED
from heaptop.tui.views.leaks.leaks_levels import (
    AFTER,
    BEFORE,
    COUNTED_KEY,
    KNOWN,
    LINT,
    MARK,
    SUSPECT,
    TITLES,
    LeaksLevel,
    compared,
    marks_of,
    note_words,
    nothing_words,
    title_words,
)
from heaptop.tui.views.leaks.leaks_rows import (
    COUNTED_FIGURES,
    GROWN_FIGURES,
    SUSPECT_FIGURES,
    CountedRows,
    grown_rows,
    grown_subject,
    suspect_rows,
)
from heaptop.tui.views.leaks.suspect_page import SuspectStacks, suspect_page
from heaptop.tui.views.table_view import LevelView
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable


class LeaksView(LevelView[LeaksLevel]):
    """A table, and below it what is under the cursor."""

    NAME = "leaks"
    NUMBER = 4
    SHOWS_HUNT = True
    TITLE = "Leaks"
    ABOUT = "what grew, and why"
    SHOWS = (
        "What grew between marks, what holds it, where it was allocated, and whether it is a leak. m sets a mark; "
        "a later m checks what is new since and marks again; d checks without a mark."
    )
    EXPLAINS = EXPLAINED
    HELP = "Filters: type:Session  module:app  site:views  retainer:cache, where rows have them."
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "suspects; growth by type, module, site, retainer, count; lints; marks",
        "variant": "compare with another mark, or between two",
        "drill": "details of a suspect; compare with a mark",
        "tag": "marks: end the comparison at this mark",
    }
    OFFERS = (
        "mark", "cycle_key=list", "variant=compare", "drill", "why", "look", "filter", "tag=set end", "mark_named",
        "snapshot", "shut", "sort_column(-1)", "sort_column(1)", "invert",
    )  # fmt: skip
    DEFAULT_CSS = """
    LeaksView VirtualTable { height: 1fr; }
    LeaksView > #pane { height: 1fr; }
    """

    @property
    def offers(self) -> Sequence[str]:
        return tuple(action for action in self.OFFERS if not (self._is_recorded and action.startswith("variant")))

    def __init__(self) -> None:
        super().__init__(LeaksLevel())
        self._counted = CountedRows()
        self._whole = 0  # Rows that there are without a filter
        self._stacks = SuspectStacks(self.read_file)
        self._seen: Findings | None = None  # What was found when it was drawn last
        self._notice = ""

    def compose(self) -> ComposeResult:
        yield VirtualTable()
        yield Picture(id="pane")

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self, display: Display, look: ChartStyle) -> None:
        if display.found is not None and display.found.findings != self._seen:
            self._take(display.found.findings)
        self.list.show(self._sheet(look))
        self._show_pane(look)

    def _take(self, findings: Findings) -> None:
        """There is something new: it is shown, unless something else is looked into."""
        self._seen = findings
        if len(self._levels) > 1:
            self._notice = "newer results: Esc"
        elif self._key in BEFORE:
            self._levels[-1] = LeaksLevel(where=EVERYTHING)

    def _sheet(self, look: ChartStyle) -> Sheet[Any]:
        level, found, key = self._level, self.now.found, self._key
        sort, descending = self._chosen
        facts = SuspectFacts(
            self.size.width, look, sort, descending, nothing_words(self.now, key, level.where), self.now.now_ns
        )
        if level.suspect is not None and level.found is not None:
            frames = self._stacks.of(level.suspect, self.now)
            self._rows = suspect_page(level.suspect, level.found, frames, self.now, self.size.width, look)
            return line_sheet(self._rows, look)
        if key == MARK:
            self._rows = self._marks
            return mark_sheet(self._marks, *self._compared, facts)
        if key == COUNTED_KEY or found is None:
            rows, self._whole = self._counted.rows(self.now.records, self._marks, self._compared[0], level.where)
            self._rows = sorted(rows, key=COUNTED_FIGURES[sort], reverse=descending)
            return counted_sheet(self._rows, facts)
        if key == LINT:
            self._rows = found.findings.lints
            return lint_sheet(self._rows, facts)
        if key == SUSPECT:
            suspects, self._whole = suspect_rows(found.findings, level.where)
            self._rows = sorted(suspects, key=SUSPECT_FIGURES[sort], reverse=descending)
            return suspect_sheet(self._rows, facts, least=not found.until)
        grown, self._whole = grown_rows(found.findings, key, level.where)
        self._rows = sorted(grown, key=GROWN_FIGURES[sort], reverse=descending)
        return grown_sheet(self._rows, key, facts)

    # -- the pane --------------------------------------------------------------------------------------------

    def _show_pane(self, look: ChartStyle) -> None:
        """Below the table, what is under the cursor: half of the screen, and what room the table leaves."""
        pane, width, height = self.query_one("#pane", Picture), self.size.width, self.size.height
        lines, verdict = self._pane_lines()
        pane.display = bool(lines)
        self.list.styles.height = min(len(self._rows) + 2, height // 2) if lines else "1fr"
        rows = pane_rows(lines, look, verdict, width)
        pane.show(lambda width, height: rows, look)

    def _pane_lines(self) -> tuple[list[SuspectLine], str]:
        row, found = self._row, self.now.found
        if isinstance(row, tuple) and found is not None:
            lines = brief_lines(row[1], self.size.width, least=not found.until, is_recorded=self._is_recorded)
            return lines, row[1].verdict
        return (lint_lines(row, self.size.width), "") if isinstance(row, Lint) else ([], "")

    # -- words -----------------------------------------------------------------------------------------------

    @property
    def _marks(self) -> tuple[MarkFacts, ...]:
        return marks_of(self.now)

    @property
    def _is_recorded(self) -> bool:
        return self.now.shown is not None

    @property
    def _compared(self) -> tuple[int, int | None]:
        return compared(self.now)

    @property
    def _key(self) -> str:
        return self._level.key if self._level.key in self._keys else self._keys[0]

    @property
    def _keys(self) -> tuple[str, ...]:
        return AFTER if self.now.found is not None else BEFORE

    @property
    def note(self) -> str:
        return note_words(self.now, self._key)

    @property
    def notices(self) -> str:
        found = self.now.found
        return "\n".join(f"{note}." for note in found.findings.notes) if found is not None else ""

    @property
    def words(self) -> tuple[str, str]:
        found, key = self._found, self._key
        left = title_words(self.now, found, key, "suspect" if self._level.suspect is not None else TITLES[key])
        if found is None and not self._marks:
            return f"{self.TITLE}: {left}{self.trail}", ""
        age = f"as of {ago(self.now.now_ns, found.findings.time_ns)}" if found and key != COUNTED_KEY else ""
        right = [self._notice, age, self._place(len(self._rows))]
        return f"{self.TITLE}: {left}{self.trail}", " · ".join(word for word in right if word)

    @property
    def _found(self) -> CheckResult | None:
        """What the figures are of."""
        return self._level.found if self._level.found is not None else self.now.found

    def _crumb(self, outer: LeaksLevel, level: LeaksLevel) -> str:
        suspect, found = level.suspect, level.found
        if suspect is None or found is None:
            return super()._crumb(outer, level)
        return f"{found.findings.suspects.index(suspect) + 1} {suspect.type}"

    @property
    def filtered(self) -> str:
        if not (self._level.where and self._whole) or self._level.suspect is not None or self._key in (LINT, MARK):
            return ""
        return filtered_words(self._whole - len(self._rows))

    # -- what the keys do ------------------------------------------------------------------------------------

    def moved(self) -> None:
        self._notice = ""
        self._again()

    def _check_filter(self, where: Filter) -> None:
        known = () if self._level.suspect is not None else KNOWN.get(self._key, ())
        where.allow(known, TITLES[self._key].partition(" by")[0].capitalize())

    @property
    def bys(self) -> Mapping[str, str]:
        return {} if self._level.suspect is not None else {key: TITLES[key] for key in self._keys}

    @property
    def by(self) -> str:
        return self._key

    def show_by(self, key: str) -> None:
        where = self._level.where
        try:
            where.allow(KNOWN.get(key, ()), "Rows")
        except UsageError:
            where = EVERYTHING
        self._levels[-1] = LeaksLevel(key, where)
        self._again()
        self.list.move_to(0)
        self.moved()

    def action_variant(self) -> str | bool:
        """Compare with the next mark, or with what came between the next two."""
        hunting, now = self.now.hunting, self._compared
        if self._is_recorded:
            return "a recording has no marks to compare with: it shows recorded hunts"
        known = comparisons(len(self._marks))
        if hunting is not None and known:
            hunting.compare(*known[(known.index(now) + 1) % len(known) if now in known else 0])
        self._again()
        return hunting is not None and len(known) > 1

    def action_drill(self) -> bool:
        row, hunting, self._notice = self._row, self.now.hunting, ""
        match row:
            case tuple():
                self._into_suspect(row[1])
                return True
            case MarkFacts() if hunting is not None:
                hunting.compare(self._marks.index(row))
                self._again()
                return True
            case SuspectLine():
                return self._go(row.goes)
        subject = self.subject
        if subject is not None:
            self.post_message(SubjectChosen(subject))
        return subject is not None

    def _into_suspect(self, suspect: Suspect) -> None:
        self._enter(LeaksLevel(SUSPECT, suspect=suspect, found=self.now.found))
        ways = (place for place, line in enumerate(self._rows) if line.goes)
        self.list.move_to(next(ways, 0))
        self.call_after_refresh(self._show_top)

    def _show_top(self) -> None:
        """The table has more room now than when it scrolled to the cursor."""
        self.list.scroll_to(y=0, animate=False, force=True)
        self.list.move_to(self.list.cursor)

    def _go(self, where: str) -> bool:
        suspect, subject = self._level.suspect, self.subject
        if suspect is None or not where:
            return False
        if where == "all" and subject is not None:
            self.post_message(SubjectChosen(subject))
        else:
            address = suspect.point if where == "holder" else suspect.example
            self.post_message(SubjectChosen(QuerySubject("", address=address)))
        return True

    def action_tag(self) -> bool:
        """What came between the mark that is compared with and this one, and is still there."""
        row, hunting, since = self._row, self.now.hunting, self._compared[0]
        if not isinstance(row, MarkFacts) or hunting is None:
            return False
        until = self._marks.index(row)
        if until <= since:
            self._notice = "choose a later mark than the first one"
        else:
            hunting.compare(since, None if until == self._compared[1] else until)
        self._again()
        return True

    def back(self) -> bool:
        self._notice = ""
        return super().back()

    @property
    def subject(self) -> QuerySubject | None:
        row = self._row
        suspect = row[1] if isinstance(row, tuple) else self._level.suspect
        if suspect is not None and suspect.type == UNREACHED:
            return None  # they are no objects
        if suspect is not None:
            return QuerySubject(suspect.type, types=(suspect.type,), new=bool(self._marks))
        if isinstance(row, CountedGrowth):
            return QuerySubject(row.name, types=(row.name,))
        if not isinstance(row, GrownRow):
            return None
        if self._key in ("type", "module"):
            return grown_subject(row.name, self._key, self.now.records, new=bool(self._marks))
        of_site = self._of_site(row.name) if self._key == "site" else None
        return replace(of_site, new=bool(self._marks)) if of_site is not None else None

    # -- sorting ---------------------------------------------------------------------------------------------

    @property
    def _sorted_as(self) -> str:
        return self._key

    @property
    def _sortable(self) -> Sequence[str]:
        if self._level.suspect is not None or self._key in (LINT, MARK):
            return ()
        wide = self.size.width >= WIDE
        if self._key == SUSPECT:
            return [name for name in suspect_columns(wide=wide) if name in SUSPECT_FIGURES]
        if self._key == COUNTED_KEY:
            return COUNTED_SORTS
        return [name for name in grown_columns(self._key, wide=wide) if name in GROWN_FIGURES]

    @property
    def _first_sort(self) -> tuple[str, bool]:
        return ("rank", False) if self._key == SUSPECT else ("bytes", True)
