"""Has a core walked in a process made for it, and asks that process. Nothing that it sends is believed."""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import heaptop
from heaptop.dumps.cores.core_memory import CoreMemory, Piece
from heaptop.dumps.cores.core_python import CorePython
from heaptop.dumps.cores.walker import ANSWER, END, ENDED, HEAD, LENGTH, PROGRESS, STEP
from heaptop.errors import DumpDamaged, HeaptopError, OutOfResources, ProtocolError
from heaptop.injector.native import own_library
from heaptop.protocol.bounds import check_types
from heaptop.protocol.codec import decode
from heaptop.protocol.framing import MAX_FRAME, FrameReader
from heaptop.protocol.images import FIRST_ID, WASTE, Image, ImageTypes, Question
from heaptop.protocol.messages import Failure, Message
from heaptop.protocol.registry import REPLIES

M = TypeVar("M", bound=Message)
LAUNCHER: Final = "import sys; sys.path.append(sys.argv[1]); from heaptop.dumps.cores.walker import main; main()"
PIECE: Final = struct.Struct("<QQQq")  # `struct mapped_piece` of `native/cores`
ATTEMPTS: Final = 6  # Processes that are tried, where the first one cannot be placed where the core has nothing
LOWEST_PLACE: Final = END // 6 + (32 << 30)
HIGHEST_PLACE: Final = END - (128 << 20)
"""Between them the kernel can be asked to place a process (``mmap_base`` of arch/x86/mm/mmap.c)."""
LEAST_PLACE: Final = 1 << 30  # Bytes of addresses: the process that walks has some 100 MiB before it maps the core
PATIENCE: Final = 30.0  # Seconds without a sign of life after which the process is given up: it reports every 0.1 s
KEEP_NS: Final = 1800 * 10**9  # How long the walk may take, with all its answers
PHASES: Final = ("walking the heap", "sorting references", "looking for roots", "searching", "computing retained sizes")

ASKED: Final = {WASTE: "comparing contents"}
"""What it does for a question, where that takes long. Whoever asks for pieces counts them."""

Told = Callable[[str, int, int], None]  # Takes what is done, and how far: objects so far, and in all (0: not known)


class Collided(Exception):
    """The process has memory of its own where the core has: at the address in ``args``."""


