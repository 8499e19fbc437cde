"""A memory control group of version 1 for one test: made empty, without a limit, and removed at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import eventually

MEMORY: Final = Path("/sys/fs/cgroup/memory")
_JOIN: Final = 'echo $$ > "$0"/cgroup.procs && exec "$@"'


@contextmanager
def memory_group(name: str = "") -> Iterator[Path]:
    """Its folder, whose name ends so. The test is skipped where none can be made. What runs in it has ended when the
    block does."""
    folder = MEMORY / f"heaptop-tests-{os.getpid()}{name}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group of version 1 can be made: {error}")
    try:
        yield folder
    finally:
        eventually(lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()


def joining(folder: Path) -> tuple[str, ...]:
    """What starts a program in the group, as a wrapper of ``running``."""
    return ("sh", "-c", _JOIN, str(folder))


def leave_room(folder: Path, size: int, *, without_files: bool = False) -> None:
    """Set the limit to so many bytes more than are used; ``without_files``: once the kernel has taken back what it can,
    so that hardly more than these are left."""
    if without_files:
        (folder / "memory.force_empty").write_text("0")
    used = int((folder / "memory.usage_in_bytes").read_text())
    (folder / "memory.limit_in_bytes").write_text(str(used + size))
