"""What a leak hunt has found, as JSON and as lines of text: for ``heaptop leaks``, reports of recordings and exports.

This module never hunts, prints or serializes: it builds plain dicts, lists, strings and numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, cast

from heaptop.analysis.leaks.proofs import STILL, proven_words
from heaptop.analysis.snapshot.kept_sites import handler_words
from heaptop.analysis.snapshot.why import elided
from heaptop.analysis.text.units import format_bytes, format_change, format_count, format_number
from heaptop.protocol.findings import NO_LEAK, Findings, GrownRow, Growth, Lint, MarkFacts, Suspect

if TYPE_CHECKING:
    from heaptop.documents import GrownRowJson, GrowthJson, LeaksJson, LintJson, MarkJson, SuspectJson

GROWN: Final = 5  # Rows of each table of growth that a person is shown unless they ask for another number
FRAMES: Final = 4  # Of a suspect's stack, likewise: the innermost
_INDENT: Final = 5
_NAME: Final = 32  # Columns of a name, at least, where it has as many
_KEPT: Final = 3  # Columns that are shown however narrow the terminal is: the name, and by how much it grew
_HEADINGS: Final = ("OBJECTS", "SIZE", "NOW", "SIZE NOW", "≥BORN", "≥GONE", "≈SURVIVORS")
"""Of the figures beside a name."""
_MORE_BY_SITE: Final = (
    "(sites can sum to more than the heap grew: they include what replaced memory from before the attach)"
)
_SITE_HEADINGS: Final = ("≈BLOCKS", "≈SIZE", "≈NOW", "≈SIZE NOW", "≈BORN", "≈GONE", "≈SURVIVORS")
"""The same by site: estimates, which count memory blocks."""


# -- JSON -----------------------------------------------------------------------------------------------------


def findings_json(findings: Findings, *, pid: int, python: str, top: int | None = None) -> LeaksJson:
    """The document of ``heaptop leaks --json``: of each table of growth at most ``top`` rows (all for None)."""
    return {
        "schema": "heaptop.leaks",
        "version": 1,
        "pid": pid,
        "python": python,
        "seconds": findings.seconds,
        "verdict": findings.verdict,
        "grown": {"count": findings.count, "bytes": findings.bytes},
        "suspects": [_suspect(rank, suspect) for rank, suspect in enumerate(findings.suspects, 1)],
        "lints": [cast("LintJson", asdict(lint)) for lint in findings.lints],
        "marks": [
            cast("MarkJson", {**_plain(mark), "seconds": (mark.time_ns - findings.marks[0].time_ns) / 1e9})
            for mark in findings.marks
        ],
        "growths": {growth.key: _growth(growth, top) for growth in findings.growths},
        "notes": list(findings.notes),
    }


def _suspect(rank: int, suspect: Suspect) -> SuspectJson:
    series = [number if number >= 0 else None for number in suspect.series]
    addresses = {name: hex(getattr(suspect, name)) if getattr(suspect, name) else None for name in ("point", "example")}
    return cast("SuspectJson", {"rank": rank, **_plain(suspect), "series": series, **addresses})


def _growth(growth: Growth, top: int | None) -> GrowthJson:
    rows = [cast("GrownRowJson", _plain(row)) for row in growth.rows[:top]]
    return {"complete": growth.complete, "of": len(growth.rows), "rows": rows}


def _plain(record: Suspect | MarkFacts | GrownRow) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(record).items()}


# -- text -----------------------------------------------------------------------------------------------------


def findings_lines(
    findings: Findings, *, top: int | None = GROWN, width: int | None = None, columns: int | None = None
) -> list[str]:
    """The verdict, the suspects, the lints, what grew, and what is not known.

    Args:
        top: rows of each table of growth; None for all.
        width: columns in which sentences are wrapped; None for lines of any length.
        columns: those of the terminal, in which tables fit; None for lines of any length.
    """
    lines = [verdict_line(findings)]
    for rank, suspect in enumerate(findings.suspects, 1):
        lines += ["", *suspect_lines(rank, suspect, width)]
    if findings.lints:
        lines += ["", *(line for lint in findings.lints for line in lint_lines(lint, width))]
    for growth in findings.growths:
        if growth.rows:
            lines += ["", *growth_lines(growth, top, columns)]
            if growth.key == "site" and sum(row.bytes for row in growth.rows) > max(findings.bytes, 0):
                lines += _wrapped(_MORE_BY_SITE, columns, "")
    if findings.notes:
        lines += ["", *(line for note in findings.notes for line in _wrapped(f"note: {note}", width, "      "))]
    return lines


def verdict_line(findings: Findings) -> str:
    """``leak: +1,240 objects, +3.10 MiB in 30 s, 4 marks``"""
    count, size = format_change(findings.count, bytes_=False), format_change(findings.bytes)
    marks = format_number(len(findings.marks), "mark")
    return f"{findings.verdict}: {count} objects, {size} in {findings.seconds:.3g} s, {marks}"


def suspect_lines(rank: int, suspect: Suspect, width: int | None = None) -> list[str]:
    """Its sentence, then why the verdict is so, its handlers, and the innermost frames of who allocates it; of what is
    no leak, the weightiest reason only."""
    indent, is_harmless = " " * _INDENT, suspect.verdict == NO_LEAK
    lines = _wrapped(f"{rank:>3}. {suspect.verdict}: {suspect.sentence}", width, indent)
    proven = proven_words(suspect)
    if proven and suspect.evidence[:1] != (f"{proven}; {STILL}",):
        lines += _wrapped(f"{indent}- {proven}", width, indent + "  ")
    for evidence in suspect.evidence[: 1 if is_harmless else None]:
        lines += _wrapped(f"{indent}- {evidence}", width, indent + "  ")
    if suspect.handlers and not is_harmless:
        lines += _wrapped(f"{indent}handler: {handler_words(suspect)}", width, indent + "  ")
    where = "at" if suspect.site_is_own else "near"
    return lines + [f"{indent}{where} {frame}" for frame in suspect.stack[: 0 if is_harmless else FRAMES]]


def lint_lines(lint: Lint, width: int | None = None) -> list[str]:
    return _wrapped(f"lint {lint.name}: {lint.sentence}", width, " " * _INDENT)


def growth_lines(growth: Growth, top: int | None = GROWN, width: int | None = None) -> list[str]:
    """A table, and how many rows it leaves out."""
    header = (growth.key.upper(), *(_SITE_HEADINGS if growth.key == "site" else _HEADINGS))
    lines = _table([header, *map(_row, growth.rows[:top])], growth.key, width)
    left = len(growth.rows) - len(growth.rows[:top])
    if left:
        lines.append(f"({left} more)")
    if not growth.complete:
        lines.append(f"(partial: there may be more rows by {growth.key})")
    return lines


def _fitted(name: str, key: str, width: int) -> str:
    """Of a site the file and the line are kept longest."""
    if key != "site" or len(name) <= width:
        return elided(name.split(" "), width)
    place, _, function = name.partition(" ")
    short = f"…/{place.rpartition('/')[2]}" if "/" in place else place
    whole = f"{short} {function}".rstrip()
    return whole if len(whole) <= width else elided([whole], width) if len(short) > width else f"{whole[: width - 1]}…"


def _row(row: GrownRow) -> tuple[str, ...]:
    return (
        row.name,
        format_change(row.count, bytes_=False),
        format_change(row.bytes) + (f" ±{format_bytes(row.error)}" if row.error else ""),
        format_count(row.now),
        format_bytes(row.now_bytes),
        *("?" if number is None else format_count(number) for number in (row.born, row.died)),
        " ".join(map(format_count, row.generations)),
    )


def _table(rows: Sequence[Sequence[str]], key: str, width: int | None) -> list[str]:
    """Figures flush right behind the name, survivors flush left. Where it is too wide the last columns are left out,
    then names give way."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        least = min(widths[0], _NAME)
        while len(widths) > _KEPT and least + sum(widths[1:]) + 2 * (len(widths) - 1) > width:
            del widths[-1]
        widths[0] = min(widths[0], max(least, width - sum(widths[1:]) - 2 * (len(widths) - 1)))
        rows = [(_fitted(row[0], key, widths[0]), *row[1 : len(widths)]) for row in rows]
    return [
        "  ".join(
            text.ljust(width) if place in (0, len(_HEADINGS)) else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _wrapped(text: str, width: int | None, indent: str) -> list[str]:
    if width is None:
        return [text]
    return wrap(text, max(width, 40), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
