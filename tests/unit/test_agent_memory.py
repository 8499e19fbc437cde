"""What the agent says of memory: with a native core, without one, and where malloc is not glibc's."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from heaptop.protocol.codec import decode
from heaptop.protocol.messages import Malloc, Memory, OtherMalloc, OwnPages
from heaptop.protocol.registry import REPLIES
from tests.support.agents import agent_space

SPACE = agent_space()


def answer(core: object, reason: str = "") -> Memory:
    """The agent's answer, through the product's own decoder."""
    sent: list[tuple[str, dict[str, Any]]] = []
    before = SPACE["send"]
    SPACE["send"] = lambda s, kind, fields: sent.append((kind, fields))
    try:
        SPACE["memory"](SimpleNamespace(core=core, core_reason=reason, own_bytes=(300, 7000)), 9)
    finally:
        SPACE["send"] = before
    ((kind, fields),) = sent
    out = bytearray()
    SPACE["pack"]([kind, fields], out)
    assert msgpack.unpackb(out)[0] == "memory"
    said = decode(bytes(out), REPLIES)
    assert isinstance(said, Memory)
    assert (said.id, said.outside) == (9, None)
    assert said.blocks > len(gc.get_objects())
    return said


def stats(**changes: object) -> SimpleNamespace:
    found = {
        "allocator": "pymalloc",
        "foreign": None,
        "malloc": (300, 200, 100, 40, 2, False, 5),
        "name": None,
        "other": None,
        **changes,
    }
    return SimpleNamespace(
        blocks=lambda ask: ask(), heap_stats=lambda: found, own_pages=lambda: [(4096, 8192, "tables")]
    )


def test_with_a_core_the_agent_reports_malloc() -> None:
    said = answer(stats())
    assert said.malloc == Malloc(300, 200, 100, 40, 2, False, 5)
    assert (said.allocator, said.malloc_gap, said.malloc_library) == ("pymalloc", "", "")
    assert said.own_pages == (OwnPages(4096, 8192, "tables"),)
    assert (said.own_small, said.own_large) == (300, 7000)


def test_below_a_hook_the_allocator_has_no_name() -> None:
    assert answer(stats(allocator=None)).allocator == ""


@pytest.mark.parametrize(("library", "named"), [("/lib/libscudo.so", "libscudo"), (None, "another library")])
def test_an_unknown_malloc_is_named_by_its_library_and_not_read(library: str | None, named: str) -> None:
    said = answer(stats(malloc=None, foreign=library))
    assert said.malloc is None
    assert named in said.malloc_gap
    assert said.malloc_library == (library or "")


def test_figures_of_an_allocator_in_mallocs_place_are_reported_with_its_name() -> None:
    said = answer(stats(malloc=None, foreign="/lib/libjemalloc.so.2", name="jemalloc", other=(900, 50, 70, 8)))
    assert (said.malloc, said.malloc_name, said.malloc_gap) == (None, "jemalloc", "")
    assert said.other_malloc == OtherMalloc(900, 50, 70, 8)


def test_one_that_has_no_figures_is_named_in_the_reason() -> None:
    said = answer(stats(malloc=None, foreign="/lib/libmimalloc.so.2", name="mimalloc"))
    assert (said.malloc_name, said.other_malloc) == ("mimalloc", None)
    assert said.malloc_gap == "The program's malloc is mimalloc: it does not report what is free in it."


def test_without_a_core_the_agent_says_why_malloc_is_unknown() -> None:
    said = answer(None, "this build is free-threaded.")
    assert (said.malloc, said.allocator) == (None, "")
    assert said.own_pages == ()
    assert said.malloc_gap.endswith("it is not loaded: this build is free-threaded.")


def test_own_objects_are_measured_by_where_they_lie() -> None:
    """By size, what Python's arenas have room for and what not; what leads to the program is not followed."""
    tables: dict[str, Any] = {"filter_lists": [], "traced_files": {}, "traced_codes": {}, "traced_nodes": {}}
    session = SimpleNamespace(**tables, hold_cpu=0, gil=0, longest=0, stopped=0, core=None)
    before = SPACE["own_bytes"](session)
    program = [bytes(1 << 20)]
    session.small, session.large, session.module, session.filter_lists = bytes(100), bytes(10_000), gc, [program]
    session.program = program
    small, large = (now - then for now, then in zip(SPACE["own_bytes"](session), before, strict=True))
    assert before[0] > 50_000  # the agent's own code
    assert large == bytes(10_000).__sizeof__()
    assert bytes(100).__sizeof__() <= small < 1_000  # the session's own dict has grown
