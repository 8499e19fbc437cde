"""A SQLAlchemy session that grows, in a Flask application under load: ``heaptop why`` names the global that has it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from tests.interpreters import Interpreter
from tests.support.processes import PATIENCE, eventually
from tests.support.web import serving, under_load

SESSION: Final = ["module sqlalchemy_session", ".SESSION", "._new"]
"""``Session._new`` is what a session would write at the next flush: the rows by their states."""


@pytest.mark.pythons("3.12")
def test_the_first_path_leads_to_the_session(interpreter: Interpreter) -> None:
    """The application's rows and SQLAlchemy's own states of them, while page after page adds more of both."""
    with serving(interpreter, workers=1, application="sqlalchemy_session") as server, under_load(server) as load:
        eventually(lambda: load.answered >= 100 or load.failures)
        worker = server.workers[0]
        before = load.answered
        orders = why(worker, "sqlalchemy_session.Order")
        between = load.answered
        states = why(worker, "InstanceState")
        after = load.answered
    assert not load.failures
    assert before < between < after, "pages are answered while the process is looked into"
    first = orders["paths"][0]
    assert first["path"] == [*SESSION, "dict[*]", "sqlalchemy_session.Order"]
    assert before <= first["count"] <= between + 1, "an order a page; one may be under way"
    first = states["paths"][0]
    assert first["path"] == [*SESSION, "(a key)", "sqlalchemy.orm.state.InstanceState"]
    assert 3 * between <= first["count"], "one for the order, two for its lines"


def why(pid: int, name: str) -> Any:
    answer = subprocess.run(
        [sys.executable, "-m", "heaptop", "why", str(pid), name, "--json"],
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    return json.loads(answer.stdout)
