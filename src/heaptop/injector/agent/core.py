"""The native core: a library that counts and samples in the place of the agent.

heaptop sends the library in pieces. It goes into a memfd, is loaded from there as an extension module, and the
memfd is closed: nothing is written to the target's file system, and no module stands in sys.modules. A library is
never unloaded, so the next session finds it in /proc/self/maps by the memfd's name, which has the build in it and
the number that the memfd had. glibc looks a library up by the path it was first loaded by, before it opens
anything: the same path gives the same library, whatever the number means by now. So that another build, whose
memfd may have the same number, is not taken for this one, the path spells the build, in "." and "/":

   build 4c1f…, number 7  ►  /proc/self/fd//.///../…/7   ►  memfd "heaptop-core-4c1f…-7"

musl opens a path first, and looks a library up by the file's inode. Nobody can open the inode of a closed memfd again,
and what has its number by now is the program's. So heaptop looks the library's heaptop_core_again up from outside, and
the stub leaves what that returns beside the bootstrap; on glibc too, where nothing is loaded with the GIL then. Only
where there is no stub (PEP 768) does glibc find it by path, and musl map another copy.
"""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import Namespace, gc, importing, posix
from heaptop.injector.agent.clock import REST_BUDGET, clock, longest_hold, rest, rest_if_due
from heaptop.injector.agent.collector import watch_collections
from heaptop.injector.agent.values import MAX_NAME
from heaptop.injector.agent.wire import WORK, send

CORE_NAME = "heaptop-core-%s-"
MEMFD_FLAGS = (0x11, 0x01, 0x09)
"""Close-on-exec with MFD_EXEC (Linux 6.3), as older kernels know it, and with MFD_NOEXEC_SEAL, where
``vm.memfd_noexec`` allows nothing else (the seal forbids to execute it as a program, not to map it)."""
READ_SIZE = 1 << 16
"""glibc gives a block of 128 KiB or more a mapping, and once that is freed keeps larger ones in its heaps: for good,
and for the whole program. So what the agent reads and keeps at once is smaller."""
MAX_CORE = 4 << 20
MOST_COPIES = 4
"""Of the core in one process, where a session cannot use the one before: some 450 KB each, which stay."""


def receive_piece(s: Any, number: int, fields: dict[str, Any]) -> bool:
    """Take a piece of the library in; whether it is whole now. Pieces that do not fit are answered with Failure."""
    build, size, at, data = [fields.get(name) for name in ("build", "size", "at", "data")]
    if at == 0:
        s.library, s.library_size = [], 0
    fits = (
        type(build) is str
        and len(build) == 16
        and not build.strip("0123456789abcdef")
        and type(size) is type(at) is int
        and type(data) is bytes
        and at == s.library_size
        and at + len(data) <= size <= MAX_CORE
    )
    if not fits:
        s.library, s.library_size = [], 0
        send(s, "failure", {"request": number, "text": "a piece of the native core that does not fit"})
        return False
    s.library.append(data)
    s.library_size += len(data)  # type: ignore[arg-type]
    return bool(s.library_size == size)


def load_core(s: Any, number: int) -> None:
    """Load the library that has come, let it check itself, and report the result."""
    build = s.request["build"]
    library, s.library, s.library_size = s.library, [], 0
    reused = False
    if s.core is None:
        try:
            rest(s)
            s.core, reused = import_core(build, library)
            rest(s)
            s.core.abort()  # forgets the clone of a process that this one was forked from
            s.core.open(sys.hexversion)
            s.core.enter_tracing()  # the stub has, where there is one
            rest(s)
            s.core_reason = self_check(s)
            if not s.core_reason:
                s.core.malloc_stacks()
        except Exception as error:
            s.core_reason = core_failure(error)
        if s.core_reason:
            drop_core(s)
    watch_collections(s)
    s.core_build = build
    send_core(s, number, s.core is not None, reused)
    s.core_ns = max(s.core_ns, longest_hold(s)[0])


WORK["core?"] = load_core


def send_core(s: Any, number: int, loaded: bool, reused: bool) -> None:
    reply = {"id": number, "build": s.core_build, "loaded": loaded, "reused": reused, "text": s.core_reason}
    send(s, "core", reply)


def self_check(s: Any) -> str:
    """What differs from the interpreter, or an empty text. While another thread collects, nothing can be compared."""
    s.core.give_way = make_giver(s)
    for _ in range(200):
        try:
            text = str(s.core.check(gc))
            break
        except BlockingIOError as error:
            text = str(error)
        rest(s, 0.01)
    del s.core.give_way  # it knows s, and s the core
    return text


def make_giver(s: Any) -> Any:
    """What the core's check calls between its parts."""
    end = clock() + REST_BUDGET

    def heaptop_give_way() -> None:
        if clock() < end:
            rest_if_due(s)

    return heaptop_give_way


def core_failure(error: Any) -> str:
    """What went wrong with the core, in a few words. dlopen's begin with the path, which helps nobody."""
    text = str(error)
    if isinstance(error, ImportError):
        text = "the native core could not be loaded: " + text[text.find(": ") + 2 :]
    elif isinstance(error, OSError):
        text = str(error.strerror)
    elif isinstance(error, MemoryError):
        text = "out of memory in the target"
    return text[:MAX_NAME].rstrip(".")


def drop_core(s: Any) -> None:
    """Let the module go. Its functions know it and it knows them: emptying it breaks that cycle."""
    core, s.core = s.core, None
    s.snapshot_open = s.core_watches = False
    if core is not None:
        core.gc_unwatch()
        core.close()
        core.__dict__.clear()


def import_core(build: str, library: Any) -> tuple[Any, bool]:
    """The library as a module of this session's own, and whether it was mapped already."""
    again = (globals().get("BOOT") or {}).get("heaptop_core")
    if again is not None:
        return again(), True
    mapped = mapped_numbers(build)
    if mapped and finds_by_path():
        return import_at(core_path(build, mapped[0])), True
    if len(mapped) >= MOST_COPIES:
        raise RuntimeError("%d copies of the native core are mapped, and musl cannot reuse one" % len(mapped))
    fd, number = make_memfd(build)
    inode = posix.fstat(fd).st_ino
    try:
        try:
            posix.stat("/proc/self/fd/%d" % fd)
        except OSError:
            raise RuntimeError("there is no /proc in the target's file system to load the native core from") from None
        for piece in library:
            at = 0
            while at < len(piece):
                at += posix.write(fd, piece[at:])
        return import_at(core_path(build, number)), False
    finally:
        if posix.fstat(fd).st_ino == inode:
            posix.close(fd)


def import_at(path: str) -> Any:
    """Load an extension module as the import system does, but for its tables."""
    module = importing.create_dynamic(Namespace(name="_core", origin=path))
    importing.exec_dynamic(module)
    return module


def core_path(build: str, number: int) -> str:
    bits = bin(int(build, 16) | 1 << 64)[3:]
    return "/proc/self/fd/" + bits.replace("0", "/").replace("1", "./") + str(number)


def make_memfd(build: str) -> tuple[int, int]:
    """A memfd whose name has its own number in it: the number to expect is the one that was just closed."""
    create = getattr(posix, "memfd_create", None)
    if create is None:
        raise RuntimeError("the target's Python was built without memfd_create")
    number = 0
    for _ in range(64):
        fd = create_memfd(create, (CORE_NAME % build) + str(number))
        if fd == number:
            return fd, number
        posix.close(fd)
        number = fd
    raise RuntimeError("the target opens files so fast that the memfd did not get the expected number")


def create_memfd(create: Any, name: str) -> int:
    failure: Any = None
    for flags in MEMFD_FLAGS:
        try:
            return int(create(name, flags))
        except OSError as error:
            failure = error
    raise RuntimeError("the target's kernel refused a memfd: %s" % failure.strerror)


def finds_by_path() -> bool:
    """Whether dlopen finds a library by its path, without opening it: glibc's, which has a version to report."""
    try:
        return bool(posix.confstr("CS_GNU_LIBC_VERSION"))
    except (OSError, ValueError):
        return False


def mapped_numbers(build: str) -> list[int]:
    """The numbers in the names of the memfds that this build's code is mapped from, one for each copy."""
    name = ("/memfd:" + CORE_NAME % build).encode()
    found: list[int] = []
    tail = b""
    try:
        fd = posix.open("/proc/self/maps", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return found
    try:
        while True:
            piece = posix.read(fd, READ_SIZE)
            lines, _, tail = (tail + piece).rpartition(b"\n")
            if name in lines:
                for line in lines.split(b"\n"):
                    at = line.find(name)
                    if at >= 0 and b" r-xp " in line:
                        found.append(int(line[at + len(name) :].split(None, 1)[0]))
            if not piece:
                return found
    finally:
        posix.close(fd)
