"""Which leaks and backlogs of a hunt fail a build: large enough, fast enough, and not ignored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from heaptop.analysis.text.units import format_bytes
from heaptop.choices import MIN_GROWTH
from heaptop.protocol.findings import BACKLOG, GROWING, Findings, Suspect

if TYPE_CHECKING:
    from heaptop.documents import GateJson

DECISIVE: Final = 3  # Checks, the first mark among them: of fewer nothing is called a leak


@dataclass(frozen=True, slots=True)
class LeakGate:
    """What a leak has to be for a build to fail. A backlog counts as one: it takes all memory as surely."""

    min_growth: int = MIN_GROWTH  # Bytes that are new and held, over the hunt
    min_rate: int = 0  # Bytes a second in the last interval
    ignored: tuple[str, ...] = ()  # Patterns (`*`, `?`, `[…]`) of types and of allocation sites: see matches()

    def failing(self, findings: Findings) -> list[Suspect]:
        """The leaks that fail it, the most severe first."""
        return [each for each in findings.suspects if each.verdict in GROWING and not self._why_not(each)]

    def _why_not(self, leak: Suspect) -> str:
        """Why it is not counted; empty where it is."""
        if any(matches(pattern, leak) for pattern in self.ignored):
            return "ignored"
        if leak.bytes < self.min_growth:
            return f"below --min-growth {format_bytes(self.min_growth)}"
        return f"below --min-rate {format_bytes(self.min_rate)}/s" if leak.byte_rate < self.min_rate else ""

    def line(self, findings: Findings) -> str:
        """``fails: 1 of 3 leaks counts; not counted: 1 ignored, 1 below --min-growth 64.0 KiB``"""
        growing = [each for each in findings.suspects if each.verdict in GROWING]
        why_not = Counter(self._why_not(each) for each in growing)
        backlogs = sum(each.verdict == BACKLOG for each in growing)
        one = "leak" if not backlogs else "backlog" if backlogs == len(growing) else "leak or backlog"
        many = "leaks and backlogs" if backlogs not in (0, len(growing)) else f"{one}s"
        failing, leaks = why_not.pop("", 0), why_not.total()
        words = ", ".join(f"{number} {why}" for why, number in why_not.items())
        of = f" of {leaks + failing}" if leaks else ""
        what = one if leaks + failing == 1 else many
        verdict = f"fails: {failing}{of} {what} {'counts' if failing == 1 else 'count'}" if failing else "passes"
        if not failing and not leaks and not is_decided(findings):
            return f"decides nothing: {len(findings.marks)} checks, and a leak needs {DECISIVE}"
        return f"{verdict}; not counted: {words}" if words else verdict

    def document(self, findings: Findings) -> GateJson:
        """For ``--json``: the bounds, and the ranks of the suspects that fail."""
        failing = self.failing(findings)
        return {
            "min_growth": self.min_growth,
            "min_rate": self.min_rate,
            "ignored": list(self.ignored),
            "decided": is_decided(findings),
            "failing": [rank for rank, each in enumerate(findings.suspects, 1) if each in failing],
        }


def is_decided(findings: Findings) -> bool:
    """Whether there were enough checks to find a leak."""
    return len(findings.marks) >= DECISIVE


def matches(pattern: str, suspect: Suspect) -> bool:
    """Whether it is the suspect's type (``app.cache.Entry``), or its site: whole (``app/cache.py:12 put``), as file and
    line, as file, or as function."""
    place, _, function = suspect.site.partition(" ")
    names = (suspect.type, suspect.site, place, place.rpartition(":")[0], function)
    return any(name and fnmatchcase(name, pattern) for name in names)


def read_patterns(text: str) -> list[str]:
    """A pattern a line; empty lines, and what follows ``#``, are left out."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]
