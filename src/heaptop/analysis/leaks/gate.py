"""Which leaks of a hunt fail a build: large enough, fast enough, and not ignored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from heaptop.analysis.text.units import format_bytes, format_count
from heaptop.choices import MIN_GROWTH
from heaptop.protocol.findings import LEAK, Findings, Suspect


@dataclass(frozen=True, slots=True)
class LeakGate:
    """What a leak has to be for a build to fail."""

    min_growth: int = MIN_GROWTH
    """Bytes that are new and held, over the hunt."""
    min_rate: int = 0
    """Bytes a second in the last interval."""
    ignored: tuple[str, ...] = ()
    """Patterns (``*``, ``?``, ``[…]``) of types and of allocation sites: see :func:`matches`."""

    def failing(self, findings: Findings) -> list[Suspect]:
        """The leaks that fail it, the most severe first."""
        return [each for each in _leaks(findings) if not self._passes(each)]

    def _passes(self, suspect: Suspect) -> bool:
        return (
            suspect.bytes < self.min_growth or byte_rate(suspect) < self.min_rate or any_matches(self.ignored, suspect)
        )

    def line(self, findings: Findings) -> str:
        """``fails: 1 leak of 3; not counted: 1 ignored, 1 below --min-growth 64.0 KiB``"""
        leaks, failing = _leaks(findings), self.failing(findings)
        verdict = f"fails: {format_count(len(failing))} of {format_count(len(leaks))} leaks" if failing else "passes"
        ignored = [each for each in leaks if any_matches(self.ignored, each)]
        rest = [each for each in leaks if each not in ignored]
        small = [each for each in rest if each.bytes < self.min_growth]
        slow = [each for each in rest if each not in small and byte_rate(each) < self.min_rate]
        reasons = (
            (ignored, "ignored"),
            (small, f"below --min-growth {format_bytes(self.min_growth)}"),
            (slow, f"below --min-rate {format_bytes(self.min_rate)}/s"),
        )
        words = ", ".join(f"{len(those)} {why}" for those, why in reasons if those)
        return f"{verdict}; not counted: {words}" if words else verdict

    def document(self, findings: Findings) -> dict[str, Any]:
        """For ``--json``: the bounds, and the ranks of the suspects that fail."""
        failing = self.failing(findings)
        return {
            "min_growth": self.min_growth,
            "min_rate": self.min_rate,
            "ignored": list(self.ignored),
            "failing": [rank for rank, each in enumerate(findings.suspects, 1) if each in failing],
        }


def byte_rate(suspect: Suspect) -> float:
    """Bytes a second: those of its objects that come now are taken to hold as much as those that are new."""
    return suspect.rate * suspect.bytes / max(suspect.count, 1)


def matches(pattern: str, suspect: Suspect) -> bool:
    """Whether it is the suspect's type (``app.cache.Entry``), or its site: whole (``app/cache.py:12 put``), as file and
    line, as file, or as function."""
    place, _, function = suspect.site.partition(" ")
    names = (suspect.type, suspect.site, place, place.rpartition(":")[0], function)
    return any(name and fnmatchcase(name, pattern) for name in names)


def any_matches(patterns: Sequence[str], suspect: Suspect) -> bool:
    return any(matches(pattern, suspect) for pattern in patterns)


def read_patterns(text: str) -> list[str]:
    """A pattern a line; empty lines, and what follows ``#``, are left out."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _leaks(findings: Findings) -> list[Suspect]:
    return [each for each in findings.suspects if each.verdict == LEAK]
