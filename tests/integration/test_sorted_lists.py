"""A list is empty for others while it is sorted: what only it holds is not counted, and the census says so."""

from __future__ import annotations

import json

import pytest

from tests.interpreters import SAMPLE, Interpreter
from tests.support import native
from tests.support.leaking import heaptop
from tests.support.processes import EXIT_CODE, running, with_proc

TEXTS = 200_000
LOST = 45
"""The exit code where the copy's heap is none."""


@pytest.mark.pythons(*SAMPLE)
@pytest.mark.parametrize("way", [["--mode", "clone"], ["--no-inject"]], ids=lambda way: way[-1])
def test_texts_of_a_list_that_is_being_sorted_are_counted_or_said_to_be_missing(
    interpreter: Interpreter, way: list[str]
) -> None:
    native.core()
    with running(interpreter, "sorting", wrapper=with_proc(interpreter)) as target:
        for _ in range(5):
            done = heaptop("census", target.pid, "--json", "--pause-budget", "20000", *way)
            if way == ["--no-inject"] and done.returncode == LOST:
                continue
            assert done.returncode == 0, done.stderr
            census = json.loads(done.stdout)
            texts = sum(row["count"] for row in census["rows"] if row["name"] == "str")
            assert texts >= TEXTS or "a list that is being sorted" in census["cut"]
            assert census["complete"] == (census["cut"] == "")
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""
