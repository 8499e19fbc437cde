"""Two versions of heaptop and one process: each recognizes the other's agent, and none talks to it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import heaptop
from heaptop.errors import AlreadyAttached
from heaptop.injector.api import remove_agent
from heaptop.injector.inspect.threads import agent_thread
from tests.interpreters import Interpreter
from tests.support.attaching import attach_once
from tests.support.outside import answer
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, difference, eventually, running

CHANGES = {
    "__init__.py": (r'__version__ = "[^"]+"', '__version__ = "0.0.9"'),
    "protocol/messages.py": (r"PROTOCOL_VERSION: Final = \d+", "PROTOCOL_VERSION: Final = 77"),
    "injector/agent/session.py": (r"PROTOCOL = \d+", "PROTOCOL = 77"),
}
NEW_STUB = {"injector/entry/stub_code.py": (b"heaptop-stub-v".hex() + "[0-9a-f]{4}", b"heaptop-stub-v99".hex())}


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another version: with another number, and a protocol that this one does not know."""
    tree = tmp_path / "other"
    package = Path(heaptop.__file__).parent
    shutil.copytree(package, tree / "heaptop", ignore=shutil.ignore_patterns("__pycache__"))
    change(tree, CHANGES)
    return tree


def change(tree: Path, changes: dict[str, tuple[str, str]]) -> None:
    for name, (old, new) in changes.items():
        path = tree / "heaptop" / name
        text, count = re.subn(old, new, path.read_text(), count=1)
        assert count == 1, name
        path.write_text(text)


HOLDER = """\
import sys, time
from heaptop.injector.api import AttachOptions, attach_source
source = attach_source(int(sys.argv[1]), AttachOptions(wait=60.0))
source.open(lambda event: print(event, flush=True))
time.sleep(600)
"""


@contextmanager
def held(pid: int, other: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """That version, attached, with a census: its agent speaks its own protocol."""
    said = folder / "said"
    with said.open("wb") as output:
        command = [sys.executable, "-c", HOLDER, str(pid)]
        environment = {**os.environ, "PYTHONPATH": str(other)}
        holder = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        assert eventually(lambda: re.search(r"Census\(|Ended\(", said.read_text())), said.read_text()
        assert "protocol=77" in said.read_text()
        yield holder
    finally:
        holder.kill()
        holder.wait(PATIENCE)


@pytest.mark.pythons("3.8", "3.11", "3.13")
def test_an_attached_heaptop_of_another_version_is_named_and_left_alone(
    interpreter: Interpreter, other: Path, tmp_path: Path
) -> None:
    with running(interpreter, "sleeper") as target:
        with held(target.pid, other, tmp_path) as holder:
            agent = agent_thread(target.pid)
            got = answer(target.pid)
            assert got.kind is AlreadyAttached
            expected = f"is being profiled already, by heaptop 0.0.9 with pid {holder.pid}."
            assert got.message == f"Process {target.pid} {expected}"
            assert f"heaptop detach {target.pid}" in got.fix
            assert agent_thread(target.pid) == agent, "its agent stays"
            assert holder.poll() is None
        assert target.terminate() == EXIT_CODE
        assert (target.said(), target.stderr()) == ([], "")


@pytest.mark.pythons("3.8", "3.11", "3.13")
@pytest.mark.sample(2)
@pytest.mark.parametrize("changes", [{}, NEW_STUB], ids=["same pages", "other pages"])
def test_after_a_killed_heaptop_of_another_version_an_attach_works_and_so_does_the_other_again(
    interpreter: Interpreter, other: Path, tmp_path: Path, changes: dict[str, tuple[str, str]]
) -> None:
    change(other, changes)
    with running(interpreter, "sleeper") as target:
        with held(target.pid, other, tmp_path) as holder:
            holder.send_signal(signal.SIGKILL)
            holder.wait(PATIENCE)
            attach_once(target.pid, census=True)
        after = Facts.of(target.pid)
        attach_once(target.pid, census=True)
        assert difference(after, Facts.of(target.pid)) == []
        with held(target.pid, other, tmp_path):
            assert answer(target.pid).kind is AlreadyAttached
        assert eventually(lambda: agent_thread(target.pid) is None)
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
        assert (target.said(), target.stderr()) == ([], "")


@pytest.mark.pythons("3.13")
def test_an_agent_in_pages_of_another_version_is_named_by_its_socket(
    interpreter: Interpreter, other: Path, tmp_path: Path
) -> None:
    change(other, NEW_STUB)
    with running(interpreter, "sleeper") as target, held(target.pid, other, tmp_path):
        agent = agent_thread(target.pid)
        assert agent is not None
        got = answer(target.pid)
        assert got.kind is AlreadyAttached
        expected = f"An agent of heaptop 0.0.9 runs in process {target.pid} already (thread {agent[0]})."
        assert got.message == expected
        assert agent_thread(target.pid) == agent


@pytest.mark.pythons("3.8", "3.13")
def test_detach_removes_the_agent_of_another_version_that_hangs(
    interpreter: Interpreter, other: Path, tmp_path: Path
) -> None:
    with running(interpreter, "sleeper") as target:
        with held(target.pid, other, tmp_path) as holder:
            holder.send_signal(signal.SIGSTOP)
            assert str(target.pid) in remove_agent(target.pid)
            assert agent_thread(target.pid) is None
            attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
        assert (target.said(), target.stderr()) == ([], "")
