"""Whatever an agent says that the codec accepts: a ProtocolError, or tables that can all be made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaptop.analysis.bands.bands import bands
from heaptop.analysis.bands.table import table
from heaptop.analysis.callers.producer_table import TABLE_KEYS, ProducerTables, RecentMoments, older_at
from heaptop.analysis.filters.attributes import BAND_KEYS, Origin
from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.heap.history import History
from heaptop.analysis.lifetimes import eventual
from heaptop.analysis.lifetimes.lifetime_table import LifetimeTable
from heaptop.analysis.lifetimes.live_groups import alive, live_blocks, volume_by_age
from heaptop.analysis.reports.sampled_report import REPORTS, report_json, report_rows
from heaptop.analysis.samples.bins import bins
from heaptop.analysis.samples.sampling import GROUPS, Sampling
from heaptop.errors import ProtocolError, UsageError
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    TYPED,
    Census,
    CodeName,
    Codes,
    GcEvent,
    GcEvents,
    Message,
    Phase,
    Phases,
    Row,
    Sampler,
    Samples,
    StackNode,
    Stacks,
    Tick,
    TypeName,
    Types,
)
from heaptop.protocol.registry import REPLIES

KINDS: Final = 5
STACKS: Final = 4
LARGEST: Final = (1 << 63) - 1

plain = st.sampled_from([0, 1, 2, 5, 100, 65_536, 10**9, 1 << 32, 1 << 40, 1 << 47, LARGEST]) | st.integers(0, LARGEST)
usual = st.sampled_from([1, 24, 100, 512, 4096, 10**6, 10**8])
"""Sizes, and steps of clocks, such as there are."""
records = st.sampled_from([plain, usual, st.integers(0, (1 << 64) - 1)]).flatmap(lambda numbers: numbers)


@st.composite
def sessions(draw: st.DrawFn) -> list[Message]:
    """What an agent says from the beginning of its session; ids of blocks are right, any figure may be anything."""
    live_blocks: set[int] = set()
    said: list[Message] = [
        Types(0, tuple(TypeName("app", f"T{number}") for number in range(KINDS))),
        Sampler(1, draw(plain), True, 1, 1, tuple(draw(st.lists(plain, min_size=2, max_size=2))), 1, path=("", "/a")),
        Codes(0, (CodeName("", "", 0), CodeName("/a/b.py", "f", draw(plain)), CodeName("<x>", "g", 1))),
        Stacks(1, (StackNode(0, 1, 3), StackNode(1, 0, 0), StackNode(1, 2, (1 << 31) - 1))),
    ]
    epoch = 1
    for _ in range(draw(st.integers(1, 6))):
        births = []
        for number in draw(st.sets(st.integers(0, 12))) - live_blocks:
            stack, kind, rate = draw(st.integers(0, STACKS - 1)), draw(st.integers(0, KINDS)), draw(st.integers(0, 1))
            births.append(BIRTH.pack(number, stack, draw(records), max(draw(records), 1), kind, 1, rate, 0))
            live_blocks.add(number)
        dying = draw(st.sets(st.sampled_from(sorted(live_blocks)))) if live_blocks else set()
        deaths = [DEATH.pack(number, draw(st.integers(0, KINDS)), draw(records)) for number in dying]
        live_blocks -= dying
        typed = [TYPED.pack(number, draw(st.integers(0, KINDS - 1))) for number in draw(st.sets(st.integers(0, 15)))]
        clocks = draw(st.sampled_from([plain, usual]))
        said.append(
            Samples(draw(clocks), draw(clocks), b"".join(births), b"".join(deaths), b"".join(typed), draw(plain))
        )
        if draw(st.booleans()):
            said.append(
                Census(1, draw(plain), "clone", True, "", (Row(0, 0, draw(plain), draw(plain)),), 1, 1, 1, 1, 0)
            )
        event = GcEvent(
            draw(plain), draw(st.integers(0, 2)), draw(plain), draw(plain), draw(plain), draw(st.none() | plain),
            draw(st.none() | plain),
        )  # fmt: skip
        said.append(GcEvents((event,), draw(plain)))
        said.append(Phases((Phase("p", draw(plain), draw(st.none() | plain)),), draw(plain)))
        said.append(Tick(1, draw(plain), draw(plain), draw(plain), True, (1, 1, 1), 0, 1, draw(plain)))
        what = draw(st.sampled_from(["go on"] * 6 + ["void", "off", "off and on"]))
        if "off" in what:
            said.append(Sampler(2, draw(plain), False, 0, 1, (), epoch))
        if what in ("void", "off and on"):
            epoch += 1
            live_blocks.clear()
            said.append(Sampler(3, draw(plain), True, 1, 1, (65_536, 1), epoch))
        elif what == "off":
            break
    return said


def everything(sampling: Sampling, history: History) -> None:
    """Ask for every figure there is."""
    for ask in (lifetimes, over_time, producers, reports, collections):
        ask(sampling, history)


def lifetimes(sampling: Sampling, history: History) -> None:
    figures = LifetimeTable(sampling)
    for attribute in GROUPS:
        for group in (*figures.groups(attribute), figures.group()):
            figures.figures(group.key)
            sampling.lives.survival(group.key, live_blocks(sampling, group.key), "blocks")
            curve = figures.survival(group.key, mortality=True)
            assert curve is None or all(0 <= one.low <= one.object_survival <= one.high <= 1 for one in curve.points)
            chart = sampling.lifetime_bands.chart(group.key, alive(sampling, group.key))
            assert chart is None or all(len(band.bytes) == len(chart.times_ns) for band in chart.bands)
    figures.time_ns(1e9)
    volume_by_age(sampling)


def over_time(sampling: Sampling, history: History) -> None:
    eventual.rows_of(eventual.by_lifetime(sampling), "growth", True)
    for text in ("lifetime>1MB", "lifetime>10s"):
        where = parse_filter(text)
        assert where.lifetime is not None
        for key in eventual.GROUPED:
            try:
                eventual.restricted(sampling, key, where, eventual.longer_than(where.lifetime, sampling), 3)
            except UsageError:
                assert text == "lifetime>10s"
    for name in (key.name for key in BAND_KEYS.values() if key.origin is not Origin.CENSUS):
        for where in (EVERYTHING, parse_filter("size>1kB"), parse_filter("!site:f")):
            bands(sampling.moments.records, name, where, 3)
            table(sampling.moments.records, name, where)


def producers(sampling: Sampling, history: History) -> None:
    held = sampling.samples.freeze()
    for samples in (sampling.samples, held):
        tables = ProducerTables(samples, sampling.sites)
        tallies = tables.tallies(samples, parse_filter("!type:none count>0"))
        for key in TABLE_KEYS:
            for group in tables.groups(tallies, key):
                assert group.live.low <= group.live.bytes <= group.live.high
                assert len(group.classes) == 4
                [group.figure(column) for column in ("allocated", "freed", "count", "samples", "error")]
                tables.stacks(group)
        for merged in (False, True):
            amounts = tables.amounts(tables.paths(merged=merged), tallies)
            for callee in tables.callees(amounts):
                assert callee.live.low <= callee.live.bytes <= callee.live.high
                assert 0 <= callee.figure("direct") <= callee.weight
        older_at(samples, sampling.moments.records)
        bins(samples)
    RecentMoments().trend(sampling.moments.records, "site", EVERYTHING)("x")


def reports(sampling: Sampling, history: History) -> None:
    snapshot = history.latest
    if snapshot is None:
        return
    for by in REPORTS:
        for where in (EVERYTHING, parse_filter("lifetime>1kB !site:x"), parse_filter("lifetime>1s")):
            if by != "lifetime" or not where:
                rows = report_rows(by, sampling, snapshot, where)
                report_json(by, rows, sampling, snapshot, pid=1, python="3", where=where, seconds=1.0)


def collections(sampling: Sampling, history: History) -> None:
    sampling.gc.spans(sampling.timeline)
    sampling.gc.series()
    assert sampling.gc.totals is not None


@pytest.mark.slow
@settings(max_examples=100)
@given(sessions())
def test_any_session_is_refused_or_every_table_can_be_made(session: list[Message]) -> None:
    sampling, history = Sampling(), History()
    try:
        for message in session:
            if passes(message):
                history.feed(message)
                sampling.feed(message)
    except ProtocolError:
        pass  # what was said before stays
    everything(sampling, history)


def passes(message: Message) -> bool:
    """Whether the codec lets it through."""
    try:
        return decode(encode(message), REPLIES) == message
    except ProtocolError:
        return False


def begun(interval: int = 1) -> Sampling:
    sampling = Sampling()
    sampling.feed(Sampler(1, 0, True, interval, 9, (interval,), 1))
    return sampling


def birth(number: int = 0, clock: int = 1, size: int = 1) -> bytes:
    return BIRTH.pack(number, 0, clock, size, 0, 1, 0, 0)


@pytest.mark.parametrize(
    "say",
    [
        lambda sampling: sampling.feed(Samples(1, 1, birth(size=(1 << 47) + 1), b"")),
        lambda sampling: sampling.feed(Samples(1, 1, birth(clock=1 << 61), b"")),
        lambda sampling: sampling.feed(Samples(1, 1 << 61, birth(), b"")),
        lambda sampling: sampling.feed(Samples(1, 1, birth(), DEATH.pack(0, 0, 1 << 61))),
        lambda sampling: sampling.feed(Sampler(1, 0, True, 1, 9, (1, (1 << 40) + 1), 1)),
        lambda sampling: [
            sampling.feed(Samples(1, 1, birth(2 * number, 1, 1 << 47) + birth(2 * number + 1, 1, 1 << 47), b""))
            for number in range(1 << 14)
        ],
    ],
    ids=["size", "birth", "clock", "death", "interval", "sum"],
)
def test_what_no_machine_can_allocate_is_refused(say: Callable[[Sampling], object]) -> None:
    with pytest.raises(ProtocolError):
        say(begun())
