"""Lints: each is said from its threshold on, and not where it was allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from heaptop.analysis.heap.history import Amount
from heaptop.analysis.leaks.lints import LINTS, LintContext, lints_of
from heaptop.analysis.leaks.marks import MarkContext
from heaptop.protocol.findings import NO_LEAK, UNCLEAR, UNREACHED, Lint, MarkFacts, Suspect
from heaptop.protocol.images import KINDS, Image, KindTotal
from heaptop.protocol.messages import (
    Malloc,
    MallocBlocks,
    MallocFrame,
    MallocSite,
    MallocSites,
    Memory,
    OtherMalloc,
    Outside,
    Region,
    TypeName,
)
from tests.fakes.heap import PlantedImage
from tests.fakes.shop import growing_shop
from tests.unit.hunting_cases import SUSPECT, image_of

MIB = 1 << 20
EMPTY = replace(image_of(PlantedImage(growing_shop(1)), 1), objects=0, bytes=0)
CACHED = replace(
    SUSPECT,
    type="app.Report",
    retainer="module app .Report .total",
    holder="functools._lru_cache_wrapper",
    path=("module app", ".Report", ".total", "lru_cache of app.Report.total", "tuple[0]", "app.Report"),
)


def seen(
    now: MarkContext | None = None,
    then: MarkContext | None = None,
    *,
    image: Image = EMPTY,
    grown: Mapping[str, int] | None = None,
    suspects: tuple[Suspect, ...] = (),
) -> LintContext:
    """Twenty objects of each type in ``grown`` at the mark, and so many more now."""
    names = {TypeName(*name.rpartition(".")[::2]): more for name, more in (grown or {}).items()}
    return LintContext(
        image=image,
        now=now or MarkContext(),
        totals={name: Amount(20 + more, 0) for name, more in names.items()},
        then=then or MarkContext(),
        then_totals={name: Amount(20, 0) for name in names},
        mark=MarkFacts("start", 0, 0, 0),
        suspects=suspects,
    )


def only(found: LintContext) -> Lint | None:
    lints = list(lints_of(found))
    assert len(lints) <= 1
    return lints[0] if lints else None


def uncollected(objects: int, *, gc_enabled: bool = False) -> LintContext:
    total = KindTotal(KINDS.index("none"), objects, 64 * objects)
    return seen(image=replace(EMPTY, kinds=(total,), cycles=objects // 2, gc_enabled=gc_enabled))


def around(name: str, before: Any, now: Any) -> LintContext:
    return seen(MarkContext(**{name: now}), MarkContext(**{name: before}))


def sampled(*sizes: int) -> MallocSites:
    """Live bytes of the lines 1, 2 …, each in blocks of a MiB that are sampled for sure."""
    sites = [
        MallocSite("/lib/libz.so.1", "inflate", (MallocFrame("/srv/app.py", "load", line),), "",
                   (MallocBlocks(MIB, MIB, 1 << 10, size // MIB),))
        for line, size in enumerate(sizes, 1)
    ]  # fmt: skip
    return MallocSites(1 << 10, 1 << 10, 1000, 0, 0, tuple(sites))


def native_leak(then: MallocSites | None, now: MallocSites | None) -> str:
    """The sentence of a native leak of 40 MiB."""
    contexts = []
    for rss, native in ((50 * MIB, then), (90 * MIB, now)):
        counted = memory(rss, 0)
        assert counted.outside is not None
        counted = replace(counted, outside=replace(counted.outside, native=native))
        contexts.append(MarkContext(rss=rss, memory=counted))
    lint = only(seen(contexts[1], contexts[0]))
    assert lint is not None
    return lint.sentence


def test_a_native_leak_has_the_line_and_the_library_that_grew_most() -> None:
    sentence = native_leak(sampled(30 * MIB, 10 * MIB, 5 * MIB), sampled(30 * MIB, 50 * MIB, 7 * MIB))
    assert sentence.endswith("; /srv/app.py:2 holds 40.0 MiB ± 0 B more by libz.so.1 inflate")
    assert "/srv/app.py:1 holds 40.0 MiB" in native_leak(sampled(), sampled(40 * MIB))


def test_a_native_leak_names_no_line_where_none_grew_or_nothing_was_sampled() -> None:
    assert "holds" not in native_leak(sampled(30 * MIB), sampled(30 * MIB))
    assert "holds" not in native_leak(sampled(30 * MIB), None)
    assert "holds" not in native_leak(None, sampled(30 * MIB))


CASES: dict[str, Callable[[int], LintContext]] = {
    "gc-off-cycles": uncollected,
    "gc-garbage": lambda more: around("garbage", 3, 3 + more),
    "threads": lambda more: around("threads", 4, 4 + more),
    "tasks": lambda more: seen(grown={"_asyncio.Task": more}),
    "loggers": lambda more: seen(grown={"logging.Logger": more}),
    "tracebacks": lambda more: seen(grown={".traceback": more}),
    "modules": lambda more: seen(grown={"builtins.module": more}),
    "code": lambda more: seen(grown={"builtins.code": more}),
    "atexit": lambda more: around("exits", 1, 1 + more),
    "lru-cache": lambda more: seen(suspects=(replace(CACHED, held=more),)),
    "rss": lambda more: around("rss", 50 * MIB, 50 * MIB + more),
}


@pytest.mark.parametrize("name", LINTS)
def test_from_its_threshold_on(name: str) -> None:
    threshold = LINTS[name].threshold
    assert only(CASES[name](threshold - 1)) is None
    lint = only(CASES[name](threshold))
    assert lint is not None
    assert (lint.name, lint.threshold) == (name, threshold)
    assert lint.now - lint.before >= threshold or name == "gc-off-cycles"
    assert not lint.sentence.endswith(".")


@pytest.mark.parametrize("name", LINTS)
def test_what_is_allowed_is_not_said(name: str) -> None:
    found = CASES[name](10 * LINTS[name].threshold)
    assert [lint.name for lint in lints_of(found)] == [name]
    assert list(lints_of(found, [name])) == []


def test_garbage_is_no_lint_where_it_will_be_collected() -> None:
    assert only(uncollected(10_000, gc_enabled=True)) is None


def test_garbage_is_not_counted_and_what_comes_and_goes_is_no_lint() -> None:
    found = seen(grown={"traceback": 25})
    assert only(found) is not None
    assert only(replace(found, garbage={"traceback": 6})) is None, "19 more that stay"
    assert only(replace(found, verdict_of=lambda _: NO_LEAK)) is None
    tasks = seen(grown={"_asyncio.Task": 25})
    assert only(replace(tasks, verdict_of=lambda type: NO_LEAK if "tasks" in type else UNCLEAR)) is not None


def test_what_is_not_known_is_not_said() -> None:
    assert only(around("threads", -1, 50)) is None
    assert only(around("exits", 5, None)) is None
    assert only(around("rss", None, 900 * MIB)) is None


def test_a_cache_that_may_be_at_its_bound_is_not_said_to_grow() -> None:
    assert only(seen(suspects=(replace(CACHED, verdict=UNCLEAR),))) is None
    assert only(seen(suspects=(replace(CACHED, path=("module app", ".total", "app.Report")),))) is None


def test_resident_memory_names_the_sites_of_blocks_that_no_object_has() -> None:
    lost = replace(SUSPECT, type=UNREACHED, site="app/rates.py:13 convert")
    found = only(seen(MarkContext(rss=90 * MIB), MarkContext(rss=50 * MIB), suspects=(SUSPECT, lost)))
    assert found is not None
    assert found.sentence.endswith("; memory blocks that no live object has come from app/rates.py:13 convert")


def test_resident_memory_that_live_objects_explain_is_no_lint() -> None:
    assert (
        only(seen(MarkContext(rss=90 * MIB), MarkContext(rss=50 * MIB), image=replace(EMPTY, bytes=30 * MIB))) is None
    )


def growing(rate: int, seconds: int = 40, *, noise: int = 0, steps: Mapping[int, int] | None = None) -> LintContext:
    """RSS by the second: at this rate, with a wave of this height, and steps of so many bytes at some seconds."""
    steps = steps or {}
    course = [
        (
            second * 10**9,
            50 * MIB + rate * second + (second % 2) * noise + sum(size for at, size in steps.items() if at <= second),
        )
        for second in range(seconds)
    ]
    found = seen(MarkContext(rss=course[-1][1]), MarkContext(rss=course[0][1]))
    return replace(found, course=course)


@pytest.mark.parametrize("noise", [0, 200 << 10])
def test_a_small_native_leak_is_said_with_its_rate(noise: int) -> None:
    lint = only(growing(160_000, noise=noise))
    assert lint is not None
    assert "(steadily, 156 KiB/s with heaptop's own), and live objects by 0 B" in lint.sentence
    assert lint.now - lint.before >= lint.threshold


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(growing(0, steps={5: 6 * MIB}), id="one large request"),
        pytest.param(growing(0, steps={2: 2 * MIB, 20: 3 * MIB}), id="two"),
        pytest.param(growing(160_000, seconds=10), id="too short a time"),
        pytest.param(growing(20_000), id="no more than heaptop itself leaves"),
        pytest.param(growing(80_000, noise=8 * MIB), id="less than the noise"),
        pytest.param(growing(0, noise=2 * MIB), id="noise alone"),
        pytest.param(growing(-160_000), id="shrinking"),
    ],
)
def test_what_does_not_grow_all_the_time_is_no_native_leak(found: LintContext) -> None:
    assert only(found) is None


def test_growth_that_live_objects_explain_is_none_however_steady() -> None:
    found = growing(160_000)
    assert only(replace(found, image=replace(EMPTY, bytes=6 * MIB))) is None


def memory(in_use: int, free: int, pieces: int = 0) -> Memory:
    """What malloc has given out, and what it keeps."""
    outside = Outside((Region("heap", "", in_use + free, in_use + free),), 0, 0, 0, None, 0, ())
    return Memory(0, 0, 0, malloc=Malloc(in_use + free, in_use, free, 0, 0, False, pieces), outside=outside)


def other_memory(name: str, in_use: int, pages: int) -> Memory:
    """The same of an allocator in its place."""
    outside = Outside((Region("anonymous", "", in_use + pages, in_use + pages),), 0, 0, 0, None, 0, ())
    figures = OtherMalloc(in_use, 0, pages, 0)
    return Memory(0, 0, 0, malloc_library="x.so", malloc_name=name, other_malloc=figures, outside=outside)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (memory(90 * MIB, 10 * MIB), "a native leak: 40.0 MiB more are in use outside Python objects"),
        (
            memory(50 * MIB, 50 * MIB),
            "fragmentation: allocators keep 40.0 MiB more free memory, 40.0 MiB of it in malloc",
        ),
        (
            memory(50 * MIB, 50 * MIB, pieces=128),
            "fragmentation: allocators keep 40.0 MiB more free memory, 40.0 MiB of it in malloc. "
            "malloc_trim(0) returns at least 49.0 MiB (for example through ctypes)",
        ),
        (memory(70 * MIB, 30 * MIB), "+20.0 MiB in use outside Python objects, and +20.0 MiB free in allocators"),
        (None, "a native leak or fragmentation (allocators were not queried)"),
    ],
)
def test_where_resident_memory_went(after: Memory | None, words: str) -> None:
    then = MarkContext(rss=60 * MIB, memory=memory(50 * MIB, 10 * MIB))
    lint = only(seen(MarkContext(rss=100 * MIB, memory=after), then))
    assert lint is not None
    assert lint.sentence == f"resident memory grew by 40.0 MiB, and live objects by 0 B: {words}"


@pytest.mark.parametrize(
    ("in_use", "pages", "words"),
    [
        (
            90, 10,
            "a native leak: 40.0 MiB more are in use outside Python objects (jemalloc gave out 40.0 MiB more)",
        ),
        (
            50, 50,
            "fragmentation: allocators keep 40.0 MiB more free memory, 40.0 MiB of it in jemalloc. jemalloc keeps 50.0 "
            "MiB of unused pages: with MALLOC_CONF=background_thread:true,dirty_decay_ms:1000 in the environment it "
            "returns them within seconds",
        ),
    ],
)  # fmt: skip
def test_where_resident_memory_went_is_told_by_the_allocators_name(in_use: int, pages: int, words: str) -> None:
    then = MarkContext(rss=60 * MIB, memory=other_memory("jemalloc", 50 * MIB, 10 * MIB))
    lint = only(seen(MarkContext(rss=100 * MIB, memory=other_memory("jemalloc", in_use * MIB, pages * MIB)), then))
    assert lint is not None
    assert lint.sentence == f"resident memory grew by 40.0 MiB, and live objects by 0 B: {words}"
