"""A control group of version 1 for one test: made empty, without a limit, and removed at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import eventually

CGROUPS: Final = Path("/sys/fs/cgroup")
_JOIN: Final = 'echo $$ > "$0"/cgroup.procs && exec "$@"'


def memory_group(name: str = "") -> AbstractContextManager[Path]:
    """For a limit of memory; its folder, whose name ends so."""
    return _group(CGROUPS / "memory" / f"heaptop-tests-{os.getpid()}{name}")


def pids_group() -> AbstractContextManager[Path]:
    """For a limit of processes and threads; its folder."""
    return _group(CGROUPS / "pids" / f"heaptop-tests-{os.getpid()}")


@contextmanager
def _group(folder: Path) -> Iterator[Path]:
    """The test is skipped where none can be made. What runs in it has ended when the block does."""
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
