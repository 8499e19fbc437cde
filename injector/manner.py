"""How the next census is asked for: in which mode, with which budget of pause, and when a person has to be asked first.

This module never talks to anybody: the conversation sends what it says, and tells it what came back.
"""

from __future__ import annotations

from dataclasses import dataclass

from heaptop.injector.forecast import PauseModel, shortage
from heaptop.protocol.messages import Census, CensusRequest, Decision
from heaptop.protocol.source import Forecast

UNBOUNDED = 1 << 62
"""A budget that no pause exceeds."""


@dataclass(slots=True)
class Manner:
    """What is known and was decided so far."""

    mode: str = "clone"
    """The best mode that may be tried: one of ``MODES``."""
    reason: str = ""
    """Why no better one; empty where a person chose it."""
    budget_ns: int = 100_000_000
    pending: Decision | None = None
    """What a person has to decide; until then nothing is counted."""
    model: PauseModel | None = None

    def limit(self, mode: str, reason: str) -> None:
        """Ask for nothing better than ``mode`` from now on."""
        self.mode, self.reason = mode, reason

    def foresee(self, seen: Forecast | None) -> None:
        """Take the forecast: too little memory for a clone means that the target is stopped for the count."""
        self.model = PauseModel(seen)
        if seen is not None and self.mode == "clone" and (reason := shortage(seen)):
            self.limit("stop", reason)

    def request(self, number: int, rss: int | None) -> CensusRequest | Decision:
        """The next request, or what must be decided before it; ``rss`` is the target's now, where it is known."""
        expected = self.model.expect(rss) if self.model else 0
        if self.mode == "clone" and expected > self.budget_ns:
            self.pending = Decision(number, "clone", "", expected, self.budget_ns)
            return self.pending
        return CensusRequest(number, mode=self.mode, reason=self.reason, budget_ns=self.budget_ns)

    def counted(self, census: Census, rss: int | None) -> None:
        """Learn from what a clone has cost."""
        if census.mode == "clone" and self.model is not None:
            self.model.measure(census.pause_ns, rss)

    def decide(self, accept: bool) -> None:
        """A person has answered :attr:`pending`."""
        if self.pending is None:
            return
        if accept:
            self.budget_ns = UNBOUNDED
        else:
            self.limit("python", f"a pause of about {self.pending.pause_ns / 1e6:.0f} ms was declined")
        self.pending = None
