"""No name that a target, a recording, a file or an argument chose reaches the terminal as it is, in any command."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from heaptop.errors import NoAgent, TracedTarget
from heaptop.recordings.exports import EXPORTERS
from tests import interpreters
from tests.support import native
from tests.support.building import TARGETS
from tests.support.hostile_names import NAMED, SHOWN, harmful, harmful_json
from tests.support.leaking import ENVIRONMENT, HEAPTOP
from tests.support.processes import ANY_PAUSE, PATIENCE, Target, eventually, running, starting, this_python
from tests.support.pty_terminal import PtyTerminal, pty_terminal
from tests.targets.hostile import recordings as hostile

NOBODY: Final = "4194305"
"""A pid above the largest that Linux gives."""
AGAIN: Final = ("--rate", "4KiB", *ANY_PAUSE)
LIVE: Final[dict[str, Sequence[str]]] = {
    "ps": ["ps"],
    "ps-json": ["ps", "--json"],
    "doctor": ["doctor", "PID"],
    "doctor-json": ["doctor", "PID", "--json"],
    "census": ["census", "PID", "--top", "0"],
    "census-json": ["census", "PID", "--json"],
    "census-module": ["census", "PID", "--by", "module", "--top", "0"],
    "census-memory": ["census", "PID", "--memory"],
    "census-memory-json": ["census", "PID", "--memory", "--json"],
    "census-producer": ["census", "PID", "--by", "producer", "--for", "3", *AGAIN],
    "census-producer-json": ["census", "PID", "--by", "producer", "--for", "3", *AGAIN, "--json"],
    "census-producer-module": ["census", "PID", "--by", "producer-module", "--for", "3", *AGAIN],
    "census-retainer": ["census", "PID", "--by", "retainer"],
    "census-retainer-json": ["census", "PID", "--by", "retainer", "--json"],
    "census-kind": ["census", "PID", "--by", "kind"],
    "why": ["why", "PID", "TYPE", "--limit", "0"],
    "why-json": ["why", "PID", "TYPE", "--json", "--retainers", "2"],
    "why-unknown": ["why", "PID", f"{NAMED}none"],
    "leaks": ["leaks", "PID", "--for", "6", *AGAIN],
    "leaks-json": ["leaks", "PID", "--for", "6", *AGAIN, "--json"],
    "attach-without-terminal": ["attach", "PID"],
    "attach-by-name": ["attach", NAMED],
    "detach": ["detach", "PID"],
}
SAMPLE: Final = ("doctor", "census-json", "census-memory", "census-producer", "census-retainer", "why", "leaks")
"""What reads names of each sort."""
NAMELESS: Final = frozenset({"census-kind", "census-memory-json", "attach-without-terminal", "detach"})
"""What need not show one of the names."""
RECORDED: Final[dict[str, Sequence[str]]] = {
    "report": ["report", "FILE"],
    "report-json": ["report", "FILE", "--json"],
    "diff": ["diff", "FILE", "--top", "0"],
    "diff-json": ["diff", "FILE", "--json"],
    "diff-module": ["diff", "FILE", "--by", "module"],
    "diff-producer": ["diff", "FILE", "--by", "producer"],
    **{f"export-{way}": ["export", "FILE", "--to", way] for way in EXPORTERS},
}
WRONG: Final[dict[str, Sequence[str]]] = {
    "option": [f"--{NAMED}"],
    "command": [NAMED],
    "argument": ["ps", NAMED],
    "choice": ["census", NOBODY, "--mode", NAMED],
    "number": ["census", NOBODY, "--top", NAMED],
    "prefix": ["census", NOBODY, f"--re={NAMED}"],
    "size": ["census", NOBODY, "--rate", NAMED],
    "filter": ["census", NOBODY, "--where", f"size>{NAMED}"],
    "filter-field": ["census", NOBODY, "--where", f"{NAMED}:x"],
    "by": ["census", NOBODY, "--by", NAMED],
    "flag": ["ps", f"--json={NAMED}"],
    "target": ["doctor", NAMED],
    "theme": ["demo", "--theme", NAMED],
    "recording": ["report", f"/nonexistent/{NAMED}"],
    "moment": ["diff", "FILE", "--at", NAMED],
    "format": ["export", "FILE", "--to", NAMED],
    "output": ["export", "FILE", "--to", "json", "-o", f"/nonexistent/{NAMED}"],
    "config": ["config", "--config", f"/nonexistent/{NAMED}"],
    "port": ["open", "FILE", "--web", "--host", NAMED],
}


def heaptop(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*HEAPTOP, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=2 * PATIENCE,
        check=False,
        env={**ENVIRONMENT, "PYTHONUTF8": "1"},
    )


def checked(done: subprocess.CompletedProcess[bytes], *, is_json: bool = False) -> str:
    """Its output, which moves no cursor and was ended by no exception."""
    whole = done.stdout + done.stderr
    assert harmful(whole) == []
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    if is_json:
        assert harmful_json(done.stdout) == []
    return whole.decode()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The program with hostile names, of a hostile interpreter's and a hostile file's name, with such arguments."""
    with naming("3.12", tmp_path_factory) as started:
        yield started


