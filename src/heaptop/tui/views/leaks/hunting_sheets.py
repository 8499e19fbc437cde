"""What the tables and panes of view 4 look like: suspects, growth, lints, marks, and one suspect in full."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from rich.style import Style

from heaptop.analysis.bands.census_growth import CountedGrowth
from heaptop.analysis.leaks.marks import is_item
from heaptop.analysis.leaks.verdicts import ADDRESSES
from heaptop.analysis.samples.producers import Frame
from heaptop.analysis.snapshot.kept_sites import handler_words
from heaptop.analysis.snapshot.retaining import short_name
from heaptop.analysis.text.units import format_bytes, format_change, format_count, format_number
from heaptop.protocol.findings import (
    BACKLOG,
    BYTES,
    LEAK,
    OBJECTS,
    UNCLEAR,
    UNREACHED,
    Findings,
    GrownRow,
    Lint,
    MarkFacts,
    Suspect,
)
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.raster import AXIS, EMPTY, INK, StyleRun
from heaptop.tui.charts.sparkline import sparkline
from heaptop.tui.state.hunting_words import (
    ago,
    bars,
    byte_rate_words,
    interval_words,
    rate_words,
    verdict_sign,
    verdict_slot,
)
from heaptop.tui.state.sheet import ALWAYS, WIDE, CellText, Column, Sheet

_DIM: Final = Style(dim=True)
_BOLD: Final = Style(bold=True)
_BORN: Final = 8  # Intervals that the figure of survivors has room for
_LABEL: Final = 15  # Columns of the labels on a card
_HOLDING: Final = re.compile(r"(?:all |(≥\S+ of them) )?(held by|reached from) (.*)", re.DOTALL)
_FIXES: Final = {
    "frame": "a running call holds them: find out why it does not return or drop them",
    "c": "C code holds them: an extension keeps a reference, or never released one",
    "none": "only reference cycles keep them: break the cycle, or run the collector",
}
"""What to do about a leak, by the kind of the root that holds it."""


@dataclass(frozen=True)
class SuspectFacts:
    """What a table is drawn with."""

    width: int
    look: ChartStyle
    sort: str = ""
    descending: bool = True
    nothing: str = ""
    now_ns: int = 0

    @property
    def wide(self) -> bool:
        return self.width >= WIDE

    def born(self, counts: Sequence[int]) -> CellText:
        return CellText(bars(counts, _BORN, ascii_only=self.look.ascii_only), Style.parse(self.look.palette.band(0)))

    def change(self, number: int | None, *, bytes_: bool = True) -> CellText:
        """A signed figure in the colour of growing or shrinking; nothing for None."""
        if number is None:
            return CellText("")
        if not number:
            return CellText("0", _DIM)
        palette = self.look.palette
        return CellText(
            format_change(number, bytes_=bytes_), Style.parse(palette.grown if number > 0 else palette.shrunk)
        )


# -- suspects ------------------------------------------------------------------------------------------------

_SUSPECT: Final = ("rank", "verdict", "name", "count", "bytes", "site", "holder")
_SUSPECT_WIDE: Final = ("rank", "verdict", "name", "count", "bytes", "rate", "born", "site", "holder")
_SUSPECT_RANKS: Final = {"rate": 0, "born": 1, "rank": 2, "count": 3, "bytes": 4, "site": 5, "holder": 6}
"""What goes first where there is no room for all."""


def suspect_columns(*, wide: bool) -> tuple[str, ...]:
    """What there is room for."""
    return _SUSPECT_WIDE if wide else _SUSPECT


def suspect_sheet(
    rows: Sequence[tuple[int, Suspect]], facts: SuspectFacts, *, least: bool = True
) -> Sheet[tuple[int, Suspect]]:
    """Suspects with their ranks, from 1. ``least``: there are at least so many; else as many as addresses tell."""
    wide, bound = facts.wide, "≥" if least else ""
    # On a narrow screen names are short, and what holds them has what is left: its end says which variable it is.
    names = max((len(short_name(suspect.type)) for _, suspect in rows), default=0)
    known = {
        "rank": ("#", 2),
        "verdict": ("", 11 if wide else 3),
        "name": ("Type", 0 if wide else min(max(names, 5), 12)),
        "count": (f"{bound}New", 8),
        "bytes": (f"{bound}Bytes", 9),
        "rate": ("Rate", 8),
        "born": ("≈Survivors", 11),
        "holder": ("Held by", max(facts.width // 4, 20) if wide else 0),
        "site": ("Allocated at", facts.width // 5 if wide else 25 if names <= 8 else 22),
    }
    left = ("verdict", "name", "born", "holder", "site")
    columns = [
        Column(
            name,
            *known[name],
            right=name not in left,
            keep_tail=name in ("name", "holder", "site"),
            rank=_SUSPECT_RANKS.get(name, ALWAYS),
            least=20,  # names are short here, and holders and sites say as much
        )
        for name in suspect_columns(wide=wide)
    ]

    def draw(row: tuple[int, Suspect]) -> list[CellText]:
        rank, suspect = row
        verdict = suspect.verdict
        sign = verdict_sign(verdict)
        words = f" {sign} {verdict}".ljust(11) if wide else f"{sign} {verdict[:1].upper()}"
        about = "≈" if suspect.type == UNREACHED else ""
        near = "" if suspect.site_is_own else "≈"  # not known from samples of the objects themselves
        holder = f"{suspect.retainer or 'several'}{_end_of_holder(suspect, wide=wide)}"
        pieces = {
            "rank": CellText(str(rank)),
            "verdict": CellText(words, facts.look.swatch(verdict_slot(verdict))),
            "name": CellText(suspect.type if wide else short_name(suspect.type)),
            "count": CellText(f"{about}{format_count(suspect.held)}"),
            "bytes": CellText(f"{about}{format_bytes(suspect.bytes)}"),
            "rate": CellText(_rate(suspect)),
            "born": facts.born(suspect.generations),
            "holder": CellText(holder),
            "site": CellText(f"{near}{suspect.site}" if suspect.site else "not sampled", _DIM),
        }
        return [pieces[column.key] for column in columns]

    return Sheet(
        tuple(columns), rows, lambda row: str(row[0]), draw, facts.look, facts.sort, facts.descending, facts.nothing
    )


@dataclass(frozen=True, slots=True)
class SuspectLine:
    """A line of what is known of one suspect."""

    key: str
    text: str
    look: str = ""  # `heading`, `verdict`, `quiet`, `site`; else plain
    goes: str = ""  # Where Enter goes: `holder`, `example` or `all`


def brief_lines(suspect: Suspect, width: int, *, least: bool, is_recorded: bool) -> list[SuspectLine]:
    """The suspect under the cursor: its card, and the evidence below it."""
    has_paths = not is_recorded and suspect.type != UNREACHED
    keys = f"Enter: stack, path and evidence{'; w: every path that keeps them' if has_paths else ''}"
    return [
        *_card(suspect, width, least=least, is_recorded=is_recorded),
        SuspectLine("keys", f"  {'':{_LABEL}}{keys}", "quiet"),
        SuspectLine("why", f"Why {suspect.verdict}", "heading"),
        *_evidence(suspect, width),
    ]


def _card(suspect: Suspect, width: int, *, least: bool, is_recorded: bool) -> list[SuspectLine]:
    """Verdict and type, figures, site, holder, and what to do. ``least``: as :func:`suspect_sheet`."""
    verdict = f"{verdict_sign(suspect.verdict)} {suspect.verdict.upper()}"
    lines = [SuspectLine("verdict", f"{verdict}  {suspect.type}", "verdict")]
    room = max(width - _LABEL - 4, 20)
    for name, text in (
        ("New", _new(suspect, least=least)),
        ("Rate", _rates(suspect) if suspect.rate > 0 else ""),
        _allocated(suspect),
        ("Handler", handler_words(suspect)),
        _held(suspect, 2 * room),
        ("Next", _next(suspect, is_recorded=is_recorded)),
    ):
        parts = wrap(text, room, break_on_hyphens=False)
        lines += [SuspectLine(f"{name}/{n}", f"  {'' if n else name:{_LABEL}}{part}") for n, part in enumerate(parts)]
    return lines


def _new(suspect: Suspect, *, least: bool) -> str:
    if suspect.counted != OBJECTS:
        return suspect.sentence
    if suspect.type == UNREACHED:
        return f"≈{format_count(suspect.held)} blocks, ≈{format_bytes(suspect.bytes)}"
    bound = "≥" if least else ""
    objects = f"{bound}{format_number(suspect.held, 'object')}"
    if suspect.held < suspect.count:
        objects = f"{bound}{format_count(suspect.held)} held there, of ≥{format_count(suspect.count)} new"
    return f"{objects}; {bound}{format_bytes(suspect.bytes)} including everything new there"


def _rate(suspect: Suspect) -> str:
    return byte_rate_words(suspect.rate) if suspect.counted == BYTES else rate_words(suspect.rate)


def _rates(suspect: Suspect) -> str:
    """Also in bytes."""
    return _rate(suspect) + ("" if suspect.counted == BYTES else f", ≈{byte_rate_words(suspect.byte_rate)}")


def _allocated(suspect: Suspect) -> tuple[str, str]:
    """Where, and what that is known from."""
    if not suspect.site:
        return "Allocated at", "unknown: none of them was sampled (key r: more samples)"
    share = f"{suspect.site_share:.0%} of the bytes in " if suspect.site_share < 0.995 else ""
    of = format_number(suspect.samples, "sample")
    if suspect.site_is_own:
        return "Allocated at", f"{suspect.site} ({share}{of})"
    return "Allocated near", f"{suspect.site} (indirect: {share}{of})"


def _held(suspect: Suspect, room: int) -> tuple[str, str]:
    """The holder, in so many columns where it can be; ``Reached from`` where others may hold them too; how many of them
    where that is not all."""
    match = _HOLDING.fullmatch(suspect.holding)
    if match is None:
        return "Held by", suspect.retainer or "several"
    of, verb, place = match.groups()
    nearest = _nearest_container(suspect.path) if verb == "reached from" else ""
    last = f"; nearest container: {nearest}" if nearest and nearest.partition(" (")[0] not in place else ""
    last += f" ({of})" if of else ""
    return verb.capitalize(), _root_and_end(place, room - len(last)) + last


def _end_of_holder(suspect: Suspect, *, wide: bool) -> str:
    """What *Held by* adds to the retainer: the holder's type, or the container at the end of the one known path."""
    if suspect.holder:
        return f" {short_name(suspect.holder)}" if wide else ""
    match = _HOLDING.fullmatch(suspect.holding)
    nearest = _nearest_container(suspect.path) if match and match[2] == "reached from" else ""
    name = nearest.partition(" (")[0]
    return f" … {name}" if name and name not in suspect.retainer else ""


