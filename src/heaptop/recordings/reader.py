"""Reads a recording: which moments it has, and the messages up to one of them.

A block that is not as it was written is left out, and with it what can only be understood by it;
:attr:`Recording.damage` says so. The file may be one that is still being written: what comes later is not seen.
"""

from __future__ import annotations

import os
import stat
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, overload
from zlib import crc32

from heaptop.errors import NotARecording, ProtocolError, RecordingTooLarge, os_reason
from heaptop.protocol.findings import NOTED, Findings
from heaptop.protocol.messages import BIRTH, Census, Hello, Memory, Message, Samples, Tick, Traced, Types
from heaptop.protocol.recorded import RecordingInfo
from heaptop.protocol.registry import RECORDED
from heaptop.protocol.source import Attached, Event, Received, Seek, SeekDone, TargetInfo
from heaptop.recordings.allowance import Allowance
from heaptop.recordings.format import (
    COUNT,
    FRAME_BEGIN,
    HEAD_BYTES,
    KEY,
    MAX_HEADER,
    NOTE,
    BlockHeader,
    SegmentCodec,
    content_size,
    find_head,
    key_dictionary,
    messages,
    unpack_alone,
    unpack_header,
)

PAST: Final = 200  # Moments of the whole recording of which one that is shown tells the censuses before its own segment
MOST_PAST: Final = 2 << 20
"""Bytes of these censuses, unpacked: fewer moments where each has many types, as all have to be taken in."""
MOST_KEPT: Final = 8 << 20  # Bytes of their frames that are kept for the next moment; the others are unpacked again
MOST_COUNTED: Final = 1 << 20  # As MOST_PAST, of the segment's own, where not all of them are asked for
MOST_BLOCKS: Final = 1 << 22  # A month and a half of a tick and a census each second, and nothing left out
MOST_DAMAGE: Final = 20  # Damaged places that are listed one by one
_CHUNK: Final = 1 << 20
_WASTE: Final = 2
"""Times the file's size that is read of blocks that turn out damaged: where one head is in the payload of another,
each would be read again and again."""
_ROW: Final = 26  # Bytes that a row of the table of living blocks takes while it grows
_SPREAD: Final = (Census, Tick, Memory)  # The moments before the segment of the one that is shown
_UNCOUNTED: Final = tuple(kind for kind in RECORDED if kind not in (Census, Traced))


@dataclass(frozen=True, slots=True)
class Block:
    """A block that is whole, and what it needs is there."""

    at: int  # Where its payload begins
    head: BlockHeader
    key: int  # Position of its segment's KEY among the blocks
    whole_from: int  # Position of the first KEY from which on no block is missing up to this one


