"""Writes an archive for the kernel's first file system (cpio, "newc"): python archive.py FILE FOLDER:PREFIX...

Two such files in a row are one: what changes is kept apart from the root, which does not.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO


class Archive:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._inode = 0

    def add(self, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        encoded = name.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        head = b"070701" + "".join(f"{value:08X}" for value in fields).encode() + encoded
        for part in (head, data):
            self._out.write(part + bytes(-len(part) % 4))

    def add_tree(self, folder: Path, prefix: str) -> None:
        for path in sorted(folder.rglob("*")):
            mode = path.lstat().st_mode
            name = f"{prefix}/{path.relative_to(folder)}".lstrip("/")
            if stat.S_ISLNK(mode):
                self.add(name, mode, os.fsencode(os.readlink(path)))
            elif stat.S_ISREG(mode):
                self.add(name, mode, path.read_bytes())
            elif stat.S_ISDIR(mode):
                self.add(name, mode)

    def end(self) -> None:
        self.add("TRAILER!!!", 0)
        self._out.write(bytes(-self._out.tell() % 512))


def main() -> None:
    with open(sys.argv[1], "wb") as out:
        archive = Archive(out)
        for argument in sys.argv[2:]:
            folder, _, prefix = argument.partition(":")
            if prefix:
                archive.add(prefix, stat.S_IFDIR | 0o755)
            else:
                archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
            archive.add_tree(Path(folder), prefix)
        archive.end()


if __name__ == "__main__":
    main()
