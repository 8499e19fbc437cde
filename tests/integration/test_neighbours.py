"""Other memory profilers in the same process: nobody is harmed, everybody's profile is true, and what was hooked in is
as it was."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from heaptop.protocol.messages import Sampler
from tests.interpreters import Interpreter, cache_dir
from tests.support.attaching import attached, resting
from tests.support.building import TARGETS
from tests.support.native import Asked
from tests.support.processes import PATIENCE, starting
from tests.support.shop import LEAK, Shop

RATE = 4096
EVERY = pytest.mark.parametrize("name", ["memray", "memray-python", "ddtrace"])
pytestmark = pytest.mark.pythons("3.12")


class Street(Shop):
    """The shop, and a profiler beside us."""

    def __init__(self, asked: Asked, folder: Path) -> None:
        super().__init__(asked)
        self._folder = folder

    def start_neighbour(self) -> None:
        self(b"n")

    def stop_neighbour(self, leaks: int) -> None:
        """Its profile is whole: it has seen so many leaks, that stand."""
        told = self(b"o")
        if isinstance(told, int):
            assert leaks * LEAK <= told < leaks * 1.3 * LEAK
        else:
            profile = zstandard.ZstdDecompressor().decompressobj().decompress((self._folder / told).read_bytes())
            assert (b"create_session" in profile) == (leaks > 0)


def profilers(interpreter: Interpreter) -> dict[str, str]:
    """The environment in which they can be imported."""
    packages = cache_dir() / "packages" / f"{interpreter}-profilers"
    if not packages.is_dir():
        pytest.skip(f"no {packages.name}: .ci/target-packages")
    return {"PYTHONPATH": str(packages)}


@contextlib.contextmanager
def street(interpreter: Interpreter, name: str, folder: Path) -> Iterator[Street]:
    command = interpreter.command([interpreter.place(TARGETS / "neighbours.py"), name, str(folder)])
    with starting(command, pipe=True, environment=profilers(interpreter)) as target:
        found = Street(Asked(target), folder)
        yield found
        target.write(b"q")
        assert target.process.wait(PATIENCE) == 0, target.stderr()
        assert target.stderr() == ""


@EVERY
def test_who_was_there_before_us(name: str, interpreter: Interpreter, tmp_path: Path) -> None:
    with street(interpreter, name, tmp_path) as target:
        bare = target(b"a")
        target.start_neighbour()
        before = target(b"a")
        assert (before != bare) == (name != "memray"), "that one is under malloc"
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            state = target.listen(attachment, Sampler)
            assert (state.on, state.text) == (True, "")
            target(b"l")
            assert target.until(attachment, lambda: 0.7 * LEAK < target.live("create_session") < 1.6 * LEAK)
        assert resting(target.target.pid)
        assert target(b"a") == before
        target(b"l")
        target.stop_neighbour(2)
        assert target(b"a") == bare


READ = """\
import memray, sys
records = memray.FileReader(sys.argv[1]).get_leaked_allocation_records(merge_threads=True)
print(sum(one.size for one in records if any(f[0] == "create_session" for f in one.stack_trace(8))))
"""


@pytest.mark.parametrize("options", [[], ["--trace-python-allocators"]], ids=["malloc", "python"])
def test_a_program_that_memray_runs(options: list[str], interpreter: Interpreter, tmp_path: Path) -> None:
    file, environment = tmp_path / "profile", profilers(interpreter)
    program = interpreter.place(TARGETS / "sampling_shop.py")
    run: list[str | Path] = ["-m", "memray", "run", "--quiet", *options, "-o", file, program]
    with starting(interpreter.command(run), pipe=True, environment=environment) as running:
        target = Shop(Asked(running))
        before = target(b"a")
        with attached(running.pid, sample_interval=RATE) as attachment:
            assert target.listen(attachment, Sampler).on
            target(b"l")
            assert target.until(attachment, lambda: 0.7 * LEAK < target.live("create_session") < 1.6 * LEAK)
        assert resting(running.pid)
        assert target(b"a") == before
        running.write(b"q")
        assert running.process.wait(PATIENCE) == 0, running.stderr()
    command = [*interpreter.command(["-c", READ, file])]
    read = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    assert LEAK <= int(read.stdout) < 1.3 * LEAK


@EVERY
def test_who_comes_and_goes_while_we_are_there(name: str, interpreter: Interpreter, tmp_path: Path) -> None:
    with street(interpreter, name, tmp_path) as target:
        bare = target(b"a")
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            assert target.listen(attachment, Sampler).on
            target.start_neighbour()
            target(b"l")
            assert target.until(attachment, lambda: 0.7 * LEAK < target.live("create_session") < 1.6 * LEAK)
            target.stop_neighbour(1)
            target(b"l")
            assert target.until(attachment, lambda: 1.5 * LEAK < target.live("create_session") < 2.8 * LEAK)
        assert resting(target.target.pid)
        assert target(b"a") == bare


@EVERY
def test_who_was_there_before_us_and_goes(name: str, interpreter: Interpreter, tmp_path: Path) -> None:
    """What it hooked in goes with ours on top of it, unless it lies below Python's allocators: that is said."""
    with street(interpreter, name, tmp_path) as target:
        bare = target(b"a")
        target.start_neighbour()
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            first = target.listen(attachment, Sampler)
            assert first.on
            target(b"l")
            target.ticks(attachment)
            target.stop_neighbour(1)
            target.ticks(attachment)
            state = target.sampling.state
            assert state is not None
            assert state.on
            dropped = name != "memray"
            assert (state.epoch > first.epoch) == dropped
            assert bool(state.text) == dropped
            target(b"l")
            least = 0.7 * LEAK if dropped else 1.5 * LEAK
            assert target.until(attachment, lambda: least < target.live("create_session") < least + LEAK)
        assert resting(target.target.pid)
        assert target(b"a") == bare


@EVERY
def test_who_stays_above_us(name: str, interpreter: Interpreter, tmp_path: Path) -> None:
    """What we cannot take out passes on and does nothing else; the next attach takes it out."""
    with street(interpreter, name, tmp_path) as target:
        bare = target(b"a")
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            assert target.listen(attachment, Sampler).on
            target.start_neighbour()
            attachment.close()
            assert attachment.ended is not None
            assert bool(attachment.ended.left) == (name != "memray")
        assert resting(target.target.pid)
        target(b"l")
        target.stop_neighbour(1)
        target(b"l")
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            assert target.listen(attachment, Sampler).on
        assert resting(target.target.pid)
        assert target(b"a") == bare


@EVERY
def test_tracemalloc_is_not_switched_on_beside_it(name: str, interpreter: Interpreter, tmp_path: Path) -> None:
    with street(interpreter, name, tmp_path) as target:
        target.start_neighbour()
        before = target(b"a")
        with attached(target.target.pid, mode="python", sample_interval=RATE, tracer=True) as attachment:
            state = target.listen(attachment, Sampler)
            assert (state.on, state.offer) == (False, False)
            assert state.text.startswith(f"{name.partition('-')[0]} is loaded")
            assert target(b"a") == before
        target(b"l")
        target.stop_neighbour(1)
