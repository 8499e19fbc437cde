"""Versions of CPython are in two tables, Python's and the native core's; whatever else names them agrees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from heaptop.injector.inspect.layout import SUPPORTED, VERSIONS, PythonVersion
from heaptop.injector.rss.memory_map import STATES
from tests import interpreters

ROOT: Final = Path(__file__).resolve().parents[2]
NATIVE: Final = ROOT / "src/heaptop/injector/native"


def source(name: str) -> str:
    """A file of the native core, in whichever folder of it."""
    (path,) = NATIVE.rglob(name)
    return path.read_text()


def defined(name: str) -> int:
    found = re.search(rf"^#define {name} (\d+)", source("layout.h"), re.MULTILINE)
    assert found, f"layout.h no longer defines {name}"
    return int(found[1])


def test_the_native_core_has_a_column_for_each_version() -> None:
    first, count = defined("LAYOUT_FIRST_MINOR"), defined("LAYOUT_MINORS")
    assert [*VERSIONS] == [(3, minor) for minor in range(first, first + count)]
    heading = re.search(r"^/\*  fact  +((3\.\d+ +)+)", source("layout.h"), re.MULTILINE)
    assert heading
    assert heading[1].split() == [str(PythonVersion(*version)) for version in VERSIONS]


def test_the_native_core_has_a_column_for_each_free_threaded_build_that_it_reads() -> None:
    heading = re.search(r"^/\*  fact  .*?((?: 3\.\d+t)+)", source("layout.h"), re.MULTILINE)
    assert heading
    read = [f"{PythonVersion(*version)}t" for version, facts in VERSIONS.items() if facts.free_threaded]
    assert heading[1].split() == read == [*interpreters.FREE_THREADED]
    lines = re.findall(r"^X\((\w+),([-\d, ]+)\)", source("layout.h"), re.MULTILINE)
    assert {name: line.count(",") + 1 for name, line in lines} == {name: len(VERSIONS) + len(read) for name, _ in lines}


def test_the_native_core_refuses_the_same_patch_releases() -> None:
    refused = re.findall(r"minor == (\d+) && micro < (\d+)", source("layout.c"))
    known = [(version[1], facts.first_counted) for version, facts in VERSIONS.items() if facts.first_counted]
    assert [(int(minor), int(micro)) for minor, micro in refused] == known


def test_versions_without_a_version_word_have_a_marker_of_their_own() -> None:
    markers = [facts.marker for version, facts in VERSIONS.items() if version < (3, 11)]
    assert all(markers)
    assert len(set(markers)) == len(markers)


def test_a_table_of_an_interpreters_own_arenas_is_looked_for_in_chunks_of_its_size() -> None:
    smallest, largest = STATES
    assert all(smallest <= facts.state_size <= largest for facts in VERSIONS.values() if facts.state_size)


def test_the_readme_says_which_versions() -> None:
    said = (ROOT / "README.md").read_text()
    assert re.findall(r"attaches to CPython ([\d.]+ to 3\.\d+)", said) == [SUPPORTED]
    assert set(re.findall(r"[\d.]+ to 3\.\d+", said)) == {SUPPORTED}


def test_tests_run_on_every_version() -> None:
    assert tuple(str(PythonVersion(*version)) for version in VERSIONS) == interpreters.BARE
    assert set(interpreters.SUPPORTED) == {*interpreters.BARE, interpreters.DISTRIBUTION}


def test_tests_of_the_newest_version_do_not_spell_it() -> None:
    """They name ``NEWEST`` or ``since``, and so run on the next one from its line in the table on."""
    files = {*(ROOT / "tests").rglob("*.py")} - {*(ROOT / "tests/targets").rglob("*.py")}
    assert [path.name for path in files if f'"{interpreters.NEWEST}"' in path.read_text()] == []


def test_ci_requires_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (ROOT / ".ci/run").read_text()
    (words,) = re.findall(rf"^export {interpreters.REQUIRE_VARIABLE}=(\S+)", said, re.MULTILINE)
    monkeypatch.setenv(interpreters.REQUIRE_VARIABLE, words)
    assert interpreters.required() == {*interpreters.SUPPORTED}


def test_no_other_python_of_the_front_end_compares_versions_of_a_target() -> None:
    """What compares with a pair of numbers has a fact of its own; what runs in the target has its own Python to ask."""
    pair = re.compile(r"(?:[<>=!]=?|\bin\b)\s*\(+3, ?\d+\)|\(3, ?\d+\)\s*[<>=!]=?")
    package = ROOT / "src/heaptop"
    ours = {*package.rglob("*.py")} - {*(package / "injector/agent").rglob("*")}
    ours.remove(package / "injector/inspect/layout.py")
    found = {
        (path.relative_to(package).as_posix(), line.strip())
        for path in ours
        for line in path.read_text().splitlines()
        if pair.search(line) and "sys.version_info" not in line
    }
    assert found == set()