def _nearest_container(path: Sequence[str]) -> str:
    """``._log (list)``: what an object is taken from, at the end of a path to it; of containers in containers from the
    last one with a name of its own on (``.by_user dict[*] (list)``). Empty where that is the root."""
    *before, last = path[:-1] or ("",)
    container, is_indexed, _ = last.partition("[")
    if not is_indexed and not is_item(last):
        return last if before else ""
    named = next((at for at in range(len(before) - 1, 0, -1) if before[at].startswith(".")), len(before) - 1)
    if named < 1:
        return ""
    name = " ".join(before[named:])
    return name if is_item(last) else f"{name} ({container})"


def _root_and_end(place: str, room: int) -> str:
    """Where the path begins and ends: the container at its end is what a reader looks for. All of it is in the page."""
    root, *steps = place.split(" → ")
    text = place
    while len(text) > room and len(steps) > 2:
        steps.pop(0)
        text = " → ".join([root, "…", *steps])
    return text


def _next(suspect: Suspect, *, is_recorded: bool) -> str:
    """What to do about it."""
    if suspect.verdict == LEAK:
        return _FIXES.get(suspect.kind, "find the code that should remove them from there")
    if suspect.verdict == BACKLOG:
        return "make the consumer faster, or give the queue a maxsize, so that producers wait"
    if suspect.verdict == UNCLEAR:
        if is_recorded:
            return "go to a later moment, or record for longer: it takes more intervals"
        return "run more of your workload, then press m again"
    return "nothing"