@pytest.fixture(scope="module", params=["3.8", "3.13"])
def other_target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The same on Pythons that keep names elsewhere. 3.13 is the last that need not be in a chroot, without /proc."""
    with naming(request.param, tmp_path_factory) as started:
        yield started


@contextlib.contextmanager
def naming(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    native.core()
    try:
        interpreter = interpreters.get(version)
    except interpreters.MissingInterpreter as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("names") / NAMED
    folder.mkdir()
    executable = os.path.realpath(interpreter.path)
    copy = folder / Path(executable).name
    shutil.copy(executable, copy)
    for file in (TARGETS / "steady.py", TARGETS / "hostile" / "naming.py"):
        shutil.copy(file, folder / f"{file.stem}.py")
    environment = {
        "PYTHONHOME": str(Path(executable).parents[1]),
        "PYTHONPATH": ENVIRONMENT["PYTHONPATH"],
        "PYTHONUTF8": "1",
    }
    command = [str(copy), str(folder / "naming.py"), str(folder), NAMED]
    with starting(command, environment=environment) as started:
        assert eventually(lambda: "ready" in started.stdout() or not started.alive)
        assert started.alive, started.stderr()
        yield started
        assert started.alive, started.stderr()


@pytest.fixture(scope="module")
def recording(target: Target, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("recording") / f"{NAMED}.heaptop"
    done = heaptop("record", str(target.pid), "-o", str(file), "--for", "8", "--marks", "3", "--interval", "1", *AGAIN)
    assert SHOWN in checked(done)
    assert done.returncode == 0
    return str(file)


@pytest.mark.sample(4)
@pytest.mark.parametrize("command", LIVE)
def test_no_name_of_a_target_moves_a_cursor(target: Target, command: str) -> None:
    check_names(target, command)


@pytest.mark.sample(4)
@pytest.mark.parametrize("command", SAMPLE)
def test_no_name_of_a_target_on_another_python_does(other_target: Target, command: str) -> None:
    check_names(other_target, command)


def check_names(target: Target, command: str) -> None:
    if "TYPE" in LIVE[command]:
        rows = json.loads(heaptop("census", str(target.pid), "--json").stdout)["rows"]
        named = next(row["name"] for row in rows if row["name"].endswith("type") and SHOWN in row["name"])
    else:
        named = ""
    argv = [{"PID": str(target.pid), "TYPE": named}.get(part, part) for part in LIVE[command]]
    done = heaptop(*argv)
    whole = checked(done, is_json="--json" in argv)
    assert SHOWN in whole or command in NAMELESS, whole
    if command == "detach":
        assert done.returncode == NoAgent.exit_code
    elif not command.startswith(("attach", "why-unknown")):
        assert done.returncode in (0, 3), whole


def test_no_name_of_a_tracer_moves_a_cursor(target: Target) -> None:
    with running(this_python(), "tracer", str(target.pid), NAMED):
        for command in ("census", "record", "doctor", "doctor-json", "ps", "ps-json"):
            argv = [str(target.pid) if part == "PID" else part for part in LIVE.get(command, [command, "PID"])]
            done = heaptop(*argv)
            assert SHOWN in checked(done, is_json="--json" in argv)
            assert done.returncode == (0 if argv[0] == "ps" else TracedTarget.exit_code)
        with live(target) as terminal:
            assert terminal.shows("is traced by"), terminal.text
            terminal.press("q")
            assert eventually(lambda: terminal.process.poll() is not None), terminal.text


@pytest.mark.sample(3)
@pytest.mark.parametrize("command", RECORDED)
def test_no_name_in_a_recording_moves_a_cursor(recording: str, command: str, tmp_path: Path) -> None:
    argv = [recording if part == "FILE" else part for part in RECORDED[command]]
    if command == "export-pprof":
        out = tmp_path / "a.pb.gz"
        checked(heaptop(*argv, "-o", str(out)))
        content = gzip.decompress(out.read_bytes())
        assert SHOWN.encode() in content
        for byte in ("\x1b]", "\x9b3", "\u202e", "\u2066"):
            assert byte.encode() not in content
        return
    done = heaptop(*argv)
    is_json = "json" in command or command == "export-speedscope"
    text = checked(done, is_json=is_json)
    assert (SHOWN.replace(";", ":") if command == "export-collapsed" else SHOWN) in text
    assert done.returncode == 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["text"])
@pytest.mark.parametrize("command", RECORDED)
def test_no_text_of_a_crafted_recording_moves_a_cursor(kind: str, command: str, tmp_path: Path) -> None:
    file = str(hostile.make(kind, tmp_path / "a.heaptop"))
    done = heaptop(*(file if part == "FILE" else part for part in RECORDED[command]))
    checked(done, is_json="json" in command and done.returncode == 0)


@pytest.mark.sample(3)
@pytest.mark.parametrize("wrong", WRONG)
def test_no_wrong_argument_moves_a_cursor(wrong: str, tmp_path: Path) -> None:
    file = str(hostile.make("ends", tmp_path / "a.heaptop"))
    done = heaptop(*(file if part == "FILE" else part for part in WRONG[wrong]))
    assert done.returncode != 0
    assert SHOWN in checked(done)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "content",
    [
        f'"{NAMED}" = 1'.replace("\n", ""),
        '"\\u001b]52;c;aGk=\\u0007\\u009b\\u202e" = 1',
        'theme = "\\u001b]52;c;aGk=\\u0007\\u009b\\u202e"',
        'user_code = ["/\\u001b]52;c;aGk=\\u0007\\u009b\\u202e"]',
        '[keys]\n"\\u001b]52;c;aGk=\\u0007\\u202e" = "q"',
        '[keys]\nq = "\\u001b]52;c;aGk=\\u0007\\u202e"',
    ],
)
def test_no_line_of_a_file_of_settings_moves_a_cursor(content: str, tmp_path: Path) -> None:
    file = tmp_path / f"{NAMED}.toml"
    file.write_text(content)
    assert SHOWN in checked(heaptop("config", "--config", str(file)))
    checked(heaptop("census", NOBODY, "--config", str(file)))


@contextlib.contextmanager
def live(target: Target) -> Iterator[PtyTerminal]:
    """The screen over a target; at the end it must have drawn the names and nothing that was planted."""
    command = [*HEAPTOP, "attach", str(target.pid), "--interval", "0.5", *AGAIN]
    with pty_terminal(command, 150, 40, {**ENVIRONMENT, "PYTHONUTF8": "1"}) as terminal:
        terminal.drawn = bytearray()
        yield terminal
        drawn = terminal.drawn.decode(errors="replace")
    assert SHOWN in drawn
    for planted in ("\x1b]52", "\x9b", "\u202e", "\u2066", "\u200b", "\x7f", "\U000e0001"):
        assert planted not in drawn


def test_no_name_moves_the_cursor_of_the_live_screen(target: Target) -> None:
    with live(target) as terminal:
        assert terminal.shows("Bands by type"), terminal.text
        for keys in "123456789":
            terminal.press(keys)
            for more in ("", "\r", "\x1b[B", "\r", "\x1b", "\x1b"):
                terminal.press(more)
                eventually(lambda: False, 0.5)  # for what it then draws
        terminal.press("q")
        assert eventually(lambda: terminal.process.poll() is not None), terminal.text
