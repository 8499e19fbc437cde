"""A core as a heap dump: written to a file that stays, or to one that only this process has."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from heaptop import __version__
from heaptop.analysis.snapshot.waste import MOST_ROWS
from heaptop.dumps.cores.backing import Backing, open_regular
from heaptop.dumps.cores.core_memory import CoreMemory
from heaptop.dumps.cores.core_python import CorePython, find_python
from heaptop.dumps.cores.elf_core import CoreFile, read_core
from heaptop.dumps.cores.walking import CoreWalk, Told
from heaptop.dumps.reader import SHARE, HeapDump, available_memory, native_core
from heaptop.dumps.writer import DumpFile, DumpParts, asked_pieces
from heaptop.errors import NotADump
from heaptop.protocol.dumped import DumpInfo
from heaptop.protocol.images import WASTE, Image, Question, Waste
from heaptop.protocol.messages import PROTOCOL_VERSION, Hello

ORIGIN: Final = "core file"


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """Where the files are that a core leaves out."""

    exe: str | None = None
    root: str | None = None


def write_core(path: str, options: CoreOptions, file: DumpFile, values: str, told: Told) -> DumpInfo:
    """Write the heap of the core ``path`` as a heap dump. Errors: NotADump, DumpDamaged, DumpFailed, OutOfResources; a
    TargetError where it is of no Python that heaptop reads."""
    with (
        _opened(path, options) as (core, memory, python),
        CoreWalk(memory, python, int(available_memory() * SHARE), told) as walk,
    ):
        info = _info(core, python, walk, values)
        answers = [walk.ask(Question(WASTE, limit=MOST_ROWS), Waste)]
        image = replace(walk.image, pause_ns=0, gaps=(*walk.image.gaps, *_gaps(core, walk.image)))
        parts = DumpParts([_hello(core, python)], [*walk.types, image], answers)
        written = asked_pieces(info, walk.ask, lambda done, total: told("writing the heap dump", done, total))
        file.write(info, parts, written)
    return info


def open_core(path: str, options: CoreOptions, told: Told) -> HeapDump:
    """A heap dump of the core ``path``, not loaded yet, in a file without a name. Errors: as :func:`write_core`."""
    folder = tempfile.mkdtemp(prefix="heaptop-")
    try:
        made = os.path.join(folder, "core.heapdump")
        with DumpFile(made) as file:
            write_core(path, options, file, "sizes", told)
        dump = HeapDump(made)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    dump.path = path
    return dump


@contextmanager
def _opened(path: str, options: CoreOptions) -> Iterator[tuple[CoreFile, CoreMemory, CorePython]]:
    fd = open_regular(path)
    if fd < 0:
        raise NotADump(f"{path} cannot be read.", why="It is not there, or not a file that may be read.", fix=None)
    backing = Backing(options.exe, options.root)
    try:
        core = read_core(fd, path)
        memory = CoreMemory(core, fd, backing)
        yield core, memory, find_python(memory, backing, native_core().core_symbols())
    finally:
        backing.close()
        os.close(fd)


def _gaps(core: CoreFile, image: Image) -> Iterator[str]:
    """Sentences on what is not known of a core's heap."""
    if image.opaque:
        share = image.opaque / max(image.bytes, 1)
        yield f"what {image.opaque:,} bytes of C types ({share:.1%}) refer to is not known: no code of a core is run"
    if core.missing:
        yield f"the core file is cut: {core.missing:,} bytes of memory are missing"


def _hello(core: CoreFile, python: CorePython) -> Hello:
    return Hello(
        protocol=PROTOCOL_VERSION,
        token="",
        pid=core.pid,
        python=str(python.version),
        executable=next(iter(core.command.split()), ""),
        capabilities=(),
        gc_enabled=True,
        time_ns=0,
    )


def _info(core: CoreFile, python: CorePython, walk: CoreWalk, values: str) -> DumpInfo:
    return DumpInfo(
        heaptop=__version__,
        pid=core.pid,
        command=core.command,
        python=str(python.version),
        user="",
        wall=core.wall,
        time_ns=walk.image.time_ns,
        values=values,
        objects=walk.image.objects,
        edges=walk.image.edges,
        origin=ORIGIN,
    )