def page_lines(
    suspect: Suspect,
    findings: Findings,
    width: int,
    look: ChartStyle,
    frames: Sequence[tuple[Frame, str]],
    why_not: str,
    *,
    least: bool,
    is_recorded: bool,
) -> list[SuspectLine]:
    """One suspect in full.

    Args:
        frames: of its stack, with the line of source of each, where they are known.
        why_not: why single objects cannot be examined; empty where they can.
        is_recorded: there is no process that could be asked what keeps them alive.
    """
    lines = [*_card(suspect, width, least=least, is_recorded=is_recorded), *_ways(suspect, why_not, is_recorded)]
    at, of = ("at", "what was sampled of them") if suspect.site_is_own else ("near", "indirect samples")
    share = f": {suspect.site_share:.0%} of {of}, {format_number(suspect.samples, 'sample')}"
    lines.append(SuspectLine("stack", f"Allocated {at}{share if suspect.stack else ''}", "heading"))
    lines += _stack(suspect, frames, width)
    lines.append(SuspectLine("path", "A path from the root to one of them", "heading"))
    lines += [SuspectLine(f"path/{n}", f"  {'  ' * min(n, 8)}{step}") for n, step in enumerate(suspect.path)]
    if not suspect.path:
        lines.append(SuspectLine("path/none", "  none" if suspect.type == UNREACHED else "  unknown", "quiet"))
    lines.append(SuspectLine("why", f"Why {suspect.verdict}", "heading"))
    lines += _evidence(suspect, width)
    if suspect.generations and suspect.counted == OBJECTS:
        figure = bars(suspect.generations, 24, ascii_only=look.ascii_only)
        words = f"survivors {figure}  {interval_words(findings.marks, suspect.generations)} ({ADDRESSES})"
        for n, part in enumerate(wrap(words, max(width - 6, 20), break_on_hyphens=False)):
            lines.append(SuspectLine(f"born/{n}", f"  {'  ' if n else ''}{part}"))
    return lines


