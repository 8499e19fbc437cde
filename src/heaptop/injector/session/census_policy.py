"""How the next census is asked for, and an open snapshot: in which mode, with which budget of pause, and when a person
has to be asked first.

This module never talks to anybody: the conversation sends what it says, and tells it what came back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from heaptop.injector.session.forecast import CLONE_LEAST, Headroom, PauseModel
from heaptop.protocol.images import Image, ImageRequest
from heaptop.protocol.messages import Census, CensusRequest, Core, Decision, Failure
from heaptop.protocol.source import Forecast

ALLOWANCE: Final = 2
"""A pause that a person has allowed may become this many times as long before the next question."""
NOTHING_KNOWN: Final = Headroom()
TABLES: Final = 75
"""Bytes of an open snapshot's tables for each object."""
SMALL_OBJECT: Final = 64
"""Bytes of an object, before any was counted: so many that there are rather too many of them."""


def clone_cost_ns(census: Census) -> int:
    """What its clone has cost the target: in CPU time, where that is known, which the machine's load does not add
    to."""
    return census.pauses.stopped_cpu_ns if census.pauses is not None else census.pause_ns


@dataclass(slots=True)
class CensusPolicy:
    """What is known and was decided so far."""

    mode: str = "clone"
    """The best mode that may be tried: one of :data:`heaptop.choices.MODES`."""
    reason: str = ""
    """Why no better one; empty where a person chose it."""
    budget_ns: int = 100_000_000
    pending: Decision | None = None
    """What a person has to decide; until then nothing is counted."""
    model: PauseModel = field(default_factory=lambda: PauseModel(None))
    allowed: dict[str, int] = field(default_factory=dict)
    """By mode, the pause that a person has allowed, in nanoseconds."""
    objects: int = 0
    """Of the last census; 0 before the first."""

    def limit(self, mode: str, reason: str) -> None:
        """Ask for nothing better than ``mode`` from now on."""
        self.mode, self.reason = mode, reason

    def foresee(self, seen: Forecast | None) -> None:
        """Take the forecast."""
        self.model = PauseModel(seen)

    def core(self, told: Core) -> None:
        """Take what became of the native core: without it there are slices only, and nothing to ask about."""
        if not told.loaded:
            self.limit("python", told.text)

    def request(self, number: int, rss: int | None, room: Headroom = NOTHING_KNOWN) -> CensusRequest | Decision:
        """The next request, or what must be decided before it; ``rss`` is the target's now, where it is known, and
        ``room`` what it may still take: with too little for a clone, the target is stopped for this count."""
        mode, reason = self.mode, self.reason
        if mode == "clone" and (shortage := room.shortage(self.model.anonymous(rss))):
            mode, reason = "stop", shortage
        if mode == "clone" and (expected := self.model.expect(rss)) > self._most("clone"):
            self.pending = Decision(number, "clone", "", expected, self.budget_ns)
            return self.pending
        return CensusRequest(number, mode=mode, reason=reason, budget_ns=self._most("stop"))

    def image(self, request: ImageRequest, rss: int | None, room: Headroom = NOTHING_KNOWN) -> ImageRequest | Failure:
        """The request for an open snapshot as it is to be sent, with a limit for its tables of at most half of what
        there is room for; or why there is none."""
        if why := self._no_image(rss, room):
            return Failure(request.id, why)
        if room.left is None:
            return request
        return replace(request, memory=min(request.memory or room.left, room.left // 2))

    def _no_image(self, rss: int | None, room: Headroom) -> str:
        if self.mode != "clone":
            why = self.reason or f"mode {self.mode} was chosen; attach with --mode clone"
            return f"it needs a clone: {why}"
        anonymous = self.model.anonymous(rss)
        if shortage := room.shortage(anonymous, TABLES * (self.objects or anonymous // SMALL_OBJECT)):
            return f"refused, so that the program does not run out of memory: {shortage}"
        expected, most = self.model.expect(rss), self._most("clone")
        if expected > most:
            return (
                f"a snapshot would pause the program for about {expected / 1e6:.0f} ms, above the budget of "
                f"{most / 1e6:.0f} ms: agree when a census asks, or attach with a larger --pause-budget"
            )
        return ""

    def collection(self, rss: int | None, room: Headroom = NOTHING_KNOWN) -> str:
        """Why there is to be none beside an open snapshot, as a sentence without its full stop; empty where there may
        be one. A collection writes to pages all over the heap, so each may be copied, and no tick is taken meanwhile
        by which the snapshot could be ended in time."""
        need = CLONE_LEAST + (self.model.anonymous(rss) or rss or 0)
        if room.left is None or room.left >= need:
            return ""
        return (
            f"only {room.left >> 20} MiB of memory are free, and the snapshot may need {need >> 20} MiB during "
            "a collection: close the snapshot first"
        )

    def counted(self, census: Census, rss: int | None) -> None:
        """Learn from a census how many objects there are, and what a clone has cost."""
        self.objects = sum(row.count for row in census.rows)
        if census.mode == "clone":
            self.model.measure(clone_cost_ns(census), rss)

    def frozen(self, image: Image, rss: int | None) -> None:
        """Learn from what an open snapshot has cost."""
        self.model.measure(image.pause_ns, rss)

    def decide(self, accept: bool) -> None:
        """A person has answered :attr:`pending`."""
        if self.pending is None:
            return
        if accept:
            self.allowed[self.pending.mode] = ALLOWANCE * self.pending.pause_ns
        else:
            self.limit("python", f"a pause of about {self.pending.pause_ns / 1e6:.0f} ms was declined")
        self.pending = None

    def _most(self, mode: str) -> int:
        """Nanoseconds that the target may stand still in that mode."""
        return max(self.budget_ns, self.allowed.get(mode, 0))
