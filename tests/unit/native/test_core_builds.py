"""The native core as a file: what it asks of the C library, and builds of it that check what it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from tests.interpreters import SAMPLE, SUPPORTED, Interpreter
from tests.support import core_builds, native
from tests.support.building import NATIVE, TARGETS
from tests.support.core_builds import DEBUG, SANITIZED
from tests.support.processes import need_package

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


def test_needs_no_library_but_libc_and_shows_two_symbols() -> None:
    with native.core().open("rb") as stream:
        file = ELFFile(stream)
        dynamic, symbols = file.get_section_by_name(".dynamic"), file.get_section_by_name(".dynsym")
        assert isinstance(dynamic, DynamicSection)
        assert isinstance(symbols, SymbolTableSection)
        needed = {getattr(tag, "needed", None) for tag in dynamic.iter_tags("DT_NEEDED")}
        shown = {symbol.name for symbol in symbols.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"}
    assert needed <= {"libc.so.6"}
    assert shown - {""} == {"PyInit__core", "heaptop_core_again"}


MADE_UP = ("test_core_objects.py", "test_retain.py")


def exercise(interpreter: Interpreter, *arguments: str, program: str = "core_exercise.py", **environment: str) -> str:
    interpreter.place(TARGETS / "core_breaks.py")
    done = subprocess.run(
        interpreter.command([interpreter.place(TARGETS / program), *arguments]),
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout.strip() or f"exit code {done.returncode}: {done.stderr[-2000:]}"


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_marks_agree_with_a_plain_set(interpreter: Interpreter) -> None:
    """A build in which every answer of the marks is compared with a set of addresses; a difference is a crash."""
    assert exercise(interpreter, interpreter.place(core_builds.build("debug", *DEBUG)), "clone") == "done"


@pytest.mark.sample(2)
@pytest.mark.pythons("3.8", "3.13", stress=("3.8", "3.11", "3.12", "3.13"))
def test_sanitizers_find_nothing(interpreter: Interpreter) -> None:
    library = interpreter.place(core_builds.build("sanitized", *SANITIZED))
    assert exercise(interpreter, library, "clone", "image", **core_builds.sanitizer_variables()) == "done"


@pytest.mark.pythons("3.8", "3.13")
def test_sanitizers_find_nothing_in_arrays(interpreter: Interpreter) -> None:
    need_package(interpreter, "numpy")
    library = interpreter.place(core_builds.build("sanitized", *SANITIZED))
    variables = {**core_builds.sanitizer_variables(), "PYTHONPATH": str(interpreter.packages)}
    assert "'lent by C'" in exercise(interpreter, library, program="heap_arrays.py", **variables)


def test_sanitizers_find_nothing_in_what_hypothesis_makes_up(is_whole: bool) -> None:
    """The unit tests of sizes, referents, packing and graphs once more, on sanitized builds."""
    examples = [] if is_whole else ["--hypothesis-profile", "quick"]
    core_builds.build("sanitized", *SANITIZED)  # here, where the compiler is not sanitized too
    core_builds.packer_library(sanitized=True)
    core_builds.retain_library(sanitized=True)
    files = [str(Path(__file__).with_name(each)) for each in MADE_UP]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *examples, *files],
        env={**os.environ, **core_builds.sanitizer_variables(), core_builds.SANITIZED_VARIABLE: "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-4000:]
    assert re.search(r"^\d+ passed in", told, re.MULTILINE), told[-4000:]
    assert "skipped" not in told


def test_the_sanitizer_minds_what_the_core_maps(tmp_path: Path) -> None:
    """A write behind pages that are the core's own does not go unseen."""
    source = tmp_path / "behind.c"
    source.write_text(
        "#define _GNU_SOURCE\n"
        '#include "pages.h"\n'
        "int main(int count, char **unused) {\n"
        "    (void)unused;\n"
        "    char *pages = pages_map(5000);\n"
        "    pages = pages_grow(pages, 5000, 8192);\n"
        "    pages[8190 + count] = 1;\n"
        "    pages_unmap(pages, 8192);\n"
        "    return 0;\n"
        "}\n"
    )
    program = tmp_path / "behind"
    subprocess.run(["gcc", *SANITIZED, f"-I{NATIVE}", str(source), "-o", str(program)], check=True)
    environment = {"ASAN_OPTIONS": "detect_leaks=0"}
    assert subprocess.run([program], env=environment, check=False).returncode == 0
    behind = subprocess.run([program, "more"], env=environment, capture_output=True, text=True, check=False)
    assert behind.returncode != 0
    assert "AddressSanitizer" in behind.stderr
