"""What the native core asks of malloc and of Python's allocator, on every Python, by a module made of it alone."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.interpreters import SAMPLE, Interpreter
from tests.support import building
from tests.support.allocators import allocator

PROGRAM: Final = """\
import importlib.util, sys
spec = importlib.util.spec_from_file_location("heap_stats", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
said = [module.heap_stats()]
large = bytes(40 << 20)
said.append(module.heap_stats())
many = [b"m" * 4000 + b"%d" % i for i in range(2000)]
freed = [b"f" * 4000 + b"%d" % i for i in range(2000)]
last = b"l" * 5000
said.append(module.heap_stats())
del freed
said.append(module.heap_stats())
print(said)
"""
SIZE: Final = 2000 * 4000


def said(
    interpreter: Interpreter, *options: str, environment: Mapping[str, str] | None = None, program: str = PROGRAM
) -> list[dict[str, Any]]:
    library = interpreter.place(building.extension("heap_stats.c", "module/heap_stats.c", "life.c"))
    answer = subprocess.run(
        interpreter.command([*options, "-c", program, library]),
        env={**os.environ, **(environment or {})},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert answer.stderr == b""
    found: list[dict[str, Any]] = ast.literal_eval(answer.stdout.decode())
    return found


def test_what_is_given_out_and_taken_back_is_seen(interpreter: Interpreter) -> None:
    answers = said(interpreter)
    assert {answer["allocator"] for answer in answers} == {"pymalloc"}
    assert {answer["foreign"] for answer in answers} == {None}
    start, large, many, freed = (answer["malloc"] for answer in answers)
    for heaps, in_use, free, _, _, wraps, free_chunks in (start, large, many, freed):
        assert heaps == in_use + free
        assert wraps is False
        assert free_chunks > 0
    assert large[4] == start[4] + 1
    assert 40 << 20 <= large[3] - start[3] <= (40 << 20) + (8 << 10)
    assert 2 * SIZE < many[1] - large[1] < 2.2 * SIZE
    assert SIZE < freed[2] - many[2] < 1.1 * SIZE
    assert SIZE < many[1] - freed[1] < 1.1 * SIZE


@pytest.mark.pythons(*SAMPLE)
def test_the_allocator_in_use_is_named(interpreter: Interpreter) -> None:
    for name in ("malloc", "malloc_debug", "pymalloc_debug"):
        assert said(interpreter, environment={"PYTHONMALLOC": name})[0]["allocator"] == name
    assert said(interpreter, "-X", "tracemalloc")[0]["allocator"] is None


@pytest.mark.pythons("3.8", "3.11-debian", "3.13")
def test_another_malloc_is_told_by_its_library(interpreter: Interpreter) -> None:
    other = building.library("other_malloc.c")
    answers = said(interpreter, environment={"LD_PRELOAD": str(other)})
    assert {answer["foreign"] for answer in answers} == {str(other)}
    assert {answer["malloc"] for answer in answers} == {None}
    assert {answer["allocator"] for answer in answers} == {"pymalloc"}


OTHERS: Final = """\
import importlib.util, sys
spec = importlib.util.spec_from_file_location("heap_stats", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
said = [module.heap_stats()]
many = [b"m" * 4000 + b"%d" % i for i in range(20000)]
said.append(module.heap_stats())
many = many[::4]
said.append(module.heap_stats())
del many
said.append(module.heap_stats())
print(said)
"""
"""Gives out 80 MB, takes three quarters of it back, and then the rest."""
GIVEN: Final = 20_000 * 4000


@pytest.mark.pythons("3.8", "3.11-debian", "3.13")
@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc"])
def test_an_allocator_in_mallocs_place_reports_its_own_figures(interpreter: Interpreter, name: str) -> None:
    preloaded = allocator(name)
    answers = said(interpreter, environment={"LD_PRELOAD": preloaded}, program=OTHERS)
    assert {answer["name"] for answer in answers} == {name}
    assert {os.path.realpath(answer["foreign"]) for answer in answers} == {os.path.realpath(preloaded)}
    assert {answer["malloc"] for answer in answers} == {None}
    start, given, quarter, freed = (answer["other"] for answer in answers)
    assert 0.9 * GIVEN < given[0] - start[0] < 1.1 * GIVEN
    assert 0.9 * GIVEN / 4 < quarter[0] - start[0] < 1.1 * GIVEN / 4
    assert abs(freed[0] - start[0]) < GIVEN / 50, "but for what the interpreter has freed meanwhile"
    # Blocks beside others that live are no free pages; those of a page that nobody uses are.
    assert sum(quarter[1:3]) - sum(given[1:3]) > 0.6 * GIVEN
    assert freed[2] - given[2] > 0.6 * GIVEN


@pytest.mark.pythons("3.8", "3.11-debian", "3.13")
def test_mimalloc_is_named_and_its_figures_are_unknown(interpreter: Interpreter) -> None:
    """What it counts of a thread is in its sums when the thread has ended: a wrong figure."""
    answers = said(interpreter, environment={"LD_PRELOAD": allocator("mimalloc")}, program=OTHERS)
    assert {answer["name"] for answer in answers} == {"mimalloc"}
    assert {answer["other"] for answer in answers} == {None}


@pytest.mark.pythons("3.11-debian")
def test_jemallocs_functions_in_a_library_that_is_not_malloc_are_not_asked(interpreter: Interpreter) -> None:
    """A library may have them for itself, and glibc serve the program."""
    fake = building.library("other_mallctl.c")
    for answer in said(interpreter, environment={"LD_PRELOAD": str(fake)}):
        assert (answer["name"], answer["other"], answer["foreign"]) == (None, None, None)
        assert answer["malloc"] is not None
