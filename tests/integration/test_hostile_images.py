"""``heaptop ps`` over a machine full of processes that map crafted ELF files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from heaptop.injector import processes
from tests.support import building
from tests.support.leaking import ENVIRONMENT, HEAPTOP
from tests.support.processes import Target, eventually, starting
from tests.targets.hostile import elf_images

PROCESSES: Final = 200
MOST_MEMORY: Final = 200_000_000
GUARD: Final = 60
"""Seconds after which it hangs; half of 10 s on a machine with nothing else to do."""
SPACE: Final = 2 << 30
"""Bytes of address space, so that a failure takes no more of this machine."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("images")
    (folder / "mapped").mkdir()
    elf_images.make(folder / "mapped")
    program = shutil.copy(building.program("hostile/elf_images.c"), folder / "python3.12")
    with starting([program, folder / "mapped", str(PROCESSES)]) as started:
        assert eventually(lambda: "ready" in started.stdout() or not started.alive)
        assert started.alive, started.stderr()
        yield started
        assert started.alive


MEASURED: Final = f"""
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_AS, ({SPACE}, {SPACE}))
code = subprocess.run(sys.argv[1:], timeout={GUARD}).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command and says what it took at most. A small program of its own: the peak of what pytest started would
begin with pytest's."""


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_200_processes_of_crafted_images_are_listed_in_200_mb(target: Target, options: list[str]) -> None:
    began = time.monotonic()
    command = [sys.executable, "-S", "-c", MEASURED, *HEAPTOP, "ps", *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    peak = int(done.stderr) << 10
    print(f"{time.monotonic() - began:.1f} s, {peak / 1e6:.0f} MB")
    assert peak < MOST_MEMORY
    pids = {target.pid, *map(int, Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text().split())}
    assert len(pids) == PROCESSES
    if options:
        listed = {each["pid"]: each for each in json.loads(done.stdout)["processes"]}
        assert pids <= listed.keys()
        assert not any(listed[pid]["attachable"] for pid in pids)
    else:
        assert all(f"{pid}  " in done.stdout for pid in pids)


def test_a_refusal_keeps_nothing_of_what_was_read(target: Target) -> None:
    error = processes.refusal(target.pid)
    assert error is not None
    assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)
