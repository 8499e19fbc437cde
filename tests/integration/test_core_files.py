"""Core files of live programs, written by gdb and by the kernel: their heap is the one that a snapshot of the process
has."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from heaptop.dumps.cores import walking
from heaptop.dumps.cores.conversion import CoreOptions, open_core
from heaptop.dumps.cores.walker import END
from heaptop.dumps.reader import HeapDump
from heaptop.dumps.source import DumpSource
from heaptop.errors import DumpDamaged, HeaptopError
from heaptop.protocol.images import Image
from heaptop.protocol.source import Attached, Event, HeapFile, Received
from tests.interpreters import NEWEST, OLDEST, Interpreter
from tests.support import native
from tests.support.dumped_heaps import check_same_heap, counted, loaded
from tests.support.leaking import ENVIRONMENT, HEAPTOP, document, heaptop
from tests.support.processes import PATIENCE, Target, eventually, running, with_proc


@pytest.fixture(autouse=True)
def _gdb() -> None:
    if shutil.which("gdb") is None:
        pytest.skip("gdb, which writes core files, is not installed")


@pytest.fixture
def target(interpreter: Interpreter) -> Iterator[Target]:
    native.core()
    with running(interpreter, "why_planted", wrapper=with_proc(interpreter)) as started:
        yield started


def write_core(target: Target, path: Path) -> Path:
    """As `gcore` does. The process continues."""
    words = ["gdb", "-nx", "-batch", "-p", str(target.pid), "-ex", f"generate-core-file {path}"]
    subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True)
    return path


def test_a_core_has_the_heap_of_the_snapshot(interpreter: Interpreter, target: Target, tmp_path: Path) -> None:
    """Types and objects; bytes but for types that are measured by code, which are named. What is opaque is stated."""
    core = write_core(target, tmp_path / "core.1")
    assert heaptop("dump", target.pid, "-o", tmp_path / "live.heapdump").returncode == 0
    with (
        loaded(HeapDump(str(tmp_path / "live.heapdump"))) as live,
        loaded(open_core(str(core), CoreOptions(), lambda *told: None)) as found,
    ):
        assert (found.whole, found.info.origin, found.info.pid) == (True, "core file", target.pid)
        check_same_heap(interpreter, live, found)


def refusal(core: Path) -> str:
    """What is wrong with it; nothing where its heap can be read all the same."""
    try:
        with loaded(open_core(str(core), CoreOptions(), lambda *told: None)) as found:
            return "" if found.image.objects else f"nothing is in {core}\n"
    except HeaptopError as error:
        return error.message


def own_children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.pythons(NEWEST)
def test_a_damaged_core_is_one_sentence_and_leaves_no_process_and_no_file(target: Target, tmp_path: Path) -> None:
    """Cut anywhere, and with memory that is not what it was."""
    core = write_core(target, tmp_path / "core.1")
    whole, before = core.read_bytes(), own_children()
    chance = random.Random(1)
    for number in range(12):
        changed = bytearray(whole)
        if number % 3 == 0:
            changed = changed[: chance.randrange(len(whole))]
        for _ in range(number * 200):
            at = chance.randrange(len(whole) // 20, len(whole) - 8) & ~7 if len(changed) == len(whole) else 0
            changed[at : at + 8] = chance.randbytes(8) if at else changed[:8]
        core.write_bytes(changed)
        sentence = refusal(core)
        assert sentence.count("\n") == 0
        assert str(core) in sentence or not sentence
        assert own_children() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["core.1"]


@pytest.mark.pythons("3.11-debian")
def test_commands_take_a_core_in_place_of_a_process(target: Target, tmp_path: Path) -> None:
    core = write_core(target, tmp_path / "core.1")
    census = document("census", core, "--top", 0)
    assert sum(row["count"] for row in census["rows"] if row["name"] == "__main__.Session") > 0
    assert document("why", core, "__main__.Session")["paths"]
    assert document("waste", core)["rows"]
    words = heaptop("census", core).stdout + heaptop("why", core, "__main__.Session").stdout
    assert "counted in a file" in words
    assert "pause" not in words, "nothing stood still"
    made = tmp_path / "made.heapdump"
    assert heaptop("dump", core, "-o", made).returncode == 0
    assert document("census", made, "--top", 0)["rows"] == census["rows"]
    assert "Nothing changed." in heaptop("diff", core, made).stdout


@pytest.mark.pythons("3.12")
def test_a_core_is_a_session_that_begins_with_its_only_snapshot(target: Target, tmp_path: Path) -> None:
    """Views tell snapshots apart by number, 0 being none, and count time from the beginning."""
    steps: set[str] = set()
    core = str(write_core(target, tmp_path / "core.1"))
    source = DumpSource(open_core(core, CoreOptions(), lambda step, *told: steps.add(step)))
    assert "reading objects and references" in steps
    assert "writing the heap dump" not in steps, "that is what `heaptop dump` does"
    events: list[Event] = []
    source.open(events.append)
    source.image(1.0)

    def images() -> list[Image]:
        return [each.message for each in events if isinstance(each, Received) and isinstance(each.message, Image)]

    assert eventually(images)
    source.close(PATIENCE)
    (attached,) = [event for event in events if isinstance(event, Attached)]
    (image,) = images()
    assert image.image == 1
    assert image.time_ns == attached.hello.time_ns > 0
    assert attached.target.file == HeapFile("core file", "sizes", redacted=False, opaque=image.opaque)


@pytest.mark.pythons("3.12")
def test_a_core_whose_program_is_another_build_says_which_and_what_to_give(target: Target, tmp_path: Path) -> None:
    core = write_core(target, tmp_path / "core.1")
    done = heaptop("census", core, "--root", tmp_path)
    assert done.returncode == DumpDamaged.exit_code
    assert "libpython3.12.so.1.0 cannot be read" in done.stderr
    assert "--exe PATH" in done.stderr


# -- cores of the kernel -------------------------------------------------------------------------------------

ANONYMOUS: Final = 0x03
FILES: Final = 0x04
HEADERS: Final = 0x10
"""Of ``coredump_filter`` (core(5)): memory of no file; of files, privately mapped; their first pages."""


@contextmanager
def written_by_the_kernel(
    interpreter: Interpreter, wrapper: tuple[str, ...] = (), filter: int = ANONYMOUS | HEADERS
) -> Iterator[tuple[Path, Path]]:
    """The core of a process that has ended, and one that gdb has written of it before. Skips the test where the kernel
    writes none into the process's folder."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if not pattern.isalnum():
        pytest.skip(f"the kernel gives cores to {pattern.split()[0]}")
    root = interpreter.root or Path("/")
    with tempfile.TemporaryDirectory(prefix="heaptop-core-", dir=root / "tmp") as name:
        folder = Path(name)
        inside = f"/{folder.relative_to(root)}"
        with running(interpreter, "core_written", inside, wrapper=(*wrapper, *with_proc(interpreter))) as target:
            gdbs = write_core(target, folder / "gdb")
            resource.prlimit(target.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
            Path(f"/proc/{target.pid}/coredump_filter").write_text(hex(filter))
            os.kill(target.pid, signal.SIGABRT)
            target.process.wait(PATIENCE)
        (core,) = folder.glob(f"{pattern}*")
        yield core, gdbs


@pytest.mark.pythons(OLDEST, "3.12", "3.14")
@pytest.mark.parametrize("filter", [ANONYMOUS | HEADERS, ANONYMOUS | HEADERS | FILES], ids=["without-files", "whole"])
def test_a_core_of_the_kernel_has_the_heap_of_one_of_gdb(interpreter: Interpreter, filter: int) -> None:
    """Pages of files are left out of it by default: they are read from files of the same build."""
    native.core()
    options = CoreOptions(root=None if interpreter.root is None else str(interpreter.root))
    with (
        written_by_the_kernel(interpreter, filter=filter) as (core, gdbs),
        loaded(open_core(str(core), options, lambda *told: None)) as found,
        loaded(open_core(str(gdbs), CoreOptions(), lambda *told: None)) as expected,
    ):
        assert (found.whole, found.info.pid) == (True, expected.info.pid)
        one, other = counted(found), counted(expected)
        changed = {name: (one.get(name), other.get(name)) for name in one | other if one.get(name) != other.get(name)}
        assert one["__main__.Row"][0] == 3000
        assert sum(abs(one.get(name, (0, 0))[0] - other.get(name, (0, 0))[0]) for name in changed) <= 10, changed


@pytest.mark.pythons("3.12")
def test_a_core_without_the_beginnings_of_files_says_so(interpreter: Interpreter) -> None:
    """By them it is known which build a file is of."""
    with written_by_the_kernel(interpreter, filter=ANONYMOUS) as (core, _):
        said = refusal(core)
    assert "libpython3.12.so.1.0" in said
    assert "which build" in said


# -- cores where the process that reads them has memory itself ------------------------------------------------------

GAP: Final = 0x300000000000
PROGRAM_HEADER: Final = struct.Struct("<IIQQQQQQ")
LARGEST: Final = 1 << 40


def surround(core: Path, gap: int) -> None:
    """Have a core claim memory at all addresses but those of its own and ``gap`` bytes from GAP on: as of a program
    that has reserved nearly all addresses, and written somewhere in each part of them."""
    content = bytearray(core.read_bytes())
    (table,) = struct.unpack_from("<Q", content, 32)
    (count,) = struct.unpack_from("<H", content, 56)
    own = [PROGRAM_HEADER.unpack_from(content, table + number * PROGRAM_HEADER.size) for number in range(count)]
    taken = [(start, start + size) for kind, _, _, start, _, _, size, _ in own if kind == 1]
    added, at = [], 1 << 16
    for start, end in sorted([*taken, (GAP, GAP + gap), (END, END)]):
        for begin in range(at, min(start, END), LARGEST):
            added.append((begin, min(begin + LARGEST, start)))
        at = max(at, end)
    offset = len(content) + (count + len(added)) * PROGRAM_HEADER.size + 4095 & ~4095
    content += b"".join(PROGRAM_HEADER.pack(*each) for each in own)
    for start, end in added:
        content += PROGRAM_HEADER.pack(1, 6, offset, start, 0, end - start, end - start, 4096)
    struct.pack_into("<Q", content, 32, len(core.read_bytes()))
    struct.pack_into("<H", content, 56, count + len(added))
    core.write_bytes(content)
    os.truncate(core, offset + LARGEST)  # a hole


@pytest.mark.pythons("3.12")
def test_a_core_with_memory_at_nearly_all_addresses_is_read_where_it_has_none(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the first process that tries."""
    monkeypatch.setattr(walking, "ATTEMPTS", 1)
    with written_by_the_kernel(interpreter) as (core, _):
        whole = core.read_bytes()
        surround(core, 64 << 30)
        assert refusal(core) == ""
        core.write_bytes(whole)
        surround(core, 512 << 20)
        before = own_children()
        assert "leaves no contiguous 1 GiB free" in refusal(core)
        assert own_children() == before


def without_a_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str) -> None:
    """Have cores read below a shell with these words, and the limits of it."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n{words} "{sys.executable}" "$@"\n')
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))


