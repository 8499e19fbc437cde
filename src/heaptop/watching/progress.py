"""Who reads how a watch is doing."""

from __future__ import annotations


class ProgressReport:
    """The progress of a watch, which is dropped here: whoever wants it overrides the methods."""

    def show(self, text: str) -> None:
        """What is being waited for, in place of what was shown before."""

    def clear(self) -> None:
        """Nothing is being waited for."""

    def notice(self, text: str) -> None:
        """One remark that stays."""


def time_left(passed: float, done: int, total: int) -> str:
    """How long the rest of a step will take, to be put behind its percentage; empty where that is not known yet."""
    return f", {passed * (total - done) / done:.0f} s left" if 0 < done <= total and passed > 1 else ""
