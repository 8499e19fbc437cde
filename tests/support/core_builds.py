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
from tests.support.building import NATIVE

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
DEBUG: Final = ("-O1", "-g", "-DHEAPTOP_DEBUG")


def build(name: str, *options: str) -> Path:
    """The core built with ``options``, warnings being errors; made once for each state of the sources."""
    sources = sorted(NATIVE.glob("*.c"))
    command = ["gcc", *STRICT, *options, "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}"]
    command += ["-DPy_LIMITED_API=0x03080000"]
    recipe = "\0".join([*command, *(path.read_text() for path in sorted(NATIVE.glob("*.[ch]")))])
    result = cache_dir() / "built" / f"core-{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.so"
    if not result.exists():
        result.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=result.parent) as fresh:
            output = Path(fresh, result.name)
            subprocess.run([*command, *map(str, sources), "-o", str(output)], check=True)
            os.replace(output, result)  # by rename: another run may be making the same
    return result


def sanitizer_runtime() -> Path:
    """What must be loaded before the interpreter for :data:`SANITIZED` to work."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip()).resolve()
