"""View 4, Leaks: what grew between marks, where it collects, who allocated it, and whether that is a leak.

What is found is :mod:`heaptop.analysis.leaks.hunting`'s, and is drawn by
:mod:`heaptop.tui.views.leaks.hunting_sheets`. This module only keeps what the reader chose: level, key, filter, sort.
It never asks the snapshot, and never has one opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult

from heaptop.analysis.bands.census_growth import CensusGrowth, CountedGrowth, growth_since
from heaptop.analysis.bands.series import SeriesCache
from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.samples.producers import Frame, stacks_at
from heaptop.analysis.text.units import filtered_words
from heaptop.errors import UsageError
from heaptop.protocol.findings import UNREACHED, Findings, GrownRow, Lint, MarkFacts, Suspect
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.state.hunting import CheckResult, Hunting
from heaptop.tui.state.hunting_words import ago, comparisons
from heaptop.tui.state.messages import SubjectChosen
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, Sheet
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.state.source_lines import SourceLines
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
    page_lines,
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
from heaptop.tui.views.leaks.leaks_rows import COUNTED_FIGURES, GROWN_FIGURES, SUSPECT_FIGURES, grown_rows, suspect_rows
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
        "tag": "marks: what came between two and is still there",
    }
    OFFERS = (
        "mark", "look", "cycle_key", "variant=since", "drill", "why", "filter", "tag=until", "mark_named", "snapshot",
        "shut", "sort_column(-1)", "sort_column(1)", "invert",
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
        self._memo = SeriesCache()
        self._growth: tuple[object, tuple[CensusGrowth, int]] | None = None
        self._whole = 0
        """Rows that there are without a filter."""
        self._frames: tuple[Suspect, Sequence[tuple[Frame, str]]] | None = None
        self._seen: Findings | None = None
        """What was found when it was drawn last."""
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
            self._rows = self._page(level.suspect, level.found, look)
            return line_sheet(self._rows, look)
        if key == MARK:
            self._rows = self._marks
            return mark_sheet(self._marks, *self._compared, facts)
        if key == COUNTED_KEY or found is None:
            counted, self._whole = self._counted
            self._rows = sorted(counted.rows, key=COUNTED_FIGURES[sort], reverse=descending)
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

    @property
    def _counted(self) -> tuple[CensusGrowth, int]:
        """And how many rows there are without a filter."""
        marks, since = self._marks, self._compared[0]
        snapshots, where = self.now.snapshots, self._level.where
        if not marks or not snapshots:
            return CensusGrowth((), 0.0), 0
        time_ns = marks[min(since, len(marks) - 1)].time_ns
        of = (snapshots[-1], len(snapshots), time_ns, where)
        if self._growth is None or self._growth[0] != of:
            made = growth_since(snapshots, time_ns, "type", where, self._memo)
            whole = growth_since(snapshots, time_ns, "type", EVERYTHING, self._memo) if where else made
            self._growth = of, (made, len(whole.rows))
        return self._growth[1]

    def _page(self, suspect: Suspect, found: CheckResult, look: ChartStyle) -> list[SuspectLine]:
        frames = self._stack(suspect)
        why_closed, is_recorded = self._why_closed(found), self._is_recorded
        return page_lines(
            *(suspect, found.findings, self.size.width, look, frames, why_closed),
            least=not found.until,
            is_recorded=is_recorded,
        )

    def _why_closed(self, found: CheckResult) -> str:
        """Why objects that were found cannot be examined; empty where they can."""
        client = self.now.client
        if client is not None and client.is_open and client.image is not None and client.image.image == found.image:
            return ""
        if self._is_recorded:
            return "a recording has no single objects"
        return "the snapshot with these objects is closed; d checks again"

    def _stack(self, suspect: Suspect) -> Sequence[tuple[Frame, str]]:
        """The frames of its stack, with their lines of source; none where it is not known here."""
        if self._frames is None or self._frames[0] is not suspect:
            self._frames = suspect, self._find_stack(suspect)
        return self._frames[1]

    def _find_stack(self, suspect: Suspect) -> Sequence[tuple[Frame, str]]:
        samples, sampling, target = self.now.samples, self.now.sampling, self.now.target
        if samples is None or sampling is None or target is None or not suspect.stack or self._is_recorded:
            return ()  # a recording's pid may be another's by now
        source = SourceLines(partial(self.read_file, target.pid))
        for stack in stacks_at(samples, sampling.sites, suspect.site):
            frames = sampling.sites.frames(stack)
            if tuple(frame.label for frame in frames)[: len(suspect.stack)] == suspect.stack:
                return [(frame, source.line(frame.file, frame.line)) for frame in frames]
        return ()

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
    def _hunting(self) -> Hunting | None:
        return self.now.hunting

    @property
    def _marks(self) -> tuple[MarkFacts, ...]:
        return marks_of(self.now)

    @property
    def _is_recorded(self) -> bool:
        """Whether there is no process to be asked."""
        return self.now.shown is not None

    @property
    def _compared(self) -> tuple[int, int | None]:
        return compared(self.now)

    @property
    def _key(self) -> str:
        keys = self._keys
        return self._level.key if self._level.key in keys else keys[0]

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
        hunting, now = self._hunting, self._compared
        if self._is_recorded:
            return "a recording has no marks to compare with: it shows recorded hunts"
        known = comparisons(len(self._marks))
        if hunting is not None and known:
            hunting.compare(*known[(known.index(now) + 1) % len(known) if now in known else 0])
        self._again()
        return hunting is not None and len(known) > 1

    def action_drill(self) -> bool:
        row, hunting, self._notice = self._row, self._hunting, ""
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
            self.post_message(
                SubjectChosen(QuerySubject("", address=suspect.point if where == "holder" else suspect.example))
            )
        return True

    def action_tag(self) -> bool:
        """What came between the mark that is compared with and this one, and is still there."""
        row, hunting, since = self._row, self._hunting, self._compared[0]
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
        row, suspect = self._row, self._level.suspect
        if isinstance(row, tuple):
            suspect = row[1]
        if suspect is not None and suspect.type == UNREACHED:
            return None  # they are no objects
        if suspect is not None:
            return QuerySubject(suspect.type, types=(suspect.type,), new=bool(self._marks))
        if isinstance(row, CountedGrowth):
            return QuerySubject(row.name, types=(row.name,))
        return self._grown_subject(row) if isinstance(row, GrownRow) else None

    def _grown_subject(self, row: GrownRow) -> QuerySubject | None:
        key = self._key
        if key == "type":
            return QuerySubject(row.name, types=(row.name,), new=bool(self._marks))
        if key == "module" and self.now.snapshots:
            cells = self.now.snapshots[-1].cells
            types = tuple(sorted({cell.type.full for cell in cells if cell.type.module == row.name}))
            return QuerySubject(row.name, types=types, new=bool(self._marks)) if types else None
        of_site = self._of_site(row.name) if key == "site" else None
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
