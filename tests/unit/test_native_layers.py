"""The order of the native core's folders, and that no two of its files need each other."""

from __future__ import annotations

import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

from heaptop.injector import native

FOLDER: Final = Path(native.__file__).parent
FILES: Final = sorted([*FOLDER.rglob("*.c"), *FOLDER.rglob("*.h")])
GROUPS: Final = re.findall(r"^    ([a-z.]+) {2,}\S", native.__doc__ or "", re.MULTILINE)
"""The folders as the package's docstring lists them, the highest first."""
MOST_FILES = 22
"""Of a folder; what has more is two."""


def code(path: Path) -> str:
    """The text of a C file without comments and texts."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', " ", path.read_text(), flags=re.DOTALL)


def part(path: Path) -> str:
    """A header and its source are one part: "heap/walk"."""
    return str(path.relative_to(FOLDER).with_suffix(""))


def group(name: str) -> str:
    return name.partition("/")[0] if "/" in name else "."


def needs() -> dict[str, set[str]]:
    """By part, the parts whose headers it includes or whose functions it calls."""
    functions = {
        name: part(path)
        for path in FILES
        if path.suffix == ".h"
        for name in re.findall(r"^[a-zA-Z][\w \*]*?\b(\w+)\((?!\()", code(path), re.MULTILINE)
    }
    found: dict[str, set[str]] = {part(path): set() for path in FILES}
    for path in FILES:
        included = re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)
        called = re.findall(r"(?<![\w.>])(\w+)\(", code(path))
        found[part(path)] |= {part(FOLDER / name) for name in included}
        found[part(path)] |= {functions[name] for name in called if name in functions}
    return {name: others - {name} for name, others in found.items()}


def test_every_folder_has_its_place_in_the_order() -> None:
    assert sorted(GROUPS) == sorted({group(part(path)) for path in FILES})


def test_a_folder_has_some_twenty_files() -> None:
    counted = Counter(path.parent.name for path in FILES)
    assert {folder: files for folder, files in counted.items() if files > MOST_FILES} == {}


def test_files_need_their_own_folder_and_those_below() -> None:
    place = {name: i for i, name in enumerate(GROUPS)}
    upward = [
        f"{name} needs {other}"
        for name, others in needs().items()
        for other in sorted(others)
        if place[group(other)] < place[group(name)]
    ]
    assert upward == []


OF_VERSIONS = {"layout", "structures", "module/check_source"}
"""The table, its part for the structures of C types, and the self-check, which compares it with the interpreter it runs
in."""


def test_no_file_but_the_table_names_a_version_of_python() -> None:
    version = re.compile(r"(?<![\d.])3\.\d+|0x030[0-9A-Fa-f]|PY_VERSION|PY_3_|Py_Version")
    found = [
        f"{path.relative_to(FOLDER)}: {match[0]}"
        for path in FILES
        if part(path) not in OF_VERSIONS
        for match in version.finditer(path.read_text())
    ]
    assert found == []


def test_no_files_need_each_other() -> None:
    try:
        TopologicalSorter(needs()).prepare()
    except CycleError as cycle:
        pytest.fail(" needs ".join(reversed(cycle.args[1])))
