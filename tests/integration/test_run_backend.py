"""Programs that heaptop starts with the agent in them: they run as without it, and outlive it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from heaptop.errors import AttachCancelled, LaunchFailed, NoAgent, TargetExited
from heaptop.injector.api import AttachOptions, MallocTable, launch_source, remove_agent
from heaptop.injector.entry import launcher
from heaptop.injector.inspect.process import children, command_line
from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.source import Attached
from tests.interpreters import NEWEST, OLDEST, SAMPLE, Interpreter
from tests.support.attaching import QUIET, Attachment, attach_once, is_whole, resting
from tests.support.building import TARGETS
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, difference, eventually

SHAPE = TARGETS / "shape.py"


def python_of(interpreter: Interpreter, folder: Path) -> str:
    """What to give as ``--python``: for one in a chroot a program that goes there, the launcher with it."""
    if interpreter.root is None:
        return interpreter.path
    program = folder / "python"
    there = interpreter.place(Path(launcher.__file__))
    program.write_text(f'#!/bin/sh\nshift\nexec {" ".join(interpreter.command([there]))} "$@"\n')
    program.chmod(0o755)
    return str(program)


@contextmanager
def launched(
    interpreter: Interpreter, argv: Sequence[str], folder: Path, native: MallocTable | None = None, **options: Any
) -> Iterator[Attachment]:
    """Start a program; at the end of the block it is killed, if it still runs."""
    choices = AttachOptions(**{"interval": QUIET, **options})
    output = folder / "out" / "output"
    python = python_of(interpreter, folder)
    source = launch_source(argv, python=python, output=output, options=choices, force=True, native=native)
    attachment = Attachment(source)
    pid = 0
    try:
        pid = attachment.event(Attached).target.pid
        yield attachment
    finally:
        source.close(PATIENCE)
        if pid:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass  # it ended, and was waited for by the session


def output_of(folder: Path) -> str:
    """What the program wrote: its stderr comes into the same file."""
    return (folder / "out" / "output").read_text()


def alone(interpreter: Interpreter, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The same without heaptop."""
    command = interpreter.command(argv)
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def check_shape(output: str, expected: str) -> None:
    """Nothing a program can see is different, but for the agent's socket, and for what a tick opens for a moment."""
    got, wanted = json.loads(output), json.loads(expected)
    got_fds, wanted_fds = got.pop("fds"), wanted.pop("fds")
    extra = [link for number, link in got_fds.items() if number not in wanted_fds and not link.endswith("/statm")]
    assert len(extra) <= 1
    assert all(link.startswith("socket:") for link in extra)
    assert got == wanted


def status_of(attachment: Attachment) -> int | None:
    error = attachment.error()
    assert isinstance(error, TargetExited)
    assert error.status is not None
    assert str(abs(error.status)) in error.message
    return error.status


def place_all(interpreter: Interpreter) -> str:
    interpreter.place(TARGETS / "steady.py")
    return interpreter.place(SHAPE)


def test_a_script_runs_as_without_heaptop(interpreter: Interpreter, tmp_path: Path) -> None:
    argv = [place_all(interpreter), "a", "--b=c d"]
    expected = alone(interpreter, argv)
    with launched(interpreter, argv, tmp_path) as attachment:
        assert status_of(attachment) == expected.returncode == 3
    check_shape(output_of(tmp_path), expected.stdout)


