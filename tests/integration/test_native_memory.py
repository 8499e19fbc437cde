"""Memory that objects own natively is counted once, by its owner, in a census as in a snapshot."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

import pytest

from heaptop import api
from tests.interpreters import Interpreter
from tests.support import zoo
from tests.support.attaching import resting
from tests.support.processes import EXIT_CODE, Target, difference, need_owners, need_package, running

OBJECTS: Final = 1024
"""Bytes of an object beside what it owns: no type here has larger ones."""
VARIES: Final = 0.05
"""Of a compressor's bytes: zlib's own figure is of its tables alone."""


def check(target: Target) -> None:
    """Compare every type with what the program says of it."""
    owned: Mapping[str, int] = ast.literal_eval(target.detail)
    before = resting(target.pid)
    with api.attach(target.pid) as process:
        census = list(process.census())
        types = {name: [row for row in census if fnmatchcase(row.name, name)] for name in owned}
        with process.snapshot() as snapshot:
            kept = {
                name: sum(line.bytes for row in rows for line in snapshot.retainers(row.name))
                for name, rows in types.items()
            }
        memory = process.memory()
    for name, bytes_ in owned.items():
        most = bytes_ * (1 + VARIES) + OBJECTS * sum(row.count for row in types[name])
        assert bytes_ <= sum(row.bytes for row in types[name]) <= most, f"{name} in a census"
        assert bytes_ <= kept[name] <= most, f"{name} in a snapshot"
    assert sum(row.bytes for row in memory.rows) == memory.rss
    assert difference(before, resting(target.pid)) == []
    assert target.terminate() == EXIT_CODE
    assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.13")
def test_buffers_are_counted_once_and_views_nothing(interpreter: Interpreter) -> None:
    with running(interpreter, "owning") as target:
        check(target)


@pytest.mark.pythons("3.8", "3.13")
def test_an_array_of_numpy_that_is_seen_through_views_is_counted_once(interpreter: Interpreter) -> None:
    need_package(interpreter, "numpy")
    with running(interpreter, "owning", "numpy", environment={"PYTHONPATH": str(interpreter.packages)}) as target:
        check(target)


@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("package", ["arrow", "pandas", "pillow"])
def test_what_objects_of_a_package_own_is_counted_once(interpreter: Interpreter, package: str) -> None:
    packages = need_owners(interpreter)
    with running(interpreter, "owning", package, environment={"PYTHONPATH": str(packages)}) as target:
        check(target)


@pytest.mark.pythons("3.8", "3.13")
def test_what_cffi_has_made_is_counted_once(interpreter: Interpreter) -> None:
    packages = need_owners(interpreter, "cffi")
    with running(interpreter, "owning", "cffi", environment={"PYTHONPATH": str(packages)}) as target:
        check(target)


@pytest.mark.pythons("3.11")
def test_storages_of_torch_and_gradients_are_counted_once(interpreter: Interpreter) -> None:
    packages = need_owners(interpreter)
    with running(interpreter, "owning", "torch", environment={"PYTHONPATH": str(packages)}) as target:
        check(target)


@pytest.mark.timeout(300)
@pytest.mark.pythons("3.12")
@pytest.mark.parametrize(
    ("program", "least"),
    [("sockets_zlib", 4 * (1 << 12)), ("frames_mapped", 32_768), ("thumbnails_numpy", 3_000)],
)
def test_the_bytes_of_a_leak_have_what_its_objects_own_and_it_is_listed_once(
    interpreter: Interpreter, program: str, least: int
) -> None:
    """Of each object so many at least: a window and its links, pages, and half of an image: every other array that is
    kept is a view of one."""
    found = zoo.hunt(interpreter, program)
    (leak,) = [each for each in found["suspects"] if each["verdict"] == "leak"]
    assert re.fullmatch(zoo.LEAKS[program].type, leak["type"]), leak["sentence"]
    assert leak["bytes"] >= leak["count"] * least > 0
