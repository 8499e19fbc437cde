"""Reads a recording: which moments it has, and what was said up to one of them.

This module never changes a file, and never believes it: a block that is not as it was written is left out, and with it
what can only be understood by it; :attr:`Recording.damage` says so. The file may be one that is still being written:
what comes later is not seen.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import BinaryIO, Final
from zlib import crc32

from heaptop.errors import NotARecording, ProtocolError
from heaptop.protocol.findings import NOTED, Findings
from heaptop.protocol.messages import Census, Hello, Memory, Message, Tick, Traced, Types
from heaptop.protocol.recorded import About
from heaptop.protocol.registry import RECORDED
from heaptop.protocol.source import Attached, Event, Received, Rewound, TargetInfo, Told
from heaptop.recordings.format import (
    COUNT,
    FRAME_BEGIN,
    HEAD_BYTES,
    KEY,
    MAX_HEADER,
    NOTE,
    Head,
    Segment,
    content_size,
    find_head,
    key_dictionary,
    messages,
    unpack_alone,
    unpack_header,
)

PAST: Final = 200
"""Moments of the whole recording of which one that is shown tells the censuses before its own segment."""
MOST_PAST: Final = 2 << 20
"""Bytes of these censuses, unpacked: fewer moments where each has many types, as all have to be taken in."""
MOST_KEPT: Final = 8 << 20
"""Bytes of these that are kept for the next moment: what is larger is unpacked again."""
MOST_COUNTED: Final = 1 << 20
"""As :data:`MOST_PAST`, of the segment's own, where nobody asks for all of them."""
_CHUNK: Final = 1 << 20
_SPREAD: Final = (Census, Tick, Memory)
"""What is told of moments before the segment of the one that is shown."""
_UNCOUNTED: Final = tuple(kind for kind in RECORDED if kind not in (Census, Traced))


@dataclass(frozen=True, slots=True)
class Block:
    """A block that is whole, and what it needs is there."""

    at: int
    """Where its payload begins."""
    head: Head
    key: int
    """Position of its segment's KEY among the blocks."""
    whole_from: int
    """Position of the first KEY from which on no block is missing up to this one."""


