"""RSS explained, over a real attach and from outside: known amounts of every sort end in the rows they belong to."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from heaptop.analysis.rss.memory import explain
from heaptop.injector.inspect.threads import agent_threads
from heaptop.injector.rss.memory_map import read
from heaptop.injector.rss.own import STACK, kept
from heaptop.injector.rss.smaps import classified, parse
from heaptop.protocol.messages import OWN_ARENA, Memory, Outside, Region, Tick
from tests.interpreters import SAMPLE, Interpreter, since
from tests.support import native
from tests.support.attaching import Attachment, attach_once, attached
from tests.support.processes import PATIENCE, Target, eventually, running

SOURCES: Final = str(Path(__file__).parents[2] / "src")
MIB: Final = 1 << 20
RECLAIMED: Final = 4 * MIB
"""What a kernel short of memory may have taken of a file's pages meanwhile."""


@pytest.fixture(scope="module")
def known_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What heap_known maps."""
    path = tmp_path_factory.mktemp("known") / "known.bin"
    path.write_bytes(b"\1" * (8 * MIB))
    return path


def rss(pid: int) -> int:
    return sum(vma.rss for vma in parse(Path(f"/proc/{pid}/smaps").read_text()))


def by_kind(seen: Outside) -> dict[str, int]:
    sums: dict[str, int] = {}
    for region in seen.regions:
        sums[region.kind] = sums.get(region.kind, 0) + region.rss
    return sums


def looked_at(target: Target) -> Outside:
    seen = read(target.pid)
    assert seen is not None
    assert seen.gaps == ()
    return seen


def stands_still(target: Target) -> bool:
    """Whether the target is after two looks as it was before them."""
    before = rss(target.pid)
    seen, again = looked_at(target), looked_at(target)
    return rss(target.pid) == before == sum(region.rss for region in seen.regions) and again.regions == seen.regions


def said_by_the_interpreter(target: Target, label: str) -> int:
    """A figure of ``sys._debugmallocstats``."""
    found = re.search(rf"^{label}\s*=\s*([\d,]+)$", target.stderr(), re.MULTILINE)
    assert found, target.stderr()
    return int(found[1].replace(",", ""))


def explained(target: Target, *options: str) -> dict[str, Any]:
    answer = subprocess.run(
        [sys.executable, "-m", "heaptop", "census", str(target.pid), "--memory", "--json", *options],
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert answer.returncode == 0, answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


def test_regions_are_exact_and_a_look_changes_nothing(interpreter: Interpreter, known_file: Path) -> None:
    """To the page where the kernel or a proof says it; nothing of the target changes by being looked at."""
    with running(interpreter, "heap_known", known_file) as target:
        amounts = ast.literal_eval(target.detail)
        # The kernel itself may make a huge page, or take a file's page away, in the middle of a look; not of each.
        assert eventually(lambda: stands_still(target))
        seen = looked_at(target)
        in_use = said_by_the_interpreter(target, "# bytes in allocated blocks")
        free = said_by_the_interpreter(target, "# bytes in available blocks")

    sums = by_kind(seen)
    assert sums["shared"] == amounts["shared"]
    (file,) = (each for each in seen.regions if each.name.endswith("known.bin"))
    assert file.size == amounts["file"]
    assert amounts["file"] - RECLAIMED <= file.rss <= amounts["file"]
    # Chunks: a page each for the head, and what the interpreter has that is large.
    assert amounts["chunks"] < sums["chunk"] < amounts["chunks"] + 2 * MIB
    untouched = sum(each.size - each.rss for each in seen.regions if each.kind == "chunk")
    assert amounts["untouched"] - MIB < untouched < amounts["untouched"] + 2 * MIB
    assert amounts["other"] <= sums["anonymous"] < amounts["other"] + MIB
    middle = amounts["middle"] + amounts["middle_freed"]
    assert middle < sums["heap"] < middle + 4 * MIB
    stacks = [each for each in seen.regions if each.kind == "stack" and each.name != "main thread"]
    assert len(stacks) == amounts["threads"]
    assert all(100 << 10 < each.rss < 2 * MIB for each in stacks)
    # The arenas: what the interpreter said of itself a moment before, but for what saying it took.
    assert seen.pymalloc is not None
    assert abs(seen.pymalloc.in_use - in_use) < 32 << 10
    assert free - MIB < seen.pymalloc.free_blocks <= free + (32 << 10)  # less what was never touched
    assert seen.pymalloc.free_blocks > amounts["small_freed"]
    assert seen.pymalloc.arenas == sums["arena"]


def check_own(document: Mapping[str, Any], rows: Mapping[str, int]) -> None:
    """heaptop's own: what it has mapped, and what its objects take."""
    own = {each["name"]: each["bytes"] for each in document["own"]}
    assert own["agent's thread: stack"] > 8 << 10
    assert 12 << 10 <= own["attach code"] <= 48 << 10
    assert ("native core: library" in own) == (document["malloc"] is not None)
    assert 200 << 10 < document["own_objects"] < MIB
    assert own[OWN_ARENA] > document["own_objects"] // 4
    assert sum(own.values()) < rows["own"] < sum(own.values()) + document["own_objects"]
    # Most of what an attach costs; the rest is free in Python's arenas, or of files that were touched.
    growth = document["rss"] - document["rss_before_attach"]
    assert growth // 3 < rows["own"] < growth


def check_outside(document: Mapping[str, Any], amounts: Mapping[str, int]) -> dict[str, int]:
    """What every mode says; the rows by key."""
    rows = {row["key"]: row["bytes"] for row in document["rows"]}
    assert sum(rows.values()) == document["rss"]
    assert rows["shared"] == amounts["shared"]
    (file,) = (each for each in document["files"] if each["name"].endswith("known.bin"))
    assert amounts["file"] - RECLAIMED <= file["bytes"] <= amounts["file"]
    assert amounts["small_freed"] < rows["pools"] < amounts["small_freed"] + 2 * MIB
    assert amounts["other"] <= rows["rest"] < amounts["other"] + 2 * MIB
    named = [each["name"] for each in document["stacks"]]
    assert len(named) == amounts["threads"] + 1, named  # the main thread's
    check_own(document, rows)
    # Of the objects, those that are resident: 50 MiB were never touched.
    held = amounts["small"] + amounts["middle"] + amounts["chunks"]
    assert document["live"] > held + amounts["untouched"]
    assert held - MIB < rows["live"] < held + 12 * MIB
    return rows


def private(pid: int) -> int:
    """Bytes that are of this process alone and written to, by the kernel."""
    (line,) = (line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if "Private_Dirty" in line)
    return int(line.split()[1]) << 10


@pytest.mark.pythons("3.8", "3.12", "3.13")
def test_heaptops_own_is_most_of_what_an_attach_adds_and_no_more(interpreter: Interpreter) -> None:
    """Of a program that sleeps: by the kernel's account of its private memory before and while heaptop is attached."""
    native.core()
    with running(interpreter, "sleeper") as target:
        before = private(target.pid)
        with attached(target.pid) as attachment:
            attachment.message(Tick)
            said, _ = memory_of(attachment)
            added = private(target.pid) - before
    found = explain(said, None)
    assert found is not None
    (own,) = (row.bytes for row in found.rows if row.key == "own")
    assert 0.6 * added < own < added + (128 << 10)


@pytest.mark.pythons("3.8", "3.12")
def test_the_stack_of_a_thread_that_takes_the_agents_name_is_the_programs(interpreter: Interpreter) -> None:
    with running(interpreter, "hostile/faking", "later") as target, attached(target.pid) as attachment:
        attachment.message(Tick)
        (real,) = agent_threads(target.pid)
        target.signal(signal.SIGUSR1)
        assert eventually(lambda: len(agent_threads(target.pid)) == 2)
        said, ours = memory_of(attachment)
        assert said.outside is not None
        stacks = [region.name for region in said.outside.regions if region.kind == "stack"]
        (forged,) = {tid for tid, _ in agent_threads(target.pid)} - {real[0]}
        assert forged < real[0], "the program's thread is found first"
        assert any(name.startswith(f"thread {forged} ") for name in stacks)
        assert not any(name.startswith(f"thread {real[0]} ") for name in stacks)
        assert STACK in ours


@pytest.mark.pythons("3.8", "3.12")
def test_sessions_do_not_make_the_program_keep_more_and_more(interpreter: Interpreter) -> None:
    """Nothing of the agent's is so large that malloc maps it, and from then on keeps what is as large in its heaps."""
    native.core()
    with running(interpreter, "sleeper") as target:
        attach_once(target.pid, census=True)
        once = private(target.pid)
        for _ in range(3):
            attach_once(target.pid, census=True)
        assert private(target.pid) - once < MIB


def test_without_a_native_core(interpreter: Interpreter, known_file: Path) -> None:
    """What malloc holds free cannot be said, and is not: it stays with what is given out."""
    with running(interpreter, "heap_known", known_file) as target:
        amounts = ast.literal_eval(target.detail)
        document = explained(target, "--mode", "python")
    rows = check_outside(document, amounts)
    assert "malloc_free" not in rows
    assert document["malloc"] is None
    assert any("native core" in note for note in document["notes"])
    assert rows["other"] > amounts["middle_freed"]


def test_with_a_native_core(interpreter: Interpreter, known_file: Path) -> None:
    """malloc says what it holds free; and what is given out is what was, but for the interpreter's own."""
    native.core()
    with running(interpreter, "heap_known", known_file) as target:
        amounts = ast.literal_eval(target.detail)
        document = explained(target)
    if document["mode"] == "python" and interpreter.root is not None:
        pytest.skip(f"no native core in a chroot without /proc: {document['notes']}")
    assert document["mode"] == "clone", document["notes"]
    rows = check_outside(document, amounts)
    assert document["allocator"] == "pymalloc"
    malloc = document["malloc"]
    assert malloc["heaps"] == malloc["in_use"] + malloc["free"]
    assert amounts["chunks"] + amounts["untouched"] < malloc["mapped"]
    # less what the interpreter took of it for the agent, and with what the agent had and freed again
    assert amounts["middle_freed"] - (256 << 10) < rows["malloc_free"] < amounts["middle_freed"] + 6 * MIB
    assert rows["other"] < 8 * MIB


@pytest.mark.pythons(*SAMPLE)
@pytest.mark.parametrize(
    ("environment", "options", "arenas"),
    [
        ({"PYTHONMALLOC": "malloc"}, (), False),
        ({"PYTHONMALLOC": "malloc_debug"}, (), False),
        ({"PYTHONMALLOC": "pymalloc_debug"}, (), True),
        ({}, ("-X", "tracemalloc"), True),
    ],
    ids=["malloc", "malloc_debug", "pymalloc_debug", "tracemalloc"],
)
def test_arenas_are_found_wherever_there_are_some(
    interpreter: Interpreter,
    known_file: Path,
    environment: dict[str, str],
    options: tuple[str, ...],
    arenas: bool,
) -> None:
    """Arenas are found when there are some, also where the interpreter's own figures fail: below a hook."""
    with running(interpreter, "heap_known", known_file, environment=environment, options=options) as target:
        amounts = ast.literal_eval(target.detail)
        seen = looked_at(target)
    assert (seen.pymalloc is not None) == arenas
    sums = by_kind(seen)
    assert ("arena" in sums) == arenas
    small = amounts["small"] + amounts["small_freed"]
    if arenas:
        assert sums["arena"] > small
    else:
        assert sums["heap"] > small + amounts["middle"] + amounts["middle_freed"]


@pytest.mark.pythons(*since("3.12"))
def test_arenas_of_another_interpreter(interpreter: Interpreter) -> None:
    """100,000 strings of some 80 bytes, in an interpreter that shares no arena with the main one."""
    with running(interpreter, "heap_interpreters") as target:
        assert target.detail == ""
        seen = looked_at(target)
    assert seen.pymalloc is not None
    assert seen.pymalloc.in_use > 7_000_000
    assert by_kind(seen)["anonymous"] < MIB


@pytest.mark.pythons("3.8", "3.13")
def test_a_target_that_gives_memory_back_meanwhile(interpreter: Interpreter, is_whole: bool) -> None:
    """A page that has gone between two readings is passed over, and all the rest is seen."""
    with running(interpreter, "heap_giving_back", environment={"MALLOC_MMAP_THRESHOLD_": "131072"}) as target:
        for _ in range(10 if is_whole else 3):
            assert looked_at(target).pymalloc is not None


def test_a_target_whose_leader_has_gone(interpreter: Interpreter) -> None:
    with running(interpreter, "leader_gone") as target:
        seen = looked_at(target)
        assert seen.pymalloc is not None
        assert sum(region.rss for region in seen.regions) > MIB


def memory_of(attachment: Attachment) -> tuple[Memory, dict[str, Region]]:
    """What is said now; and heaptop's own regions by name."""
    attachment.source.memory_now()
    said = attachment.message(Memory)
    assert said.outside is not None
    return said, {region.name: region for region in said.outside.regions if region.kind == "own"}


def thread_heaps(pid: int) -> dict[int, int]:
    """Where heaps of threads' arenas are, and what of each is resident."""
    found = classified(parse(Path(f"/proc/{pid}/smaps").read_text()))
    return {vma.start: vma.rss for vma, kind, name in found if (kind, name) == ("heap", "threads")}


@pytest.mark.pythons("3.8", "3.11-debian", "3.13", "3.14")
def test_what_is_heaptops_own(interpreter: Interpreter) -> None:
    """By the kernel's own account of what was not there before; and an arena that was is not taken for heaptop's."""
    native.core()
    with running(interpreter, "sleeper") as target:
        before, heaps = rss(target.pid), thread_heaps(target.pid)
        assert heaps == {}
        with attached(target.pid, sample_interval=4096) as attachment:
            attachment.message(Tick)
            said, own = memory_of(attachment)
            maps = parse(Path(f"/proc/{target.pid}/smaps").read_text())
            made = thread_heaps(target.pid)
        assert said.outside is not None
        assert said.outside.rss_before == pytest.approx(before, abs=64 << 10)
        assert said.own_pages == ()  # regions say it
        assert own[OWN_ARENA].rss == pytest.approx(sum(made.values()), abs=64 << 10)
        if said.malloc is not None:  # with a core: a chroot without /proc has none
            core = [vma for vma in maps if vma.inode and "heaptop-core" in vma.name]
            assert own["native core: library"].rss == sum(vma.rss for vma in core)
            assert own["native core: data"].size > 4 * MIB  # the sampler's granules: mapped, and hardly touched
            assert 0 < own["native core: data"].rss < MIB
            assert own["sampler: tables"].size > MIB
            assert 0 < own["sampler: tables"].rss < MIB
        others = [region.name for region in said.outside.regions if region.kind != "own"]
        assert not any(re.search("heaptop(-core| fd=)", name) for name in others)
        seen = looked_at(target)
        stays = sum(region.rss for region in seen.regions if region.kind == "own")
        assert stays > 12 << 10
        assert kept(target.pid) == pytest.approx(stays, abs=64 << 10)  # the kernel may have dropped pages of a file
        with attached(target.pid) as attachment:
            attachment.message(Tick)
            _, again = memory_of(attachment)
        assert OWN_ARENA not in again
        assert set(made) <= set(thread_heaps(target.pid))


@pytest.mark.sample(2)
@pytest.mark.pythons("3.8", "3.12", "3.14")
def test_arenas_of_the_programs_threads_are_not_heaptops(interpreter: Interpreter) -> None:
    """With one arena for all threads the agent's is the program's, and stays in malloc's rows."""
    with running(interpreter, "threads8", environment={"MALLOC_ARENA_MAX": "1"}) as target:
        with attached(target.pid) as attachment:
            attachment.message(Tick)
            _, own = memory_of(attachment)
        assert OWN_ARENA not in own
    with running(interpreter, "threads8") as target:
        heaps = thread_heaps(target.pid)
        with attached(target.pid) as attachment:
            attachment.message(Tick)
            _, own = memory_of(attachment)
            new = {start: size for start, size in thread_heaps(target.pid).items() if start not in heaps}
        assert own[OWN_ARENA].rss == pytest.approx(sum(new.values()), abs=64 << 10)


@pytest.mark.pythons("3.8", "3.12")
def test_blocks_that_huge_pages_were_advised_for_are_mallocs(interpreter: Interpreter) -> None:
    """64 MiB by malloc and madvise, as NumPy does it, and as much by NumPy where it is installed."""
    environment = {"PYTHONPATH": str(interpreter.packages)} if interpreter.has("numpy") else None
    with running(interpreter, "hinted", environment=environment) as target:
        known = int(target.detail)
        sums = by_kind(looked_at(target))
        assert known <= sums["chunk"] + RECLAIMED
        assert sums.get("anonymous", 0) < 16 * MIB, "none of it is of unknown use"


@pytest.mark.pythons("3.8", "3.13")
def test_memory_that_another_allocator_has_aligned_is_not_free_in_malloc(interpreter: Interpreter) -> None:
    """glibc's malloc aligns the heaps of threads' arenas in the same way."""
    with running(interpreter, "aligned_mapping") as target:
        before = by_kind(looked_at(target))
        assert before["anonymous"] >= 8 * MIB
        assert before.get("heap", 0) < 8 * MIB
