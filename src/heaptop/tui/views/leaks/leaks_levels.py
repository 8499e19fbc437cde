"""The tables and titles of view 4: which rows, between which moments. Nothing is drawn here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from heaptop.analysis.filters.filters import COUNTED, Filter
from heaptop.analysis.leaks.hunting import NOW
from heaptop.protocol.findings import GROWTH_KEYS, MarkFacts, Suspect
from heaptop.tui.state import drill
from heaptop.tui.state.hunting import CheckResult
from heaptop.tui.state.hunting_words import WAITING, ago, choosing, compared_words, found_note
from heaptop.tui.state.session import Display

SUSPECT, COUNTED_KEY, LINT, MARK = "suspect", "count", "lint", "mark"
BEFORE: Final = (COUNTED_KEY, MARK)  # What there is to be seen before the first look
AFTER: Final = (SUSPECT, *GROWTH_KEYS, LINT, COUNTED_KEY, MARK)  # And after it
TITLES: Final = {
    SUSPECT: "suspects",
    LINT: "lints",
    COUNTED_KEY: "growth by censuses",
    MARK: "marks",
    **{key: f"growth by {key}" for key in GROWTH_KEYS},
}
KNOWN: Final = {
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
    "leak. A third mark distinguishes a leak from a cache that fills."
)

UNTOLD: Final = "To see which types grow without a mark, sort view 1 by Change (keys < >)."  # Where no mark can be set
UNRECORDED: Final = "No leak hunt has reported anything up to this moment of the recording."


@dataclass(frozen=True, slots=True)
class LeaksLevel(drill.Level):
    """What is shown: rows by a key, or one suspect in full."""

    key: str = ""  # Empty for what is most worth to be seen
    suspect: Suspect | None = None
    found: CheckResult | None = None  # What it was found with


def marks_of(display: Display) -> tuple[MarkFacts, ...]:
    return display.hunting.marks if display.hunting is not None else ()


def compared(display: Display) -> tuple[int, int | None]:
    """The number of the mark that is compared with, and of the one that ends what is compared."""
    return (display.client.since, display.client.until) if display.client is not None else (0, None)


def nothing_words(display: Display, key: str, where: Filter) -> str:
    """Why there is no row."""
    if not marks_of(display) and display.found is None:
        failed = display.hunting.failed if display.hunting is not None else ""
        if display.shown is not None:
            return UNRECORDED
        return f"No mark was set: {failed}. {UNTOLD}" if failed else UNMARKED
    if where:
        return f"Nothing matches {where}."
    if key == COUNTED_KEY:
        return "By the censuses since the mark, no type has grown or shrunk."
    if key == LINT:
        return "No lint: no known kind of harmful growth. Suspects (key b) are found independently."
    return "No suspects: nothing new looks suspicious." if key == SUSPECT else "Nothing has grown."


def note_words(display: Display, key: str) -> str:
    """How far a check is; what to do where there was none; what must be known of what was found."""
    hunting, found, marks = display.hunting, display.found, marks_of(display)
    if hunting is not None and hunting.is_busy:
        return hunting.words
    if key == MARK and marks:
        return choosing(marks[min(compared(display)[0], len(marks) - 1)].name)
    if found is not None:
        return found_note(found.findings, _compared_since(display, found), is_recorded=display.shown is not None)
    return WAITING if marks else ""


def _compared_since(display: Display, found: CheckResult) -> str:
    """What is compared by now; empty where that is what was found."""
    marks, (since, until) = marks_of(display), compared(display)
    if display.shown is not None or since >= len(marks):
        return ""
    later = marks[until].name if until is not None and until < len(marks) else ""
    is_same = marks[since].time_ns == found.findings.marks[0].time_ns and later == found.until
    return "" if is_same else compared_words(marks, since, until)


def title_words(display: Display, found: CheckResult | None, key: str, what: str) -> str:
    """What is behind the view's name: the verdict, what is shown, and between which moments."""
    if not marks_of(display) and found is None:
        return "no check yet" if display.shown is not None else "marks: none yet" if key == MARK else "no mark yet"
    verdict = f"{found.findings.verdict} · " if found is not None and key not in (MARK, COUNTED_KEY) else ""
    return f"{verdict}{what}" + (f" {_between(display, found, key)}" if key != MARK else "")


def _between(display: Display, found: CheckResult | None, key: str) -> str:
    if found is None or key == COUNTED_KEY:
        marks, since = marks_of(display), compared(display)[0]
        return f"since {marks[since].name}, {ago(display.now_ns, marks[since].time_ns)}" if marks else ""
    first, last = found.findings.marks[0], found.findings.marks[-1]
    if found.until:
        return f"born {first.name} to {found.until}, alive"
    to = "the check" if last.name == NOW else last.name
    return f"from {first.name} to {to}, {found.findings.seconds:.0f} s"
