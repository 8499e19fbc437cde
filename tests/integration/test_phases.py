"""heaptop.phase in programs of every Python that can be attached to: imported there, from these two files alone."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import heaptop
from tests.interpreters import SUPPORTED, Interpreter
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE, starting

FILES = ("__init__.py", "phases.py")


@pytest.fixture
def packages(interpreter: Interpreter, tmp_path: Path) -> Iterator[Path]:
    """A directory of packages, as the interpreter sees it, with nothing of heaptop's but what a program imports."""
    outside = tmp_path if interpreter.root is None else interpreter.root / tmp_path.relative_to("/")
    folder = outside / "heaptop"
    folder.mkdir(parents=True)
    for name in FILES:
        shutil.copy(Path(heaptop.__file__).parent / name, folder)
    yield tmp_path
    shutil.rmtree(outside)


@pytest.mark.pythons(*SUPPORTED)
def test_phases_begin_and_end_in_order_on_every_python(interpreter: Interpreter, packages: Path) -> None:
    command = interpreter.command([interpreter.place(TARGETS / "phases_tour.py")])
    with starting(command, environment={"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}) as target:
        code = target.process.wait(PATIENCE)
        assert (code, target.stderr()) == (0, "")
        told = ast.literal_eval(target.stdout())
    assert told == [
        *("+block", "+function", "-function", "-block", "+generator", "-generator"),
        *("+async block", "-async block"),
        *("+coroutine", "-coroutine", "+asynchronous", "-asynchronous"),
    ]