class Recording:
    """A file, open to be read. Close it, or use it as a context manager."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        """Errors: NotARecording, RecordingTooNew."""
        self.path = path
        self._file = file
        self.about, begin = unpack_header(file.read(MAX_HEADER), path)
        """Of whom it is, and when it began."""
        self.size = os.fstat(file.fileno()).st_size
        """Bytes."""
        self._blocks, self._damage = _index(file, begin, self.size)
        if all(block.head.kind == NOTE for block in self._blocks):
            raise NotARecording(
                f"The recording {path} holds no moment.",
                why="It was ended before anything was known of the process, or nothing of it is whole.",
            )
        self._times = [block.head.time_ns for block in self._blocks]
        self._shown = [place for place, block in enumerate(self._blocks) if block.head.kind != NOTE]
        """Positions of what can be shown."""
        self._segment = lru_cache(8)(self._open_segment)
        self._past: dict[int, tuple[Message, ...]] = {}
        self._past_bytes = 0
        """Of the COUNTs among them, unpacked."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Recording:
        """Errors: NotARecording, also where there is no such file or it cannot be read; RecordingTooNew."""
        try:
            file = Path(path).open("rb")  # noqa: SIM115 - the recording closes it
        except OSError as error:
            raise NotARecording(f"{path} cannot be read: {error.strerror}.") from error
        try:
            return cls(file, str(path))
        except BaseException as error:
            file.close()
            if isinstance(error, OSError):  # of a directory, or a disk that fails
                raise NotARecording(f"{path} cannot be read: {error.strerror}.") from error
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def moments(self) -> Sequence[int]:
        """Times of all that can be shown, ascending, each once, on the target's clock."""
        return self._moments

    @cached_property
    def _moments(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self._times[place] for place in self._shown))

    @property
    def first_ns(self) -> int:
        return self._moments[0]

    @property
    def last_ns(self) -> int:
        return self._moments[-1]

    @property
    def findings(self) -> tuple[Findings, ...]:
        """What leak hunts came to, oldest first."""
        notes = (self._notes(block) for block in self._blocks if block.head.kind == NOTE)
        return tuple(note for found in notes for note in found if isinstance(note, Findings))

    @property
    def damage(self) -> tuple[str, ...]:
        """What of the file is not as it was written: sentences without their full stops."""
        return tuple(self._damage)

    @property
    def thinned(self) -> bool:
        """Whether older ticks were left out while it was made, to stay within its largest size."""
        return self.about.thinned

    def wall(self, time_ns: int) -> float:
        """Seconds since 1970 of a time on the target's clock, by the last that was said of it before."""
        about = self._about(self._blocks[self._position(time_ns)])
        return about.wall + (time_ns - about.time_ns) / 1e9

    # -- what was said ---------------------------------------------------------------------------------------

    def events(self, until: int | None = None, since: int | None = None) -> Iterator[Event]:
        """What a source would have delivered to show the last moment up to ``until`` (or the first, or else the last of
        all): Attached, Rewound, what there is to know of it, and Told. All that was said since a moment up to ``since``
        (or else the last with a KEY) is told; where something is missing in between, all that was said after that."""
        shown = self._position(until)
        block, begin = self._blocks[shown], self._begin(shown, since)
        first = self._blocks[begin]
        said = list(messages(self._key_content(first)))
        about = next((message for message in said if isinstance(message, About)), self.about)
        for hello in said:
            if isinstance(hello, Hello):
                yield Attached(target_of(about), hello, about.backend, about.stopped_ns)
        time_ns = block.head.time_ns
        yield Rewound(time_ns, self.first_ns, self.last_ns, first.head.time_ns, self.wall(time_ns))
        for message in self._replay(shown, begin, said, all_counted=since is not None):
            yield Received(message)
        yield Told()

    def _replay(self, shown: int, begin: int, said: Sequence[Message], *, all_counted: bool) -> Iterator[Message]:
        """What one who knows nothing has to be told to know the moment ``shown``, in the order of time:

        - the types, and censuses, ticks and answers about memory of some moments spread over all the time before;
        - what was known at the KEY ``begin``, as one piece: ``said`` is what it says;
        - all that was said from then on, but for some censuses where these are large and not ``all_counted``.
        """
        yield from (message for message in said if isinstance(message, Types))
        told: dict[type[Message], int] = {}
        last: dict[type[Message], int] = {type(one): one.time_ns for one in said if isinstance(one, _SPREAD)}
        for position in self._before[: bisect_left(self._before, begin)]:
            if self._blocks[position].head.kind == NOTE:
                yield from self._notes(self._blocks[position])
            else:
                yield from _newer(self._past_of(position), told, last)
        yield from (message for message in said if not isinstance(message, (About, Hello, Types, *_SPREAD)))
        yield from _newer(said, told)
        blocks = self._blocks[begin + 1 : bisect_right(self._times, self._times[shown])]
        counted = [block for block in blocks if block.head.kind == COUNT]
        step = 1 if all_counted else 1 + sum(map(self._content_size, counted)) // MOST_COUNTED
        left_out = set(counted).difference(counted[::-step])
        for block in blocks:
            if block.head.kind == NOTE:
                yield from self._notes(block)
            elif block.head.kind != KEY:
                yield from messages(self._content(block), _UNCOUNTED if block in left_out else RECORDED)

    def _notes(self, block: Block) -> Iterator[Message]:
        return messages(unpack_alone(self._payload(block)), NOTED)

    def _position(self, until: int | None) -> int:
        """Of the last block up to then that can be shown, or else the first."""
        if until is None:
            return self._shown[-1]
        return self._shown[max(bisect_right(self._shown, until, key=self._times.__getitem__) - 1, 0)]

    def _begin(self, shown: int, since: int | None) -> int:
        """Position of the KEY to begin with."""
        block = self._blocks[shown]
        if since is None:
            return block.key
        return max(self._blocks[self._position(min(since, block.head.time_ns))].key, block.whole_from)

    # -- the past --------------------------------------------------------------------------------------------

    @cached_property
    def _before(self) -> tuple[int, ...]:
        """Positions of what is told of the time before a segment: notes, and some blocks with a census in them, spread
        evenly over the whole time."""
        notes = {place for place, block in enumerate(self._blocks) if block.head.kind == NOTE}
        counted = [place for place, block in enumerate(self._blocks) if block.head.kind in (KEY, COUNT)]
        times = [self._times[place] for place in counted]
        span, some = self.last_ns - self.first_ns, [block for block in self._blocks if block.head.kind == COUNT]
        largest = max((self._content_size(block) for block in some[:: 1 + len(some) // 8]), default=0)
        number = min(PAST, 2 + MOST_PAST // max(largest, 1))
        wanted = (self.first_ns + span * i // number for i in range(number))
        return tuple(sorted(notes | {counted[bisect_left(times, each)] for each in wanted if each <= times[-1]}))

    def _past_of(self, position: int) -> tuple[Message, ...]:
        """Its census and tick, and an answer about memory where there is one."""
        known = self._past.get(position)
        if known is None:
            block = self._blocks[position]
            is_key = block.head.kind == KEY
            content = self._segment(block.key)[1] if is_key else self._content(block)
            known = tuple(messages(content, _SPREAD))
            size = self._past_bytes + (0 if is_key else len(content))
            if size <= MOST_KEPT:
                self._past[position], self._past_bytes = known, size
        return known

    # -- blocks ----------------------------------------------------------------------------------------------

    def _about(self, block: Block) -> About:
        """How the clock stood at the beginning of its segment."""
        said = messages(self._segment(block.key)[1], (About,))
        return next((about for about in said if isinstance(about, About)), self.about)

    def _open_segment(self, key: int) -> tuple[Segment, bytes]:
        dictionary = key_dictionary(self._payload(self._blocks[key]))
        return Segment(dictionary), dictionary

    def _content(self, block: Block) -> bytes:
        """Of a TICK or COUNT."""
        return self._segment(block.key)[0].unpack(self._payload(block))

    def _content_size(self, block: Block) -> int:
        """How long it is, as its beginning says."""
        return content_size(self._read(min(block.head.length, FRAME_BEGIN), block.at))

    def _key_content(self, block: Block) -> bytes:
        return unpack_alone(self._payload(block))

    def _payload(self, block: Block) -> bytes:
        """Errors: ProtocolError, where it is no longer what it was when the file was opened."""
        payload = self._read(block.head.length, block.at)
        if crc32(payload) != block.head.crc:
            raise ProtocolError(f"The recording {self.path} was changed while it was read.")
        return payload

    def _read(self, length: int, at: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), length, at)
        except OSError as error:
            raise NotARecording(f"{self.path} cannot be read: {error.strerror}.") from error


def target_of(about: About) -> TargetInfo:
    """Of whom a recording is."""
    return TargetInfo(about.pid, about.command, about.python, about.user, about.note)


def _newer(
    said: Iterable[Message], told: dict[type[Message], int], last: dict[type[Message], int] | None = None
) -> Iterator[Message]:
    """Of these, what is spread over all the time and is newer than the newest told: KEYs say the last ones again. Those
    as late as ``last`` are left to the KEY, which first says what was sampled by then."""
    for message in said:
        if not isinstance(message, _SPREAD):
            continue
        kind, time_ns = type(message), message.time_ns
        if time_ns > told.get(kind, -1) and (last is None or time_ns < last.get(kind, time_ns + 1)):
            told[kind] = time_ns
            yield message


# -- the index ----------------------------------------------------------------------------------------------


def _index(file: BinaryIO, begin: int, end: int) -> tuple[list[Block], list[str]]:
    """All blocks that can be used, and what is damaged."""
    blocks: list[Block] = []
    damage: list[str] = []
    key, whole_from, number, last_ns = -1, -1, 0, 0
    for at, head in _heads(file, begin, end, damage):
        follows = key >= 0 and head.number == number + 1
        number = head.number
        if head.time_ns < last_ns:
            damage.append("a block is older than the one before it")
            key = -1
            continue
        if head.kind == KEY:
            key = len(blocks)
            whole_from = whole_from if follows else key
        elif not follows:
            key = -1  # it cannot be understood, nor what comes after it
        if key >= 0 or head.kind == NOTE:
            last_ns = head.time_ns
            blocks.append(Block(at, head, key, whole_from))
    return blocks, damage


def _heads(file: BinaryIO, begin: int, end: int, damage: list[str]) -> Iterator[tuple[int, Head]]:
    """Blocks whose payload is whole, and where these begin; what is not is said in ``damage``."""
    file.seek(begin)
    at = begin
    while at < end:
        head = Head.unpack(file.read(HEAD_BYTES))
        payload = file.read(head.length) if head is not None else b""
        if head is not None and len(payload) == head.length and crc32(payload) == head.crc:
            yield at + HEAD_BYTES, head
            at += HEAD_BYTES + head.length
            continue
        following = _next_head(file, at + 1, end)
        if following is None:
            damage.append(f"the last {end - at:,} bytes are not whole: it was cut, or is still being written")
            return
        damage.append(f"{following - at:,} bytes from byte {at:,} on are not as they were written")
        at = following
        file.seek(at)


def _next_head(file: BinaryIO, begin: int, end: int) -> int | None:
    """Where the next head begins, from there on."""
    at = begin
    while at < end:
        file.seek(at)
        data = file.read(_CHUNK + HEAD_BYTES)
        place = find_head(data, 0)
        while 0 <= place < _CHUNK:
            if Head.unpack(data[place : place + HEAD_BYTES]) is not None:
                return at + place
            place = find_head(data, place + 1)
        at += _CHUNK
    return None
