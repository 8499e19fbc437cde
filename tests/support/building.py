"""Compiles the C sources of tests/targets, once for all runs; the results stay in the test cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.interpreters import Interpreter, cache_dir

TARGETS: Final = Path(__file__).parent.parent / "targets"


NATIVE: Final = Path(__file__).parent.parent.parent / "injector" / "native"


def library(source: str) -> Path:
    """The shared library made from a C source of tests/targets (``churn.c``)."""
    return _compiled(TARGETS / source, ["-masm=intel", "-shared", "-fPIC"], ".so")


def program(source: str) -> Path:
    """The program made from a C source of tests/targets that needs nothing but libc, its assembly in Intel's syntax."""
    return _compiled(TARGETS / source, ["-masm=intel"], "")


def library_with(source: str, *parts: str, options: Sequence[str] = ()) -> Path:
    """As :func:`library`, together with C sources of injector/native (``clone/clone.c``)."""
    paths = [NATIVE / part for part in parts]
    texts = [each.read_text() for each in sorted(NATIVE.rglob("*.[ch]"))]  # a source may include any of them
    version = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    options = [*options, "-shared", "-fPIC", "-Wl,-z,now", f"-I{NATIVE}", f'-DVERSION="{version}"', *map(str, paths)]
    return _compiled(TARGETS / source, options, ".so")


def program_with(source: str, *paths: Path, options: Sequence[str] = ()) -> Path:
    """As :func:`program`, together with C sources of injector."""
    texts = [each.read_text() for each in sorted(NATIVE.parent.rglob("*.[ch]"))]
    version = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    includes = [f"-I{NATIVE}", f"-I{NATIVE.parent}"]
    return _compiled(TARGETS / source, [*options, *includes, f'-DVERSION="{version}"', *map(str, paths)], "")


def extension(source: str, *parts: str) -> Path:
    """As :func:`library_with`, for a module of the limited API: every supported Python loads it."""
    headers = sysconfig.get_path("include")
    options = [f"-I{headers}", "-DPy_LIMITED_API=0x03080000"]
    return library_with(source, *parts, options=options)


def embedding(source: str, interpreter: Interpreter) -> Path:
    """The program made from a C source of tests/targets, linked to the interpreter's libpython.

    The interpreter must be a shared build outside any chroot (pyenv's).
    """
    folder = Path(interpreter.path).resolve().parent.parent / "lib"
    (found,) = folder.glob("libpython3.*.so.1.0")
    return _compiled(TARGETS / source, [str(found), f"-Wl,-rpath,{folder}"], "")


def _compiled(source: Path, options: Sequence[str], suffix: str) -> Path:
    """Compile unless it was done: the name of the result says source, options and compiler call."""
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror"]
    recipe = "\0".join([source.read_text(), *command, *options]).replace(str(NATIVE), "")  # the same in every copy
    result = cache_dir() / "built" / f"{source.stem}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}{suffix}"
    if not result.exists():
        result.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=result.parent) as fresh:
            output = Path(fresh, result.name)
            subprocess.run([*command, str(source), *options, "-o", str(output)], check=True)
            os.replace(output, result)  # by rename: another run may be making the same
    return result
