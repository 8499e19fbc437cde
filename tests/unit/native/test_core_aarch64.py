"""The native core compiles for the other machine, too."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from heaptop.injector import native

COMPILER = "aarch64-linux-gnu-gcc"


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason="no cross compiler here; CI has one")
def test_the_core_compiles_for_aarch64_without_a_warning() -> None:
    folder = Path(native.__file__).parent
    sources = sorted(str(path) for path in folder.rglob("*.c"))
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-DPy_LIMITED_API=0x03080000", f"-I{folder}"]
    command = [COMPILER, "-fsyntax-only", *flags, f"-I{sysconfig.get_path('include')}", *sources]
    assert len(sources) > 50
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
