"""The self-check: it passes on every Python found, and no fact of its table can be wrong without its saying so."""

from __future__ import annotations

import ast
import gc
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from heaptop.injector import agent
from heaptop.injector import native as sources
from heaptop.injector.inspect.layout import VERSIONS
from tests.interpreters import Interpreter, since
from tests.support import building, native

FOLDER: Final = Path(sources.__file__).parent


@pytest.fixture(scope="module")
def core() -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader("_core", str(native.core()))
    spec = importlib.util.spec_from_loader("_core", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


OF_ASYNCIO = re.compile(r"future_|task_|step_task")
"""Facts of asyncio, which need not be there: test_native_labels tries them on every Python."""
OF_CONTEXTS = {"hamt_items", "variable_name"}
"""Likewise of contextvars."""
OPTIONAL = {"interpreter_modules", "interpreter_codecs", "interpreter_atexit", "interpreter_lock"}
"""What the roots do without where it is wrong: test_native_roots."""
OF_CORE_FILES = {"runtime_interpreters", "runtime_main", "runtime_collector"} | {
    "interpreter_next",
    "interpreter_collector",
}
"""What a walk of this process does not need: the next test."""
OF_OWNERS = re.compile(r"mmap_|ctypes_|zlib_|bz2_|stringio_")
"""Likewise of types that own memory natively: test_core_owners."""
OF_BOUNDS = {"deque_block", "deque_block_next", "deque_state", "deque_maxlen", "cache_table", "cache_maxsize"} | {
    "ordered_first",
    "ordered_next",
}
"""Likewise the bounds, and the blocks of a deque and an OrderedDict: test_core_fill."""

OF_RULES = re.compile(
    r"static_type|type_cache$|type_size$|heap_module$|generator_(code|state|cleared)$|values_visited_twice$|code_c(ache|ell_)"
)
"""What only a walk without code needs: test_native_rules."""


@pytest.mark.sample(2)
def test_every_fact_is_checked(interpreter: Interpreter) -> None:
    found: dict[str, dict[int, str | int]] = native.told(interpreter, "core_breaks.py")
    assert found.pop("") == {0: ""}
    assert len(found) > 60
    for fact, sentences in found.items():
        for difference, sentence in sentences.items():
            assert isinstance(sentence, str), f"{fact} {difference:+}: the check died by signal {sentence}"
            unneeded = fact in OF_CONTEXTS | OPTIONAL | OF_BOUNDS | OF_CORE_FILES
            unchecked = unneeded or any(of.match(fact) for of in (OF_ASYNCIO, OF_OWNERS, OF_RULES))
            assert sentence or unchecked, f"{fact} {difference:+}: the check saw nothing"
            assert not sentence.startswith("failed"), f"{fact} {difference:+}: {sentence}"


@pytest.mark.parametrize("fact", ["", *sorted(OF_CORE_FILES)])
def test_places_that_only_core_files_need_are_right_or_known_to_be_wrong(interpreter: Interpreter, fact: str) -> None:
    facts: dict[str, int] = native.told(interpreter, "core_places.py", fact)
    assert facts["runtime_main"] == (0 if fact else facts["runtime_interpreters"] + 8)
    assert sum(map(bool, (facts["runtime_collector"], facts["interpreter_collector"]))) == (0 if fact else 1)


def test_a_collection_under_way_is_no_misfit(interpreter: Interpreter) -> None:
    """Who asks may let it end and ask again: another thread needs the GIL for that."""
    sentence = "the interpreter is collecting, or gc_collecting does not fit this Python"
    assert native.told(interpreter, "core_collecting.py") == [("BlockingIOError", sentence), ""]


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (0x030E00F0, "incremental collector"),
        (0x030E04F0, "incremental collector"),
        (0x030711F0, "not in the native core's table"),
        (max(VERSIONS)[1] + 1 << 16 | 0x030000A0, "not in the native core's table"),
        (0x04000000, "not in the native core's table"),
    ],
)
def test_the_core_refuses_versions_that_it_has_no_table_for(core: ModuleType, version: int, reason: str) -> None:
    with pytest.raises(RuntimeError, match=reason):
        core.open(version)
    with pytest.raises(RuntimeError, match="not open"):
        core.stop(0)


@pytest.mark.parametrize(("flags", "reason"), [("t", "free-threaded"), ("d", "debug build")])
def test_the_core_refuses_builds_of_another_layout(
    core: ModuleType, flags: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "abiflags", flags)
    with pytest.raises(RuntimeError, match=reason):
        core.open(sys.hexversion)


def test_leaves_no_object_behind(core: ModuleType) -> None:
    import gc  # noqa: PLC0415

    core.open(sys.hexversion)
    core.check(gc)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(5):
            assert core.check(gc) == ""
        assert len(gc.get_objects()) - before < 5
        assert gc.collect() == 0
    finally:
        gc.enable()


def check_pieces() -> list[str]:
    """The pieces of its Python, as they are compiled in the target."""
    found = [""]
    for line in (FOLDER / "module" / "check_source.h").read_text().splitlines():
        if match := re.match(r'    ("(?:[^"\\]|\\.)*")(,?)', line):
            found[-1] += ast.literal_eval(match[1])
            found += [""] * bool(match[2])
    return found[:-1]


def test_no_piece_of_the_check_takes_long_to_compile() -> None:
    pieces = check_pieces()
    assert len(pieces) > 30
    for piece in pieces:
        nodes = sum(1 for _ in ast.walk(ast.parse(piece, feature_version=(3, 8))))
        assert nodes <= 1.2 * agent.MAX_PIECE, f"{nodes}: {piece[:80]}"


def test_the_check_gives_way_between_its_parts(core: ModuleType) -> None:
    calls: list[None] = []
    core.open(sys.hexversion)
    usual = core.give_way
    core.give_way = lambda: calls.append(None)
    try:
        assert core.check(gc) == ""
        assert len(calls) > 2 * len(check_pieces())

        def fail() -> None:
            raise MemoryError

        core.give_way = fail
        with pytest.raises(MemoryError):
            core.check(gc)
    finally:
        core.give_way = usual
    assert core.check(gc) == ""


@pytest.mark.pythons(*since("3.12"))
@pytest.mark.parametrize("left", [0, 8])
def test_an_interpreter_that_is_freed_meanwhile_is_not_read(interpreter: Interpreter, left: int) -> None:
    """With a GIL of its own it may end at any moment, and its memory with it."""
    assert native.told(interpreter, "core_gone.py", left) == ""


@pytest.mark.pythons("3.8", "3.13")
def test_nobody_waits_for_the_dynamic_linker_with_the_gil(interpreter: Interpreter) -> None:
    """Another thread has its lock, and waits for the GIL in the beginning of a library: both would wait for ever."""
    assert native.told(interpreter, "core_looks_up.py", building.library("late_plugin.c")) == ""