def _evidence(suspect: Suspect, width: int) -> list[SuspectLine]:
    return [
        SuspectLine(f"evidence/{n}/{m}", f"  {'· ' if not m else '  '}{part}")
        for n, each in enumerate(suspect.evidence)
        for m, part in enumerate(wrap(each, max(width - 6, 20)))
    ]


def _ways(suspect: Suspect, why_not: str, is_recorded: bool) -> list[SuspectLine]:
    """Where one can continue from here."""
    name = short_name(suspect.type)
    lines = []
    if suspect.point and not why_not:
        lines.append(
            SuspectLine(
                "holder", f"▸ the {short_name(suspect.holder)} that holds them: {suspect.point:#x}", goes="holder"
            )
        )
    if suspect.example and not why_not:
        lines.append(SuspectLine("example", f"▸ one of them: {name} at {suspect.example:#x}", goes="example"))
    if not is_recorded and suspect.type != UNREACHED:
        lines.append(SuspectLine("all", f"▸ every path that keeps a new {name} alive", goes="all"))
    if why_not:
        lines.append(SuspectLine("why_not", f"  {why_not}", "quiet"))
    return lines


def _stack(suspect: Suspect, frames: Sequence[tuple[Frame, str]], width: int) -> list[SuspectLine]:
    if not suspect.stack:
        return [SuspectLine("stack/none", "  unknown: none of them was sampled (key r: more samples)", "quiet")]
    room = width // 2 - 4
    lines = []
    for n, label in enumerate(suspect.stack):
        is_site, source = label == suspect.site, frames[n][1] if n < len(frames) else ""
        text = f"  {'›' if is_site else ' '} {label}"
        if source:
            text = f"{text}  {source}" if len(text) > room else f"{text:<{room}}  {source}"
        is_user = frames[n][0].is_user if n < len(frames) else True
        lines.append(SuspectLine(f"stack/{n}", text, "site" if is_site else "" if is_user else "quiet"))
    return lines


