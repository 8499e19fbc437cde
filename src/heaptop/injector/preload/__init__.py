"""Native memory of a program that heaptop starts: a library that is preloaded, and the table that it writes.

::

    program ── malloc, mmap … ─► preload.c ─► the C library's
                                    │ a mark in the block
                                    ▼
                samples.c, sites.c ─► a shared table (table.h) ─► malloc_table.py, in heaptop

Nothing is ever patched in a running process. :mod:`heaptop.injector.native` gives the library Python stacks, once its
self-check has passed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from heaptop.errors import LaunchFailed

NAME: Final = "_malloc.abi3.so"


def library() -> Path:
    """The built library. Errors: LaunchFailed where heaptop was installed without it."""
    path = Path(__file__).with_name(NAME)
    if not path.is_file() or set(": ") & set(str(path)):
        raise LaunchFailed(
            "There is no library to preload.",
            why="heaptop was installed without it, or into a folder with a blank or a colon in its name.",
            fix="Install a wheel of heaptop, or run the program without `--native`.",
        )
    return path
