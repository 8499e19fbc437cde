"""The native core as a file: what it asks of the C library, and builds of it that check what it does."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from tests.interpreters import Interpreter
from tests.support import core_builds, native
from tests.support.building import TARGETS
from tests.support.core_builds import DEBUG, SANITIZED

OLDEST_GLIBC = (2, 17)


def needed_versions() -> set[str]:
    with native.core().open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".gnu.version_r")
        assert isinstance(section, GNUVerNeedSection)
        return {version.name for _, versions in section.iter_versions() for version in versions}


def test_loads_with_an_old_glibc() -> None:
    versions = {name for name in needed_versions() if name.startswith("GLIBC_")}
    assert versions
    assert {tuple(map(int, re.findall(r"\d+", name))) <= OLDEST_GLIBC for name in versions} == {True}, versions


def test_needs_no_library_but_libc_and_shows_one_symbol() -> None:
    with native.core().open("rb") as stream:
        file = ELFFile(stream)
        dynamic, symbols = file.get_section_by_name(".dynamic"), file.get_section_by_name(".dynsym")
        assert isinstance(dynamic, DynamicSection)
        assert isinstance(symbols, SymbolTableSection)
        needed = {getattr(tag, "needed", None) for tag in dynamic.iter_tags("DT_NEEDED")}
        shown = {symbol.name for symbol in symbols.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"}
    assert needed <= {"libc.so.6"}
    assert shown - {""} == {"PyInit__core"}


def exercise(interpreter: Interpreter, *arguments: str, **environment: str) -> str:
    interpreter.place(TARGETS / "core_breaks.py")
    done = subprocess.run(
        interpreter.command([interpreter.place(TARGETS / "core_exercise.py"), *arguments]),
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout.strip() or f"exit code {done.returncode}: {done.stderr[-2000:]}"


def test_marks_agree_with_a_plain_set(interpreter: Interpreter) -> None:
    """A build in which every answer of the marks is compared with a set of addresses; a difference is a crash."""
    assert exercise(interpreter, interpreter.place(core_builds.build("debug", *DEBUG)), "clone") == "done"


@pytest.mark.pythons("3.8", "3.11", "3.12", "3.13")
def test_sanitizers_find_nothing(interpreter: Interpreter) -> None:
    runtime = core_builds.sanitizer_runtime()
    if not runtime.is_absolute():
        pytest.skip("there is no libasan here")
    library = core_builds.build("sanitized", *SANITIZED)
    found = exercise(interpreter, str(library), LD_PRELOAD=str(runtime), ASAN_OPTIONS="detect_leaks=0")
    assert found == "done"
