"""A core, or the copy of a process, as a heap dump: written to a file that stays, or to one of this process alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from heaptop import __version__
from heaptop.analysis.snapshot.waste import MOST_ROWS
from heaptop.dumps.cores.backing import Backing, open_regular
from heaptop.dumps.cores.core_memory import CoreMemory
from heaptop.dumps.cores.core_python import CorePython, find_python
from heaptop.dumps.cores.elf_core import CoreFile, read_core
from heaptop.dumps.cores.process_copy import copied
from heaptop.dumps.cores.walking import CoreWalk, Told
from heaptop.dumps.reader import SHARE, HeapDump, available_memory, native_core
from heaptop.dumps.writer import DumpFile, DumpParts, asked_pieces
from heaptop.errors import NotADump
from heaptop.injector.inspect.process import ProcessFacts
from heaptop.protocol.dumped import COPY, CORE_FILE, DumpInfo
from heaptop.protocol.images import KINDS, WASTE, Image, Question, Waste
from heaptop.protocol.messages import PROTOCOL_VERSION, Hello

Written = tuple[DumpInfo, Image]  # What the heap dump says of itself


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """Where the files are that a core leaves out."""

    exe: str | None = None
    root: str | None = None


@dataclass(frozen=True, slots=True)
class OpenedCore:
    """A core that can be walked."""

    core: CoreFile
    memory: CoreMemory
    python: CorePython
    facts: ProcessFacts | None = None  # Of the process that was copied
    stopped_ns: int = 0  # For how long it stood still for that
    running: int = 0  # Threads that were in no system call then


def write_core(path: str, options: CoreOptions, file: DumpFile, values: str, told: Told) -> Written:
    """Write the heap of the core ``path`` as a heap dump. Errors: NotADump, DumpDamaged, DumpFailed, OutOfResources; a
    TargetError where it is of no Python that heaptop reads."""
    with _opened(path, options) as opened:
        return _write(opened, file, values, told)


def write_copy(pid: int, options: CoreOptions, budget: float, file: DumpFile, values: str, told: Told) -> Written:
    """Write the heap of a process of which a copy is made: no code runs in it. It stands still for ``budget`` seconds
    at most. Errors: TargetError, ImageLost, DumpDamaged, DumpFailed, OutOfResources."""
    with _opened_copy(pid, options, budget) as opened:
        return _write(opened, file, values, told)


def _write(opened: OpenedCore, file: DumpFile, values: str, told: Told) -> Written:
    step = "writing the heap dump" if file.stays else "reading objects and references"
    with CoreWalk(opened.memory, opened.python, int(available_memory() * SHARE), told) as walk:
        info = _info(opened, walk, values)
        answers = [walk.ask(Question(WASTE, limit=MOST_ROWS), Waste)]
        gaps = (*walk.image.gaps, *_gaps(opened, walk.image))
        image = replace(walk.image, pause_ns=opened.stopped_ns, gaps=gaps)
        parts = DumpParts([_hello(opened, image.time_ns)], [*walk.types, image], answers)
        written = asked_pieces(info, walk.ask, lambda done, total: told(step, done, total))
        file.write(info, parts, written)
    return info, image


def open_core(path: str, options: CoreOptions, told: Told) -> HeapDump:
    """A heap dump of the core ``path``, not loaded yet, in a file without a name. Errors: as :func:`write_core`."""
    dump = _unnamed(lambda file: write_core(path, options, file, "sizes", told))
    dump.path = path
    return dump


def open_copy(pid: int, options: CoreOptions, budget: float, told: Told) -> HeapDump:
    """The same of a process, as :func:`write_copy` has it."""
    dump = _unnamed(lambda file: write_copy(pid, options, budget, file, "sizes", told))
    dump.path = ""
    return dump


def _unnamed(write: Callable[[DumpFile], Written]) -> HeapDump:
    with DumpFile(None) as file:
        made = os.dup(file.fd)
        try:
            write(file)
            return HeapDump(f"/proc/self/fd/{made}")
        finally:
            os.close(made)


@contextmanager
def _opened(path: str, options: CoreOptions) -> Iterator[OpenedCore]:
    fd = open_regular(path)
    if fd < 0:
        why = "It does not exist, or is not a file that heaptop may read."
        raise NotADump(f"{path} cannot be read.", why=why, fix=None)
    backing = Backing(options.exe, options.root)
    try:
        core = read_core(fd, path)
        memory = CoreMemory(core, fd, backing)
        yield OpenedCore(core, memory, find_python(memory, backing, native_core().core_symbols()))
    finally:
        backing.close()
        os.close(fd)


@contextmanager
def _opened_copy(pid: int, options: CoreOptions, budget: float) -> Iterator[OpenedCore]:
    symbols = native_core().core_symbols()  # before anything is stopped
    backing = Backing(options.exe, options.root, pid)
    try:
        with copied(pid, budget) as copy:
            memory = CoreMemory(copy.core, copy.fd, backing, copy.zeros)
            python = find_python(memory, backing, symbols)
            yield OpenedCore(copy.core, memory, python, copy.facts, copy.stopped_ns, copy.running)
    finally:
        backing.close()


def _gaps(opened: OpenedCore, image: Image) -> Iterator[str]:
    """Sentences on what is not known of the heap of a core, or of a copy."""
    core = opened.core
    if opened.running:
        threads = f"threads that were running: {opened.running:,}"
        yield f"texts and numbers that C code alone held are not counted ({threads})"
    if image.opaque:
        share = image.opaque / max(image.bytes, 1)
        why = "" if core.is_copy else ": no code of a core is run"
        yield f"what {image.opaque:,} bytes of C types ({share:.1%}) refer to is not known{why}"
    if any(kind.objects for kind in image.kinds if KINDS[kind.kind] == "none"):
        yield "whether gc is on, and so whether garbage will be freed"
    if core.missing and core.is_copy:
        yield f"{core.missing:,} bytes of memory could not be read"
    elif core.missing:
        yield f"the core file is cut: {core.missing:,} bytes of memory are missing"


def _hello(opened: OpenedCore, time_ns: int) -> Hello:
    return Hello(
        protocol=PROTOCOL_VERSION,
        token="",
        pid=opened.core.pid,
        python=str(opened.python.version),
        executable=next(iter(opened.core.command.split()), ""),
        capabilities=(),
        gc_enabled=True,
        time_ns=time_ns,
    )


def _info(opened: OpenedCore, walk: CoreWalk, values: str) -> DumpInfo:
    core, facts = opened.core, opened.facts
    return DumpInfo(
        heaptop=__version__,
        pid=core.pid,
        command=core.command,
        python=str(opened.python.version),
        user=facts.user if facts else "",
        wall=core.wall,
        time_ns=walk.image.time_ns,
        values=values,
        objects=walk.image.objects,
        edges=walk.image.edges,
        started=facts.start if facts else 0,
        origin=COPY if facts else CORE_FILE,
        lacking="; ".join(walk.image.gaps),
    )
