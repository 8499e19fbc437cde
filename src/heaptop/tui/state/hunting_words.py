"""The screen's words for a leak hunt: marks, comparisons, verdicts, rates, and who was born when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heaptop.analysis.text.units import format_bytes, format_count, format_number, format_rate
from heaptop.protocol.findings import BACKLOG, LEAK, NO_LEAK, UNCLEAR, Findings, MarkFacts
from heaptop.tui.state.snapshot_status import seconds

_SIGNS: Final = {LEAK: "!", BACKLOG: "+", UNCLEAR: "?", NO_LEAK: "-"}  # Of verdicts, beside their words
_SLOTS: Final = {LEAK: 3, BACKLOG: 3, UNCLEAR: 1, NO_LEAK: 2}  # Of the palette: red, orange, green
_BARS: Final = "▁▂▃▄▅▆▇█"
_NONE: Final = "·"

WHERE: Final = " (key 4)"  # At the end of a check's result, where another view is shown

Comparison = tuple[int, int | None]
"""The number of a mark, and that of a later one that must have seen what is new since; None for all of it."""


def verdict_sign(verdict: str) -> str:
    """A recording may have a verdict that this heaptop does not know: it is as good as unclear."""
    return _SIGNS.get(verdict, _SIGNS[UNCLEAR])


def verdict_slot(verdict: str) -> int:
    """Of the palette; as :func:`verdict_sign`."""
    return _SLOTS.get(verdict, _SLOTS[UNCLEAR])


def first_words(mark: MarkFacts) -> str:
    """The first mark's outcome, and what to do then."""
    return f"marked {mark.name}: {format_count(mark.objects)} objects; press m again later"


def found_words(findings: Findings, mark: str | None) -> str:
    """The result of a check, in a line."""
    leaks = sum(each.verdict == LEAK for each in findings.suspects)
    words = f"{leaks} leak{'s' * (leaks != 1)}" if leaks else findings.verdict
    return (f"marked {mark}: {words}" if mark is not None else words) + WHERE


def comparisons(marks: int) -> list[Comparison]:
    """What key v goes round: since each mark; then what came between each one and the next and is there still."""
    return [*((since, None) for since in range(marks)), *((since, since + 1) for since in range(marks - 1))]


def compared_words(marks: Sequence[MarkFacts], since: int, until: int | None) -> str:
    """``since A``; ``from A to B``. Empty before there are marks."""
    if since >= len(marks):
        return ""
    if until is not None and until < len(marks):
        return f"from {marks[since].name} to {marks[until].name}"
    return f"since {marks[since].name}"


def ago(now_ns: int, time_ns: int) -> str:
    """``1m 05s ago``"""
    return f"{seconds(max(now_ns - time_ns, 0) / 1e9)} ago"


BEGUN: Final = "checking; key 4 shows progress, x cancels"
WAITING: Final = "run your workload, then press m (check and mark) or d (check only)"


def choosing(compared: str) -> str:
    """What keys do in the table of marks. ``compared``: the name of the mark that is compared with."""
    return f"Enter compares with this mark; t shows what is new from {compared} to this mark"


def found_note(findings: Findings, compared: str = "", *, is_recorded: bool) -> str:
    """What must be known of what was found, or how to continue. The first note is about all that is found: key ? shows
    it.

    Args:
        compared: what is compared by now, where that is not what was found.
    """
    notes = findings.notes[1:]
    how = "" if is_recorded else "m checks and sets a mark, d checks only"
    if compared:
        how = f"press d to check what is new {compared}; key w shows it now"
    elif notes:
        how, notes = notes[0], notes[1:]
    count = f"{format_number(len(notes), 'more note')}, press ?" if notes else ""
    return " · ".join(part for part in (how, count) if part)


def rate_words(rate: float) -> str:
    """``21/s``, ``0.42/s``, ``3.0/min``: objects, in as few columns as a table has."""
    if not rate:
        return "0"
    sign, size = "-" if rate < 0 else "", abs(rate)
    if size < 0.1:
        return f"{sign}{format_rate(size)}"
    return f"{sign}{format_count(round(size))}/s" if size >= 10 else f"{sign}{size:.2g}/s"


def byte_rate_words(rate: float) -> str:
    """``1.21 KiB/s``"""
    return f"{format_bytes(round(rate))}/s" if round(rate) else "0"


def bars(values: Sequence[int], width: int, *, ascii_only: bool = False) -> str:
    """The last of them, drawn from 0 on to one scale: ``▂▂▂▃``, ``·`` for none; in ASCII digits, 9 for the largest.
    ``…`` is before them where there is no room for all."""
    cut = "" if len(values) <= width else "~" if ascii_only else "…"
    shown = values[-(width - len(cut)) :]
    top = max(values, default=0) or 1
    marks = "123456789" if ascii_only else _BARS
    none = "0" if ascii_only else _NONE
    return cut + "".join(marks[max(-(-value * len(marks) // top) - 1, 0)] if value > 0 else none for value in shown)


def interval_words(marks: Sequence[MarkFacts], counts: Sequence[int]) -> str:
    """``A–B 310, B–C ≥312``: how many were born in which interval between two marks, and are there, as far as addresses
    tell. Of many intervals the last."""
    each = [
        f"{first.name}–{last.name} {'≥' * (place == len(counts))}{format_count(count)}"
        for place, (first, last, count) in enumerate(zip(marks, marks[1:], counts, strict=False), 1)
    ]
    return ", ".join(["…", *each[-6:]] if len(each) > 6 else each)
