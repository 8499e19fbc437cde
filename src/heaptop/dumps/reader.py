"""Reads a heap dump: what is in the file, and the heap that the native core makes of its pieces.

A file may say anything. A block that is not as it was written ends what is read, and the core checks each piece: what
cannot be is refused. Memory is bounded by what the machine has.
"""

from __future__ import annotations

import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType
from typing import Any, Final

from heaptop.choices import DUMP_SUFFIX
from heaptop.dumps.format import (
    ANSWER,
    END,
    HEAD_BYTES,
    IMAGE,
    MAX_HEADER,
    PIECE,
    STATE,
    BlockHead,
    BlockUnpacker,
    is_dump,
    unpack_header,
)
from heaptop.errors import DumpDamaged, NotADump, OutOfResources, ProtocolError, RecordingTooLarge, os_reason
from heaptop.injector.api import memory_limit
from heaptop.injector.native import NoCore, own_library
from heaptop.protocol.bounds import check_types
from heaptop.protocol.codec import decode
from heaptop.protocol.dumped import DumpEnd
from heaptop.protocol.images import ANSWERS, Image, ImageTypes, Question
from heaptop.protocol.messages import Hello, Message, TypeName
from heaptop.protocol.registry import RECORDED, REPLIES
from heaptop.recordings.allowance import Allowance
from heaptop.recordings.format import messages

ROW: Final = struct.Struct("<IiQQ")  # Type, generation, count, bytes: a row of the core's count
PER_OBJECT: Final = 130  # Bytes that an object takes while a dump of it is read, with its references, at most
SHARE: Final = 0.75  # Of the memory that is available, what dumps may take
_asking = threading.Lock()  # The core writes what it answers into memory that all dumps share
Told = Callable[[int, int], None]
"""Takes how many bytes of the file were read, and how many it has; or objects, while the graph is searched."""


def begins_as_dump(path: str) -> bool:
    """Whether a file begins as a heap dump does; where none is there, whether the name is that of one."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as file:
            return is_dump(file.read(64))
    except FileNotFoundError:
        return path.endswith(DUMP_SUFFIX)
    except (OSError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class CountedType:
    """Objects of one type in one generation."""

    type: int  # Position in HeapDump.types
    generation: int
    count: int
    bytes: int


class HeapDump:
    """A dump that was read. What is known of a part only, where the file was cut, is :meth:`counts`."""

    def __init__(self, path: str) -> None:
        """Read what is before the pieces. Errors: NotADump, DumpTooNew, CodecMissing, DumpDamaged."""
        self.path = path
        self._fd = _open(path)
        try:
            self.size = os.fstat(self._fd).st_size
            self._allowance = Allowance(path, self.size)
            self.info, codec, self._at = unpack_header(os.pread(self._fd, MAX_HEADER, 0), path)
            self._unpacker = BlockUnpacker(codec)
            self.hello, self.state = self._read_state()
            """Messages of the session: names, memory, samples, the census before the snapshot."""
            self.types, self.image = self._read_image()
            self.answers = [each for each in self._messages(ANSWER) if isinstance(each, ANSWERS)]
            """To what the core cannot answer of a dump."""
        except BaseException:
            self.close()
            raise
        self.whole = self._closing = False  # All pieces were read
        self._core: ModuleType
        self._dump: Any = None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> HeapDump:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- reading ---------------------------------------------------------------------------------------------

    def load(self, told: Told = lambda done, total: None) -> None:
        """Read the pieces, as far as they are whole, and search the graph if all are there.

        Raises:
            OutOfResources: there is too little memory.
            DumpDamaged: a piece is not what it can be, or the native core is missing.
        """
        self._core = native_core()
        self._check_memory()
        self._dump = self._core.dump_new()
        for piece in self.pieces():
            if self._closing:
                return
            self._call(self._core.dump_add, piece)
            told(self._at, self.size)
        if self.whole:
            self._search(told)

    def pieces(self) -> Iterator[bytes]:
        """All pieces, as far as they are whole: once, and by :meth:`load` as well. Errors: DumpDamaged."""
        for pieces, (head, content) in enumerate(self._blocks()):
            if head.kind == END:
                self.whole = self._is_end(content, pieces)
                return
            yield content

    def counts(self) -> list[CountedType]:
        """Objects by type and generation, of all that was read."""
        rows = ROW.iter_unpack(self._call(self._core.dump_count))
        found = [CountedType(*row) for row in rows if row[2]]
        if any(row.type >= len(self.types) for row in found):
            raise DumpDamaged(f"The heap dump {self.path} has objects of types that it does not name.")
        return found

    def ask(self, question: Question, id: int = 0) -> Message | None:
        """The answer, which has this id. None where it is of no kind that is known.

        Raises:
            DumpDamaged: the core cannot answer; its words are in the message.
        """
        with _asking:
            answer = self._call(self._core.dump_ask, question.pack(id))
        return decode(answer, REPLIES)

    def rows(self, first: int, count: int) -> tuple[bytes, ...]:
        """Columns of so many objects of a whole dump, as ``native/module/dumped.h`` has them; fewer at the end."""
        columns: tuple[bytes, ...] = self._call(self._core.dump_rows, first, count)
        return columns

    def cancel(self) -> None:
        """Give up the question that is being answered, from another thread; while pieces are read, read no more."""
        self._closing = not self.whole
        if self._dump is not None:
            self._core.dump_cancel(self._dump)

    def progress(self) -> tuple[int, int]:
        """How far the question is that is being answered: done, and in all (0: not known)."""
        done, total = self._core.dump_look(self._dump)
        return done, total

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        try:
            return function(self._dump, *arguments)
        except RuntimeError as error:
            raise DumpDamaged(f"The heap dump {self.path} cannot be read: {error}.") from error
        except MemoryError as error:
            raise _too_little(self.path) from error

    def _search(self, told: Told) -> None:
        """The dominators, in a thread of its own: it takes seconds of a large heap, and does not wait for the GIL."""
        failed: list[BaseException] = []

        def search() -> None:
            try:
                self._call(self._core.dump_finish)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=search, name="heaptop-dump", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.1)
            told(*self.progress())
        if failed:
            raise failed[0]

    def _is_end(self, content: bytes, pieces: int) -> bool:
        said = list(messages(content, (DumpEnd,)))
        if len(said) != 1 or not isinstance(said[0], DumpEnd) or said[0].pieces != pieces:
            raise DumpDamaged(f"The heap dump {self.path} has a damaged end.")
        return True

    def _check_memory(self) -> None:
        available = available_memory()
        self._core.dump_limit(int(available * SHARE))
        if self.image.objects * PER_OBJECT > available * SHARE:
            raise _too_little(self.path)

    # -- blocks ----------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[tuple[BlockHead, bytes]]:
        """From here on, as far as they are whole: what comes behind a damaged one is not read."""
        while (head := BlockHead.unpack(os.pread(self._fd, HEAD_BYTES, self._at))) is not None:
            payload = os.pread(self._fd, head.length, self._at + HEAD_BYTES)
            if len(payload) < head.length:
                return
            try:
                content = self._unpacker.unpack(head, payload, self._allowance.content)
                if head.kind != PIECE:
                    self._allowance.unpack(len(content))
            except ProtocolError as error:
                raise DumpDamaged(f"The heap dump {self.path} is damaged: {error.message}") from error
            self._at += HEAD_BYTES + head.length
            yield head, content

    def _messages(self, kind: int) -> Iterator[Message]:
        """Of the next block, which is of this kind."""
        head, content = next(self._blocks(), (None, b""))
        if head is None or head.kind != kind:
            raise DumpDamaged(f"The heap dump {self.path} ends before the heap begins.")
        try:
            yield from messages(content, RECORDED, self._allowance.decode)
        except RecordingTooLarge as error:
            raise DumpDamaged(f"The heap dump {self.path} takes more memory than a file of its size may.") from error
        except ProtocolError as error:
            raise DumpDamaged(f"The heap dump {self.path} is damaged: {error.message}") from error

    def _read_state(self) -> tuple[Hello, list[Message]]:
        said = list(self._messages(STATE))
        if not said or not isinstance(said[0], Hello):
            raise DumpDamaged(f"The heap dump {self.path} names no process.")
        return said[0], said[1:]

    def _read_image(self) -> tuple[list[TypeName], Image]:
        types: list[TypeName] = []
        image = None
        for message in self._messages(IMAGE):
            match message:
                case ImageTypes() if message.first == len(types):
                    check_types(len(types) + len(message.names))
                    types += message.names
                case Image():
                    image = message
        if image is None:
            raise DumpDamaged(f"The heap dump {self.path} holds no snapshot.")
        return types, image


def _open(path: str) -> int:
    try:
        # Looked at first: opening a device may do something, and opening a pipe waits.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise NotADump(f"{path} cannot be read: it is not a regular file.")
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise NotADump(f"{path} cannot be read: {os_reason(error)}.") from error


@cache
def native_core() -> ModuleType:
    """The core, loaded into heaptop's own process: only a dump is read by it there."""
    try:
        path = str(own_library().path)
        loader = ExtensionFileLoader("_core", path)
        core = loader.create_module(ModuleSpec("_core", loader, origin=path))
        loader.exec_module(core)
        return core
    except (NoCore, ImportError) as error:
        raise DumpDamaged(
            f"A heap dump cannot be read here: {error}.",
            why="Only the native core can read heap dumps, and this installation has none.",
            fix="Install heaptop on a machine with a C compiler, or from a wheel.",
        ) from error


def available_memory() -> int:
    """Bytes of memory that are left: of a control group with a limit, or of the machine."""
    limit = memory_limit(os.getpid())
    if limit is None or limit.left is None:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return limit.left


def _too_little(path: str) -> OutOfResources:
    return OutOfResources(
        f"There is too little memory to read the heap dump {path}.",
        why=f"It takes up to {PER_OBJECT} bytes for each object.",
        fix="Read it on a machine with more memory.",
    )
