"""Files that a target names, opened as the target would: below its root, with its user's rights, and regular ones only.

heaptop runs as root and the target chooses the names. A name may lead out of a chroot by a link, to a device that
acts when it is opened, or to a pipe whose writer notices. This module never opens what it has not looked at first.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, Final

from heaptop.credentials import acting_as
from heaptop.errors import HeaptopError
from heaptop.injector.inspect import proc
from heaptop.injector.inspect.process import read_facts

LARGEST: Final = 4 << 20  # Bytes of a file; what is larger is not source that someone reads
PATIENCE: Final = 1.0
OPENAT2: Final = 437
RESOLVE_NO_MAGICLINKS, RESOLVE_IN_ROOT = 0x02, 0x10  # `linux/openat2.h`
MOST_LINKS: Final = 40  # As the kernel follows at most
PROC_MAGIC: Final = 0x9FA0
REAL: Final = frozenset(
    {
        0xEF53,  # ext2, ext3, ext4
        0x58465342,  # xfs
        0x9123683E,  # btrfs
        0x2FC12FC1,  # zfs
        0xF2F52010,  # f2fs
        0x794C7630,  # overlayfs
        0x01021994,  # tmpfs
        0x858458F6,  # ramfs
        0x73717368,  # squashfs
        0xE0F5E1E2,  # erofs
        0x9660,  # iso9660
        0x4D44,  # vfat
        0x2011BAB0,  # exfat
        0xCA451A4E,  # bcachefs
        0x6969,  # nfs
        0xFE534D42,  # smb2
        0x00C36400,  # ceph
        0x01021997,  # 9p
    }
)
"""File systems (statfs(2)) whose regular files can be read without a side effect. A list of what is allowed, for each
kernel has more of the other kind. FUSE is not: whoever serves it may be the target, and need not answer."""

_libc = ctypes.CDLL(None, use_errno=True)


def read(pid: int, path: str) -> bytes:
    """The file that ``pid`` knows by an absolute path; empty where there is none, or it may not be read."""
    if not path.startswith("/"):
        return b""
    try:
        return proc.within(PATIENCE, lambda: _read(pid, path), ("file", pid))
    except (OSError, HeaptopError, ValueError):
        return b""


def _read(pid: int, path: str) -> bytes:
    with _known(pid, path) as found:
        return read_regular(found)


def opened_as_known(pid: int, path: str) -> BinaryIO:
    """The file that ``pid`` knows by an absolute path, of any size. Raises OSError and HeaptopError.

    Its file system need not answer: call this, and read, in a child (:func:`proc.within`)."""
    with _known(pid, path) as found:
        return _opened(found)


@contextlib.contextmanager
def _known(pid: int, path: str) -> Iterator[int]:
    """What ``pid`` knows by an absolute path, as an O_PATH descriptor, with the rights of its user until the end of the
    block."""
    facts = read_facts(pid)
    root = os.open(f"/proc/{pid}/task/{facts.live_tid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with acting_as(facts.uids[3], facts.gids[3]):
            found = look_up(root, path)
            try:
                yield found
            finally:
                os.close(found)
    finally:
        os.close(root)


def look_up(root: int, path: str) -> int:
    """What ``path`` is below the folder ``root``, as an O_PATH descriptor: nothing is opened. Raises OSError."""
    if "\0" in path:  # C would end it there
        raise ValueError(path)
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
    number = _libc.syscall(OPENAT2, root, ctypes.c_char_p(os.fsencode(path)), how, ctypes.c_size_t(ctypes.sizeof(how)))
    if number >= 0:
        return int(number)
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EPERM):  # before Linux 5.6, and where a filter of heaptop's own container denies it
        return look_up_by_hand(root, path)
    raise OSError(code, os.strerror(code), path)


def look_up_by_hand(root: int, path: str) -> int:
    """The same, name by name. Raises OSError."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    names = path.split("/")[::-1]
    with contextlib.ExitStack() as opened:
        folders = [root]
        links = 0
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if len(folders) > 1:  # the root's parent is the root
                    folders.pop()
                continue
            inner = os.open(name, flags, dir_fd=folders[-1])
            opened.callback(os.close, inner)
            if stat.S_ISLNK(os.fstat(inner).st_mode):
                links += 1
                if links > MOST_LINKS or file_system(inner) == PROC_MAGIC:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = os.readlink("", dir_fd=inner)
                if target.startswith("/"):
                    del folders[1:]
                names += target.split("/")[::-1]
            else:
                folders.append(inner)
        return os.dup(folders[-1])


def opened(path: str) -> BinaryIO:
    """A file whose name is a link of the kernel's (``/proc/PID/exe``). Raises OSError where it is no regular one."""
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return _opened(found)
    finally:
        os.close(found)


def _opened(found: int) -> BinaryIO:
    """What an O_PATH descriptor is of. Raises OSError where it is no regular file."""
    if not stat.S_ISREG(os.fstat(found).st_mode) or file_system(found) not in REAL:
        raise OSError(errno.EINVAL, "not a regular file")
    return open(os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def file_system(descriptor: int) -> int:
    """The type of the file system that a file is on (``f_type`` of statfs(2))."""
    about = (ctypes.c_long * 32)()
    if _libc.fstatfs(descriptor, about) != 0:
        raise OSError(ctypes.get_errno(), "fstatfs")
    return int(about[0]) & 0xFFFFFFFF


def read_regular(found: int) -> bytes:
    """The content of what an O_PATH descriptor is of. Raises OSError where it is no regular file of moderate size."""
    about = os.fstat(found)
    if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST or file_system(found) not in REAL:
        raise OSError(errno.EINVAL, "not a regular file of moderate size")
    content = proc.read(f"/proc/self/fd/{found}", LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return content
