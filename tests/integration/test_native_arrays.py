"""Buffers of numpy's arrays: seen with size and stack in every version, through slots that are put back to the byte."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from tests.interpreters import BARE, SAMPLE, Interpreter, cache_dir
from tests.support import native
from tests.support.building import TARGETS, library_with
from tests.support.processes import PATIENCE, starting, with_proc

pytestmark = pytest.mark.sample(2)

INSTALLED = BARE
"""With the numpy that .ci/target-packages finds for each: from 1.24 to the newest."""
BETWEEN = {"3.9": "1.26", "3.12": "2.2"}
"""Interpreters that have another directory of packages beside those, with a numpy in between."""

MB = 1 << 20
NAMES = ("PyTraceMalloc_Track", "PyTraceMalloc_Untrack")


def slots(library: Path) -> str:
    """Where the slots of the two functions are in a library, as a target takes them."""
    found = {}
    with library.open("rb") as stream:
        file = ELFFile(stream)
        for section in file.iter_sections():
            if not isinstance(section, RelocationSection):
                continue
            symbols = file.get_section(section["sh_link"])
            assert isinstance(symbols, SymbolTableSection)
            for entry in section.iter_relocations():
                if entry["r_info_sym"] != 0:
                    found[symbols.get_symbol(entry["r_info_sym"]).name] = entry["r_offset"]
    return ",".join(str(found[name]) for name in NAMES)


def numpy_library(packages: Path) -> Path:
    return next(packages.glob("numpy/*core/_multiarray_umath*.so"))


def outside(interpreter: Interpreter, packages: Path) -> Path:
    """A path that the interpreter sees, as this process does."""
    return packages if interpreter.root is None else Path(f"{interpreter.root}{packages}")


def told(interpreter: Interpreter, program: str, *words: str, packages: Path | None = None) -> Any:
    """What a target printed, which had its /proc."""
    for companion in ("core_breaks.py", "sampling_agent.py", "arrays_common.py"):
        interpreter.place(TARGETS / companion)
    command = interpreter.command([interpreter.place(TARGETS / program), interpreter.place(native.core()), *words])
    environment = {} if packages is None else {"PYTHONPATH": str(packages)}
    with starting([*with_proc(interpreter), *command], environment=environment) as target:
        code = target.process.wait(PATIENCE)
        assert (code, target.stderr()) == (0, "")
        return ast.literal_eval(target.stdout())


def check_known(found: dict[str, Any]) -> None:
    assert found["before"] is False  # there was no numpy yet
    assert (found["loaded"], found["again"]) == (True, True)
    assert all(now != then for now, then in zip(found["changed"], found["slots"], strict=True))
    assert found["pages kept"]

    # As large as intervals are here, none of these can escape.
    assert found["large"] == [MB] * 10
    assert found["zeros"] == [2 * MB] * 3
    assert found["resized"] == [3 * MB]
    assert found["resized from"] == [MB]
    # Those that numpy keeps and hands out again are new ones each time: 10.4 MB each way, 4 % standard error.
    truth = 20000 * 520
    assert abs(found["small"] - truth) < 0.2 * truth
    assert abs(found["churned"] - truth) < 0.2 * truth

    assert found["child"] == 7
    assert found["left"] == 0
    assert found["said"] == ["", "", ""]
    assert found["after"] == found["slots"]
    assert found["pages after"]
    assert found["second session"] == [MB] * 2
    assert found["end"] == found["slots"]


@pytest.mark.pythons(*INSTALLED)
def test_buffers_are_seen_and_slots_put_back(interpreter: Interpreter) -> None:
    if not interpreter.has("numpy"):
        pytest.skip(f"no numpy for Python {interpreter}: .ci/target-packages")
    packages = interpreter.packages
    assert packages is not None
    library = numpy_library(outside(interpreter, packages))
    check_known(told(interpreter, "arrays_known.py", library.name, slots(library), packages=packages))


@pytest.mark.pythons(*BETWEEN)
def test_arrays_of_other_numpy_versions_are_sized_exactly(interpreter: Interpreter) -> None:
    version = BETWEEN[interpreter.name]
    packages = cache_dir() / "packages" / f"{interpreter}-numpy-{version}"
    if not packages.is_dir():
        pytest.skip(f"no {packages.name}: .ci/target-packages")
    library = numpy_library(packages)
    found = told(interpreter, "arrays_known.py", library.name, slots(library), packages=packages)
    assert found["numpy"].startswith(f"{version}.")
    check_known(found)


@pytest.mark.pythons("3.11-debian")
def test_bound_at_once_in_a_static_python(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the slots hold the functions themselves from the beginning, which are the executable's."""
    if not interpreter.has("numpy"):
        pytest.skip("no numpy for Python 3.11: .ci/target-packages")
    monkeypatch.setenv("LD_BIND_NOW", "1")
    packages = interpreter.packages
    assert packages is not None
    library = numpy_library(packages)
    check_known(told(interpreter, "arrays_known.py", library.name, slots(library), packages=packages))


