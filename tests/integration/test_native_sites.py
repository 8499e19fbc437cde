"""Native memory of programs that heaptop starts: where it was allocated, and that they run as without heaptop."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from heaptop.cli.commands.run import NativeEnd, report
from heaptop.errors import LaunchFailed
from heaptop.injector.inspect.process import children
from heaptop.injector.preload.malloc_table import NAME, MallocTable
from heaptop.protocol.messages import MallocSite, MallocSites
from tests.integration.test_run_backend import launched, output_of, status_of, the_child
from tests.interpreters import Interpreter, cache_dir
from tests.support import building
from tests.support.attaching import resting
from tests.support.building import TARGETS
from tests.support.preloaded import FINE, holds, library, sums
from tests.support.processes import eventually, need_installed

PROGRAM = TARGETS / "native_sites.py"
LINES = {
    name: number
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
    for name in re.findall(r"# site: (\w+)", line)
}
LEAKED = 4000 * 3000
"""Bytes that one call of the module leaves."""
SELECTION = 111_600
"""Bytes that one selection of selectolax leaves."""

pytestmark = [pytest.mark.pythons("3.8", "3.9", "3.11", "3.12", "3.13"), pytest.mark.sample(2)]


def argv(way: str) -> list[str]:
    return [str(PROGRAM), str(building.extension("native_leak.c")), way]


def ended(interpreter: Interpreter, way: str, folder: Path, code: int = 7) -> MallocSites:
    """What lives when the program has ended by itself."""
    library()
    table = MallocTable(FINE)
    try:
        with launched(interpreter, argv(way), folder, native=table) as attachment:
            assert status_of(attachment) == code, output_of(folder)
        found = table.sites()
    finally:
        table.close()
    assert found.dropped == found.missed == 0
    return found


def at(sites: MallocSites, name: str) -> list[MallocSite]:
    """Those whose innermost frame is at this line of the program."""
    place = (str(PROGRAM), LINES[name])
    return [each for each in sites.sites if each.stack and (each.stack[0].file, each.stack[0].line) == place]


def test_a_leak_in_an_extension_has_its_line_its_library_and_its_function(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    found = at(ended(interpreter, "extension", tmp_path), "extension")
    assert {Path(site.library).name for site in found} == {building.extension("native_leak.c").name}
    assert {site.symbol for site in found} == {"native_leak"}
    assert {(site.stack[0].function, site.stack[1].function) for site in found} == {("extension", "<module>")}
    assert holds(sums(found).estimate(), LEAKED)


def test_memory_of_ctypes_has_its_line_also_where_the_call_gives_the_gil_up(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    found = [site for site in ended(interpreter, "foreign", tmp_path).sites if "libffi" in site.library]
    assert {site.stack[0].line for site in found} == {LINES["foreign"]}
    assert holds(sums(found).estimate(), 2 * LEAKED)


@pytest.mark.parametrize("way", ["python", "raw", "cplusplus"])
def test_memory_from_an_allocator_of_another_library_is_the_callers(
    interpreter: Interpreter, tmp_path: Path, way: str
) -> None:
    found = at(ended(interpreter, "others", tmp_path), way)
    module = building.extension("native_leak.c").name
    ours = [site for site in found if (Path(site.library).name, site.symbol) == (module, "native_leak_by")]
    assert holds(sums(ours).estimate(), LEAKED)
    beside = sum(blocks.left * blocks.number for site in found if site not in ours for blocks in site.blocks)
    assert beside < LEAKED / 20, "of the linker, which loads libstdc++"


def test_what_python_code_allocates_is_not_of_the_c_code_that_called_it(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    found = at(ended(interpreter, "back", tmp_path), "back")
    assert "native_leak" not in {Path(site.library).name.partition("-")[0] for site in found}
    assert sums(found).estimate().bytes > LEAKED / 2


def test_the_first_thread_has_a_stack_without_the_gil(interpreter: Interpreter, tmp_path: Path) -> None:
    found = at(ended(interpreter, "resting", tmp_path), "resting")
    assert {site.symbol for site in found} == {"native_leak"}
    assert {(site.stack[0].function, site.stack[1].function) for site in found} == {("resting", "<module>")}
    assert holds(sums(found).estimate(), LEAKED)


@pytest.mark.pythons("3.11")
def test_a_documented_leak_of_a_package_has_its_line_and_its_library(
    interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rushter/selectolax#90: each selection by CSS leaves what it was parsed with."""
    folder = cache_dir() / "packages" / "3.11-selectolax-0.3.13"
    need_installed(interpreter, folder.is_dir(), "selectolax 0.3.13")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    found = at(ended(interpreter, "package", tmp_path), "package")
    assert {Path(site.library).name.partition(".")[0] for site in found} == {"lexbor"}
    assert holds(sums(found).estimate(), 400 * SELECTION)


def test_contexts_of_zlib_and_bz2_are_told_apart(interpreter: Interpreter, tmp_path: Path) -> None:
    found = ended(interpreter, "contexts", tmp_path)
    names = {"zlib": "libz", "bz2": "libbz2"}
    for name, prefix in names.items():
        sites = [site for site in at(found, name) if Path(site.library).name.startswith(prefix)]
        assert sites
        least, most = {"zlib": (20 * 260_000, 20 * 280_000), "bz2": (20 * 7_000_000, 20 * 8_200_000)}[name]
        estimate = sums(sites).estimate()
        assert least - 2 * estimate.error <= estimate.bytes <= most + 2 * estimate.error


def test_what_was_freed_is_not_shown(interpreter: Interpreter, tmp_path: Path) -> None:
    found = ended(interpreter, "freed", tmp_path)
    assert [site for site in found.sites if "libz" in site.library] == []


def test_other_threads_without_the_gil_have_no_stack(interpreter: Interpreter, tmp_path: Path) -> None:
    found = ended(interpreter, "threads", tmp_path)
    quiet = [site for site in found.sites if site.symbol == "native_leak" and not site.stack]
    assert at(found, "quietly") == []
    assert {site.gap for site in quiet} == {"none"}
    assert holds(sums(quiet).estimate(), 2 * LEAKED)
    assert holds(sums(at(found, "extension")).estimate(), 2 * LEAKED)


def test_children_are_without_the_library_and_do_not_count(interpreter: Interpreter, tmp_path: Path) -> None:
    found = ended(interpreter, "children", tmp_path)
    assert holds(sums(at(found, "extension")).estimate(), LEAKED)
    assert output_of(tmp_path) == "None None\nNone None\n"


def test_an_anonymous_mapping_is_a_site_of_its_own(interpreter: Interpreter, tmp_path: Path) -> None:
    found = [site for site in ended(interpreter, "mapped", tmp_path).sites if site.symbol == "new_mmap_object"]
    assert [(blocks.left, blocks.number) for site in found for blocks in site.blocks] == [(5 << 20, 1)]


def test_threads_that_do_everything_at_once_go_on(interpreter: Interpreter, tmp_path: Path) -> None:
    ended(interpreter, "churn", tmp_path)


def test_an_interpreter_that_ends_beside_an_allocating_thread_ends(interpreter: Interpreter, tmp_path: Path) -> None:
    ended(interpreter, "finalize", tmp_path, code=0)


def test_the_program_is_sampled_on_when_heaptop_leaves(interpreter: Interpreter, tmp_path: Path) -> None:
    library()
    table = MallocTable(FINE)
    try:
        with launched(interpreter, argv("stay"), tmp_path, native=table) as attachment:
            assert eventually(lambda: output_of(tmp_path) == "ready\n")
            pid = the_child()
            assert attachment.close() is None
            assert list(resting(pid).threads) == [pid]
        # and was killed: the table outlives it
        assert holds(sums(at(table.sites(), "extension")).estimate(), LEAKED)
    finally:
        table.close()


def test_a_program_that_has_replaced_itself_has_no_report(interpreter: Interpreter, tmp_path: Path) -> None:
    library()
    table = MallocTable(FINE)
    try:
        with launched(interpreter, argv("replaced"), tmp_path, native=table):
            pid = int(eventually(lambda: output_of(tmp_path)))
            assert eventually(lambda: "execve" in table.refusal(pid))
            end = NativeEnd(pid, "", exited=False, status=None)
            with pytest.raises(LaunchFailed, match="cannot be reported"):
                report(end, table, argparse.Namespace(json=True, top=None, python=None))
    finally:
        table.close()


def test_a_program_that_heaptop_was_killed_beside_goes_on(interpreter: Interpreter, tmp_path: Path) -> None:
    output = tmp_path / "output"
    text = (
        "import sys, time; from pathlib import Path; from heaptop.injector.api import *; "
        "table = MallocTable(1 << 14); source = launch_source(sys.argv[3:], python=sys.argv[1], native=table, "
        "output=Path(sys.argv[2]), options=AttachOptions()); source.open(lambda event: None); time.sleep(100)"
    )
    heaptop = subprocess.Popen([sys.executable, "-c", text, interpreter.path, str(output), *argv("stay")])
    pid = 0
    try:
        assert eventually(lambda: output.exists() and output.read_text() == "ready\n")
        (pid,) = children(heaptop.pid)
        heaptop.kill()
        heaptop.wait()
        assert list(resting(pid).threads) == [pid]
        assert f"/memfd:{NAME}" in Path(f"/proc/{pid}/maps").read_text()
    finally:
        heaptop.kill()
        heaptop.wait()
        if pid:
            os.kill(pid, signal.SIGKILL)
