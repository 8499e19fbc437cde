"""A program that leaks sessions, for tests of commands that hunt or record, and how such a command is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests import interpreters
from tests.support import native
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE, Target, running

HEAPTOP: Final = [sys.executable, "-m", "heaptop"]
ENVIRONMENT: Final = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}


def heaptop(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command as a person types it, with what it printed."""
    command = [*HEAPTOP, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=ENVIRONMENT)


def document(*arguments: object) -> Any:
    """The JSON of a command that succeeds without a word beside it."""
    done = heaptop(*arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@contextmanager
def leaking_sessions() -> Iterator[Target]:
    """The zoo's, on one Python: what the versions differ in is others' to test."""
    native.core()
    try:
        interpreter = interpreters.get("3.12")
    except interpreters.MissingInterpreter as error:
        pytest.skip(str(error))
    interpreter.place(TARGETS / "leaks" / "backdrop.py")
    with running(interpreter, "leaks/sessions_dict") as started:
        yield started


def is_as_it_was(target: Target) -> bool:
    """Its own thread, and no clone."""
    tasks = list(Path(f"/proc/{target.pid}/task").iterdir())
    return len(tasks) == 1 and not (tasks[0] / "children").read_text()
