"""The native core compiles for the other machine, too."""

import re
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


def test_only_one_header_names_a_processor() -> None:
    """What compiles may still be of the other machine, as the numbers of relocations."""
    folder = Path(native.__file__).parent
    files = [path for path in folder.rglob("*.[ch]") if path.name != "machine.h"]
    named = re.compile(r"R_X86|R_AARCH|AUDIT_ARCH_[AX]|EM_X86|__builtin_ia32|__x86_64__|__aarch64__|SYS_(arch|open\()")
    assert [path.name for path in files if named.search(path.read_text())] == []