@pytest.mark.pythons("3.12")
def test_a_core_is_read_where_all_programs_are_placed_alike(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also the stack, which is at the same addresses in both."""
    without_a_choice(monkeypatch, tmp_path, "exec setarch -R")
    monkeypatch.setattr(walking, "ATTEMPTS", 1)
    with written_by_the_kernel(interpreter, ("setarch", "-R")) as (core, _):
        assert refusal(core) == ""


@pytest.mark.pythons("3.12")
def test_a_core_where_its_reader_must_have_memory_is_one_sentence(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Placed as the first process that tries, because of a hard limit; the second one is placed at random."""
    with written_by_the_kernel(interpreter, ("setarch", "-R")) as (core, _):
        without_a_choice(monkeypatch, tmp_path, "ulimit -s 8192; exec setarch -R")
        before = own_children()
        assert refusal(core) == ""
        monkeypatch.setattr(walking, "ATTEMPTS", 1)
        assert "has memory at 0x" in refusal(core)
        assert own_children() == before


@pytest.mark.pythons("3.11-debian")
def test_a_core_of_a_program_at_fixed_addresses_is_read_by_that_program(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with written_by_the_kernel(interpreter) as (core, _):
        monkeypatch.setattr(sys, "executable", interpreter.path)
        assert refusal(core) == ""


# -- ways out ------------------------------------------------------------------------------------------------


def processes_of(folder: Path) -> list[int]:
    """Those that have a file below it open, or have mapped one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            names = [os.readlink(each) for each in (entry / "fd").iterdir()]
            mapped = (entry / "maps").read_text()
        except OSError:
            continue
        if str(folder) in mapped or any(name.startswith(str(folder)) for name in names):
            found.append(int(entry.name))
    return found


@pytest.mark.pythons("3.12")
def test_heaptop_that_is_killed_while_it_reads_a_core_leaves_no_process_and_no_file(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """At several moments: the process that reads the core, and its child, end with heaptop."""
    with written_by_the_kernel(interpreter) as (core, _):
        place, before = tmp_path / "tmp", sorted(path.name for path in core.parent.iterdir())
        place.mkdir()
        words = [*HEAPTOP, "census", str(core)]
        environment = {**ENVIRONMENT, "TMPDIR": str(place)}
        since = time.monotonic()
        subprocess.run(words, env=environment, capture_output=True, timeout=PATIENCE, check=True)
        length = time.monotonic() - since
        for death in range(8):
            with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as read:
                time.sleep(length * (death + 1) / 9)
                read.kill()
                read.wait(PATIENCE)
            assert eventually(lambda: not processes_of(core.parent)), processes_of(core.parent)
            assert sorted(path.name for path in core.parent.iterdir()) == before
        assert list(place.iterdir()) == []