def line_sheet(lines: Sequence[SuspectLine], look: ChartStyle) -> Sheet[SuspectLine]:
    """One suspect, line by line."""

    def draw(line: SuspectLine) -> list[CellText]:
        style = {"heading": _BOLD, "verdict": _BOLD, "quiet": _DIM, "site": _BOLD}.get(line.look, Style.null())
        return [CellText(line.text, style)]

    heading = Column("name", "Suspect details; ▸ opens more, Esc back", 0, right=False)
    return Sheet((heading,), lines, lambda line: line.key, draw, look)


def pane_rows(lines: Sequence[SuspectLine], look: ChartStyle, verdict: str, width: int) -> list[list[StyleRun]]:
    """The same lines as rows of a picture, none wider than it."""
    rows = []
    for line in lines:
        text = look.text(f" {line.text}")[:width]
        if line.key == "verdict":  # the mark of the verdict stands out
            sign = len(verdict) + 4
            rows.append([StyleRun(text[:sign], INK, verdict_slot(verdict)), StyleRun(text[sign:], EMPTY, EMPTY)])
        else:
            rows.append([StyleRun(text, AXIS if line.look == "quiet" else EMPTY, EMPTY)])
    return rows


# -- growth --------------------------------------------------------------------------------------------------

_GROWN: Final = {
    "type": ("name", "count", "bytes", "now", "born", "generations"),
    "module": ("name", "count", "bytes", "now", "born", "generations"),
    "site": ("name", "count", "bytes", "error"),
    "retainer": ("name", "count", "bytes", "born"),
}
_GROWN_WIDE: Final = ("name", "count", "bytes", "now", "now_bytes", "born", "died", "generations")
_TITLES: Final = {"type": "Type", "module": "Module", "site": "Site", "retainer": "Retainer"}


def grown_columns(key: str, *, wide: bool) -> tuple[str, ...]:
    """What there is room for."""
    if not wide:
        return _GROWN[key]
    if key == "site":
        return (*_GROWN_WIDE[:3], "error", *_GROWN_WIDE[3:])
    return _GROWN_WIDE if key != "retainer" else _GROWN_WIDE[:-1]


def grown_sheet(rows: Sequence[GrownRow], key: str, facts: SuspectFacts) -> Sheet[GrownRow]:
    """What grew by one attribute. By site all is estimated, and counted in blocks."""
    about, what = ("≈", "Blocks") if key == "site" else ("", "Objects")
    known = {
        "name": (_TITLES[key], 0),
        "count": (f"{about}{what}", 8),
        "bytes": (f"{about}Bytes", 10),
        "error": ("±", 9),
        "now": (f"{about}Now", 8),
        "now_bytes": (f"{about}Bytes now", 10),
        "born": ("≈Alloc'd" if key == "site" else "≥Born", 8),
        "died": ("≈Freed" if key == "site" else "≥Died", 8),
        "generations": ("≈Survivors", 11),
    }
    columns = [
        Column(name, *known[name], right=name not in ("name", "generations"), keep_tail=name == "name")
        for name in grown_columns(key, wide=facts.wide)
    ]

    def count(number: int | None) -> CellText:
        return CellText(format_count(number)) if number is not None else CellText("-", _DIM)

    def draw(row: GrownRow) -> list[CellText]:
        pieces = {
            "name": CellText(row.name),
            "count": facts.change(row.count, bytes_=False),
            "bytes": facts.change(row.bytes),
            "error": CellText(f"±{format_bytes(row.error)}" if row.error else "", _DIM),
            "now": count(row.now),
            "born": count(row.born),
            "died": count(row.died),
            "now_bytes": CellText(format_bytes(row.now_bytes)),
            "generations": facts.born(row.generations),
        }
        return [pieces[column.key] for column in columns]

    return Sheet(
        tuple(columns), rows, lambda row: row.name, draw, facts.look, facts.sort, facts.descending, facts.nothing
    )


