"""The file that a recording is written to: a thread of its own appends, and thins it when it is as large as it may be.

A disk may take its time, or a network file system not answer at all: whoever records only leaves blocks here, and never
waits. What waits is bounded.

**Thinning.** Of the older half of all segments that have ticks, these are left out; when none has any but the last two,
every second KEY of the older half. What stays is copied into a new file beside, which then takes the place of the old
one by one rename; so at any moment there is one that is whole. The first KEY, notes and the last segment always stay.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from heaptop import files
from heaptop.errors import RecordingExists, RecordingFailed, os_reason
from heaptop.files import NewFile
from heaptop.protocol.recorded import RecordingInfo
from heaptop.recordings.format import HEAD_BYTES, KEY, NOTE, BlockHeader, pack_header

MAX_SIZE: Final = 256 << 20
MOST_WAITING: Final = 64 << 20  # Bytes that wait to be written: more, and the recording ends
PATIENCE: Final = 10.0  # Seconds for what waits to be written at the end
_COPY: Final = 1 << 20


def create(path: str, *, force: bool = False) -> NewFile:
    """A new file; with ``force`` beside the one that is there, until it takes its place.

    Raises:
        RecordingExists: there is something of that name, which ``force`` would replace if it is a file.
        RecordingFailed: it cannot be made there.
    """
    try:
        return files.create(path, force=force)
    except FileExistsError as error:
        raise RecordingExists(f"The file {path} exists already.") from error
    except (OSError, ValueError) as error:
        raise RecordingFailed(f"{path} cannot be written: {os_reason(error)}.", why="Nothing was recorded.") from error


@dataclass(frozen=True, slots=True)
class _Block:
    at: int  # Where its head begins
    size: int  # With its head
    kind: int


class RecordingWriter:
    """A file that blocks are appended to. Methods are called by one thread."""

    def __init__(self, file: NewFile, about: RecordingInfo, max_size: int = MAX_SIZE) -> None:
        """``file`` has taken its place. It is closed by :meth:`close`."""
        self.path = file.path
        self._fd = file.fd
        self._about = about
        self._max_size = max_size
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_bytes = 0  # guarded by the lock
        self._size = 0  # Of the file, with nothing that was written in part. The writer's alone, as are the next two.
        self._blocks: list[_Block] = []
        self.thinned = False
        self.error = ""  # Why nothing is written any more: a sentence without its full stop
        self._thread = threading.Thread(target=self._write_all, name="heaptop-recording", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Bytes that are in the file, or wait to be; once there is an error, no more come."""
        return self._size if self.error else self._size + self._waiting_bytes

    def append(self, block: bytes) -> None:
        """Have a block written; nothing happens once there is an error."""
        if self.error:
            return
        with self._lock:
            self._waiting_bytes += len(block)
            if self._waiting_bytes > MOST_WAITING:
                self.error = self.error or "the disk is too slow"
        self._waiting.put(block)

    def finish(self) -> None:
        """Have what waits written and the file closed, without waiting for it: nothing is appended any more."""
        self._waiting.put(None)

    def wait(self, timeout: float) -> bool:
        """For that, at most so many seconds; whether it is done."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def close(self, timeout: float = PATIENCE) -> None:
        """Write what waits and close the file, at most so many seconds."""
        self.finish()
        if not self.wait(timeout):
            self.error = self.error or "the disk does not answer"

    # -- the writer's thread -----------------------------------------------------------------------------------

    def _write_all(self) -> None:
        try:
            self._put(pack_header(self._about))
            while (block := self._waiting.get()) is not None:
                if not self.error:
                    self._add(block)
                with self._lock:
                    self._waiting_bytes -= len(block)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)  # half a block is of no use
            self.error = self.error or reason(error)
        finally:
            with suppress(OSError):
                os.close(self._fd)

    def _add(self, block: bytes) -> None:
        head = BlockHeader.unpack(block[:HEAD_BYTES])
        assert head is not None
        self._blocks.append(_Block(self._size, len(block), head.kind))
        self._put(block)
        if self._size > self._max_size:
            self._thin()

    def _put(self, data: bytes) -> None:
        """Append it. Errors: OSError, with a part of it in the file perhaps."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]
        self._size += len(data)

    # -- thinning ----------------------------------------------------------------------------------------------

    def _thin(self) -> None:
        kept = self._blocks
        while sum(block.size for block in kept) > self._max_size * 3 // 4:
            fewer = thinner(kept)
            if len(fewer) == len(kept):
                break
            kept = fewer
        if len(kept) == len(self._blocks):
            self.error = "it reached its size limit, and nothing more can be dropped"
            return
        self._rewrite(kept)
        self.thinned = True

    def _rewrite(self, kept: Sequence[_Block]) -> None:
        beside = f"{self.path}.thinner"
        with suppress(FileNotFoundError):
            files.remove(beside)  # of one that was killed
        old, size = self._fd, self._size
        fd = files.create_new(beside)
        try:
            self._fd, self._size = fd, 0
            self._put(pack_header(replace(self._about, thinned=True)))
            blocks = []
            for block in kept:
                blocks.append(replace(block, at=self._size))
                self._copy(old, block)
            os.fsync(fd)  # what it replaces may be on the disk for hours
            files.rename(beside, self.path)
        except OSError:
            self._fd, self._size = old, size
            os.close(fd)
            with suppress(OSError):
                files.remove(beside)
            raise
        self._blocks = blocks
        os.close(old)

    def _copy(self, old: int, block: _Block) -> None:
        for at in range(block.at, block.at + block.size, _COPY):
            self._put(os.pread(old, min(_COPY, block.at + block.size - at), at))


def thinner(blocks: Sequence[_Block]) -> list[_Block]:
    """What is left of them in a step of thinning; all of them where there is none any more."""
    segments: list[list[_Block]] = []
    for block in blocks:
        if block.kind == KEY or not segments:
            segments.append([])
        segments[-1].append(block)
    with_ticks = [segment for segment in segments[:-1] if not all(block.kind in (KEY, NOTE) for block in segment)]
    for segment in with_ticks[: (len(with_ticks) + 1) // 2]:
        segment[:] = [block for block in segment if block.kind in (KEY, NOTE)]
    if not with_ticks:
        for segment in segments[1 : max(len(segments) // 2, 2) : 2]:
            if segment is not segments[-1]:
                segment[:] = [block for block in segment if block.kind == NOTE]
    return [block for segment in segments for block in segment]


def reason(error: OSError) -> str:
    """Why nothing is written: a sentence without its full stop."""
    return f"it could not be written: {error.strerror or error}"