@pytest.mark.pythons("3.8", "3.9", "3.10", "3.11", "3.11-debian", "3.12", "3.13")
def test_modules_folders_archives_and_relative_paths(
    interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package").mkdir()
    for name in ("package/__main__.py", "module.py"):
        (tmp_path / name).write_text(SHAPE.read_text())
    for name in ("package/steady.py", "steady.py"):
        (tmp_path / name).write_text((TARGETS / "steady.py").read_text())
    (tmp_path / "package/__init__.py").touch()
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        for name in ("__main__.py", "steady.py"):
            archive.write(tmp_path / "package" / name, name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for argv in (["-m", "module", "x"], ["-m", "package"], ["package", "y"], ["archive.pyz"], ["module.py", "z"]):
        expected = alone(interpreter, argv)
        with launched(interpreter, argv, tmp_path) as attachment:
            assert status_of(attachment) == expected.returncode == 3
        check_shape(output_of(tmp_path), expected.stdout)


@pytest.mark.pythons("3.11", "3.13")
def test_a_safe_path_stays_safe(interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shape.py").write_text(SHAPE.read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setenv("PYTHONPATH", str(TARGETS))
    for argv in (["shape.py"], ["-m", "shape"]):
        expected = alone(interpreter, argv)
        with launched(interpreter, argv, tmp_path) as attachment:
            assert status_of(attachment) == expected.returncode == 3
        check_shape(output_of(tmp_path), expected.stdout)


@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("argv", [["missing.py"], ["-m", "missing"], ["broken.py"], ["raises.py"]], ids=" ".join)
def test_a_program_that_fails_says_why_and_how(
    interpreter: Interpreter, argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("this is no program\n")
    (tmp_path / "raises.py").write_text("import sys\nprint('so far', flush=True)\n{}['basket']\n")
    expected = alone(interpreter, argv)
    with launched(interpreter, argv, tmp_path) as attachment:
        assert status_of(attachment) != 0
    assert expected.stderr.splitlines()[-1].split(":")[-1] in output_of(tmp_path)


@pytest.mark.pythons("3.8", "3.12", "3.14")
def test_it_lives_on_when_heaptop_leaves(interpreter: Interpreter, tmp_path: Path) -> None:
    with launched(interpreter, [place_all(interpreter), "stay"], tmp_path) as attachment:
        assert eventually(lambda: output_of(tmp_path).endswith("ready\n"))
        assert is_whole(attachment.census())
        pid = the_child()
        assert attachment.close() is None
        facts = resting(pid)
        assert list(facts.threads) == [pid]
        assert os.getsid(pid) == pid
        os.kill(pid, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == EXIT_CODE


def the_child() -> int:
    """The one program with an agent that these tests have started."""
    (child,) = [pid for pid in children(os.getpid()) if agent_thread(pid) is not None]
    return child


@pytest.mark.pythons(OLDEST, "3.13", NEWEST)
def test_detach_and_attach_again(interpreter: Interpreter, tmp_path: Path) -> None:
    with launched(interpreter, [place_all(interpreter), "stay"], tmp_path) as attachment:
        assert eventually(lambda: output_of(tmp_path).endswith("ready\n"))
        pid = the_child()
        remove_agent(pid)
        attachment.error()
        before = resting(pid)
        with pytest.raises(NoAgent):
            remove_agent(pid)
        attach_once(pid, census=True)
        assert difference(before, resting(pid)) == []


THREAD = """\
import pickle, threading, time
class Basket:
    pass
def work():
    threading.main_thread().join()
    print(pickle.loads(pickle.dumps(Basket())).__class__ is Basket, flush=True)
threading.Thread(target=work).start()
"""

SPAWN = """\
import multiprocessing
def square(n):
    return n * n
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(square, [2, 3]), flush=True)
"""


@pytest.mark.pythons(*SAMPLE)
@pytest.mark.parametrize(
    ("text", "said"), [(THREAD, "True\n"), (SPAWN, "[4, 9]\n")], ids=["a thread that outlives main", "spawn"]
)
def test_what_looks_for_its_main(interpreter: Interpreter, text: str, said: str, tmp_path: Path) -> None:
    if text is SPAWN and interpreter.root is not None:
        pytest.skip("multiprocessing needs /dev/shm, which the chroots do not have")
    script = tmp_path / f"main_{len(text)}.py"
    script.write_text(text)
    with launched(interpreter, [interpreter.place(script)], tmp_path) as attachment:
        assert status_of(attachment) == 0, output_of(tmp_path)
    assert output_of(tmp_path) == said


@pytest.mark.pythons("3.13")
def test_a_signal_ends_it(interpreter: Interpreter, tmp_path: Path) -> None:
    with launched(interpreter, [place_all(interpreter), "stay"], tmp_path) as attachment:
        os.kill(the_child(), signal.SIGKILL)
        assert status_of(attachment) == -signal.SIGKILL


def test_what_is_no_python(tmp_path: Path) -> None:
    for python, said in (
        (str(tmp_path / "python3.99"), "could not be started: "),
        ("/bin/false", "exited at once"),
    ):
        options = AttachOptions()
        source = launch_source(["prog.py"], python=python, output=tmp_path / "output", options=options)
        error = Attachment(source).error()
        assert isinstance(error, LaunchFailed)
        assert said in error.message
        assert python in error.message or str(tmp_path / "output") in error.message


def test_given_up_while_it_starts(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    source = launch_source(["prog.py"], python=str(python), output=tmp_path / "output", options=AttachOptions())
    attachment = Attachment(source)
    source.cancel()
    assert isinstance(attachment.error(), AttachCancelled)
    assert not [pid for pid in children(os.getpid()) if "sleep" in command_line(pid)]


KILLED = """\
import os, signal, sys
from pathlib import Path
from heaptop.injector import requests
from heaptop.injector.api import AttachOptions, launch_source
when, python, output, script = sys.argv[1:]
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
if when == "before":
    requests.Launched.go = die
source = launch_source([script, "stay"], python=python, output=Path(output), options=AttachOptions())
source.open(lambda event: die() if type(event).__name__ == "Received" else print(event))
signal.pause()
"""


@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("when", ["before", "later"])
def test_a_started_program_runs_on_when_heaptop_is_killed(interpreter: Interpreter, when: str, tmp_path: Path) -> None:
    """Before the program was told to go, it goes all the same."""
    output = tmp_path / "output"
    heaptop = subprocess.run(
        [sys.executable, "-c", KILLED, when, interpreter.path, str(output), str(SHAPE)], timeout=PATIENCE, check=False
    )
    assert heaptop.returncode == -signal.SIGKILL
    assert eventually(lambda: output.exists() and output.read_text().endswith("ready\n"))
    pid = next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _writes_to(pid, output))
    try:
        assert eventually(lambda: list(Facts.of(pid).threads) == [pid])
    finally:
        os.kill(pid, signal.SIGKILL)


def _writes_to(pid: int, output: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/1") == str(output)
    except OSError:
        return False
