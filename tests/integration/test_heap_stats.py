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


def said(interpreter: Interpreter, *options: str, environment: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    library = interpreter.place(building.extension("heap_stats.c", "module/heap_stats.c"))
    answer = subprocess.run(
        interpreter.command([*options, "-c", PROGRAM, library]),
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
    for heaps, in_use, free, _, _, wraps in (start, large, many, freed):
        assert heaps == in_use + free
        assert wraps is False
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
