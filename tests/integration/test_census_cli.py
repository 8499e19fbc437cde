"""``heaptop census PID --json`` over a real attach, against the target's own count of the same frozen heap."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interpreters import MUSL, SAMPLE, SUPPORTED, Interpreter
from tests.support import native
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE, Target, eventually, starting, with_proc

SOURCES: Final = str(Path(__file__).parents[2] / "src")
STRINGS: Final = 800
"""Names in the agent's code, at most."""

Totals = dict[str, tuple[int, int]]


def ask(target: Target, command: bytes) -> Any:
    """What the target answers to a command, one line."""
    count = len(target.stdout().splitlines())
    target.write(command)
    assert eventually(lambda: target.stdout().count("\n") > count), target.stderr()
    return ast.literal_eval(target.stdout().splitlines()[-1])


def totals(reference: dict[tuple[str, str, int], tuple[int, int]]) -> Totals:
    """By the name the JSON has, generations together: (count, bytes)."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for (module, qualname, _), (count, size) in reference.items():
        name = qualname if module == "builtins" else f"{module}.{qualname}"
        counts[name] += count
        sizes[name] += size
    return {name: (counts[name], sizes[name]) for name in counts}


def check_slices(interpreter: Interpreter, differing: dict[str, tuple[int, ...]]) -> None:
    """What the agent's own count may differ in, and nothing else."""
    # gc.callbacks, and from 3.12 on warnings.filters, had room made for our entry: 8 bytes a place, rounded up.
    count, size = differing.pop("list")
    assert (count, size % 8) == (0, 0), (count, size, differing)
    assert 0 < size <= 256
    if interpreter.version >= (3, 14):
        # The interpreter's table of interned strings is a dict that the census reaches there, and has our names.
        strings, _ = differing.pop("str")
        assert 0 < strings < STRINGS
        differing.pop("dict", None)
    assert differing == {}


@pytest.mark.pythons(*SAMPLE, *MUSL, stress=(*SUPPORTED, *MUSL))
@pytest.mark.parametrize("mode", ["python", "clone"])
def test_the_command_agrees_with_the_target(interpreter: Interpreter, mode: str) -> None:
    if mode == "clone":
        native.core()  # skips where it was never built; one that is there and is not used is a failure
    command = [*with_proc(interpreter), *interpreter.command([interpreter.place(TARGETS / "heap_mixed.py")])]
    with starting(command, pipe=True) as target:
        target.write((4).to_bytes(4, "big") + b"pass")  # in place of a bootstrap: heaptop brings its own
        ask(target, b"s")  # what the first answer leaves in the interpreter is in the reference too
        reference = totals(ask(target, b"r"))
        answer = subprocess.run(
            [sys.executable, "-m", "heaptop", "census", str(target.pid), "--json", "--mode", mode],
            env={**os.environ, "PYTHONPATH": SOURCES},
            capture_output=True,
            check=True,
            timeout=PATIENCE,
        )
        census = json.loads(answer.stdout)
        facts = ask(target, b"s")
        target.write(b"q")
        assert target.process.wait(PATIENCE) == 0
        assert target.stderr() == ""

    rows = {row["name"]: (row["count"], row["bytes"]) for row in census["rows"]}
    differing = {
        name: tuple(a - b for a, b in zip(rows.get(name, (0, 0)), reference.get(name, (0, 0)), strict=True))
        for name in rows.keys() | reference.keys()
        if rows.get(name) != reference.get(name)
    }
    assert (census["mode"], census["mode_reason"]) == (mode, "")
    if mode == "clone":
        # The reference is of what Python can see; the core also sees members of code and tables inside types.
        assert not [name for name in differing if "." in name], differing
        assert all(count >= 0 and size >= 0 for count, size in differing.values()), differing
    else:
        check_slices(interpreter, differing)
    assert census["complete"] is (mode == "clone")
    assert census["cut"].startswith("left out: ") is (mode == "python")
    assert census["pid"] == target.pid
    hidden = [row["hidden_bytes"] for row in census["rows"]]
    assert census["total"] == {
        **{key: sum(row[key] for row in census["rows"]) for key in ("count", "bytes")},
        "hidden_bytes": None if mode == "python" else sum(hidden),
    }
    assert (set(hidden) == {None}) == (mode == "python")
    assert facts["called"] == [], "no code of the target's own ran"
