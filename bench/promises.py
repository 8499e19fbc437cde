"""What the benches share: promises that are kept or broken, and where the parts are that they make for themselves.

This module measures nothing.
"""

from __future__ import annotations

import enum
import importlib.util
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heaptop-bench"


def compiled(source: str) -> str:
    """A library made of a C file of this folder, or CalledProcessError."""
    CACHE.mkdir(parents=True, exist_ok=True)
    library = CACHE / Path(source).with_suffix(".so")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(HERE / source), "-o", str(library)], check=True)
    return str(library)


def core_library() -> str:
    """The native core's file, or an empty text where it was not built."""
    found = importlib.util.find_spec("heaptop.injector.native._core")
    return found.origin or "" if found else ""


class Verdict(enum.IntEnum):
    """Of a promise; of several, what :func:`together` says. The number is the exit code."""

    KEPT = 0
    BROKEN = 1
    NOT_MEASURED = 2


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Broken when one is; kept when all are."""
    return max(verdicts, key=[Verdict.KEPT, Verdict.NOT_MEASURED, Verdict.BROKEN].index, default=Verdict.NOT_MEASURED)


@dataclass(frozen=True, slots=True)
class Promise:
    what: str
    bound: float
    above: bool
    """Whether the figure must be above the bound, else below."""
    figure: float | None
    """None: a way that it takes was not run."""
    digits: int = 1

    @property
    def verdict(self) -> Verdict:
        if self.figure is None:
            return Verdict.NOT_MEASURED
        kept = self.figure >= self.bound if self.above else self.figure <= self.bound
        return Verdict.KEPT if kept else Verdict.BROKEN

    def __str__(self) -> str:
        words = {Verdict.KEPT: "kept  ", Verdict.BROKEN: "BROKEN", Verdict.NOT_MEASURED: "?     "}[self.verdict]
        figure = "not measured" if self.figure is None else f"{self.figure:.{self.digits}f}"
        return f"{words} {self.what}: {figure} ({'at least' if self.above else 'at most'} {self.bound:g})"