def of_slots(interpreter: Interpreter, what: str, copy: Path | None = None) -> Any:
    library = library_with("slots_multiarray.c", options=["-Wl,-z,relro"])
    if copy is not None:
        library = Path(shutil.copy(library, copy))
    return told(interpreter, "arrays_slots.py", interpreter.place(library), slots(library), what)


SOME = SAMPLE
PASSED_ON = -2
"""What the interpreter says when tracemalloc is not tracing."""


def sizes(seen: tuple[Sequence[tuple[int, int]], int]) -> list[int]:
    return [size for size, _ in seen[0]]


@pytest.mark.pythons(*SOME)
def test_read_only_slots_of_numpy_are_hooked_and_put_back(interpreter: Interpreter) -> None:
    found = of_slots(interpreter, "read_only")
    assert found["permissions"] == ["r--p", "r--p"]
    assert not set(found["during"]) & set(found["before"])
    assert found["kept"]
    assert found["first"] == ([(MB, 0)], 0)  # the other domain's is not sampled; without the GIL there is no stack
    assert (sizes(found["second"]), found["second"][1]) == ([2 * MB], 1)
    assert found["third"] == ([], 2)
    assert found["fourth"] == ([], 2)
    assert (sizes(found["fifth"]), found["fifth"][1]) == ([MB], 2)
    assert set(found["answers"]) == {PASSED_ON}
    assert found["to numpy"] == 0  # somebody is tracing: 2.5 says the new size of a resized buffer only then
    assert found["failed"] == PASSED_ON
    assert found["said"] == ""
    assert found["after"] == found["before"]
    assert found["pages after"]


@pytest.mark.pythons(*SOME)
def test_what_another_tool_put_there_stays(interpreter: Interpreter) -> None:
    found = of_slots(interpreter, "foreign")
    other, (track, untrack) = found["other"], found["before"]
    assert found["during"][0] == other
    assert found["during"][1] not in (other, untrack)
    assert found["answer"] == 0  # its own
    assert found["first"] == ([], 0)
    assert found["after"] == [other, untrack]
    assert not {track, untrack} & set(found["hooked"])
    assert found["said"] == ""
    assert found["end"] == [other, untrack]


@pytest.mark.pythons(*SOME)
def test_a_library_that_is_not_numpys_is_left_alone(interpreter: Interpreter, tmp_path: Path) -> None:
    found = of_slots(interpreter, "stranger", tmp_path / "slots_of_a_stranger.so")
    assert found["during"] == found["before"]
    assert (found["seen"], found["arrays"], found["said"]) == (([], 0), False, "")


@pytest.mark.pythons(*SOME)
def test_a_library_that_goes_and_comes_again(interpreter: Interpreter) -> None:
    found = of_slots(interpreter, "unloaded")
    assert found["gone"] is False
    assert found["back"] is True
    assert found["answer"] == PASSED_ON
    assert sizes(found["seen"]) == [MB]
    assert found["said"] == ""
    assert found["fresh"]
