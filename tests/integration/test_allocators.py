"""jemalloc, tcmalloc and mimalloc in malloc's place, and glibc's own: named, explained, asked without harm; and what
heaptop advises returns what it says."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from heaptop.analysis.rss.memory import MemoryByUse, explain
from heaptop.injector.inspect.process import rss_bytes
from heaptop.protocol.messages import Memory
from tests.interpreters import Interpreter
from tests.support import native
from tests.support.allocators import allocator
from tests.support.attaching import Attachment, attached, resting
from tests.support.processes import PATIENCE, Target, eventually, running

MIB = 1 << 20
TOTAL = 80_000_000
"""What the target gives out."""

pytestmark = pytest.mark.pythons("3.8", "3.13")


def preloaded(name: str) -> Mapping[str, str]:
    return {} if name == "glibc" else {"LD_PRELOAD": allocator(name)}


@contextmanager
def allocating(
    interpreter: Interpreter, name: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[Target, Attachment]]:
    """The target under an allocator, attached to."""
    native.core()
    with running(
        interpreter, "allocating", *arguments, environment={**preloaded(name), **(environment or {})}
    ) as target:
        with attached(target.pid) as attachment:
            yield target, attachment
            assert attachment.close() is None
        resting(target.pid)
        target.signal(signal.SIGTERM)
        assert target.process.wait(PATIENCE) == 7
        assert "BADCHILD" not in target.stdout()


def memory_of(attachment: Attachment) -> tuple[Memory, MemoryByUse]:
    attachment.source.memory_now()
    said = attachment.message(Memory)
    found = explain(said, None)
    assert found is not None
    assert sum(row.bytes for row in found.rows) == found.rss
    return said, found


def row(found: MemoryByUse, key: str) -> int:
    return next((each.bytes for each in found.rows if each.key == key), 0)


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc"])
def test_in_use_and_free_are_told_apart_by_the_allocators_name(interpreter: Interpreter, name: str) -> None:
    """A quarter of the blocks lives. The figures account for the resident memory that nobody else has."""
    with allocating(interpreter, name, "4000", "4") as (_, attachment):
        said, found = memory_of(attachment)
    other, outside = said.other_malloc, said.outside
    assert (said.malloc_name, said.malloc, said.malloc_gap) == (name, None, "")
    assert other is not None
    assert outside is not None
    assert TOTAL / 4 < other.in_use < TOTAL / 4 + 16 * MIB
    (free,) = (each for each in found.rows if each.key == "malloc_free")
    assert free.name == f"free in {name}"
    assert 0.6 * TOTAL < free.bytes < 0.9 * TOTAL
    held = sum(
        each.rss
        for each in outside.regions
        if each.kind in ("heap", "chunk") or (each.kind == "anonymous" and not each.name)
    )
    accounted = other.in_use + other.free_blocks + other.free_pages + other.metadata
    assert abs(held - accounted) < 0.05 * held + 4 * MIB


def test_mimalloc_is_named_and_its_free_memory_is_not_guessed(interpreter: Interpreter) -> None:
    with allocating(interpreter, "mimalloc", "4000", "4") as (_, attachment):
        said, found = memory_of(attachment)
    assert (said.malloc_name, said.other_malloc) == ("mimalloc", None)
    assert "malloc_free" not in {each.key for each in found.rows}
    assert "The program's malloc is mimalloc: it does not report what is free in it." in found.notes


@pytest.mark.parametrize("name", ["glibc", "jemalloc", "tcmalloc", "mimalloc"])
def test_a_program_that_allocates_in_threads_and_forks_runs_on_while_it_is_asked(
    interpreter: Interpreter, name: str
) -> None:
    with allocating(interpreter, name, "churn") as (_, attachment):
        for _ in range(15):
            memory_of(attachment)


@pytest.mark.parametrize(("name", "size"), [("glibc", "4000"), ("glibc", "60000"), ("tcmalloc", "4000")])
def test_what_is_advised_returns_at_least_what_it_says(interpreter: Interpreter, name: str, size: str) -> None:
    every = "8" if name == "glibc" else "0"
    with allocating(interpreter, name, size, every) as (target, attachment):
        _, found = memory_of(attachment)
        (advice,) = found.advice
        word = {"glibc": "malloc_trim", "tcmalloc": "MallocExtension_ReleaseFreeMemory"}[name]
        assert word in advice
        before = rss_bytes(target.pid)
        target.signal(signal.SIGUSR1)
        assert eventually(lambda: "RETURNED" in target.stdout())
        after = rss_bytes(target.pid)
        assert before is not None
        assert after is not None
        assert before - after > promised(advice) - 3 * MIB
        assert promised(advice) > 8 * MIB
        assert memory_of(attachment)[1].advice == ()


def promised(advice: str) -> int:
    """Its number of MiB, in bytes."""
    words = advice.split()
    return round(float(words[words.index("MiB") - 1] if "MiB" in words else words[words.index("MiB:") - 1]) * MIB)


def test_nothing_is_advised_where_free_blocks_lie_between_others(interpreter: Interpreter) -> None:
    """Every second block of 1000 bytes lives: no page is free, and trimming returns nothing."""
    with allocating(interpreter, "glibc", "1000", "2") as (target, attachment):
        _, found = memory_of(attachment)
        assert row(found, "malloc_free") > 0.4 * TOTAL
        assert found.advice == ()
        before = rss_bytes(target.pid)
        target.signal(signal.SIGUSR1)
        assert eventually(lambda: "RETURNED" in target.stdout())
        assert abs((before or 0) - (rss_bytes(target.pid) or 0)) < 4 * MIB


def test_fewer_arenas_keep_less_where_that_is_advised(interpreter: Interpreter) -> None:
    with allocating(interpreter, "glibc", "threads") as (target, attachment):
        _, found = memory_of(attachment)
        (advice,) = (each for each in found.advice if "MALLOC_ARENA_MAX=2" in each)
        kept = rss_bytes(target.pid)
    assert promised(advice) > 0.7 * TOTAL
    with allocating(interpreter, "glibc", "threads", environment={"MALLOC_ARENA_MAX": "2"}) as (target, _):
        assert (rss_bytes(target.pid) or 0) < (kept or 0) - 0.2 * promised(advice)


def test_jemalloc_returns_its_pages_with_the_environment_that_is_advised(interpreter: Interpreter) -> None:
    with allocating(interpreter, "jemalloc", "4000", "0") as (target, attachment):
        _, found = memory_of(attachment)
        (advice,) = found.advice
        kept = rss_bytes(target.pid)
    (setting,) = (word for word in advice.split() if word.startswith("MALLOC_CONF="))
    name, _, value = setting.partition("=")
    with allocating(interpreter, "jemalloc", "4000", "0", environment={name: value}) as (target, attachment):
        assert eventually(lambda: (rss_bytes(target.pid) or 0) < (kept or 0) - 0.8 * promised(advice))
        assert eventually(lambda: memory_of(attachment)[1].advice == ())
