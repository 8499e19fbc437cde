"""Where there is no native core, tracemalloc does it if it is asked to: who allocated what lives, exactly; and it is
switched off on every way out, unless it was the program's own. Where switching it off is not safe, only that is used.

Mode "python" sends no core, which would be used wherever it can be.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from heaptop.analysis.bands.table import table
from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.samples.producers import Producer, producers
from heaptop.errors import HeaptopError, TargetExited
from heaptop.protocol.messages import TRACEMALLOC, Census, Sampler, Traced
from tests.interpreters import Interpreter, since
from tests.support.attaching import Attachment, attached, resting
from tests.support.building import TARGETS
from tests.support.native import Asked
from tests.support.processes import PATIENCE, running, starting, with_proc
from tests.support.shop import LEAK, Shop, kill_heaptop_at, shop

CRASHING = ("3.8", "3.9", "3.10", "3.11", "3.11-debian", "3.12", "3.13")
"""Whose tracemalloc.stop() may crash beside threads: as far as they are older than 3.12.9 and 3.13.2."""
MENDED = since("3.14")


def crashes(interpreter: Interpreter) -> bool:
    """Whether tracemalloc cannot be switched off safely there; a newer patch release of a minor version can."""
    version = interpreter.version
    return version < (3, 12, 9) or (3, 13) <= version < (3, 13, 2)


def traced(pid: int) -> AbstractContextManager[Attachment]:
    """Attached as one who has agreed to what tracemalloc costs."""
    return attached(pid, mode="python", sample_interval=64 << 10, tracer=True)


def line_of(words: str) -> int:
    source = (Path(__file__).parent.parent / "targets" / "sampling_shop.py").read_text().splitlines()
    return next(number for number, line in enumerate(source, 1) if words in line)


def by_line(target: Shop, words: str) -> Producer | None:
    """The row of a site, by what stands in its line."""
    rows = producers(target.sampling.samples, target.sampling.sites, "site")
    line = line_of(words)
    return next((row for row in rows if row.frame is not None and row.frame.line == line), None)


def counted(target: Shop, attachment: Attachment) -> Census:
    """A census that was begun after now."""
    attachment.source.census_now()
    return target.listen(attachment, Census)


@pytest.mark.pythons(*CRASHING)
def test_it_is_not_begun_where_to_end_it_could_crash(interpreter: Interpreter) -> None:
    if not crashes(interpreter):
        pytest.skip("it can be switched off there")
    with shop(interpreter) as target:
        before = target(b"a")
        with traced(target.target.pid) as attachment:
            state = target.listen(attachment, Sampler)
            assert (state.on, state.offer) == (False, False)
            assert state.text.startswith("Python {}.{}.{} can crash".format(*interpreter.version))
            target.listen(attachment, Census)
            assert target(b"a") == before
            attachment.source.sample(64 << 10, 4, tracer=True)
            assert not target.listen(attachment, Sampler).on
        assert target(b"a") == before
        assert target.text(b"T") == "False"


@pytest.mark.sample(2)
@pytest.mark.pythons("3.8", "3.11-debian", "3.13", stress=CRASHING)
def test_a_leak_is_told_by_its_line_exactly(interpreter: Interpreter) -> None:
    """By the tracemalloc that the program has switched on."""
    with shop(interpreter) as target:
        bare = target(b"a")
        target(b"l")  # before: nobody saw it
        target(b"t")
        before = target(b"a")
        assert before != bare
        with traced(target.target.pid) as attachment:
            leak_is_told(target, attachment)
            assert target(b"a") == before
        assert resting(target.target.pid)
        assert target(b"a") == before
        assert target.text(b"T") == "True"
        target(b"u")
        assert target(b"a") == bare


@pytest.mark.sample(2)
@pytest.mark.pythons(*MENDED)
def test_what_heaptop_has_switched_on_tells_it_too(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        target(b"l")
        before = target(b"a")
        with traced(target.target.pid) as attachment:
            leak_is_told(target, attachment)
            assert target(b"a") != before
        assert resting(target.target.pid)
        assert target(b"a") == before


def leak_is_told(target: Shop, attachment: Attachment) -> None:
    """Of what is traced from now on, a leak; and that it is let go."""
    state = target.listen(attachment, Sampler)
    assert (state.on, state.means, state.interval, state.depth, state.text) == (True, TRACEMALLOC, 1, 4, "")
    target.listen(attachment, Census)
    target(b"l")
    census = counted(target, attachment)
    row = by_line(target, "CACHE.append(")
    assert row is not None
    assert row.frame is not None
    assert (row.frame.function, row.live.exact) == ("", True)
    # 2,000 of 1 KiB, and as many session objects
    assert row.live.count == 4000
    assert LEAK < row.live.bytes < LEAK + 2000 * 64
    older = table(target.sampling.moments.records, "producer", EVERYTHING)
    assert sum(one.bytes for one in older) == sum(one.bytes for one in census.rows), "and the rest is older"
    target(b"f")
    counted(target, attachment)
    assert by_line(target, "CACHE.append(") is None


@pytest.mark.pythons(*MENDED)
def test_never_without_being_asked(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        with attached(target.target.pid, mode="python", sample_interval=64 << 10) as attachment:
            state = target.listen(attachment, Sampler)
            assert (state.on, state.offer) == (False, True)
            target.listen(attachment, Census)
            assert target(b"a") == before
            attachment.source.sample(64 << 10, 4, tracer=True)
            assert target.listen(attachment, Sampler).means == TRACEMALLOC
            assert target(b"a") != before
            off = target.switch(attachment, 0)
            assert (off.on, off.text) == (False, "")
            assert target(b"a") == before
        assert target(b"a") == before


@pytest.mark.pythons("3.8", "3.12", "3.13", *MENDED)
def test_not_where_there_is_a_core(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        with attached(target.target.pid, sample_interval=64 << 10, tracer=True) as attachment:
            state = target.listen(attachment, Sampler)
            assert (state.on, state.means, state.interval) == (True, "native", 64 << 10)
        assert target.text(b"T") == "False"


@pytest.mark.pythons(*MENDED)
def test_where_the_core_cannot_be_loaded(interpreter: Interpreter) -> None:
    with shop(interpreter, proc=False) as target:
        with attached(target.target.pid, sample_interval=64 << 10, sample_depth=2, tracer=True) as attachment:
            state = target.listen(attachment, Sampler)
            assert (state.on, state.means, state.depth) == (True, TRACEMALLOC, 2)
            census = target.listen(attachment, Census)
            assert "/proc" in census.mode_reason
        assert target.text(b"T") == "False"


@pytest.mark.sample(2)
@pytest.mark.pythons("3.8", "3.12", "3.13", *MENDED)
def test_the_programs_own_tells_what_it_saw_before(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        target(b"t")
        target(b"l")
        with attached(target.target.pid, mode="python", sample_interval=64 << 10) as attachment:
            state = target.listen(attachment, Sampler)
            assert (state.on, state.offer) == (False, True), "and never without being asked"
            target.listen(attachment, Census)
            attachment.source.sample(64 << 10, 1, tracer=True)
            state = target.listen(attachment, Sampler)
            assert (state.on, state.depth) == (True, 4)
            counted(target, attachment)
            row = by_line(target, "CACHE.append(")
            assert row is not None, "it was seen by the program before the attach"
            assert row.live.count == 4000
            off = target.switch(attachment, 0)
            assert (off.on, off.text) == (False, "")
            assert target.text(b"T") == "True"
        assert target.text(b"T") == "True"
        target(b"u")


@pytest.mark.pythons("3.8", "3.12", "3.13", *MENDED)
def test_the_program_stops_its_own_meanwhile(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        target(b"t")
        with traced(target.target.pid) as attachment:
            assert target.listen(attachment, Sampler).on
            target(b"u")
            off = target.listen(attachment, Sampler)
            assert (off.on, off.text) == (False, "the program has stopped tracemalloc")
            assert off.offer != crashes(interpreter)
            attachment.source.sample(64 << 10, 4, tracer=True)
            assert target.listen(attachment, Sampler).on != crashes(interpreter)
        assert target(b"a") == before


@pytest.mark.pythons(*MENDED)
def test_the_program_stops_it_meanwhile(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        with traced(target.target.pid) as attachment:
            assert target.listen(attachment, Sampler).on
            target(b"u")
            off = target.listen(attachment, Sampler)
            assert (off.on, off.text) == (False, "the program has stopped tracemalloc")
        assert target(b"a") == before


@pytest.mark.pythons(*MENDED)
def test_heaptop_is_killed_while_it_traces(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        kill_heaptop_at(Traced, target.target.pid, mode="python", sample_interval=4096, tracer=True)
        assert target(b"a") == before
        target(b"l")


@pytest.mark.pythons("3.8", "3.12", "3.13")
def test_heaptop_is_killed_while_it_reads_the_programs_own(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        target(b"t")
        before = target(b"a")
        kill_heaptop_at(Traced, target.target.pid, mode="python", sample_interval=4096, tracer=True)
        assert target(b"a") == before
        assert target.text(b"T") == "True"


@pytest.mark.pythons(*MENDED)
def test_hooks_that_another_tool_took_out_are_never_written_back(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        with traced(target.target.pid) as attachment:
            assert target.listen(attachment, Sampler).on
            target(b"D")
            off = target.listen(attachment, Sampler)
            assert not off.on
            assert "removed tracemalloc's hooks" in off.text
        assert target(b"a") == before
        target(b"l")
        assert target.text(b"T") == "True", "by name only: tracemalloc.stop() would write old allocators back"


@pytest.mark.pythons(*MENDED)
def test_it_is_left_on_where_to_stop_it_could_crash(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        with traced(target.target.pid) as attachment:
            assert target.listen(attachment, Sampler).on
            target(b"H")
            off = target.switch(attachment, 0)
            assert not off.on
            assert off.text.startswith("tracemalloc stays on: memray was loaded since")
            attachment.close()
            assert attachment.ended is not None
            assert attachment.ended.left.startswith("tracemalloc stays on")
        assert target.text(b"T") == "True"
        target(b"u")
        assert target(b"a") == before


@pytest.mark.pythons(*MENDED)
def test_a_forked_child_does_not_go_on_with_it(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        with traced(target.target.pid) as attachment:
            assert target.listen(attachment, Sampler).on
            assert target.text(b"k") == "[True, False]", "up to the child's first collection"
            assert target.text(b"T") == "True"
        assert target.text(b"T") == "False"


@pytest.mark.pythons("3.8", "3.12", "3.13", *MENDED)
def test_the_program_ends_meanwhile(interpreter: Interpreter) -> None:
    command = interpreter.command([interpreter.place(TARGETS / "sampling_shop.py")])
    with starting(command, pipe=True) as program:
        target = Shop(Asked(program))
        if crashes(interpreter):
            target(b"t")  # its own
        target(b"a")
        with traced(program.pid) as attachment:
            assert target.listen(attachment, Sampler).on
            target(b"l")
            program.write(b"q")
            assert program.process.wait(PATIENCE) == 0
            assert isinstance(ending(attachment), TargetExited)
        assert program.stderr() == ""


def ending(attachment: Attachment) -> HeaptopError | None:
    """What the source ends with, once it does."""
    try:
        return attachment.error()
    except HeaptopError as error:
        return error


@pytest.mark.sample(2)
@pytest.mark.pythons(*MENDED)
def test_with_eight_threads_that_allocate(interpreter: Interpreter, cycles: int) -> None:
    with running(interpreter, "threads8") as target:
        for _ in range(cycles):  # and not to the end of a census: where nine fight for the GIL it takes a minute
            with traced(target.pid) as attachment:
                assert attachment.message(Sampler).on
            assert target.alive
        assert target.stderr() == ""


@pytest.mark.sample(2)
@pytest.mark.pythons(*MENDED)
def test_with_threads_that_allocate_without_the_gil(interpreter: Interpreter, cycles: int) -> None:
    """What kills up to 3.12.8 (gh-128679): at the 2nd to the 25th time, where it was let begin all the same."""
    with running(interpreter, "threads_lzma", wrapper=with_proc(interpreter)) as target:
        with attached(target.pid, mode="python", sample_interval=64 << 10, sample_depth=4, tracer=True) as attachment:
            for _ in range(max(cycles, 20)):
                assert attachment.message(Sampler).on
                time.sleep(0.1)  # in which they allocate
                attachment.source.sample(0, 4, tracer=True)
                assert not attachment.message(Sampler).on
                attachment.source.sample(64 << 10, 4, tracer=True)
            assert attachment.message(Sampler).on
        assert target.alive
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.12", "3.13")
def test_beside_threads_that_allocate_without_the_gil_it_is_not_begun(interpreter: Interpreter) -> None:
    with running(interpreter, "threads_lzma") as target:
        with traced(target.pid) as attachment:
            assert attachment.message(Sampler).on != crashes(interpreter)
        assert target.alive
        assert target.stderr() == ""


@pytest.mark.pythons(*MENDED)
def test_on_and_off_under_load(interpreter: Interpreter, cycles: int) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        for _ in range(cycles):
            target.forget()
            with traced(target.target.pid) as attachment:
                assert target.listen(attachment, Sampler).on
                target(b"c")
                target(b"l")
                attachment.source.census_now()
                target(b"f")
            resting(target.target.pid)
            assert target(b"a") == before
