"""Processes whose files are on a file system that never answers: not even SIGKILL ends a read of such a file."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from heaptop.errors import UnresponsiveTarget
from heaptop.injector.entry import helper_client
from heaptop.injector.inspect import refusals_cache
from heaptop.injector.inspect.process import read_facts
from tests.interpreters import Interpreter
from tests.support.attaching import attach_once
from tests.support.leaking import ENVIRONMENT, HEAPTOP
from tests.support.outside import answer
from tests.support.processes import EXIT_CODE, Facts, Target, difference, eventually, running, starting
from tests.support.tampering import BEGIN, MAIN
from tests.targets.hostile import unanswering

GUARD: Final = 60.0
"""Seconds after which heaptop hangs; it takes six."""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs root and /dev/fuse"
)


@contextlib.contextmanager
def hung(what: str, folder: Path) -> Iterator[tuple[Target, int]]:
    """A server, and the pid of the process that has a file of its file system, which answers no more. The server ends
    with the block, and with it every wait for it."""
    with starting([sys.executable, "-S", unanswering.__file__, folder, what]) as server:
        assert eventually(lambda: "ready" in server.stdout() or not server.alive)
        if not server.alive:
            pytest.skip(f"no file system can be mounted here: {server.stderr()}")
        yield server, int(server.detail.split(".")[0])


def heaptop(folder: Path, *commands: list[str]) -> Iterator[tuple[int, str, str]]:
    """Exit code, stdout and stderr of commands that run at once. Never waits for one that does not come back."""
    started = []
    for argv in commands:
        out, err = folder / f"{argv[0]}.out", folder / f"{argv[0]}.err"
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen([*HEAPTOP, *argv], stdout=stdout, stderr=stderr, env=ENVIRONMENT)
        started.append((process, out, err))
    for process, out, err in started:
        try:
            yield process.wait(GUARD), out.read_text(), err.read_text()
        except subprocess.TimeoutExpired:
            for each, _, _ in started:
                each.kill()
            pytest.fail(f"{process.args} hangs")


@pytest.mark.parametrize("what", ["image", "executable"])
def test_no_command_hangs(what: str, tmp_path: Path) -> None:
    (mounted := tmp_path / "mounted").mkdir()
    good = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    with starting(good) as before, hung(what, mounted) as (server, pid), starting(good) as behind:
        commands = ["ps", "--json"], ["doctor", str(pid), "--json"], ["attach", str(pid)]
        (listed, rows_json, said), (diagnosed, diagnosis, _), (attached, _, refused) = heaptop(tmp_path, *commands)
        assert listed == 0, said
        rows = {each["pid"]: each for each in json.loads(rows_json)["processes"]}
        assert rows[before.pid]["attachable"]
        assert rows[behind.pid]["attachable"]
        assert rows[pid]["error"] == "UnresponsiveTarget"
        assert rows[pid]["why"] == f"Process {pid} was not checked: its files do not answer."
        assert diagnosed == attached == UnresponsiveTarget.exit_code
        assert "its files do not answer" in json.loads(diagnosis)["error"]["message"]
        assert "its files do not answer" in refused
        assert read_facts(pid).tracer == 0
        if what == "image":  # what was given up still waits; the process must not
            said_so_far = len(server.stdout())
            assert eventually(lambda: len(server.stdout()) > said_so_far + 10)


LISTEN = """
import os, sys
from heaptop.injector.entry import hijack
hijack.SOCKET_FOLDERS = tuple(sys.argv[2:])
with hijack.listen_in_target(int(sys.argv[1]), 0, 0) as listener:
    print(os.path.dirname(listener.inside))
"""


def test_no_socket_is_made_where_nobody_answers(tmp_path: Path) -> None:
    """A thread of the target may be held meanwhile."""
    (mounted := tmp_path / "mounted").mkdir()
    (good := tmp_path / "good").mkdir()
    with hung("executable", mounted) as (_, pid):
        arguments = str(pid), str(mounted), f"{mounted}/within", str(good)
        listening = subprocess.Popen([sys.executable, "-c", LISTEN, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            assert listening.communicate(timeout=GUARD)[0] == f"{good}\n"
        finally:
            listening.kill()


def test_what_is_remembered_of_an_executable_that_does_not_answer(tmp_path: Path) -> None:
    with hung("executable", tmp_path) as (_, pid):
        assert refusals_cache.refusal(pid, "build") == ""
        refusals_cache.store(pid, "build", "no")
        assert not refusals_cache.record().exists()


@pytest.mark.pythons("3.12")
def test_a_helper_that_hangs_before_it_begins_is_given_up(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does in memory that does not answer. Nothing was stopped or changed by then."""
    hang = "from heaptop.injector.entry import hijack\nhijack.find_pages = lambda *_: time.sleep(3600)\n"
    monkeypatch.setattr(helper_client, "LAUNCHER", BEGIN + hang + MAIN)
    monkeypatch.setattr(helper_client, "LOOK_PATIENCE", 3.0)
    with running(interpreter, "sleeper") as target:
        before = Facts.of(target.pid)
        got = answer(target.pid, wait=0.5)
        assert got.kind is UnresponsiveTarget, got.text
        assert "do not answer" in got.message
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []
        monkeypatch.undo()
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
