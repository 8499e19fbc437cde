"""References to None, which interpreters up to 3.11 count: who lets go of too many kills the program at its end."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.interpreters import Interpreter
from tests.support.attaching import attach_once
from tests.support.processes import Target, eventually, running

NATIVE: Final = Path(__file__).resolve().parents[2] / "src/heaptop/injector/native"
ATTACHES: Final = 6
FEW: Final = 3
"""References that come and go with the interpreter's own work. The defect let go of seven in each attach."""


def references(target: Target) -> int:
    said = len(target.said())
    target.signal(signal.SIGUSR1)
    assert eventually(lambda: len(target.said()) > said)
    return int(target.said()[-1])


@pytest.mark.pythons("3.8", "3.9", "3.10", "3.11")
def test_attaches_let_go_of_no_reference_to_none(interpreter: Interpreter) -> None:
    with running(interpreter, "none_counted") as target:
        attach_once(target.pid, census=True)  # what is imported, and cached, once
        before = references(target)
        for _ in range(ATTACHES):
            attach_once(target.pid, census=True)
        assert abs(references(target) - before) < FEW


def test_the_core_never_returns_what_headers_take_to_be_immortal() -> None:
    """Headers of 3.12 and later leave the reference out, wherever the core is to run."""
    pattern = re.compile(r"\bPy_RETURN_(NONE|TRUE|FALSE)\b;|return Py_(None|True|False);")
    found = {path.name for path in NATIVE.rglob("*.[ch]") if pattern.search(path.read_text())}
    assert found == set()
