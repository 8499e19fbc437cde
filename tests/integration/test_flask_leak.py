"""A Flask application that leaks, under load: the first row of the command names the line that allocates what stays."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.interpreters import Interpreter
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE
from tests.support.web import serving, under_load


@pytest.mark.pythons("3.8", "3.12", "3.13")
def test_the_first_row_names_the_leak(interpreter: Interpreter) -> None:
    """Some 10 KiB a request stay; much more than that comes and goes. At 8 KiB there are hundreds of samples."""
    with serving(interpreter, workers=1, application="flask_leak") as server, under_load(server) as load:
        census = ["census", str(server.workers[0]), "--by", "producer", "--for", "2", "--rate", "8KiB", "--json"]
        answer = subprocess.run(
            [sys.executable, "-m", "heaptop", *census],
            capture_output=True,
            check=True,
            timeout=2 * PATIENCE,
        )
        answered = load.answered
    assert not load.failures
    assert answered
    rows = [row for row in json.loads(answer.stdout)["rows"] if not row["name"].startswith("(")]
    assert rows[0]["name"] == f"flask_leak.py:{line_of('# the leak')} create_session", rows[:5]
    assert rows[0]["low"] <= rows[0]["bytes"] <= rows[0]["high"]
    assert rows[0]["bytes"] > 2 * rows[1]["bytes"], "nothing else of the program's grows"


def line_of(words: str) -> int:
    source = (TARGETS / "flask_leak.py").read_text().splitlines()
    return next(number for number, line in enumerate(source, 1) if words in line)
