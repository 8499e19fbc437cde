"""Whether the dynamic linker would preload a library into an interpreter."""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import BinaryIO, Final

from heaptop.errors import LaunchFailed

FIX: Final = "Run the program without `--native`, or with another interpreter: `--python PATH`."
PROGRAM_HEADER: Final = struct.Struct("<I4xQ16xQ16x")
PT_INTERP: Final = 3
MOST_HEADERS: Final = 64


def check(interpreter: str) -> None:
    """Raise LaunchFailed for a static program, or one that gains privileges. A script is not looked into: whether the
    library was loaded is seen in the table."""
    try:
        with open(interpreter, "rb") as file:
            head = file.read(64)
            mode = os.fstat(file.fileno()).st_mode
            if head[:4] != b"\x7fELF":
                return
            if mode & (stat.S_ISUID | stat.S_ISGID) or _has_capabilities(interpreter):
                why = "It runs with other privileges than yours (setuid, setgid or file capabilities)."
                raise _refused(interpreter, why)
            at, size, number = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
            file.seek(at)
            headers = file.read(size * min(number, MOST_HEADERS))
            if size != PROGRAM_HEADER.size:
                return
            linkers = [header[1:] for header in PROGRAM_HEADER.iter_unpack(headers) if header[0] == PT_INTERP]
            linker = _text(file, *linkers[0]) if linkers else b""
    except (OSError, struct.error):
        return  # whoever starts it reports that
    if b"ld-musl" in linker:
        raise _refused(interpreter, "It runs on musl, and the library needs glibc.")
    if not linkers:
        raise _refused(interpreter, "It is statically linked: it has no dynamic linker.")


def _refused(interpreter: str, why: str) -> LaunchFailed:
    return LaunchFailed(f"Nothing can be preloaded into {interpreter}.", why=why, fix=FIX)


def _text(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(min(size, 4096))


def _has_capabilities(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise
