"""heaptop.api over real attaches: what a program gets is what was planted, and the target is as before afterwards."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from heaptop import api, errors
from heaptop.api import aio
from heaptop.injector.inspect.process import children
from tests.interpreters import Interpreter
from tests.support.attaching import resting
from tests.support.processes import EXIT_CODE, Facts, Target, difference, eventually, running

PARCEL = "__main__.Parcel"
EXAMPLES = Path(__file__).parents[2] / "docs/api.md"


@pytest.fixture
def growing(interpreter: Interpreter) -> Iterator[Target]:
    """100 Parcels more, twenty times a second."""
    with running(interpreter, "heap_growing") as target:
        yield target


@pytest.mark.pythons("3.8", "3.11", "3.13")
def test_a_census_counts_what_is_there_and_leaves_the_process_as_it_was(interpreter: Interpreter) -> None:
    with running(interpreter, "why_planted") as target:
        before = Facts.of(target.pid)
        with api.attach(target.pid) as process:
            (row,) = process.census(where="type:__main__.Session")
            assert (row.name, row.count) == ("__main__.Session", 160)
            by_module = process.census(by="module")
            assert by_module.count == sum(row.count for row in by_module.rows)
            assert by_module.complete
            assert not by_module.estimated
            assert 0 < by_module.pause < 5
            assert process.python.startswith(f"{interpreter.version[0]}.{interpreter.version[1]}.")
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.12")
def test_a_snapshot_tells_paths_and_retainers(interpreter: Interpreter) -> None:
    with running(interpreter, "why_planted") as target, api.attach(target.pid) as process:
        with process.snapshot() as snapshot:
            kept = snapshot.why("__main__.Session")
            assert (kept.type, kept.count, kept.complete) == ("__main__.Session", 160, True)
            assert sum(path.count for path in kept.paths) == 160
            assert all(path.steps[-1] == "__main__.Session" for path in kept.paths)
            sets = snapshot.retainers("__main__.Session")
            assert sum(row.count for row in sets) == 160
            (registry,) = snapshot.dominators("__main__.Registry")
            assert registry.path == ("module __main__", ".registry", "__main__.Registry")
            held = snapshot.dominators("__main__.Session", most=1000, below=registry.address)
            assert len(held) == 100
            assert registry.retained > sum(each.retained for each in held) > 0
            assert {each.kind for each in held} == {"module"}
            with pytest.raises(errors.NotInHeap, match=r"__main__\.Session"):
                snapshot.why("Sesion")
            assert snapshot.count > 160
        with pytest.raises(errors.ImageLost):
            snapshot.why("__main__.Session")
        assert eventually(lambda: not children(target.pid))
        assert process.census().count > 160, "it is still attached"


@pytest.mark.pythons("3.12")
def test_a_snapshot_finds_waste_and_progress_is_reported(interpreter: Interpreter) -> None:
    reported: list[str] = []
    with running(interpreter, "waste_planted") as target:
        process = api.attach(target.pid, progress=reported.append)
        assert not process.is_others
        with process, process.snapshot() as snapshot:
            wasted = snapshot.waste()
            assert 0 < wasted.total <= snapshot.bytes + sum(row.bytes for row in wasted.rows if row.sort == "arenas")
            assert all(row.advice for row in wasted.rows)
            with pytest.raises(errors.UsageError):
                snapshot.waste("size:>1MB")
    assert any("snapshot" in text for text in reported)


@pytest.mark.pythons("3.8", "3.12")
def test_a_hunt_names_type_line_and_holder(growing: Target) -> None:
    with api.attach(growing.pid) as process:
        found = process.hunt(seconds=6, marks=4)
    assert found.verdict == "leak"
    suspect = found.suspects[0]
    assert suspect.type == PARCEL
    assert "heap_growing.py" in suspect.site
    assert "parcels" in suspect.retainer


@pytest.mark.pythons("3.12")
def test_a_hunt_over_rounds_names_type_line_and_holder(growing: Target) -> None:
    with api.attach(growing.pid) as process:
        with process.rounds() as rounds:
            assert rounds.check() is None
            for last in (False, False, True):
                before = process.census(where="type:Parcel").count
                assert eventually(lambda before=before: process.census(where="type:Parcel").count > before)
                found = rounds.check(last=last)
        assert process.census().count, "it is still attached"
    assert found is not None
    assert found.verdict == "leak"
    suspect = found.suspects[0]
    assert suspect.type == PARCEL
    assert "heap_growing.py" in suspect.site
    assert "parcels" in suspect.retainer


@pytest.mark.pythons("3.12")
def test_sites_are_estimates_with_an_interval(growing: Target) -> None:
    with api.attach(growing.pid) as process:
        sites = process.sites(seconds=3)
    site = next(site for site in sites if "heap_growing.py:" in site.name)
    assert site.samples
    assert 0 < site.low <= site.bytes <= site.high
    assert any(site.name.startswith("(") for site in sites), "what is older than the samples is a row, too"


@pytest.mark.pythons("3.12")
def test_memory_by_use_adds_up_to_what_is_resident(growing: Target) -> None:
    with api.attach(growing.pid) as process:
        memory = process.memory()
        assert sum(row.bytes for row in memory.rows) == memory.rss
        assert process.rss


@pytest.mark.pythons("3.12")
def test_a_recording_is_read_back(growing: Target, tmp_path: Path) -> None:
    path = tmp_path / "growing.heaptop"
    with api.attach(growing.pid) as process:
        process.record(path, 4, every=1)
        with pytest.raises(errors.RecordingExists):
            process.record(path, 1)
        with api.open(path) as recording:
            assert (recording.pid, recording.damage) == (growing.pid, ())
            (first,), (last,) = (recording.census(at, where="type:Parcel") for at in (0.0, None))
            assert 1000 <= first.count < last.count
            assert recording.moments[0] == 0
            assert recording.moments[-1] == recording.seconds
            assert recording.rss()
            changed = next(row for row in recording.changes() if row.name == PARCEL)
            assert changed.count == last.count - first.count
            assert not any(row.bytes for row in recording.changes(at=None, other=recording))
            assert recording.findings == ()
        assert process.census().count, "it is still attached"


@pytest.mark.pythons("3.12")
def test_watching_ends_with_the_process(growing: Target) -> None:
    with api.attach(growing.pid) as process:
        seen = []
        for census in process.watch(every=0.2):
            seen.append(census.time_ns)
            if len(seen) == 3:
                growing.terminate()
        assert seen == sorted(set(seen))
        with pytest.raises(errors.TargetExited):
            process.census()


@pytest.mark.pythons("3.12")
def test_another_thread_may_cancel_a_call(growing: Target) -> None:
    with api.attach(growing.pid) as process:
        timer = threading.Timer(1, process.cancel)
        timer.start()
        with pytest.raises(concurrent.futures.CancelledError):
            process.hunt(seconds=60)
        timer.join()
        assert process.census().count
    assert eventually(lambda: not children(growing.pid))


@pytest.mark.pythons("3.12")
def test_all_of_it_may_be_awaited(growing: Target, tmp_path: Path) -> None:
    async def converse() -> None:
        async with aio.attach(growing.pid) as process:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(process.hunt(seconds=60), 1)
            assert (await process.census()).count
            counts = []
            async for census in process.watch(every=0.2, where="type:Parcel"):
                counts.append(census.count)
                if len(counts) == 3:
                    break
            assert counts == sorted(counts)
            async with process.snapshot() as snapshot:
                assert (await snapshot.why("Parcel")).count <= snapshot.now.count
                assert await snapshot.retainers("Parcel")
                assert len(await snapshot.dominators(most=3)) == 3
                assert (await snapshot.waste()).total
            assert await process.sites(1)
            assert (await process.memory()).rss
            await process.record(tmp_path / "a.heaptop", 1)
            assert (await process.hunt(seconds=4, marks=3)).suspects[0].type == PARCEL

    asyncio.run(converse())
    assert eventually(lambda: not children(growing.pid))
    assert eventually(lambda: not [each for each in threading.enumerate() if each.name.startswith("heaptop")])


def test_what_is_no_python_is_refused_before_it_is_touched() -> None:
    with pytest.raises(errors.TargetError):
        api.attach(1 if os.getpid() != 1 else 2)
    with pytest.raises(errors.ProcessNotFound):
        api.attach(4_194_305)


@pytest.mark.pythons("3.12")
def test_the_examples_of_the_documentation_run(
    growing: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", EXAMPLES.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    assert len(blocks) >= 4
    for block in blocks:
        text = block.replace("4711", str(growing.pid)).replace("Session", "Parcel")
        text = re.sub(r"seconds=\d+", "seconds=4", text)
        exec(compile(text, str(EXAMPLES), "exec"), {"__name__": "example"})
    assert PARCEL in capsys.readouterr().out