COUNTED_SORTS: Final = ("name", "count", "bytes", "rate", "now")


def counted_sheet(rows: Sequence[CountedGrowth], facts: SuspectFacts) -> Sheet[CountedGrowth]:
    """What grew by the counts of censuses."""
    columns = (
        Column("name", "Type", 0, right=False, keep_tail=True),
        Column("count", "Objects", 8),
        Column("bytes", "Bytes", 10),
        Column("rate", "Objects/s", 9),
        *([Column("byte_rate", "Bytes/s", 10)] if facts.wide else []),
        Column("now", "Now", 8),
        Column("trend", "Trend", 16 if facts.wide else 8),
    )

    def draw(row: CountedGrowth) -> list[CellText]:
        look = facts.look
        pieces = {
            "name": CellText(row.name),
            "count": facts.change(row.count, bytes_=False),
            "bytes": facts.change(row.bytes),
            "rate": CellText(rate_words(row.count_rate)),
            "byte_rate": CellText(byte_rate_words(row.byte_rate)),
            "now": CellText(format_count(row.now)),
            "trend": CellText(
                sparkline(row.spark, 16 if facts.wide else 8, ascii_only=look.ascii_only),
                Style.parse(look.palette.band(0)),
            ),
        }
        return [pieces[column.key] for column in columns]

    return Sheet(columns, rows, lambda row: row.name, draw, facts.look, facts.sort, facts.descending, facts.nothing)


# -- lints and marks -----------------------------------------------------------------------------------------


def lint_sheet(rows: Sequence[Lint], facts: SuspectFacts) -> Sheet[Lint]:
    """What is known to go wrong."""
    columns = (
        Column("name", "Lint", 24 if facts.wide else 20, right=False),
        Column("before", "Before", 8),
        Column("now", "Now", 8),
        Column("threshold", "Threshold", 9),
        Column("sentence", "", 0, right=False),
    )

    def draw(row: Lint) -> list[CellText]:
        figures = [CellText(format_count(number)) for number in (row.before, row.now, row.threshold)]
        return [CellText(row.name, _BOLD), *figures, CellText(row.sentence)]

    return Sheet(columns, rows, lambda row: row.name, draw, facts.look, nothing=facts.nothing)


def lint_lines(lint: Lint, width: int) -> list[SuspectLine]:
    """The lint under the cursor."""
    parts = wrap(f"{lint.sentence}.", max(width - 2, 20))
    return [SuspectLine(f"lint/{n}", part) for n, part in enumerate(parts)]


def mark_sheet(marks: Sequence[MarkFacts], since: int, until: int | None, facts: SuspectFacts) -> Sheet[MarkFacts]:
    """The moments that were marked, and which are compared."""
    columns = (
        Column("compared", "Compared", 8, right=False),
        Column("name", "Mark", 0, right=False, least=8),
        Column("age", "When", 12),
        Column("objects", "Objects", 9),
        Column("bytes", "Bytes", 10),
        Column("rss", "RSS", 10),
        Column("collections", "Full GCs", 8),
    )

    def draw(mark: MarkFacts) -> list[CellText]:
        place = marks.index(mark)
        words = "from" if place == since else "to" if place == until else ""
        return [
            CellText(words, _BOLD),
            CellText(mark.name + (", after a collection" if mark.collected else "")),
            CellText(ago(facts.now_ns, mark.time_ns)),
            CellText(format_count(mark.objects)),
            CellText(format_bytes(mark.bytes)),
            CellText(format_bytes(mark.rss) if mark.rss is not None else "-"),
            CellText(format_count(mark.collections) if mark.collections is not None else "-"),
        ]

    return Sheet(columns, marks, lambda mark: f"{mark.name}/{mark.time_ns}", draw, facts.look, nothing=facts.nothing)
