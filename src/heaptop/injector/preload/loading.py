"""Whether the dynamic linker would preload a library into an interpreter."""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import Final

from heaptop.errors import LaunchFailed

FIX: Final = "Run the program without `--native`, or with another interpreter: `--python PATH`."
PROGRAM_HEADER: Final = struct.Struct("<I52x")
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
                raise LaunchFailed(
                    f"Nothing can be preloaded into {interpreter}.",
                    why="It runs with other privileges than yours (setuid, setgid or file capabilities).",
                    fix=FIX,
                )
            at, size, number = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
            file.seek(at)
            headers = file.read(size * min(number, MOST_HEADERS))
    except (OSError, struct.error):
        return  # whoever starts it reports that
    if size == PROGRAM_HEADER.size and all(kind != PT_INTERP for (kind,) in PROGRAM_HEADER.iter_unpack(headers)):
        raise LaunchFailed(
            f"Nothing can be preloaded into {interpreter}.",
            why="It is statically linked: it has no dynamic linker.",
            fix=FIX,
        )


def _has_capabilities(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise
