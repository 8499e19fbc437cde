"""Free-threaded builds: without code in it, a process is counted as it counts itself; an attach is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from heaptop.dumps.cores.conversion import CoreOptions, open_core
from heaptop.dumps.reader import HeapDump
from heaptop.errors import FreeThreadedTarget
from tests.interpreters import FREE_THREADED, Interpreter
from tests.support import native
from tests.support.dumped_heaps import counted, loaded
from tests.support.leaking import document, heaptop
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, Target, difference, running

pytestmark = pytest.mark.pythons(*FREE_THREADED)
ENOUGH: Final = ("--no-inject", "--pause-budget", "20000")
"""Milliseconds: for a machine that is busy with other things."""
BY_COUNTING: Final = 20
"""Objects that the target makes, and lets go of, when it counts itself and says so."""


@pytest.fixture(autouse=True)
def _core() -> None:
    native.core()


def check_counts(wanted: dict[str, tuple[int, int]], dump: HeapDump) -> None:
    """Objects of each type; and bytes, but for types that are measured by code, which are named. No sys.getsizeof has
    the values of instances, and what C types own elsewhere."""
    found, guessed = counted(dump), {dump.types[number].full for number in dump.image.guessed}
    counts = {name: (wanted.get(name, (0, 0))[0], found.get(name, (0, 0))[0]) for name in wanted | found}
    other = {name: pair for name, pair in counts.items() if pair[0] != pair[1]}
    assert sum(abs(one - another) for one, another in other.values()) <= BY_COUNTING, other
    sizes = {name: (wanted[name][1], found[name][1]) for name in counts.keys() - other.keys() - guessed}
    less = {name: pair for name, pair in sizes.items() if pair[1] < pair[0] or (pair[1] > pair[0] and "." not in name)}
    assert less == {}
    assert dump.image.opaque < dump.image.bytes / 100


@pytest.mark.sample(2)
@pytest.mark.parametrize("allocator", ["mimalloc", "mimalloc_debug"])
def test_a_copy_has_the_objects_that_the_process_counts(
    interpreter: Interpreter, allocator: str, tmp_path: Path
) -> None:
    """Of threads that live, and of those that have ended."""
    counts, dump = tmp_path / "counts.json", tmp_path / "copy.heapdump"
    with running(interpreter, "free_threaded", counts, environment={"PYTHONMALLOC": allocator}) as target:
        before = Facts.of(target.pid)
        done = heaptop("dump", target.pid, "-o", dump, *ENOUGH)
        assert done.returncode == 0, done.stderr
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []
        with loaded(HeapDump(str(dump))) as found:
            check_counts(json.loads(counts.read_text()), found)
        assert target.said() == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb writes core files")
def test_a_core_has_the_objects_that_the_process_counts(interpreter: Interpreter, tmp_path: Path) -> None:
    counts, core = tmp_path / "counts.json", tmp_path / "core.1"
    with running(interpreter, "free_threaded", counts) as target:
        words = ["gdb", "-nx", "-batch", "-p", str(target.pid), "-ex", f"generate-core-file {core}"]
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True)
    with loaded(open_core(str(core), CoreOptions(), lambda *told: None)) as found:
        check_counts(json.loads(counts.read_text()), found)


def planted(target: Target) -> int:
    census = document("census", target.pid, "--top", 0, *ENOUGH)
    return sum(row["count"] for row in census["rows"] if row["name"] == "__main__.Planted")


def test_commands_answer_of_a_copy(interpreter: Interpreter, tmp_path: Path) -> None:
    with running(interpreter, "free_threaded", tmp_path / "counts.json") as target:
        assert planted(target) == int(target.detail)
        paths = document("why", target.pid, "__main__.Planted", *ENOUGH)["paths"]
        assert any("kept" in json.dumps(path) for path in paths)
        assert document("waste", target.pid, *ENOUGH)["rows"]


def test_threads_that_allocate_meanwhile_do_no_harm(interpreter: Interpreter, tmp_path: Path) -> None:
    """A count is right, or there is none: what has been planted is in each, and threads go on."""
    with running(interpreter, "free_threaded", tmp_path / "counts.json", "busy") as target:
        answers = [heaptop("census", target.pid, "--json", "--top", 0, *ENOUGH) for _ in range(2)]
        whole = [json.loads(done.stdout) for done in answers if done.returncode == 0]
        assert whole, answers[0].stderr
        assert all(done.returncode == 0 or "Retry" in done.stderr for done in answers)
        for census in whole:
            rows = {row["name"]: row["count"] for row in census["rows"]}
            assert int(target.detail) <= rows["__main__.Planted"] <= int(target.detail) + 1000
        assert target.said() == []
        assert target.terminate() == EXIT_CODE


def test_an_attach_is_refused_with_the_line_to_type(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        before = Facts.of(target.pid)
        for command in ("census", "why", "doctor"):
            words = ("builtins.dict",) if command == "why" else ()
            refused = heaptop(command, target.pid, *words)
            assert refused.returncode == FreeThreadedTarget.exit_code
            assert f"heaptop census {target.pid} --no-inject" in refused.stderr + refused.stdout
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []
        assert target.terminate() == EXIT_CODE
