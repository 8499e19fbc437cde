"""One HTML page that needs nothing else: the heap over time as bands, what grew, who allocated it, what was found.

Names are the target's, and may hold anything. The page has no script and fetches nothing (its policy forbids both), and
is light or dark as the reader's browser is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from heaptop import __version__
from heaptop.analysis.bands.bands import bands
from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.heap.history import Moment
from heaptop.analysis.reports.moments_diff import Changed, changed_rows
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.samples.estimate import INTERVAL
from heaptop.analysis.text.recorded_times import RecordedSpan
from heaptop.analysis.text.units import format_bytes, format_change, format_count, format_duration_ns
from heaptop.protocol.findings import GROWING, Findings
from heaptop.recordings.exports.band_picture import COLOURS, band_picture
from heaptop.recordings.exports.material import Material
from heaptop.recordings.exports.stack_names import one_line

ROWS: Final = 50  # Rows of a table, at most
BANDS: Final = len(COLOURS) - 1  # Bands with a name

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c1f24; --quiet: #667; --paper: #fff; --line: #d5d8dd; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e5e8; --quiet: #9aa1ab; --paper: #14171b; --line: #353a42; --bad: #ff8a80; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem;
  margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p, li { overflow-wrap: anywhere; }
.quiet { color: var(--quiet); }
.leak { color: var(--bad); font-weight: 600; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--quiet); font: 12px system-ui, sans-serif; }
svg .rule { stroke: var(--line); }
svg path { stroke: var(--paper); stroke-width: .5; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { color: var(--quiet); font-weight: 600; }
th, td { padding: .15rem .7rem .15rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:last-child, td:last-child { text-align: left; width: 100%; white-space: normal; overflow-wrap: anywhere;
  font-family: ui-monospace, monospace; }
.key { display: inline-block; width: 1.5em; text-align: center; color: #111; margin-right: .5em; font-weight: 600; }
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def page(material: Material) -> bytes:
    """The page, in UTF-8."""
    recorded = material.recorded
    title = _text(f"{recorded.name}: heaptop")
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        *_head(material),
        *_findings([checks[-1] for checks in recorded.hunts], recorded),
        *_bands("The heap over time, by type", material.course.records, "type", material),
        *_bands("Live samples by allocation site", material.course.sites, "producer", material),
        *_table("Types", "Objects", changed_rows(material.first, recorded, "type")),
        *_table("Allocated at", "Blocks", changed_rows(material.first, recorded, "producer")),
        *_notices(recorded.notices),
        "</body></html>",
    ]
    return "\n".join(parts).encode()


def _text(text: str) -> str:
    """For the page: escaped, also for an attribute, and on one line."""
    return escape(one_line(text), quote=True)


def _head(material: Material) -> Iterable[str]:
    recorded, target = material.recorded, material.recorded.target
    yield f"<h1>{_text(recorded.name)}</h1>"
    if target is not None:
        yield f"<p>Process {target.pid}, user {_text(target.user)}: <code>{_text(target.command)}</code></p>"
    shown = recorded.shown
    if shown is not None:
        span = RecordedSpan.of(shown)
        day = f"{span.at(shown.first_ns):%Y-%m-%d %H:%M:%S %Z}"
        lasted = format_duration_ns(shown.time_ns - shown.first_ns)
        python = f", Python {_text(recorded.hello.python)}" if recorded.hello is not None else ""
        yield f"<p>From {day} on, for {lasted}{python}. {_ends(material)}</p>"
    yield f'<p class="quiet">Written by heaptop {__version__}.</p>'


def _ends(material: Material) -> str:
    """RSS and live heap, from and to."""
    points = material.course.points
    said = []
    sizes = [point.rss for point in points if point.rss is not None]
    if sizes:
        said.append(f"RSS {format_bytes(sizes[0])} → {format_bytes(sizes[-1])}")
    if points:
        ends = f"{format_bytes(points[0].total.bytes)} → {format_bytes(points[-1].total.bytes)}"
        said.append(f"live heap {ends} in {format_count(points[-1].total.count)} objects")
    return "; ".join(said) + "." if said else ""


def _findings(findings: Sequence[Findings], recorded: Recorded) -> Iterable[str]:
    if not findings:
        return
    yield "<h2>Leak hunts</h2>"
    for one in findings:
        mark = one.marks[0].name
        when = f" at {RecordedSpan.of(recorded.shown).clock(one.time_ns)}" if recorded.shown is not None else ""
        lasted = format_duration_ns(one.time_ns - one.marks[0].time_ns)
        grown = f"{format_change(one.count, bytes_=False)} objects, {format_change(one.bytes)}"
        yield f'<p><span class="{"leak" if one.verdict in GROWING else "quiet"}">{_text(one.verdict)}</span>{when}, '
        yield f"since the first mark ({_text(mark)}) {lasted} before: {grown}</p><ul>"
        yield from (f"<li>{_text(suspect.sentence)} ({_text(suspect.verdict)})</li>" for suspect in one.suspects)
        yield from (f"<li>{_text(lint.sentence)}</li>" for lint in one.lints)
        yield from (f'<li class="quiet">{_text(note)}</li>' for note in one.notes)
        yield "</ul>"


def _bands(title: str, moments: Sequence[Moment], key: str, material: Material) -> Iterable[str]:
    shown = material.recorded.shown
    if len(moments) < 2 or shown is None:
        return
    chart = bands(moments, key, EVERYTHING, BANDS)
    yield f"<h2>{title}</h2>"
    yield band_picture(chart, RecordedSpan.of(shown), title)
    yield '<div class="scroll"><table><tr><th>At last</th><th>Grown</th><th>Band, top first</th></tr>'
    for place, band in reversed(list(enumerate(chart.bands))):
        colour, letter = COLOURS[-1 if band.is_rest else place], "~" if band.is_rest else chr(ord("A") + place)
        yield f"<tr><td>{format_bytes(band.bytes[-1])}</td><td>{format_change(band.bytes[-1] - band.bytes[0])}</td>"
        yield f'<td><span class="key" style="background:{colour}">{letter}</span>{_text(band.name)}</td></tr>'
    yield "</table></div>"


def _table(title: str, unit: str, rows: Sequence[Changed]) -> Iterable[str]:
    """What grew most, then what is largest: a row once."""
    if not rows:
        return
    largest = sorted(rows, key=lambda row: (-row.after.bytes, row.name))
    shown = [row for row in rows[: ROWS // 2] if row.bytes > 0]
    shown += [row for row in largest if row not in shown][: ROWS - len(shown)]
    yield f'<h2>{title}</h2><div class="scroll"><table>'
    yield f"<tr><th>Grown</th><th>{unit}</th><th>Bytes at last</th><th>{unit} at last</th><th>{title}</th></tr>"
    for row in shown:
        error = f" ± {format_bytes(row.error)}" if row.error else ""
        yield f"<tr><td>{format_change(row.bytes)}{error}</td><td>{format_change(row.count, bytes_=False)}</td>"
        yield f"<td>{format_bytes(row.after.bytes)}</td><td>{format_count(row.after.count)}</td>"
        yield f"<td>{_text(row.name)}</td></tr>"
    yield "</table></div>"
    if len(rows) > len(shown):
        yield f'<p class="quiet">{len(rows) - len(shown)} more.</p>'


def _notices(notices: Sequence[str]) -> Iterable[str]:
    yield '<h2>Notes on the figures</h2><ul class="quiet">'
    yield f"<li>Figures by allocation site are estimated from samples; ± is the larger side of the {INTERVAL}</li>"
    yield from (f"<li>{_text(notice)}</li>" for notice in notices)
    yield "</ul>"
