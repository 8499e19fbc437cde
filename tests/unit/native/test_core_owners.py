"""What objects own natively, as the native core reads it, beside what was asked for while they were made."""

from __future__ import annotations

from typing import Final

import pytest

from tests.interpreters import Interpreter
from tests.support.native import told
from tests.support.processes import need_owners

OPAQUE: Final = {"lzma compressor", "lzma decompressor", "context", "database"}
"""Whose libraries keep their structures secret."""
LOCKS: Final = 512
"""Bytes that an object asks for beside its library's, and words that its library's newer releases have more."""
FACT: Final = ("mmap_", "ctypes_", "zlib_", "bz2_", "stringio_")


def test_bytes_are_those_that_were_asked_for(interpreter: Interpreter) -> None:
    found = told(interpreter, "owned_natively.py")
    wrong_facts = {name: found.pop(name) for name in list(found) if name.startswith(FACT)}
    known = {name: row for name, row in found.items() if row[2] is not None}
    assert len(known) > 25
    wrong = {name: row for name, row in known.items() if row[1] or not 0 <= row[2] - row[0] <= LOCKS}
    assert wrong == {}
    unknown = {name: row[:2] for name, row in found.items() if row[2] is None}
    assert unknown == dict.fromkeys(OPAQUE | {"lookalike"}, (0, 1)), "not known, and never a guess"
    assert len(wrong_facts) > 8
    assert {name: said for name, said in wrong_facts.items() if said != "[True, True, True]"} == {}, "nor a crash"


def check_packages(interpreter: Interpreter, program: str, least: int, folder: str = "owners") -> None:
    """To the byte, where the program knows its package's own figure; else unknown, and never a guess."""
    environment = {"PYTHONPATH": str(need_owners(interpreter, folder))}
    found: dict[str, tuple[int, int, int | None]] = told(interpreter, program, environment=environment)
    known = {name: row for name, row in found.items() if row[2] is not None}
    assert len(known) >= least
    assert {name: row for name, row in known.items() if row[:2] != (row[2], 0)} == {}
    assert {name: row[:2] for name, row in found.items() if row[2] is None and row[:2] != (0, 1)} == {}


@pytest.mark.pythons("3.8", "3.13")
def test_bytes_are_those_that_the_package_reports(interpreter: Interpreter) -> None:
    """Arrow's pool, and Pillow's modes: the oldest and the newest version that is installed."""
    check_packages(interpreter, "owned_by_packages.py", 26)


@pytest.mark.pythons("3.11")
def test_bytes_of_tensors_are_those_that_torch_reports(interpreter: Interpreter) -> None:
    check_packages(interpreter, "owned_by_torch.py", 15)


@pytest.mark.pythons("3.8", "3.13")
def test_bytes_of_cffis_objects_are_those_that_cffi_reports(interpreter: Interpreter) -> None:
    check_packages(interpreter, "owned_by_cffi.py", 17, "cffi")
