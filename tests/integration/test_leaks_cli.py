"""``heaptop leaks`` over a real attach: the culprit named, ctrl+C heard, and the program as it was."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest

from heaptop.cli.commands.leaks import LEAK_FOUND
from tests.support.leaking import ENVIRONMENT, HEAPTOP, is_as_it_was, leaking_sessions
from tests.support.processes import ANY_PAUSE, PATIENCE, Target, eventually

SESSION: Final = "__main__.Session"


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with leaking_sessions() as started:
        yield started


def test_the_culprit_is_named(target: Target) -> None:
    command = [*HEAPTOP, "leaks", str(target.pid), "--for", "12", "--collect", "--fail-on-leak", "--json"]
    command += ANY_PAUSE
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (LEAK_FOUND, "")
    found: dict[str, Any] = json.loads(done.stdout)
    first = found["suspects"][0]
    assert (found["pid"], found["verdict"], first["verdict"], first["type"]) == (target.pid, "leak", "leak", SESSION)
    assert first["site"].endswith("create_session")
    assert first["path"] == ["module __main__", ".store", "._sessions", "dict[*]", SESSION]
    assert {mark["collected"] for mark in found["marks"]} == {True}
    assert found["seconds"] >= 3
    assert eventually(lambda: is_as_it_was(target))
    assert target.alive


def test_ctrl_c_has_what_is_known_told(target: Target) -> None:
    """Once, after the first mark, which the line of progress tells."""
    ours, theirs = pty.openpty()
    command = [*HEAPTOP, "leaks", str(target.pid), "--for", "300", *ANY_PAUSE]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=ENVIRONMENT) as hunting,
        open(ours, "rb", buffering=0) as progress,
    ):
        try:
            os.close(theirs)
            shown = b""
            while b"mark 1 of 4, " not in shown:
                shown += progress.read(1024)
            hunting.send_signal(signal.SIGINT)
            said = hunting.communicate(timeout=PATIENCE)[0].decode()
        finally:
            hunting.kill()
    assert hunting.returncode == 0
    assert said.startswith(("unclear: ", "no leak: "))
    assert re.search(r"\b[12] marks?\b", said), "the last check is left out where it takes long"
    assert eventually(lambda: is_as_it_was(target))
    assert target.alive