class Recording:
    """A file, open to be read. Close it, or use it as a context manager."""

    def __init__(self, fd: int, path: str) -> None:
        """``fd`` is a regular file's, and closed by :meth:`close`. Errors: NotARecording, RecordingTooNew,
        CodecMissing, RecordingTooLarge."""
        self.path = path
        self._fd = fd
        self.about, self._codec, begin = unpack_header(os.pread(fd, MAX_HEADER, 0), path)
        """Of whom it is, and when it began."""
        self.size = os.fstat(fd).st_size  # Bytes; what is appended later is not seen
        self._blocks, self._damage = _index(fd, begin, self.size, path)
        if all(kind == NOTE for kind in self._blocks.kinds):
            raise NotARecording(
                f"The recording {path} is empty.",
                why="It was stopped before the first data arrived, or all of it is damaged.",
            )
        self._times = self._blocks.times
        self._shown = array("I", (place for place, kind in enumerate(self._blocks.kinds) if kind != NOTE))
        """Positions of what can be shown."""
        self._segment = lru_cache(8)(self._open_segment)
        self._past: dict[int, tuple[Message, ...]] = {}
        self._past_bytes = 0  # Of their frames

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Recording:
        """Errors: NotARecording, also where there is no such file or it cannot be read; RecordingTooNew;
        CodecMissing."""
        try:
            # Looked at first: opening a device may do something, and opening a pipe waits.
            _check_regular(path, os.stat(path))
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise NotARecording(f"{path} cannot be read: {os_reason(error)}.") from error
        try:
            _check_regular(path, os.fstat(fd))
            return cls(fd, str(path))
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError):  # of a disk that fails
                raise NotARecording(f"{path} cannot be read: {error.strerror}.") from error
            raise

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

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
        """The findings of leak hunts, oldest first."""
        allowance = self._allowance()
        notes = (self._notes(self._blocks[place], allowance) for place in self._blocks.of(NOTE))
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
        """Seconds since 1970 of a time on the target's clock, by the last header before."""
        about = self._about(self._blocks[self._position(time_ns)])
        return about.wall + (time_ns - about.time_ns) / 1e9

    # -- messages --------------------------------------------------------------------------------------------

    def events(self, until: int | None = None, since: int | None = None) -> Iterator[Event]:
        """The events that show the last moment up to ``until`` (or the first, or else the last of all): Attached, Seek,
        the state at that moment, and SeekDone. Messages are replayed from the last moment up to ``since`` on (or else
        from the last one with a KEY); where some are missing in between, from the gap on."""
        allowance = self._allowance()
        shown = self._position(until)
        block, begin = self._blocks[shown], self._begin(shown, since)
        first = self._blocks[begin]
        said = list(messages(self._key_content(first, allowance), take=allowance.decode))
        about = next((message for message in said if isinstance(message, RecordingInfo)), self.about)
        for hello in said:
            if isinstance(hello, Hello):
                yield Attached(target_of(about), hello, about.backend, about.stopped_ns)
        time_ns = block.head.time_ns
        yield Seek(time_ns, self.first_ns, self.last_ns, first.head.time_ns, self.wall(time_ns))
        for message in self._replay(shown, begin, said, allowance, all_counted=since is not None):
            _check_room(message, allowance)
            yield Received(message)
            allowance.check()
        yield SeekDone()

    def _replay(
        self, shown: int, begin: int, said: Sequence[Message], allowance: Allowance, *, all_counted: bool
    ) -> Iterator[Message]:
        """The messages that lead a reader who knows nothing to the moment ``shown``, in the order of time:

        - the types, and censuses, ticks and answers about memory of some moments spread over all the time before;
        - what was known at the KEY ``begin``, as one piece: ``said`` is its messages;
        - all messages from then on, but for some censuses where these are large and not ``all_counted``.
        """
        yield from (message for message in said if isinstance(message, Types))
        told: dict[type[Message], int] = {}
        last: dict[type[Message], int] = {type(one): one.time_ns for one in said if isinstance(one, _SPREAD)}
        for position in self._before[: bisect_left(self._before, begin)]:
            if self._blocks[position].head.kind == NOTE:
                yield from self._notes(self._blocks[position], allowance)
            else:
                yield from _newer(self._past_of(position, allowance), told, last)
        yield from (message for message in said if not isinstance(message, (RecordingInfo, Hello, Types, *_SPREAD)))
        yield from _newer(said, told)
        kinds, end = self._blocks.kinds, bisect_right(self._times, self._times[shown])
        counted = [place for place in range(begin + 1, end) if kinds[place] == COUNT]
        size = sum(self._content_size(self._blocks[place]) for place in counted) if not all_counted else 0
        left_out = set(counted).difference(counted[:: -(1 + size // MOST_COUNTED)])
        for place in range(begin + 1, end):
            if kinds[place] == NOTE:
                yield from self._notes(self._blocks[place], allowance)
            elif kinds[place] != KEY:
                content = self._content(self._blocks[place], allowance)
                yield from messages(content, _UNCOUNTED if place in left_out else RECORDED, allowance.decode)

    def _allowance(self) -> Allowance:
        return Allowance(self.path, self.size)

    def _notes(self, block: Block, allowance: Allowance) -> Iterator[Message]:
        content = unpack_alone(self._codec, self._packed(block, allowance), allowance.content)
        return messages(content, NOTED, allowance.decode)

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
        """Positions of what is read of the time before a segment: notes, and some blocks with a census in them, spread
        evenly over the whole time."""
        notes, some = {*self._blocks.of(NOTE)}, array("I", self._blocks.of(COUNT))
        counted = array("I", self._blocks.of(KEY, COUNT))
        times = array("Q", map(self._times.__getitem__, counted))
        span = self.last_ns - self.first_ns
        sizes = (self._content_size(self._blocks[place]) for place in some[:: 1 + len(some) // 8])
        largest = max(sizes, default=0)
        number = min(PAST, 2 + MOST_PAST // max(largest, 1))
        wanted = (self.first_ns + span * i // number for i in range(number))
        return tuple(sorted(notes | {counted[bisect_left(times, each)] for each in wanted if each <= times[-1]}))

    def _past_of(self, position: int, allowance: Allowance) -> tuple[Message, ...]:
        """Its census and tick, and an answer about memory where there is one."""
        known = self._past.get(position)
        if known is None:
            block = self._blocks[position]
            is_key = block.head.kind == KEY
            content = self._segment(block.key)[1] if is_key else self._content(block, allowance)
            lengths: list[int] = []

            def take(length: int) -> None:
                lengths.append(length)
                allowance.decode(length)

            known = tuple(messages(content, _SPREAD, take))
            size = self._past_bytes + sum(lengths)
            if size <= MOST_KEPT:
                self._past[position], self._past_bytes = known, size
        return known

    # -- blocks ----------------------------------------------------------------------------------------------

    def _about(self, block: Block) -> RecordingInfo:
        """The clock at the beginning of its segment."""
        said = messages(self._segment(block.key)[1], (RecordingInfo,))
        return next((about for about in said if isinstance(about, RecordingInfo)), self.about)

    def _open_segment(self, key: int) -> tuple[SegmentCodec, bytes]:
        dictionary = key_dictionary(self._codec, self._payload(self._blocks[key]))
        return SegmentCodec(dictionary, self._codec), dictionary

    def _content(self, block: Block, allowance: Allowance | None = None) -> bytes:
        """Of a TICK or COUNT."""
        allowance = allowance or self._allowance()
        return self._segment(block.key)[0].unpack(self._packed(block, allowance), allowance.content)

    def _content_size(self, block: Block) -> int:
        """Its length, by its beginning."""
        return content_size(self._codec, self._read(min(block.head.length, FRAME_BEGIN), block.at))

    def _key_content(self, block: Block, allowance: Allowance) -> bytes:
        return unpack_alone(self._codec, self._packed(block, allowance), allowance.content)

    def _packed(self, block: Block, allowance: Allowance) -> bytes:
        """The payload of one that may be unpacked."""
        payload = self._payload(block)
        allowance.unpack(content_size(self._codec, payload))
        return payload

    def _payload(self, block: Block) -> bytes:
        """Errors: NotARecording, where it is no longer what it was when the file was opened."""
        payload = self._read(block.head.length, block.at)
        if crc32(payload) != block.head.crc:
            raise self._changed()
        return payload

    def _read(self, length: int, at: int) -> bytes:
        try:
            found = os.pread(self._fd, length, at)
        except OSError as error:
            raise NotARecording(f"{self.path} cannot be read: {error.strerror}.") from error
        if len(found) < length:
            raise self._changed()
        return found

    def _changed(self) -> NotARecording:
        return NotARecording(
            f"The recording {self.path} was changed while it was read.",
            why="It was truncated or overwritten after it was opened.",
            fix=f"Open it again: `heaptop open {self.path}`.",
        )


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Name the file where what is read in it does not fit."""
    try:
        yield
    except ProtocolError as error:
        raise error.of_a_file(path) from error


def _check_regular(path: str | os.PathLike[str], status: os.stat_result) -> None:
    """Raise NotARecording for what is no file: a pipe waits for its writer, a device may have no end."""
    if stat.S_ISDIR(status.st_mode):
        raise NotARecording(f"{path} cannot be read: Is a directory.")
    if not stat.S_ISREG(status.st_mode):
        raise NotARecording(f"{path} cannot be read: it is not a regular file.")


def _check_room(message: Message, allowance: Allowance) -> None:
    """A birth of a high number makes room for all below it: refuse it before whoever takes it does."""
    if isinstance(message, Samples) and message.births and len(message.births) % BIRTH.size == 0:
        allowance.check(_ROW * max(birth[0] for birth in BIRTH.iter_unpack(message.births)))


def target_of(about: RecordingInfo) -> TargetInfo:
    """Of whom a recording is."""
    return TargetInfo(about.pid, about.command, about.python, about.user, about.note)


def _newer(
    said: Iterable[Message], told: dict[type[Message], int], last: dict[type[Message], int] | None = None
) -> Iterator[Message]:
    """Of these, what is spread over all the time and is newer than the newest told: KEYs repeat the last ones. Those
    as late as ``last`` are left to the KEY, which first has what was sampled by then."""
    for message in said:
        if not isinstance(message, _SPREAD):
            continue
        kind, time_ns = type(message), message.time_ns
        if time_ns > told.get(kind, -1) and (last is None or time_ns < last.get(kind, time_ns + 1)):
            told[kind] = time_ns
            yield message


# -- the index ----------------------------------------------------------------------------------------------


class Index(Sequence[Block]):
    """Blocks as columns: there may be millions of them, of a few bytes each."""

    def __init__(self) -> None:
        self.kinds = array("B")
        self.times = array("Q")
        self._at = array("Q")
        self._numbers = array("I")
        self._lengths = array("I")
        self._crcs = array("I")
        self._keys = array("i")
        self._whole_from = array("i")

    def append(self, at: int, head: BlockHeader, key: int, whole_from: int) -> None:
        self.kinds.append(head.kind)
        self.times.append(head.time_ns)
        self._at.append(at)
        self._numbers.append(head.number)
        self._lengths.append(head.length)
        self._crcs.append(head.crc)
        self._keys.append(key)
        self._whole_from.append(whole_from)

    def of(self, *kinds: int) -> Iterator[int]:
        """Positions of blocks of these kinds."""
        return (place for place, kind in enumerate(self.kinds) if kind in kinds)

    def __len__(self) -> int:
        return len(self.kinds)

    @overload
    def __getitem__(self, place: int) -> Block: ...
    @overload
    def __getitem__(self, place: slice) -> list[Block]: ...
    def __getitem__(self, place: int | slice) -> Block | list[Block]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        head = BlockHeader(
            self.kinds[place], self._numbers[place], self.times[place], self._lengths[place], self._crcs[place]
        )
        return Block(self._at[place], head, self._keys[place], self._whole_from[place])


class _Damage(list[str]):
    """Sentences, of which not more are kept than anybody reads."""

    def __init__(self) -> None:
        self.more = 0

    def append(self, sentence: str) -> None:
        if len(self) < MOST_DAMAGE:
            super().append(sentence)
        else:
            self.more += 1


def _index(fd: int, begin: int, end: int, path: str) -> tuple[Index, list[str]]:
    """All blocks that can be used, and what is damaged. Errors: RecordingTooLarge."""
    blocks, damage = Index(), _Damage()
    key, whole_from, number, last_ns = -1, -1, 0, 0
    for at, head in _heads(_Window(fd, end), begin, end, damage):
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
            if len(blocks) >= MOST_BLOCKS:
                raise RecordingTooLarge(f"The recording {path} has more than {MOST_BLOCKS:,} blocks.")
            last_ns = head.time_ns
            blocks.append(at, head, key, whole_from)
    if damage.more:
        list.append(damage, f"and {damage.more:,} more places are damaged")
    return blocks, damage


class _Window:
    """A file up to ``end``, a piece of which is kept: who goes through it reads it once."""

    def __init__(self, fd: int, end: int) -> None:
        self._fd = fd
        self._end = end
        self._begin = 0
        self._piece = b""

    def read(self, at: int, length: int) -> bytes:
        """So many bytes, a piece at most; fewer at the end."""
        if not self._begin <= at <= at + length <= self._begin + len(self._piece):
            self._begin, self._piece = at, os.pread(self._fd, min(_CHUNK, self._end - at), at)
        return self._piece[at - self._begin : at - self._begin + length]

    def find(self, at: int) -> int:
        """Where a head may begin in what is kept, from there on; -1 where none does."""
        place = find_head(self._piece, at - self._begin)
        return place if place < 0 else self._begin + place

    @property
    def next(self) -> int:
        """What comes after what is kept."""
        return self._begin + len(self._piece)

    def crc(self, at: int, length: int) -> int:
        """Of so many bytes; of fewer where the file has become shorter."""
        found = 0
        for place in range(at, at + length, _CHUNK):
            found = crc32(self.read(place, min(_CHUNK, at + length - place)), found)
        return found


def _heads(window: _Window, begin: int, end: int, damage: list[str]) -> Iterator[tuple[int, BlockHeader]]:
    """Blocks whose payload is whole, and where these begin; what is not is listed in ``damage``."""
    at, wasted = begin, 0
    while at < end:
        head = BlockHeader.unpack(window.read(at, HEAD_BYTES))
        payload = at + HEAD_BYTES
        if head is not None and payload + head.length <= end:
            if window.crc(payload, head.length) == head.crc:
                yield payload, head
                at = payload + head.length
                continue
            wasted += head.length
        following = _next_head(window, at + 1, end) if wasted <= _WASTE * end else None
        if following is None:
            damage.append(f"the last {end - at:,} bytes are incomplete: it was truncated, or is still being written")
            return
        damage.append(f"{following - at:,} bytes from byte {at:,} on are damaged")
        at = following


def _next_head(window: _Window, begin: int, end: int) -> int | None:
    """Where the next head begins, from there on."""
    at = begin
    while at + HEAD_BYTES <= end:
        if not window.read(at, HEAD_BYTES):
            return None  # it has become shorter
        place = window.find(at)
        if place < 0:
            at = max(window.next - HEAD_BYTES + 1, at + 1)
        elif BlockHeader.unpack(window.read(place, HEAD_BYTES)) is not None:
            return place
        else:
            at = place + 1
    return None
