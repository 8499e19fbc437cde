"""View 4, Leaks: what grew between marks, where it collects, who allocated it, and whether that is a leak.

What is found is :mod:`heaptop.analysis.leaks.hunting`'s, and is drawn by
:mod:`heaptop.tui.views.leaks.hunting_sheets`. This module only keeps what the reader chose: level, key, filter, sort.
It never asks the snapshot, and never has one opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from textual.app import ComposeResult

from heaptop.analysis.bands.census_growth import CensusGrowth, CountedGrowth, growth_since
from heaptop.analysis.bands.series import SeriesCache
from heaptop.analysis.filters.filters import COUNTED, EVERYTHING, Filter
from heaptop.analysis.leaks.hunting import NOW
from heaptop.analysis.samples.estimate import INTERVAL
from heaptop.analysis.samples.producers import Frame, stacks_at
from heaptop.analysis.text.units import filtered_words
from heaptop.errors import UsageError
from heaptop.protocol.findings import GROWTH_KEYS, UNREACHED, Findings, GrownRow, Lint, MarkFacts, Suspect
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.explaining import BEE, NHC, STATMEMPROF, FigureHelp
from heaptop.tui.state import drill
from heaptop.tui.state.hunting import CheckResult, Hunting
from heaptop.tui.state.hunting_words import WAITING, ago, choosing, compared_words, comparisons, found_note
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
from heaptop.tui.views.table_view import LevelView
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable

T = TypeVar("T")

SUSPECT, COUNTED_KEY, LINT, MARK = "suspect", "count", "lint", "mark"
BEFORE: Final = (COUNTED_KEY, MARK)
"""What there is to be seen before the first look."""
AFTER: Final = (SUSPECT, *GROWTH_KEYS, LINT, COUNTED_KEY, MARK)
"""And after it."""
_TITLES: Final = {
    SUSPECT: "suspects",
    LINT: "lints",
    COUNTED_KEY: "growth by censuses",
    MARK: "marks",
    **{key: f"growth by {key}" for key in GROWTH_KEYS},
}
_KNOWN: Final = {
    SUSPECT: ("type", "module", "site", "retainer"),
    COUNTED_KEY: COUNTED,
    "type": ("type", "module"),
    "module": ("module",),
    "site": ("site",),
    "retainer": ("retainer",),
}
"""What a filter may ask of rows by each key."""
UNMARKED: Final = (
    "Press m to mark what is there now (remembered outside the program). Run your workload, then press m again: "
    "heaptop reports what is new and stays, what holds it, where it was allocated, and whether that looks like a "
    "leak. A third mark tells a leak from a cache that is filling."
)

UNTOLD: Final = "To see which types grow without a mark, sort view 1 by Change (keys < >)."
"""Where no mark can be set."""
UNRECORDED: Final = "No leak hunt has reported anything up to this moment of the recording."


@dataclass(frozen=True, slots=True)
class LeaksLevel(drill.Level):
    """What is shown: rows by a key, or one suspect in full."""

    key: str = ""
    """Empty for what is most worth to be seen."""
    suspect: Suspect | None = None
    found: CheckResult | None = None
    """What it was found with."""


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
    EXPLAINS = (
        FigureHelp(
            ("! L", "+ B", "? U", "- N", "!", "+", "?", "-"),
            "L leak, B backlog (a queue that outruns its consumer), U unclear, N no leak, judged by the survivors of "
            "each interval between two marks, and by bounds. With only one interval nothing is called a leak.",
            BEE.at("§4.2, fig. 7"),
        ),
        FigureHelp(
            ("≈Survivors",),
            "Survivors per interval between marks, the oldest on the left (estimate: addresses are reused, so some "
            "objects pass for older). A leak has survivors of every interval; a cache at its bound has those of "
            "the last, and seems to have a few older ones.",
            NHC.at("§2, fig. 3"),
        ),
        FigureHelp(
            ("#", "Held by"),
            "What holds the new objects of a suspect: the object that alone keeps them, or the start of the one "
            "known path to each (others may hold them too). # is the rank, the most severe first.",
            BEE.at("§4.2"),
        ),
        FigureHelp(
            ("≥New", "New", "≥Bytes", "≥"),
            "How many objects of the type are new and still there, and the bytes of everything new in the same "
            "place, of any type (not their retained size: see w). Both are lower bounds, because addresses are "
            "reused; between two marks they are estimates.",
            BEE.at("§4.2"),
        ),
        FigureHelp(
            (UNREACHED,),
            "A suspect that is no object: memory that Python's allocators gave at this site and that no live object "
            "has. C code lost a reference to it, or an extension holds it. Estimates from samples.",
        ),
        FigureHelp(
            ("≥Born", "≥Died"),
            "How many are new since the mark and still there, and how many of those at the mark are gone. Both are "
            "lower bounds.",
        ),
        FigureHelp(
            ("Objects", "Bytes"),
            "Growth since the mark in objects and bytes; for a mark, its totals. From censuses these leave out "
            "Attributes (view 1), so they are smaller than by type.",
        ),
        FigureHelp(("Now", "Bytes now"), "All live objects at the last check, not only new ones."),
        FigureHelp(
            ("Rate", "Objects/s", "Bytes/s"),
            "Growth per second: of a suspect in the last interval, by censuses since the mark. The bytes per "
            "second beside it (≈) are that times the mean size of what is new there.",
        ),
        FigureHelp(
            ("≈Blocks", "≈Bytes", "≈Now", "≈Bytes now", "≈Alloc'd", "≈Freed", "±", "≈"),
            "By site, figures are estimated from samples and count memory blocks. ± is the larger side of the "
            f"{INTERVAL}.",
            STATMEMPROF.at("“Sampling allocations”"),
        ),
        FigureHelp(
            ("Type", "Module", "Site", "Retainer", "Allocated at"),
            "What grew: by class, module, the line of your code that allocated it, or retainer. ≈ before a site "
            "(indirect): what was sampled there is not these objects, but what is new with them, the table of what "
            "holds them, or the memory they reuse.",
            BEE.at("§4.1"),
        ),
        FigureHelp(("Trend",), "The last censuses, each row scaled separately. It is updated without a check."),
        FigureHelp(
            ("Lint", "Before", "Threshold"),
            "A known kind of harmful growth: threads, cyclic garbage, caches without a bound. It is reported from "
            "the threshold in its row.",
        ),
        FigureHelp(
            ("Mark", "Compared", "When", "RSS", "Full GCs"),
            "A mark is a moment whose objects heaptop remembers, outside the program. Enter compares with it; t "
            "shows what came between two marks and is still there.",
            BEE.at("§4.2"),
        ),
        FigureHelp(
            ("Suspect details; ▸ opens more, Esc back", "▸", "›"),
            "Everything known about one suspect: its call stack (› marks your line), its path from the root, and "
            "the evidence for the verdict. Enter on a ▸ line opens single objects.",
            BEE.at("§4.2, fig. 7"),
        ),
    )
    HELP = "Filters: type:Session  module:app  site:views  retainer:cache, where rows have them."
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "suspects; growth by type, module, site, retainer, count; lints; marks",
        "variant": "compare with another mark, or between two",
        "drill": "details of a suspect; compare with a mark",
        "tag": "marks: what came between two and is still there",
    }
    OFFERS = (
        "mark",
        "look",
        "cycle_key",
        "variant=since",
        "drill",
        "why",
        "filter",
        "tag=until",
        "mark_named",
        "snapshot",
        "shut",
        "sort_column(-1)",
        "sort_column(1)",
        "invert",
    )
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

    def show(self, display: Display, look: ChartStyle) -> None:
        self._shown = (display, look)
        if not self.size.width:
            return
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
        is_begun = self._marks or found is not None
        nothing = f"Nothing matches {level.where}." if level.where and is_begun else self._nothing
        facts = SuspectFacts(self.size.width, look, sort, descending, nothing, self.now.now_ns)
        if level.suspect is not None and level.found is not None:
            lines = self._page(level.suspect, level.found, look)
            self._rows = lines
            return line_sheet(lines, look)
        if key == MARK:
            self._rows = self._marks
            return mark_sheet(self._marks, *self._compared, facts)
        if key == COUNTED_KEY or found is None:
            counted, self._whole = self._counted
            self._rows = _sorted(counted.rows, COUNTED_FIGURES[sort], descending)
            return counted_sheet(self._rows, facts)
        if key == LINT:
            self._rows = found.findings.lints
            return lint_sheet(self._rows, facts)
        if key == SUSPECT:
            self._whole = len(found.findings.suspects)
            self._rows = _sorted(self._suspects(found.findings), SUSPECT_FIGURES[sort], descending)
            return suspect_sheet(self._rows, facts, least=not found.until)
        self._whole = len(_growth(found.findings, key))
        rows = [row for row in _growth(found.findings, key) if _passes(level.where, _row_names(key, row))]
        self._rows = _sorted(rows, GROWN_FIGURES[sort], descending)
        return grown_sheet(self._rows, key, facts)

    def _suspects(self, findings: Findings) -> list[tuple[int, Suspect]]:
        """Those that pass the filter, with their ranks."""
        ranked = enumerate(findings.suspects, 1)
        return [row for row in ranked if _passes(self._level.where, _suspect_names(row[1]))]

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
        return self._hunting.marks if self._hunting is not None else ()

    @property
    def _is_recorded(self) -> bool:
        """Whether there is no process to be asked."""
        return self.now.shown is not None

    @property
    def _compared(self) -> tuple[int, int | None]:
        client = self.now.client
        return (client.since, client.until) if client is not None else (0, None)

    @property
    def _key(self) -> str:
        keys = self._keys
        return self._level.key if self._level.key in keys else keys[0]

    @property
    def _keys(self) -> tuple[str, ...]:
        return AFTER if self.now.found is not None else BEFORE

    @property
    def _nothing(self) -> str:
        """Why there is no row."""
        if not self._marks and self.now.found is None:
            failed = self._hunting.failed if self._hunting is not None else ""
            return UNRECORDED if self._is_recorded else f"No mark was set: {failed}. {UNTOLD}" if failed else UNMARKED
        if self._key == COUNTED_KEY:
            return "By the censuses since the mark, no type has grown or shrunk."
        if self._key == LINT:
            return "No lint: no known kind of harmful growth. Suspects (key b) are found independently."
        return "No suspects: nothing new looks suspicious." if self._key == SUSPECT else "Nothing has grown."

    @property
    def note(self) -> str:
        """How far a look is; what to do where there was none; what must be known of what was found."""
        hunting, found = self._hunting, self.now.found
        if hunting is not None and hunting.is_busy:
            return hunting.words
        if self._key == MARK and self._marks:
            return choosing(self._marks[min(self._compared[0], len(self._marks) - 1)].name)
        if found is not None:
            return found_note(found.findings, self._compared_since(found), is_recorded=self._is_recorded)
        return WAITING if self._marks else ""

    def _compared_since(self, found: CheckResult) -> str:
        """What is compared by now; empty where that is what was found."""
        marks, (since, until) = self._marks, self._compared
        if self._is_recorded or since >= len(marks):
            return ""
        later = marks[until].name if until is not None and until < len(marks) else ""
        is_same = marks[since].time_ns == found.findings.marks[0].time_ns and later == found.until
        return "" if is_same else compared_words(marks, since, until)

    @property
    def notices(self) -> str:
        found = self.now.found
        return "\n".join(f"{note}." for note in found.findings.notes) if found is not None else ""

    @property
    def words(self) -> tuple[str, str]:
        level, found, key = self._level, level_found(self._level, self.now), self._key
        if not self._marks and found is None:
            what = "marks: none yet" if key == MARK else "no mark yet"
            return f"{self.TITLE}: {'no check yet' if self._is_recorded else what}{self.trail}", ""
        age = f"as of {ago(self.now.now_ns, found.findings.time_ns)}" if found is not None else ""
        right = [self._notice, age if key != COUNTED_KEY else "", self._place(len(self._rows))]
        what = "" if key == MARK else f" {self._of(found, key)}"
        verdict = f" {found.findings.verdict} ·" if found is not None and key not in (MARK, COUNTED_KEY) else ""
        left = f"{self.TITLE}:{verdict} {_TITLES[key]}{what}"
        if level.suspect is not None:
            left = f"{self.TITLE}:{verdict} suspect{what}"
        return left + self.trail, " · ".join(word for word in right if word)

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

    def _of(self, found: CheckResult | None, key: str) -> str:
        """Between which moments."""
        if found is None or key == COUNTED_KEY:
            marks, since = self._marks, self._compared[0]
            return f"since {marks[since].name}, {ago(self.now.now_ns, marks[since].time_ns)}" if marks else ""
        first, last = found.findings.marks[0], found.findings.marks[-1]
        if found.until:
            return f"born {first.name} to {found.until}, alive"
        to = "the check" if last.name == NOW else last.name
        return f"from {first.name} to {to}, {found.findings.seconds:.0f} s"

    # -- what the keys do ------------------------------------------------------------------------------------

    def moved(self) -> None:
        self._notice = ""
        self._again()

    def _check_filter(self, where: Filter) -> None:
        known = () if self._level.suspect is not None else _KNOWN.get(self._key, ())
        where.allow(known, _TITLES[self._key].partition(" by")[0].capitalize())

    @property
    def bys(self) -> Mapping[str, str]:
        return {} if self._level.suspect is not None else {key: _TITLES[key] for key in self._keys}

    @property
    def by(self) -> str:
        return self._key

    def action_cycle_key(self) -> bool:
        if self._level.suspect is not None:
            return False
        keys, self._notice = self._keys, ""
        inner = LeaksLevel(keys[(keys.index(self._key) + 1) % len(keys)])
        try:
            self._level.where.allow(_KNOWN.get(inner.key, ()), "Rows")
        except UsageError:
            pass
        else:
            inner = replace(inner, where=self._level.where)
        self._levels[-1] = inner
        self._again()
        self.list.move_to(0)
        self._again()
        return True

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


def level_found(level: LeaksLevel, display: Display) -> CheckResult | None:
    """What the figures of a level are of."""
    return level.found if level.found is not None else display.found


# -- figures -------------------------------------------------------------------------------------------------

SUSPECT_FIGURES: Final[dict[str, Callable[[tuple[int, Suspect]], Any]]] = {
    "rank": lambda row: row[0],
    "name": lambda row: row[1].type,
    "count": lambda row: row[1].held,
    "bytes": lambda row: row[1].bytes,
    "rate": lambda row: row[1].rate,
}
GROWN_FIGURES: Final[dict[str, Callable[[GrownRow], Any]]] = {
    "name": lambda row: row.name,
    "count": lambda row: row.count,
    "bytes": lambda row: row.bytes,
    "now": lambda row: row.now,
    "born": lambda row: row.born or 0,
    "died": lambda row: row.died or 0,
}
COUNTED_FIGURES: Final[dict[str, Callable[[CountedGrowth], Any]]] = {
    "name": lambda row: row.name,
    "count": lambda row: row.count,
    "bytes": lambda row: row.bytes,
    "rate": lambda row: row.count_rate,
    "now": lambda row: row.now,
}


def _sorted(rows: Sequence[T], figure: Callable[[T], Any], descending: bool) -> list[T]:
    return sorted(rows, key=figure, reverse=descending)


def _growth(findings: Findings, key: str) -> Sequence[GrownRow]:
    return next((growth.rows for growth in findings.growths if growth.key == key), ())


# -- the filter ----------------------------------------------------------------------------------------------


def _passes(where: Filter, names: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether something goes through that is called so, by attribute."""
    return where.given(names.__getitem__) is True


def _suspect_names(suspect: Suspect) -> dict[str, tuple[str, ...]]:
    return {
        **_type_names(suspect.type),
        "site": _site_names(suspect.site),
        "retainer": (suspect.retainer,),
    }


def _row_names(key: str, row: GrownRow) -> dict[str, tuple[str, ...]]:
    if key == "type":
        return _type_names(row.name)
    return {key: _site_names(row.name) if key == "site" else (row.name,)}


def _type_names(full: str) -> dict[str, tuple[str, ...]]:
    short = full.rpartition(".")[2]
    return {"type": (full, short), "module": (full.removesuffix(f".{short}") if "." in full else "builtins",)}


def _site_names(site: str) -> tuple[str, ...]:
    return site, site.partition(":")[0], site.rpartition(" ")[2]
