"""Recordings in one folder: nothing outside of it is listed or opened, and no link is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from heaptop.api.opened import OpenedRecording
from heaptop.errors import NotARecording, UsageError
from heaptop.mcp.answers import plain
from heaptop.recordings.reader import Recording

SUFFIX: Final = ".heaptop"
MOST: Final = 200  # Recordings that are listed, the newest
SEARCHED: Final = 10_000  # Files and folders that are looked at
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class RecordingsFolder:
    """The folder of ``--recordings``. Names are paths below it: ``monday/shop.heaptop``."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UsageError(f"{path} is not a folder.", fix="Give the folder of your recordings: `--recordings DIR`.")
        self._path = os.path.realpath(path)

    def names(self) -> list[str]:
        """The newest first. Names that would not be shown as they are are left out."""
        found = sorted(self._found(), reverse=True)
        return [name for _, name in found[:MOST]]

    def _found(self) -> Iterator[tuple[float, str]]:
        left = SEARCHED
        for folder, folders, files in os.walk(self._path):
            left -= len(folders) + len(files)
            if left < 0:
                return
            for file in files:
                path = os.path.join(folder, file)
                name = os.path.relpath(path, self._path)
                if file.endswith(SUFFIX) and plain(name) == name:
                    try:
                        facts = os.lstat(path)
                    except OSError:
                        continue
                    if stat.S_ISREG(facts.st_mode):
                        yield facts.st_mtime, name

    @contextmanager
    def opened(self, name: str) -> Iterator[OpenedRecording]:
        """One of them. Raises NotARecording where there is none of this name below the folder."""
        fd = self._descriptor(name)
        try:
            recording = OpenedRecording(Recording(fd, name))
        except BaseException:
            os.close(fd)
            raise
        with recording:
            yield recording

    def _descriptor(self, name: str) -> int:
        """Step by step from the folder: whoever exchanges a part of the path for a link meanwhile gains nothing."""
        *folders, file = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in (*folders, file)):
            raise _none(name)
        folder = -1
        try:
            folder = os.open(self._path, _FOLDER)
            for part in folders:
                inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
            # Looked at first: opening a device may do something, and opening a pipe waits.
            if not stat.S_ISREG(os.stat(file, dir_fd=folder, follow_symlinks=False).st_mode):
                raise _none(name)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            fd = os.open(file, flags, dir_fd=folder)
        except OSError:
            raise _none(name) from None
        finally:
            if folder >= 0:
                os.close(folder)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise _none(name)
        return fd


def _none(name: str) -> NotARecording:
    return NotARecording(
        f"There is no recording {plain(name)} in the folder of recordings.",
        why="Only regular files below that folder are read, and no link is followed.",
        fix="List the resources of this server to see the names.",
    )
