"""The native core in a target that loads it itself, without an agent: where it is, and how to ask for a census.

This module never attaches. What it decodes comes straight from the core, through the product's own msgpack.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgpack
import pytest

from tests.interpreters import Interpreter
from tests.support import core_builds
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE, Target, eventually, starting, with_proc

Key = tuple[str, str, int]
"""(module, qualname, generation)."""
Figure = tuple[int, int]
"""(count, bytes)."""


def core() -> Path:
    """The built library, or a sanitized one where that was asked for; the test is skipped where there is none."""
    if core_builds.sanitized_throughout():
        return core_builds.build("sanitized", *core_builds.SANITIZED)
    found = importlib.util.find_spec("heaptop.injector.native._core")
    if found is None or found.origin is None:
        pytest.skip("the native core is not built: setup.py build_ext --inplace")
    return Path(found.origin)


@dataclass(frozen=True, slots=True)
class Counted:
    """A census of the core, decoded."""

    rows: Mapping[Key, Figure]
    hidden: Mapping[tuple[str, str], int]
    """Bytes that ``sys.getsizeof`` does not tell, by type."""
    guessed: Mapping[Key, int]
    """Objects whose size is a bare instance's."""
    stats: Mapping[str, Any]

    def total(self, module: str, qualname: str) -> int:
        """Objects of a type in all generations."""
        return sum(count for (m, q, _), (count, _) in self.rows.items() if (m, q) == (module, qualname))


def decode(answer: Sequence[Any]) -> Counted:
    """What ``stop`` and ``end`` return; types that share their names share a row here."""
    types, rows, stats = answer
    names = [tuple(name) for name in msgpack.unpackb(types)]
    counts: Counter[Key] = Counter()
    sizes: Counter[Key] = Counter()
    guessed: Counter[Key] = Counter()
    hidden: Counter[tuple[str, str]] = Counter()
    for number, generation, count, size, more, guesses, *_ in msgpack.unpackb(rows):
        key = (*names[number], generation)
        assert count > 0, f"a row without objects: {key}"
        counts[key] += count
        sizes[key] += size
        guessed[key] += guesses
        hidden[names[number]] += more
    return Counted({key: (counts[key], sizes[key]) for key in counts}, hidden, guessed, stats)


def different(reference: Mapping[Key, Figure], rows: Mapping[Key, Figure]) -> dict[Key, Figure]:
    """Where two counts differ, and by how much more the second one has."""
    pairs = {key: (rows.get(key, (0, 0)), reference.get(key, (0, 0))) for key in reference.keys() | rows.keys()}
    return {key: (got[0] - want[0], got[1] - want[1]) for key, (got, want) in pairs.items() if got != want}


class Asked:
    """A running target that answers each letter on its stdin with a line."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._read = 0

    def _line(self) -> str:
        """The next line of its stdout, or an empty text when it is not there yet."""
        with (self.target.folder / "stdout").open() as stream:
            stream.seek(self._read)
            line = stream.readline()
        return line if line.endswith("\n") else ""

    def __call__(self, letter: bytes) -> Any:
        self.target.write(letter)
        line = eventually(lambda: self._line() or ("" if self.target.alive else "ended"))
        if line in ("", "ended"):
            state = f"exit code {self.target.process.poll()}\n{self.target.stderr()}"
            pytest.fail(f"the target said nothing to {letter!r}: {state}")
        self._read += len(line)
        return ast.literal_eval(line)

    def count(self, letter: bytes) -> Counted:
        """A census by the core: ``t`` stopped, ``k`` in a clone."""
        return decode(self(letter))


class Result(TypedDict):
    """What heap_churn prints at its end."""

    censuses: int
    faults: list[str]
    turns: list[int]


def _command(interpreter: Interpreter, program: str, arguments: Sequence[str]) -> list[str]:
    for companion in ("heap_mixed.py", "heap_reference.py", "heap_zoo.py", "heap_native.py"):
        interpreter.place(TARGETS / companion)
    words = [interpreter.place(TARGETS / program), interpreter.place(core()), *arguments]
    return [*with_proc(interpreter), *interpreter.command(words)]


def _variables(interpreter: Interpreter) -> dict[str, str]:
    return {} if interpreter.packages is None else {"PYTHONPATH": str(interpreter.packages)}


@contextlib.contextmanager
def counting(interpreter: Interpreter, program: str, *arguments: str) -> Iterator[Asked]:
    """A target of tests/targets with the core loaded, which ends by ``q``, well, and with an empty stderr."""
    command = _command(interpreter, program, arguments)
    with starting(command, pipe=True, environment=_variables(interpreter)) as target:
        yield Asked(target)
        target.write(b"q")
        assert target.process.wait(PATIENCE) == 0, target.stderr()
        assert target.stderr() == ""


def _last_words(
    interpreter: Interpreter, program: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> Any:
    """Runs a target to its end; what it printed."""
    command = _command(interpreter, program, arguments)
    with starting(command, environment={**_variables(interpreter), **(environment or {})}) as target:
        code = target.process.wait()  # pytest's time-out is the bound: under --stress this takes minutes
        assert (code, target.stderr()) == (0, "")
        return ast.literal_eval(target.stdout())


def result_of(
    interpreter: Interpreter, program: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Result:
    """What a target that takes its censuses by itself has to say of them."""
    found: Result = _last_words(interpreter, program, arguments, environment)
    return found


def told(
    interpreter: Interpreter, program: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> Any:
    """What the one line says that a target printed which loads the core as ``core_breaks`` does, and did it well."""
    (only,) = told_in_lines(interpreter, program, *arguments, environment=environment)
    return only


def told_in_lines(
    interpreter: Interpreter, program: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> list[Any]:
    """As :func:`told`, of each line."""
    for other in ("core_breaks.py", "core_scarce.py", "heap_edges.py", "heap_zoo.py"):
        interpreter.place(TARGETS / other)
    words = [interpreter.place(TARGETS / program), interpreter.place(core()), *map(str, arguments)]
    done = subprocess.run(
        [*with_proc(interpreter), *interpreter.command(words)],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [ast.literal_eval(line) for line in done.stdout.splitlines()]


def rows_of_hidden(interpreter: Interpreter) -> list[tuple[int, bool, int, int, int, int]]:
    """What heap_hidden prints."""
    return [tuple(row) for row in _last_words(interpreter, "heap_hidden.py", [])]
