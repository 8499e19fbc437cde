"""Other builds of the native core than the installed one: with checks in, or with the compiler's sanitizers."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

from tests.interpreters import cache_dir
from tests.support.building import NATIVE, library_with

STRICT: Final = (
    "-std=gnu11",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,-z,now",
)
SANITIZED: Final = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
SANITIZED_VARIABLE: Final = "HEAPTOP_TEST_SANITIZED"
"""In the environment of a test run: unit tests of the core load sanitized builds."""
DEBUG: Final = ("-O1", "-g", "-DHEAPTOP_DEBUG")


def build(name: str, *options: str) -> Path:
    """The core built with ``options``, warnings being errors; made once for each state of the sources."""
    sources = sorted(NATIVE.rglob("*.c"))
    command = ["gcc", *STRICT, *options, "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}", f"-I{NATIVE}"]
    command += ["-DPy_LIMITED_API=0x03080000"]
    recipe = "\0".join([*command, *(path.read_text() for path in sorted(NATIVE.rglob("*.[ch]")))])
    recipe = recipe.replace(str(NATIVE), "")  # another copy of the same sources needs no build of its own
    result = cache_dir() / "built" / f"core-{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.so"
    if not result.exists():
        result.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=result.parent) as fresh:
            output = Path(fresh, result.name)
            subprocess.run([*command, *map(str, sources), "-o", str(output)], check=True)
            os.replace(output, result)  # by rename: another run may be making the same
    return result


def packer_library(*, sanitized: bool) -> Path:
    """The core's msgpack writer alone."""
    return library_with("core_pack.c", "pack.c", options=SANITIZED if sanitized else ())


def retain_library(*, sanitized: bool) -> Path:
    """What the core finds in a graph, alone."""
    sources = ("graph/csr.c", "query/points.c", "graph/retain.c", "graph/retainers.c", "graph/tree.c")
    return library_with("retain_parts.c", *sources, options=SANITIZED if sanitized else ())


def sanitized_throughout() -> bool:
    """Whether this process was started to load sanitized builds in place of the others."""
    return SANITIZED_VARIABLE in os.environ


def sanitizer_variables() -> dict[str, str]:
    """The environment for a process that loads builds with :data:`SANITIZED`: their runtime has to come first."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    runtime = Path(found.stdout.strip())
    # gcc answers with the bare name when it has none
    assert runtime.is_absolute(), "gcc has no libasan here: install the package that brings it (Debian: libgcc-12-dev)"
    return {"LD_PRELOAD": str(runtime.resolve()), "ASAN_OPTIONS": "detect_leaks=0"}
