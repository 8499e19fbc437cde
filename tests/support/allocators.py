"""Allocators that tests preload in malloc's place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

FILES: Final = {
    "jemalloc": ("libjemalloc.so.2",),
    "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"),
    "mimalloc": ("libmimalloc.so.3", "libmimalloc.so.2"),
}
"""Of Debian's packages libjemalloc2, libtcmalloc-minimal4 (or libgoogle-perftools4), libmimalloc2.0 (or 3)."""
FOLDERS: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")


def allocator(name: str) -> str:
    """The path of an allocator's library; skips the test where it is not installed."""
    for folder in FOLDERS:
        for file in FILES[name]:
            if (Path(folder) / file).exists():
                return str(Path(folder) / file)
    pytest.skip(f"{name} is not installed")
