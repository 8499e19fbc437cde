"""Files and folders of heaptop's own: for their owner alone, never through a link, never over what is there unasked.

Every file that a person asks for, and every one that heaptop keeps for itself, is made here. Errors are OSErrors.

Where heaptop runs by sudo and may not write into a folder of the user's who called it, it does so as that user: root
without CAP_DAC_OVERRIDE may not, and the file is then theirs, as they expect.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from heaptop.credentials import acting_as

PRIVATE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_NULL: Final = os.makedev(1, 3)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NewFile:
    """An empty file, for its owner's eyes only, that something is to be written to."""

    path: str
    fd: int
    made: str
    """What it is called so far: not ``path`` where it is to take another file's place; empty for a file without a
    name in the folder ``path``."""

    def take_place(self) -> None:
        """From now on it is the one that ``path`` names."""
        if self.made not in (self.path, ""):
            rename(self.made, self.path)

    def give_up(self) -> None:
        """It is closed and removed: a file whose place it was to take stays."""
        with suppress(OSError):
            is_ours = _is_regular(self.fd)
            os.close(self.fd)
            if is_ours and self.made:
                remove(self.made)


def create(path: str, *, force: bool = False) -> NewFile:
    """A new file; with ``force`` beside the one that is there, until it takes its place. ``/dev/null`` is opened.

    Raises FileExistsError where something has that name: with ``force`` only where that is no regular file.
    """
    status = None
    with suppress(OSError):
        status = os.lstat(path)
    if status is not None and stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL:
        return NewFile(path, os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC), path)
    if status is not None and force and stat.S_ISREG(status.st_mode):
        made = f"{path}.{secrets.token_hex(4)}.new"
        return NewFile(path, create_new(made), made)
    return NewFile(path, create_new(path), path)


def create_new(path: str) -> int:
    """A descriptor of a file that was not there, to be read and written. Raises FileExistsError."""
    return _allowed(path, lambda: os.open(path, _NEW, PRIVATE))


def rename(old: str, new: str) -> None:
    """Within one folder."""
    _allowed(new, lambda: os.rename(old, new))


def remove(path: str) -> None:
    _allowed(path, lambda: os.unlink(path))


def write(path: str, content: bytes, *, force: bool = False) -> None:
    """A file of this content, or none: a part of it does not stay. Raises as :func:`create` does."""
    file = create(path, force=force)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file.fd, left) :]
        file.take_place()
    except BaseException:
        file.give_up()
        raise
    os.close(file.fd)


def private_folder(path: Path, *, make: bool = True) -> Path:
    """The folder, made for its owner alone where it is not there, with those above it.

    Raises OSError also where it is a link, is another user's, or others may write to it: what lies there may be theirs.
    """
    if make:
        _make_folder(path)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is a link, or not a folder", str(path))
    caller = sudo_caller()
    if status.st_uid != os.geteuid() and (caller is None or status.st_uid != caller[0]):
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "others can write to it", str(path))
    return path


def read_small(path: Path, most: int) -> bytes:
    """A regular file of our own, of at most so many bytes."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def sudo_caller(environ: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
    """Uid and gid of the user for whom root runs; None where it does not, or for no user."""
    uid, gid = environ.get("SUDO_UID", ""), environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not (uid.isdecimal() and gid.isdecimal() and len(uid) <= 10 and len(gid) <= 10):
        return None
    return (int(uid), int(gid)) if int(uid) else None


def _make_folder(path: Path) -> None:
    if not path.parent.exists():
        _make_folder(path.parent)
    _allowed(str(path), lambda: path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True))


def _is_regular(fd: int) -> bool:
    return stat.S_ISREG(os.fstat(fd).st_mode)


def _allowed(path: str, work: Callable[[], T]) -> T:
    """Do it; where that is denied in a folder of sudo's caller, as the caller."""
    try:
        return work()
    except PermissionError:
        caller = sudo_caller()
        if caller is None or os.stat(os.path.dirname(path) or os.curdir).st_uid != caller[0]:
            raise
    with acting_as(*caller):
        return work()
