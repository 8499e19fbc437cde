"""The native core: its C sources, which ``setup.py`` builds as an optional extension for glibc, ``_core``, and one for
musl, ``_core_musl``.

Each folder is a group. A file includes files of its own group and of groups below it, and of those above it none::

    module      what the agent calls: the module, the self-check, a census
    cores       memory of a core file in a process made for it
    dump        a snapshot in pieces for a file, and the file's in place of it
    snapshot    the snapshot in a clone, and its answers
    query       which objects a question selects, and how they are grouped
    graph       who refers to whom, from which roots, and what each object retains
    sampler     which allocated blocks are followed, and the stacks that asked for them
    heap        the objects: their types, sizes and references, and the walk over all of them
    clone       a copy-on-write clone of the process, in which a function runs
    .           layout (what depends on a version of CPython), machine (what depends on the
                processor), pages, system calls, a msgpack writer

heaptop reads the file and sends it to targets (:mod:`heaptop.injector.session.conversation`). For heap dumps alone it
loads one itself, which is that for its own C library: ``dump`` understands them in heaptop's own process
(:mod:`heaptop.dumps.reader`). An installation without it counts in Python mode, and gives the reason.

They differ in how a thread finds its own counters: musl loads no library that has them at a fixed place (static TLS),
and glibc takes memory at a thread's first look at any other. The one for musl is linked with no library.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

MAX_SIZE: Final = 4 << 20
"""Bytes of library that an agent accepts."""

MAGIC: Final = b"\x7fELF"


class NoCore(Exception):
    """There is no native core to send; ``str()`` gives the reason, as a sentence without its full stop."""


@dataclass(frozen=True, slots=True)
class Library:
    """The built extension."""

    path: Path
    build: str
    """16 hexadecimal digits made from the content: two builds that differ in a byte differ here."""
    data: bytes


@cache
def library(folder: Path = Path(__file__).parent, *, musl: bool = False) -> Library:
    """The extension as it was built for that C library, read once. Raises :class:`NoCore`."""
    files = sorted(folder.glob("_core_musl.*so" if musl else "_core.*so"), key=lambda path: path.stat().st_mtime)
    if not files:
        raise NoCore(f"no native core{' for musl' if musl else ''}: heaptop was installed without it")
    try:
        data = files[-1].read_bytes()
    except OSError as error:
        raise NoCore(f"the native core could not be read: {error.strerror}") from None
    if not data.startswith(MAGIC) or len(data) > MAX_SIZE:
        raise NoCore(f"{files[-1].name} is not a native core")
    return Library(files[-1], hashlib.sha256(data).hexdigest()[:16], data)


def own_library() -> Library:
    """The extension for the C library that heaptop itself runs on. Raises :class:`NoCore`."""
    return library(musl=not _is_glibc())


def _is_glibc() -> bool:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") is not None
    except (OSError, ValueError):
        return False
