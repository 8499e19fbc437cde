"""Type names in the native core: each is written as Python mode writes it, and there may be more than it numbers."""

from __future__ import annotations

import ast
import subprocess
from typing import Any

import msgpack

from tests.interpreters import Interpreter
from tests.support import native
from tests.support.building import TARGETS


def told(interpreter: Interpreter, program: str, *arguments: str) -> list[Any]:
    """What each line says that a target printed."""
    interpreter.place(TARGETS / "core_breaks.py")
    command = interpreter.command(
        [interpreter.place(TARGETS / program), interpreter.place(native.core()), *map(str, arguments)]
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [ast.literal_eval(line) for line in done.stdout.splitlines()]


def names_in(answer: tuple[bytes, bytes, dict[str, Any]]) -> list[tuple[str, str]]:
    """The names that a census tells, by number from 0 on."""
    return [(module, qualname) for module, qualname in msgpack.unpackb(answer[0])]


def written(text: str) -> str:
    """How a name comes over the wire."""
    return text.encode("utf-8", "backslashreplace").decode()


def test_names_are_written_as_python_mode_writes_them(interpreter: Interpreter) -> None:
    for names, *answers in told(interpreter, "core_names.py"):
        wanted = {(written(module), written(qualname)) for module, qualname in names}
        for answer in answers:
            assert wanted - set(names_in(answer)) == set()
