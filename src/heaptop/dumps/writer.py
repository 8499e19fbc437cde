"""Writes a heap dump: asks an open snapshot for its pieces, one after the other, and appends each as it comes.

Memory is bounded on both sides: the clone makes a piece when it is asked for the next one, and nothing but the piece at
hand is kept here. A dump that is given up leaves no file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from heaptop import files
from heaptop.dumps.format import ANSWER, END, IMAGE, MAX_PIECE, PIECE, STATE, BlockPacker, pack_header
from heaptop.errors import DumpFailed, os_reason
from heaptop.protocol.dumped import DumpEnd, DumpInfo
from heaptop.protocol.images import DUMP, DUMP_SECTIONS, Dumped, Question
from heaptop.protocol.messages import Message
from heaptop.recordings.format import frames

LEAST_PIECE: Final = 100_000  # Bytes of a piece with another one of its section behind it: the core's own have more
BYTES_EACH: Final = 128
BYTES_WITH_VALUES: Final = 1024  # Of all pieces, for each object and reference, at most; and so many besides:
BYTES_BESIDES: Final = 64 << 20

Ask = Callable[[Question, type[Dumped]], Dumped]
MakeRoom = Callable[[int], None]  # Makes room on the disk for so many bytes more. Errors: OSError, where there is none.
Told = Callable[[int, int], None]  # Takes how many of the objects and references were written, and how many there are


@dataclass(frozen=True, slots=True)
class DumpParts:
    """What a dump holds besides its pieces, in the order in which it is written."""

    state: Iterable[Message]  # What a reader has to be told of the session
    image: Iterable[Message]  # Types of the snapshot, and the snapshot
    answers: Iterable[Message]  # Of the snapshot, to what a dump cannot answer by itself


def _goes_on(piece: Dumped, section: int, offset: int) -> bool:
    """Whether another piece of the section may follow: an agent that sent a few bytes each time would never end."""
    return piece.section == section and piece.next > offset and len(piece.data) >= LEAST_PIECE


def asked_pieces(info: DumpInfo, ask: Ask, told: Told) -> Iterator[bytes]:
    """All pieces of the snapshot, each when it is wanted. Errors: DumpFailed, and those of ``ask``."""
    has_lengths, has_values = info.values != "none", info.values == "all"
    most = BYTES_BESIDES + (info.objects + info.edges) * (BYTES_WITH_VALUES if has_values else BYTES_EACH)
    size = section = offset = done = 0
    while section < DUMP_SECTIONS:
        question = Question(DUMP, number=section, offset=offset, buffers=has_lengths, values=has_values)
        piece = ask(question, Dumped)
        size += len(piece.data)
        is_last = piece.section > section
        if size > most or len(piece.data) > MAX_PIECE or not (is_last or _goes_on(piece, section, offset)):
            raise DumpFailed("The process sent data that cannot be part of its heap.")
        yield piece.data
        done += (piece.records if is_last else piece.next) - offset
        told(min(done, info.objects + info.edges), info.objects + info.edges)  # also kinds, roots, frames
        section, offset = piece.section, piece.next


def _create_nameless() -> files.NewFile:
    """A new file of no name, in the folder of temporary files: it is gone however this process ends."""
    with tempfile.TemporaryFile() as file:
        return files.NewFile(tempfile.gettempdir(), os.dup(file.fileno()), "")


class DumpFile:
    """A heap dump that is being written. As a context manager: what was not finished is removed."""

    def __init__(self, path: str | None, *, force: bool = False, make_room: MakeRoom = lambda more: None) -> None:
        """Without a ``path`` the file has no name. Errors: DumpFailed."""
        try:
            self._file = _create_nameless() if path is None else files.create(path, force=force)
        except FileExistsError as error:
            fix = "Choose another file, or overwrite it: `--force`."
            raise DumpFailed(f"The file {path} exists already.", why="Nothing was written.", fix=fix) from error
        except (OSError, ValueError) as error:
            raise self._failed(path or "", error) from error
        self.path = self._file.path
        self.stays = path is not None  # Somebody else may read it, later
        self.size = 0
        self._make_room = make_room
        self._is_open = True

    def __enter__(self) -> DumpFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_open:
            self._is_open = False
            self._file.give_up()

    @property
    def fd(self) -> int:
        """To be read by, until it is whole."""
        return self._file.fd

    def write(self, info: DumpInfo, parts: DumpParts, pieces: Iterable[bytes]) -> None:
        """All of it; the file takes its place at the end. Errors: DumpFailed, and those of ``pieces``."""
        packer = BlockPacker()
        self._append(pack_header(info))
        for kind, messages in ((STATE, parts.state), (IMAGE, parts.image), (ANSWER, parts.answers)):
            self._append(packer.pack(kind, frames(list(messages))))
        count = size = 0
        for piece in pieces:
            self._append(packer.pack(PIECE, piece))
            count, size = count + 1, size + len(piece)
        self._append(packer.pack(END, frames([DumpEnd(count, size)])))
        self._finish()

    def _append(self, block: bytes) -> None:
        left = memoryview(block)
        try:
            self._make_room(len(block))
            while left:
                left = left[os.write(self._file.fd, left) :]
        except OSError as error:
            raise self._failed(self.path, error) from error
        self.size += len(block)

    def _finish(self) -> None:
        try:
            self._file.take_place()
            os.close(self._file.fd)
        except OSError as error:
            raise self._failed(self.path, error) from error
        self._is_open = False

    @staticmethod
    def _failed(path: str, error: Exception) -> DumpFailed:
        return DumpFailed(f"{path} cannot be written: {os_reason(error)}.")
