"""Finds the interpreter in a core: its version, ``_PyRuntime``, and the symbols that a walk compares with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from heaptop.dumps.cores.backing import Backing
from heaptop.dumps.cores.core_memory import CoreMemory
from heaptop.errors import DumpDamaged, FreeThreadedTarget, NotPython, PyPyTarget, UnsupportedPython
from heaptop.injector.inspect import layout
from heaptop.injector.inspect.elf import ElfImage, Exhausted, images
from heaptop.injector.inspect.interpreter import defines, defining_image, is_free_threaded, read_version
from heaptop.injector.inspect.memory import RemoteFault
from heaptop.protocol.text import printable

DEBUG_SYMBOLS: Final = ("_Py_GetRefTotal", "_Py_GetLegacyRefTotal", "_Py_GetGlobalRefTotal")  # Of debug builds alone
MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class CorePython:
    """Addresses are those of the process that has left the core."""

    version: layout.PythonVersion
    runtime: int
    symbols: dict[str, int]  # 0 for one that is not there
    free_threaded: bool = False

    @property
    def hexversion(self) -> int:
        """``sys.hexversion``, as far as it is known: the last byte is that of a final release."""
        return self.version.major << 24 | self.version.minor << 16 | (self.version.micro or 0) << 8 | 0xF0


def find_python(memory: CoreMemory, backing: Backing, wanted: list[str]) -> CorePython:
    """The interpreter of a core, and where it has the symbols ``wanted``. Raises the error that gives the reason there
    is none that heaptop can read."""
    core = memory.core
    try:
        found = images(memory, memory.mappings())
        python = defining_image(found)
        if python is None:
            raise _why_none(memory, backing, found)
        version = read_version(python, memory)
        runtime = python.lookup("_PyRuntime") or 0
        symbols = {name: python.lookup(name) or 0 for name in wanted}
        is_debug = any(defines(python, name) for name in DEBUG_SYMBOLS)
    except (RemoteFault, Exhausted) as error:
        if backing.refused:
            raise missing_files(core.name, backing) from error
        raise DumpDamaged(
            f"The interpreter in the {core.name} cannot be read: {error}.",
            why="The file was cut or changed.",
            fix="Write another: `gcore -o core PID`.",
        ) from error
    if not version.supported:
        raise UnsupportedPython(
            f"The {core.name} is of Python {version}.",
            why=f"heaptop reads CPython {layout.SUPPORTED}. {UnsupportedPython.why}",
        )
    free_threaded = is_free_threaded(memory, runtime, version)
    if free_threaded and not version.facts.free_threaded:
        raise FreeThreadedTarget(
            f"The {core.name} is of a free-threaded build of Python {version}.",
            why="heaptop does not know where that build keeps its objects.",
        )
    if is_debug:
        raise UnsupportedPython(
            f"The {core.name} is of a debug build of Python {version}.",
            why="The native core does not read debug builds.",
        )
    return CorePython(version, runtime, symbols, free_threaded)


def _why_none(memory: CoreMemory, backing: Backing, found: list[ElfImage]) -> Exception:
    name = memory.core.name
    if any(defines(image, layout.PYPY_MARKER) for image in found):
        return PyPyTarget(f"The {name} is of PyPy, not CPython.")
    if not backing.refused and found:
        return NotPython(f"The {name} is not of a Python process.")
    return missing_files(name, backing)


def missing_files(name: str, backing: Backing) -> DumpDamaged:
    """The error that says which programs and libraries a core needs and has not got."""
    likely = sorted(backing.refused, key=lambda path: ("python" not in os.path.basename(path), path))
    named = "; ".join(printable(backing.refused[path], 300) for path in likely[:MOST_NAMED])
    more = f"; and {len(likely) - MOST_NAMED} more" if len(likely) > MOST_NAMED else ""
    return DumpDamaged(
        f"The interpreter in the {name} was not found: {named or 'it names no program'}{more}.",
        why="heaptop reads the contents of programs and libraries from their files, and needs the same builds.",
        fix="Give the program with `--exe PATH`, or a copy of the machine's or container's files with `--root DIR`.",
    )