class CoreWalk:
    """A core's heap, walked. A context manager: its process ends with it."""

    def __init__(self, memory: CoreMemory, python: CorePython, limit: int, told: Told) -> None:
        """Walk it, with so much memory for tables. Errors: DumpDamaged, OutOfResources."""
        self._core = memory.core
        self._told = told
        self._process: subprocess.Popen[bytes]
        room, below = largest_gap(memory.pieces)
        if room < LEAST_PLACE:
            raise DumpDamaged(
                f"The {self._core.name} cannot be mapped: it leaves no contiguous {LEAST_PLACE >> 30} GiB free.",
                why=f"The process that reads it needs them for itself, between {LOWEST_PLACE:#x} and "
                f"{HIGHEST_PLACE:#x}.",
                fix=None,
            )
        for attempt in range(ATTEMPTS):
            self._process = _start(sorted({piece.fd for piece in memory.pieces}), below, attempt)
            try:
                self._begin(memory.pieces, python, limit)
                return
            except Collided as error:
                self.close()
                place = error.args[0]
            except BaseException:
                self.close()
                raise
        raise DumpDamaged(
            f"The {self._core.name} cannot be mapped: the process that reads it has memory at {place:#x} itself.",
            why=f"This happened in {ATTEMPTS} processes: their addresses cannot be chosen here. A hard limit of "
            "the stack, or a container, forbids it.",
            fix="Raise the hard limit (`ulimit -Hs unlimited`, as root), or read it on another machine.",
        )

    def __enter__(self) -> CoreWalk:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        process = self._process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.kill()
        process.wait()

    def _begin(self, pieces: list[Piece], python: CorePython, limit: int) -> None:
        packed = b"".join(PIECE.pack(piece.start, piece.end, piece.offset, piece.fd) for piece in pieces)
        plan = {
            "library": str(own_library().path),
            "version": python.hexversion,
            "free_threaded": python.free_threaded,
            "runtime": python.runtime,
            "symbols": python.symbols,
            "id": FIRST_ID,
            "keep_ns": KEEP_NS,
            "memory": limit,
            "size": len(packed),
        }
        head = json.dumps(plan).encode()
        self._send(LENGTH.pack(len(head)) + head + packed)
        messages = self._answer()
        self.types = self._types(messages)
        found = [each for each in messages if isinstance(each, Image)]
        if len(found) != 1:
            raise self._core.damaged("its heap cannot be walked")
        self.image = found[0]

    def _types(self, messages: list[Message]) -> list[ImageTypes]:
        found, count = [each for each in messages if isinstance(each, ImageTypes)], 0
        for each in found:
            if each.first != count:
                raise self._core.damaged("its types are not in order")
            count += len(each.names)
        try:
            check_types(count)
        except ProtocolError as error:
            raise self._core.damaged(error.message.rstrip(".")) from error
        return found

    def ask(self, question: Question, kind: type[M]) -> M:
        """The answer to a question. Errors: DumpDamaged, OutOfResources."""
        packed = question.pack(FIRST_ID)
        self._send(LENGTH.pack(len(packed)) + packed)
        try:
            messages = self._answer(ASKED.get(question.what, ""))
        except Collided as error:
            raise self._core.damaged("its walk failed") from error
        for message in messages:
            if isinstance(message, kind):
                return message
            if isinstance(message, Failure):
                raise self._core.damaged(message.text)
        raise self._core.damaged("its walk does not answer")

    # -- the process -----------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and what it wrote says how

    def _answer(self, step: str = "") -> list[Message]:
        """``step``: what it does for that; empty where whoever asks reports it."""
        while True:
            kind, content = self._receive()
            if kind == PROGRESS and len(content) == STEP.size:
                phase, done, total = STEP.unpack(content)
                if phase < len(PHASES) or step:
                    self._told(PHASES[phase] if phase < len(PHASES) else step, done, total)
            elif kind == ANSWER:
                return self._decode(content)
            elif kind == ENDED:
                raise self._ending(content)
            else:
                raise self._core.damaged("its walk failed")

    def _decode(self, content: bytes) -> list[Message]:
        try:
            found = [decode(payload, REPLIES) for payload in FrameReader().feed(content)]
        except ProtocolError as error:
            raise self._core.damaged(error.message.rstrip(".")) from error
        return [each for each in found if each is not None]

    def _receive(self) -> tuple[bytes, bytes]:
        """The next thing that it writes."""
        kind, size = HEAD.unpack(self._read(HEAD.size))
        if size > MAX_FRAME + (1 << 20):
            raise self._core.damaged("its walk failed")
        return kind, self._read(size)

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        fd, data = self._process.stdout.fileno(), b""
        while len(data) < size:
            if not select.select([fd], [], [], PATIENCE)[0]:
                raise self._core.damaged(f"its walk did not answer within {PATIENCE:g} s")
            part = os.read(fd, min(size - len(data), 1 << 20))
            if not part:
                raise self._core.damaged("its walk failed")
            data += part
        return data

    def _ending(self, content: bytes) -> HeaptopError | Collided:
        """The error that the end of the child is."""
        how, place = _read_ending(content)
        if how == "collides":
            return Collided(place)
        if how == "memory":
            return OutOfResources(
                f"There is too little memory to walk the {self._core.name}.",
                why="Memory of gdb's cores is copied, and the graph takes some 60 bytes an object.",
                fix="Read it on a machine with more memory.",
            )
        return self._core.damaged(ENDINGS.get(how, "its walk failed").format(place))


def _read_ending(content: bytes) -> tuple[str, int]:
    """How the child ended, and at which address; nothing of both where that is not said."""
    try:
        how, place = json.loads(content)
    except (ValueError, TypeError, RecursionError):
        return "", 0
    return (how, place) if isinstance(how, str) and isinstance(place, int) else ("", 0)


ENDINGS: Final = {
    "damaged": "its walk met memory that is not there, at {:#x}",
    "cut": "its memory at {:#x} cannot be read",
    "unfit": "it is of an interpreter that is not as its version says",
    "collecting": "the process was collecting garbage, and its lists of objects are in pieces",
    "broken": "a list of the collector, or a page of objects, is not whole",
    "large": "it has more references than heaptop has numbers for",
    "slow": "its walk took too long",
    "forbidden": "its walk made a forbidden system call",
    "open": "no seccomp filter can be set here, and heaptop does not read a core without one",
    "ended": "its walk was ended",
}


def largest_gap(pieces: list[Piece]) -> tuple[int, int]:
    """The largest range of addresses that a process can be placed in and no piece is in: its bytes, and its end."""
    found, at = (0, HIGHEST_PLACE), LOWEST_PLACE
    for start, end in [*((piece.start, piece.end) for piece in pieces), (HIGHEST_PLACE, HIGHEST_PLACE)]:
        stop = min(start, HIGHEST_PLACE)
        found = max(found, (stop - at, stop))
        at = max(at, end)
    return found


def _start(descriptors: list[int], below: int, attempt: int) -> subprocess.Popen[bytes]:
    packages = Path(heaptop.__file__).resolve().parent.parent
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", LAUNCHER, str(packages), str(below), str(attempt)],
        pass_fds=descriptors,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
