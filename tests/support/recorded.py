"""Recordings as their reader would play them, from the fake agent: for tests of exports, reports and differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from heaptop.analysis.reports.census_timeline import CensusTimeline
from heaptop.analysis.reports.recorded import Recorded
from heaptop.protocol.findings import LEAK, Findings, GrownRow, Growth, MarkFacts, Suspect
from heaptop.protocol.messages import BIRTH, CensusRequest, Message, Row, Samples, Tick
from heaptop.protocol.source import Attached, Event, Received, Seek
from heaptop.recordings.exports.material import Material
from heaptop.recordings.recordable_source import RecordableSource
from tests.fakes.source import HEAP, SECOND, START_NS, FakeAgent, FakeSource

WALL = 1_750_000_000.0
"""Of the beginning: 2025-06-15 15:06:40 UTC."""
STEP_NS = 60 * SECOND


def findings(time_ns: int, sentence: str = "1,240 Session (+3.1 MiB, still growing 21/s)") -> Findings:
    """A hunt that has found one leak."""
    mark = MarkFacts("before <b>", START_NS, 1000, 100_000)
    suspect = Suspect(
        verdict=LEAK,
        type="shop.models.Session",
        count=1240,
        bytes=3_250_000,
        rate=21.0,
        site="shop/views.py:88 create_session",
        stack=("shop/views.py:88 create_session", "shop/app.py:14 main"),
        site_share=1.0,
        samples=40,
        retainer="module shop.cache ._sessions",
        holder="dict",
        path=("module shop.cache", "._sessions", "dict[*]"),
        kind="module",
        held=1240,
        point=0x7F0000001000,
        example=0x7F0000002000,
        generations=(400, 840),
        series=(100, 500, 1340),
        evidence=("it rose in each of 2 stretches",),
        sentence=sentence,
    )
    growth = Growth("type", (GrownRow("shop.models.Session", 1240, 3_250_000, 1340, 3_500_000, 1240, 0, (400, 840)),))
    return Findings(
        time_ns, (mark, MarkFacts("last", time_ns, 2240, 3_350_000)), LEAK, 1240, 3_250_000, (suspect,), (growth,), ()
    )


def events(ticks: int = 30, *, agent: FakeAgent | None = None, sampled: bool = True) -> list[Event]:
    """An attach, and so many ticks and censuses, a minute between two."""
    source = FakeSource(agent, step_ns=STEP_NS)
    found: list[Event] = []
    source.open(found.append)
    source.attach()
    if sampled:
        source.sample(64 << 10, 128)
    source.tick(ticks)
    return found


def played(
    told: list[Event], until: int | None = None, *, name: str = "night.heaptop", more: tuple[Message, ...] = ()
) -> Recorded:
    """All of it up to so many ticks (all for None), and what heaptop itself has found."""
    recorded = Recorded(name)
    first = START_NS + STEP_NS
    times = [e.message.time_ns for e in told if isinstance(e, Received) and hasattr(e.message, "time_ns")]
    last = max(times, default=first)
    now = last if until is None else min(first + (until - 1) * STEP_NS, last)
    recorded.feed(Seek(now, first, last, first, WALL + (now - first) / 1e9))
    for event in told:
        if isinstance(event, Attached) or (isinstance(event, Received) and getattr(event.message, "time_ns", 0) <= now):
            recorded.feed(event)
    for message in more:
        recorded.take(message)
    return recorded


def material(told: list[Event], of: str = "live", *, more: tuple[Message, ...] = ()) -> Material:
    """What an exporter would be given at the end."""
    last = played(told, more=more)
    course, ticks = CensusTimeline.of(last), sum(isinstance(e, Received) and isinstance(e.message, Tick) for e in told)
    for until in (*range(1, ticks, 3), ticks):
        course.add_sites(played(told, until).sampling)
    return Material(last, of, played(told, 1), course)


BURST = 1 << 20
"""Bytes of a block of a burst: each is sampled."""


class JumpingAgent(FakeAgent):
    """Its dicts are larger by so many bytes from some censuses on, and at some ticks so many were allocated."""

    def __init__(self, jumps: Mapping[int, int], bursts: Mapping[int, int]) -> None:
        super().__init__()
        self._jumps = jumps
        self._bursts = bursts

    def _samples(self, *, births: bool) -> Iterator[Message]:
        for message in super()._samples(births=births):
            blocks = self._bursts.get(self.ticks, 0) // BURST if births and isinstance(message, Samples) else 0
            if isinstance(message, Samples) and blocks:
                first, rate = self._next_sample, self._intervals.index(self.interval)
                self._next_sample += blocks
                born = [BIRTH.pack(first + n, 1, message.clock, BURST, 0, 1, rate, 0) for n in range(blocks)]
                yield replace(message, births=message.births + b"".join(born))
                continue
            yield message

    def _rows(self, step: int, native: bool) -> Iterator[Row]:
        dicts = next(kind for kind in HEAP if kind.qualname == "dict")
        more = sum(size for census, size in self._jumps.items() if step >= census)
        for row in super()._rows(step, native):
            grows = row.type == self._interned.get(dicts)
            yield replace(row, bytes=row.bytes + more) if grows else row
            more = 0 if grows else more


def written(
    path: Path,
    ticks: int = 30,
    *,
    step_ns: int = STEP_NS,
    sampled: bool = True,
    checks: tuple[str, ...] = (LEAK,),
    jumps: Mapping[int, int] | None = None,
    bursts: Mapping[int, int] | None = None,
    every: int = 1,
    late: int = 0,
) -> Path:
    """A recording in a file: of the same, with one hunt in the middle of it, whose looks had these verdicts; its heap
    has ``jumps``, of so many bytes at each of these censuses, and its samples ``bursts``, at each of these ticks. A
    census is taken with each tick of the number ``every``, and has come so many ticks later (``late``)."""
    fake = FakeSource(JumpingAgent(jumps or {}, bursts or {}), step_ns=step_ns)
    taped = RecordableSource(fake, wall=lambda: WALL + (fake.agent.time_ns - START_NS - step_ns) / 1e9)
    taped.open(lambda event: None)
    taped.begin_recording(str(path))
    fake.attach()
    if sampled:
        taped.sample(64 << 10, 128)
    waiting: dict[int, list[Message]] = {}

    def step(tick: int) -> None:
        fake.tick(census=late == 0 and tick % every == 0)
        if late and tick % every == 0:
            waiting[tick + late] = fake.agent.answer(CensusRequest(1_000_000 + tick))
        fake.say(*waiting.pop(tick, ()))

    for tick in range(ticks // 2):
        step(tick)
    for number, verdict in enumerate(checks):
        found = findings(fake.agent.time_ns + number)
        taped.note(replace(found, verdict=verdict, count=1000 + number))
    for tick in range(ticks // 2, ticks):
        step(tick)
    taped.close()
    return path
