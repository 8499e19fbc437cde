"""The sample program as a process: it serves, it leaks, and it never outlives the one who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heaptop.cli.commands.demo import PROGRAM, sample_program


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def is_gone(pid: int) -> bool:
    """No such process, or only its status is left."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("how", [[str(PROGRAM)], ["-m", "heaptop.demo.shop"]], ids=["file", "module"])
def test_the_demo_program_leaks_memory(how: list[str]) -> None:
    argv = [sys.executable, *how, "--rate", "60", "--limit", "200"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as shop:
        try:
            assert shop.stdout is not None
            assert shop.stdout.readline() == b"serving\n"
            start = rss(shop.pid)
            assert wait_for(lambda: rss(shop.pid) > start + 40_000_000)
        finally:
            shop.kill()


def test_it_ends_with_the_block() -> None:
    with sample_program() as pid:
        assert not is_gone(pid)
    assert is_gone(pid)


def test_it_ends_with_the_block_that_fails() -> None:
    with pytest.raises(RuntimeError), sample_program() as pid:
        raise RuntimeError
    assert is_gone(pid)


def test_it_ends_when_its_parent_is_killed() -> None:
    code = (
        "from heaptop.cli.commands.demo import sample_program\n"
        "import time\n"
        "with sample_program() as pid:\n"
        "    print(pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        shop = int(parent.stdout.readline())
        parent.kill()
    try:
        assert wait_for(lambda: is_gone(shop))
    finally:
        if not is_gone(shop):
            os.kill(shop, signal.SIGKILL)


def test_it_ends_at_once_when_its_parent_is_gone_already() -> None:
    done = subprocess.run([sys.executable, str(PROGRAM), "--parent", "0"], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"serving\n"
