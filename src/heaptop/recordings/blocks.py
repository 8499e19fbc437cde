"""Messages as blocks of a recording: when a segment ends and another begins.

Bytes go out in the order in which they are to be appended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from heaptop.protocol.findings import NOTED
from heaptop.protocol.messages import Census, Hello, Message, Tick
from heaptop.protocol.recorded import RecordingInfo
from heaptop.recordings.format import COUNT, KEY, NOTE, TICK, SegmentCodec, frames, pack_alone
from heaptop.recordings.recording_state import RecordingState

SEGMENT_BLOCKS: Final = 120  # Blocks after which a segment ends: so many have to be read to show its last moment
LEAST_BLOCKS: Final = 20
SEGMENT_SECONDS: Final = 300
MOST_SEGMENT: Final = 16
"""A segment is no larger than this part of the largest size, so that thinning has something to leave out."""


class RecordingBlocks:
    """One recording's, from the first to the last."""

    def __init__(
        self,
        about: RecordingInfo,
        hello: Hello,
        recording_state: RecordingState,
        max_size: int,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``wall`` returns the seconds since 1970."""
        self._about = about
        self._wall = wall
        self._hello = replace(hello, token="")  # nobody may say it again
        self._recording_state = recording_state
        self._most = max_size // MOST_SEGMENT
        self._segment: SegmentCodec | None = None
        self._number = 0
        self._pending: list[Message] = []
        self._key_ns = 0
        self._key_bytes = 0
        self._blocks = 0
        self._bytes = 0

    def add(self, message: Message) -> Iterator[bytes]:
        """Take a message that the recording state has taken; the blocks that it completes."""
        if isinstance(message, NOTED):
            yield from self.flush()
            yield pack_alone(NOTE, self._next(), self._recording_state.time_ns, frames([message]))
        elif self._segment is None:
            if isinstance(message, Tick) and self._recording_state.counted:
                yield self._begin()
        else:
            self._pending.append(message)
            if isinstance(message, Tick):
                yield from self.flush()
                if self._is_due:
                    yield self._begin()

    def flush(self) -> Iterator[bytes]:
        """Messages that are in no block yet; before the first census, what is known."""
        if self._segment is None:
            yield self._begin()
        elif self._pending:
            kind = COUNT if any(isinstance(message, Census) for message in self._pending) else TICK
            content = frames(self._pending)
            self._pending = []
            block = self._segment.pack(kind, self._next(), self._recording_state.time_ns, content)
            self._blocks += 1
            self._bytes += len(block)
            yield block

    @property
    def _is_due(self) -> bool:
        """Whether it is time for another segment: rarely enough that KEYs are not most of the file."""
        old = self._recording_state.time_ns - self._key_ns >= SEGMENT_SECONDS * 1_000_000_000
        large = self._blocks >= LEAST_BLOCKS and self._bytes >= self._key_bytes
        return old or large or self._blocks >= SEGMENT_BLOCKS or self._bytes >= self._most

    def _begin(self) -> bytes:
        """A KEY."""
        now = self._recording_state.time_ns or self._hello.time_ns
        about = replace(self._about, time_ns=now, wall=self._wall())
        content = frames([about, self._hello, *self._recording_state.state()])
        self._segment = SegmentCodec(content)
        self._key_ns, self._blocks, self._bytes = now, 0, 0
        block = pack_alone(KEY, self._next(), now, content)
        self._key_bytes = len(block)
        return block

    def _next(self) -> int:
        self._number += 1
        return self._number
