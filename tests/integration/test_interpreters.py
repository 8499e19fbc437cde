"""Programs with several interpreters: those under one GIL are counted whole, those with one of their own are named as
left out. Neither is harmed, also while they come and go."""

from __future__ import annotations

import json
import subprocess
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.interpreters import NEWEST, Interpreter, since
from tests.support import native
from tests.support.attaching import Attachment, attached, resting
from tests.support.images import exploring
from tests.support.leaking import ENVIRONMENT, HEAPTOP, heaptop
from tests.support.processes import EXIT_CODE, PATIENCE, Target, difference, running, with_proc

PLANTED = 5000
MAIN, ALL = "interpreter 0 (main)", "(not distinguished)"
LEFT_OUT = "objects of some interpreters are not counted"


def several(interpreter: Interpreter, *arguments: str) -> AbstractContextManager[Target]:
    return running(interpreter, "interpreters_planted", *arguments, wrapper=with_proc(interpreter))


def planted(target: Target, *options: str) -> tuple[int, dict[str, Any]]:
    """How many of the planted objects a census counts, and its document."""
    census = counted(target, *options)
    return sum(row["count"] for row in census["rows"] if row["name"] == "__main__.Planted"), census


def counted(target: Target, *options: str) -> Any:
    """The document of a census."""
    ran = subprocess.run(
        [*HEAPTOP, "census", str(target.pid), "--json", "--top", "0", *options],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def by_interpreter(target: Target, *options: str) -> tuple[dict[str, int], dict[str, Any]]:
    """Objects of each interpreter, and the document."""
    census = counted(target, "--by", "interpreter", *options)
    return {row["name"]: row["count"] for row in census["rows"]}, census


@pytest.mark.pythons("3.8", "3.9", "3.11", "3.12", "3.13", NEWEST)
@pytest.mark.parametrize("mode", ["clone", "stop"])
def test_objects_of_an_interpreter_under_the_same_gil_are_counted(interpreter: Interpreter, mode: str) -> None:
    native.core()
    with several(interpreter, "shared") as target:
        before = resting(target.pid)
        count, census = planted(target, "--mode", mode)
        # an interpreter that ends may free its state under our eyes there: only a clone looks
        unsafe = mode == "stop" and interpreter.version >= (3, 12)
        assert (count, census["complete"], census["mode"]) == ((0, False, mode) if unsafe else (PLANTED, True, mode))
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.9", "3.12", "3.13", NEWEST)
def test_objects_are_labelled_with_their_interpreter(interpreter: Interpreter) -> None:
    native.core()
    with several(interpreter, "shared") as target:
        number = target.detail
        objects, census = by_interpreter(target)
        assert objects.keys() == {MAIN, f"interpreter {number}"}
        assert census["complete"]
        whole = counted(target)["total"]["count"]  # by another attach, which leaves a few objects in caches
        assert sum(objects.values()) == pytest.approx(whole, rel=0.001), "each object is counted once"
        within, _ = by_interpreter(target, "--where", "type:=__main__.Planted")
        assert within == {f"interpreter {number}": PLANTED}
        assert planted(target, "--where", f"interpreter:{number}")[0] == PLANTED
        assert planted(target, "--where", "interpreter:main")[0] == 0


@pytest.mark.pythons("3.9", "3.12", "3.13", NEWEST)
def test_a_classes_name_in_two_interpreters_is_one_type_in_each(interpreter: Interpreter) -> None:
    native.core()
    with several(interpreter, "shared", "both") as target:
        objects, _ = by_interpreter(target, "--where", "type:=__main__.Planted")
        assert objects == {MAIN: PLANTED, f"interpreter {target.detail}": PLANTED}
        assert planted(target)[0] == 2 * PLANTED


@pytest.mark.pythons(*since("3.12"))
def test_where_some_interpreters_are_left_out_the_others_are_labelled(interpreter: Interpreter) -> None:
    native.core()
    with several(interpreter, "own") as target:
        objects, census = by_interpreter(target)
        assert (objects.keys(), census["complete"]) == ({MAIN}, False)


@pytest.mark.pythons("3.8", "3.9", "3.13", NEWEST)
def test_where_there_is_one_interpreter_all_objects_are_its(interpreter: Interpreter) -> None:
    native.core()
    with running(interpreter, "sleeper", wrapper=with_proc(interpreter)) as target:
        objects, census = by_interpreter(target)
        assert (objects.keys(), census["complete"]) == ({MAIN}, True)
        of_main, _ = by_interpreter(target, "--where", "interpreter:main")
        assert of_main[MAIN] > 1000
        refused = heaptop("census", target.pid, "--mode", "python", "--where", "interpreter:main")
        assert refused.returncode == 2
        assert "does not distinguish interpreters" in refused.stderr


@pytest.mark.pythons("3.8")
def test_interpreters_that_share_a_collector_are_not_distinguished(interpreter: Interpreter) -> None:
    native.core()
    with several(interpreter, "shared") as target:
        objects, census = by_interpreter(target)
        assert (objects.keys(), census["complete"]) == ({ALL}, True)


@pytest.mark.pythons("3.9", "3.12", "3.13")
def test_a_snapshot_knows_what_another_interpreter_keeps(interpreter: Interpreter) -> None:
    with several(interpreter, "shared") as target, exploring(target.pid) as session:
        image = session.open()
        assert image.gaps == ()
        assert session.groups()["__main__.Planted"] == PLANTED
        (path,) = session.paths("__main__.Planted")
        assert path.count == PLANTED
        assert target.alive


@pytest.mark.pythons(*since("3.12"))
def test_an_interpreter_with_a_gil_of_its_own_is_reported_as_left_out(interpreter: Interpreter) -> None:
    native.core()
    with several(interpreter, "own") as target:
        before = resting(target.pid)
        count, census = planted(target)
        assert (count, census["complete"], census["cut"]) == (0, False, LEFT_OUT)
        words = subprocess.run(
            [*HEAPTOP, "census", str(target.pid)], capture_output=True, text=True, env=ENVIRONMENT, check=True
        )
        assert f"partial: {LEFT_OUT}" in words.stdout + words.stderr
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.12", "3.13")
def test_a_snapshot_reports_an_interpreter_with_a_gil_of_its_own(interpreter: Interpreter) -> None:
    with several(interpreter, "own") as target, exploring(target.pid) as session:
        assert session.open().gaps == (LEFT_OUT,)


@pytest.mark.pythons("3.9", "3.12", "3.13")
def test_python_mode_reports_what_it_leaves_out(interpreter: Interpreter) -> None:
    with several(interpreter, "shared") as target:
        count, census = planted(target, "--mode", "python")
        assert (count, census["complete"]) == (0, False)
        assert "objects of other interpreters" in census["cut"]


@pytest.mark.pythons(*since("3.12"))
@pytest.mark.parametrize("mode", ["clone", "python"])
def test_blocks_are_not_counted_beside_other_interpreters(interpreter: Interpreter, mode: str) -> None:
    """From 3.12 on that reads the arenas of all of them, also while one frees them: it crashed the program."""
    with several(interpreter, "own") as target, attached(target.pid, mode=mode) as attachment:
        assert attachment.tick().blocks is None
        assert attachment.census().rows
        assert attachment.tick().blocks is None
    alone = running(interpreter, "sleeper", wrapper=with_proc(interpreter))
    with alone as target, attached(target.pid, mode=mode) as attachment:
        assert (attachment.tick().blocks or 0) > 1000


@pytest.mark.pythons("3.9", "3.12", "3.13", NEWEST)
@pytest.mark.parametrize("kind", ["shared", "own"])
def test_interpreters_that_come_and_go_are_not_harmed_by_censuses(
    interpreter: Interpreter, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "own" and interpreter.version < (3, 12):
        pytest.skip("a GIL of its own came with Python 3.12")
    with several(interpreter, kind, "churn") as target:
        with attached(target.pid) as attachment:
            for _ in range(100 if request.config.getoption("--stress") else 20):
                check_census(attachment, kind)
        assert target.alive, target.stderr()
        assert target.stderr() == ""


def check_census(attachment: Attachment, kind: str) -> None:
    census = attachment.census()
    if census.mode == "python":
        return
    assert kind == "shared" or not census.complete
    assert all(row.interpreter >= 0 for row in census.rows), "also where there is but one at that moment"
