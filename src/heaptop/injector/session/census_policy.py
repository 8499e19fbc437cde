"""How the next census is asked for, and an open snapshot: in which mode, with which budget of pause, and when a person
has to be asked first.

The conversation sends the requests that are made here, and passes on the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from heaptop.injector.session.forecast import CLONE_LEAST, Headroom, PauseModel, forecast, room
from heaptop.protocol.images import FIRST_ID, Image, ImageRequest
from heaptop.protocol.messages import Census, CensusRequest, Core, Decision, Failure
from heaptop.protocol.source import Forecast

ALLOWANCE: Final = 2  # A pause that a person has allowed may become this many times as long before the next question
STOP_SHARE: Final = 4
"""A count in the stopped process is preferred where it is expected to take this part of a clone's pause at most. It
gives up at twice that."""
LEAST_STOP_NS: Final = 2_000_000  # No such count is expected to take less than half of this
NOTHING_KNOWN: Final = Headroom()
TABLES: Final = 75  # Bytes of an open snapshot's tables for each object, before there was one
MOST_TABLES: Final = 1.6  # What they take at one time at most, with a mark beside them, of what they take at the end
SMALL_OBJECT: Final = 64  # Bytes of an object, before any was counted: so many that there are rather too many of them


def clone_cost_ns(census: Census) -> int:
    """What its clone has cost the target: in CPU time, where that is known, which the machine's load does not add
    to."""
    return census.pauses.stopped_cpu_ns if census.pauses is not None else census.pause_ns


def snapshot_shortage(pid: int, objects: int) -> str:
    """Why there is too little memory for a snapshot of a process with so many objects, as a sentence without its full
    stop; empty where there is enough. What tables took in earlier snapshots is not known here: they are taken to be as
    large as in any."""
    seen = forecast(pid)
    return room(pid).shortage(seen.anonymous, TABLES * objects) if seen is not None else ""


def most_stop_ns(clone_ns: int, budget_ns: int) -> int:
    """How long a count in the stopped process may take where a clone would pause it for ``clone_ns``; 0 where a clone
    is better. Half as long is what it may be expected to take."""
    most = min(2 * clone_ns // STOP_SHARE, budget_ns)
    return most if most >= LEAST_STOP_NS else 0


@dataclass(slots=True)
class CensusPolicy:
    """What is known and was decided so far."""

    mode: str = "clone"  # The best mode that may be tried: one of choices.MODES
    reason: str = ""  # Why no better one; empty where a person chose it
    budget_ns: int = 100_000_000
    pending: Decision | None = None  # What a person has to decide; until then nothing is counted, and no snapshot made
    model: PauseModel = field(default_factory=lambda: PauseModel(None))
    allowed: dict[str, int] = field(default_factory=dict)
    """By mode, the pause that a person has allowed, in nanoseconds."""
    objects: int = 0  # Of the last census; 0 before the first
    stops: bool = False  # A person has chosen mode stop for censuses, rather than the pause of a clone
    no_image: str = ""  # Why there is to be no snapshot: a person has declined its pause
    _question: Decision | None = None
    """What is asked where the agent can make the last census that was requested no other way."""
    tables: float = TABLES  # Bytes that an object takes in an open snapshot, by the last one

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

    def request(self, number: int, rss: int | None, room: Headroom = NOTHING_KNOWN) -> CensusRequest:
        """The next request; ``rss`` is the target's now, where it is known, and ``room`` what it may still take: with
        too little for a clone, the target is stopped for this count. So it is where that is a far shorter pause. Where
        a clone's is above the budget, the agent may try no more than that, and else asks (:meth:`ask`)."""
        mode, reason = self.mode, self.reason
        if mode == "clone" and (shortage := room.shortage(self.model.anonymous(rss))):
            mode, reason = "stop", shortage
        most = self._most("stop")
        if mode != "clone":
            return CensusRequest(number, mode=mode, reason=reason, budget_ns=most)
        expected = self.model.expect(rss)
        reason = f"a clone would pause the program for about {expected / 1e6:.0f} ms"
        if self.stops:
            return CensusRequest(number, mode="stop", reason=reason, budget_ns=most)
        stop_ns = most_stop_ns(expected, most)
        if expected > self._most("clone"):
            self._question = Decision(number, "clone", "", expected, self.budget_ns)
            return CensusRequest(number, mode="stop", reason=reason, budget_ns=0, stop_ns=stop_ns)
        return CensusRequest(number, mode="clone", reason=reason if stop_ns else "", budget_ns=most, stop_ns=stop_ns)

    def ask(self, decision: Decision) -> Decision:
        """What a person is asked where the agent, or :meth:`image`, asks that. An agent that may not make a clone
        reports how long a stop would take: where that is shorter, there are both to choose from."""
        question = self._question
        if question is not None and question.request == decision.request:
            is_shorter = decision.pause_ns < question.pause_ns
            decision = replace(question, stop_ns=decision.pause_ns if is_shorter else 0)
        self.pending = decision
        return decision

    def image(
        self, request: ImageRequest, rss: int | None, room: Headroom = NOTHING_KNOWN
    ) -> ImageRequest | Decision | Failure:
        """The request for an open snapshot as it is to be sent, with a limit for its tables of at most half of what
        there is room for; or why there is none; or what must be decided before it."""
        if why := self._no_image(rss, room):
            return Failure(request.id, why)
        if self.pending is not None:
            return Failure(request.id, "another pause has to be allowed or declined first")
        if (expected := self.model.expect(rss)) > self._most("clone"):
            return Decision(request.id, "clone", "", expected, self.budget_ns)
        if room.for_tables is None:
            return request
        return replace(request, memory=min(request.memory or room.for_tables, room.for_tables))

    def _no_image(self, rss: int | None, room: Headroom) -> str:
        if self.mode != "clone":
            why = self.reason or f"mode {self.mode} was chosen; attach with --mode clone"
            return f"it needs a clone: {why}"
        anonymous = self.model.anonymous(rss)
        tables = int(self.tables * (self.objects or anonymous // SMALL_OBJECT))
        if shortage := room.shortage(anonymous, tables):
            return (
                f"refused, so that the program does not run out of memory: {shortage}. Free some, or raise the limit "
                "of its control group"
            )
        return self.no_image

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
        if image.objects:
            self.tables = min(TABLES, MOST_TABLES * image.memory / image.objects)

    def decide(self, accept: bool, stop: bool = False) -> None:
        """A person has answered :attr:`pending`; with ``stop``, allowed its other pause."""
        asked, self.pending = self.pending, None
        if asked is None:
            return
        declined = f"a pause of about {asked.pause_ns / 1e6:.0f} ms was declined"
        if accept and stop and asked.stop_ns:
            self.stops = True
            self.allowed["stop"] = ALLOWANCE * asked.stop_ns
        elif accept:
            self.allowed[asked.mode] = ALLOWANCE * asked.pause_ns
        elif asked.request >= FIRST_ID:
            self.no_image = declined
        else:
            self.limit("python", declined)

    def withdraw(self, request: int) -> bool:
        """What was to be decided about this request need not be; whether that was :attr:`pending`."""
        if self.pending is None or self.pending.request != request:
            return False
        self.pending = None
        return True

    def _most(self, mode: str) -> int:
        """Nanoseconds that the target may be paused in that mode."""
        return max(self.budget_ns, self.allowed.get(mode, 0))
