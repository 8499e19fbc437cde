"""The file of a recording: a header, then blocks, each whole or not there.

Bytes become heads and frames, and these bytes. Of messages it refuses what cannot be.

::

    header   magic, format version, codec, length, crc32 │ About, as a message
    block    magic, kind, number, length, crc32, time, crc32 of all that │ payload: frames, compressed by the codec
      KEY    all that was known at its time, so that nothing before it is needed: a segment begins
      TICK   the messages since the block before, up to its time; compressed with the segment's KEY for a dictionary
      COUNT  a TICK with a census in it
      NOTE   what heaptop itself found; needs no KEY

A block needs no other than the KEY of its segment to be decompressed, and those between to be understood. It is written
in one piece, appended and never changed; so whatever ends the writing, all blocks but the last one are whole.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final
from zlib import crc32

from heaptop.errors import CodecMissing, HeaptopError, NotARecording, ProtocolError, RecordingTooNew
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.findings import Findings
from heaptop.protocol.framing import HEADER, check_length, frame
from heaptop.protocol.messages import Message
from heaptop.protocol.recorded import RecordingInfo
from heaptop.protocol.registry import RECORDED
from heaptop.recordings import compression
from heaptop.recordings.compression import Codec, Read

FORMAT: Final = 2  # Raised when an older reader would misunderstand; kinds of messages that it does not know it skips
WITH_ZSTD: Final = 1
"""The format of recordings whose codec is zstd: the same but for the codec, which format 1 does not name."""

KEY: Final = 1
TICK: Final = 2
COUNT: Final = 3
NOTE: Final = 4
KINDS: Final = (KEY, TICK, COUNT, NOTE)

_MAGIC: Final = b"heaptop\x1a"
_HEADER: Final = struct.Struct("<8sHBxII")
_BLOCK: Final = b"\xf5blk"
_HEAD: Final = struct.Struct("<4sBxxxIIIQ")
_CRC: Final = struct.Struct("<I")
HEAD_BYTES: Final = _HEAD.size + _CRC.size

MAX_HEADER: Final = 1 << 20
MAX_PAYLOAD: Final = 64 << 20
"""Bytes of a block, packed: more is taken for damage. The writer ends before a larger one."""
MAX_CONTENT: Final = 256 << 20  # Bytes of a block, unpacked, where whoever reads it sets no lower limit

FRAME_BEGIN: Final = 18  # Bytes of a payload that hold the length of its content, at most (those of zstd)

MOST_WALL: Final = 1 << 35
"""Seconds since 1970 that no recording has: a thousand years hence, and any moment of it is one a calendar has."""

DICTIONARY: Final = 1 << 18
"""Bytes of a KEY's content that its segment is compressed with: what is repeated most is first in it."""

_PAIR: Final = 0x92
_SHORT_TEXT: Final = 0xA0  # How msgpack begins an array of two, and a text of up to 31 bytes
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """What is before a block's payload."""

    kind: int
    number: int  # Blocks are numbered one by one: where a number is left out, a block is
    time_ns: int  # The target's clock when it was written
    length: int  # Bytes of the payload
    crc: int

    def pack(self) -> bytes:
        head = _HEAD.pack(_BLOCK, self.kind, self.number, self.length, self.crc, self.time_ns)
        return head + _CRC.pack(crc32(head))

    @classmethod
    def unpack(cls, data: bytes) -> BlockHeader | None:
        """From :data:`HEAD_BYTES` bytes; None where they are no whole head."""
        if len(data) != HEAD_BYTES or _CRC.unpack_from(data, _HEAD.size)[0] != crc32(data[: _HEAD.size]):
            return None
        magic, kind, number, length, crc, time_ns = _HEAD.unpack_from(data)
        if magic != _BLOCK or kind not in KINDS or length > MAX_PAYLOAD or time_ns >= 1 << 63:
            return None
        return cls(kind, number, time_ns, length, crc)


def find_head(data: bytes, begin: int) -> int:
    """Where a head may begin in there, from this place on; -1 where none does."""
    return data.find(_BLOCK, begin)


def pack_header(about: RecordingInfo) -> bytes:
    """The header of a recording that is compressed with the best codec of this Python."""
    payload, codec = encode(about), compression.BEST.number
    version = FORMAT if codec else WITH_ZSTD
    return _HEADER.pack(_MAGIC, version, codec, len(payload), crc32(payload)) + payload


def unpack_header(data: bytes, name: str) -> tuple[RecordingInfo, Codec, int]:
    """Of whom the recording is, its codec, and how long its header is; ``data`` is the beginning of the file ``name``.

    Raises:
        NotARecording: it is something else, or not even the header is whole.
        RecordingTooNew: a newer heaptop has written it.
        CodecMissing: this Python cannot decompress it.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        raise NotARecording(f"{name} is not a heaptop recording.")
    if len(data) < _HEADER.size:
        raise NotARecording(f"The recording {name} is damaged at its start.")
    _, version, codec, length, crc = _HEADER.unpack_from(data)
    if version > FORMAT:
        raise RecordingTooNew(f"The recording {name} has format {version}; this heaptop reads up to {FORMAT}.")
    payload = data[_HEADER.size : _HEADER.size + length]
    if len(payload) < length or length > MAX_HEADER or crc32(payload) != crc:
        raise NotARecording(f"The recording {name} is damaged at its start.")
    try:
        about = decode(payload, (RecordingInfo,))
        if about is not None:
            _check(about)
    except ProtocolError as error:
        raise NotARecording(f"The header of the recording {name} cannot be read: {error.message}") from error
    if not isinstance(about, RecordingInfo):
        raise NotARecording(f"The header of the recording {name} names no process.")
    return about, codec_numbered(codec, f"recording {name}", RecordingTooNew), _HEADER.size + length


def codec_numbered(number: int, what: str, too_new: type[HeaptopError]) -> Codec:
    """The codec that the header of a file names; ``what`` the file is. Raises ``too_new``, CodecMissing."""
    if number == compression.ZLIB.number:
        return compression.ZLIB
    if number:
        raise too_new(f"The {what} is compressed in a way that this heaptop does not know.")
    if compression.ZSTD is None:
        raise CodecMissing(f"The {what} is compressed with zstd, which this Python cannot read.")
    return compression.ZSTD


class SegmentCodec:
    """What packs and unpacks the blocks of one segment: made of its KEY's content."""

    def __init__(self, content: bytes, codec: Codec | None = None) -> None:
        """Without ``codec`` it is the best of this Python, which packs."""
        self._dictionary = content[:DICTIONARY]
        self._codec = codec or compression.BEST
        self._pack: Callable[[bytes], bytes] | None = None
        self._opened = self._codec.decompressor(self._dictionary)

    def pack(self, kind: int, number: int, time_ns: int, content: bytes) -> bytes:
        """A whole TICK or COUNT."""
        if self._pack is None:
            self._pack = self._codec.compressor(self._dictionary)
        return _block(kind, number, time_ns, self._pack(content))

    def unpack(self, payload: bytes, limit: int = MAX_CONTENT) -> bytes:
        """The content of a TICK or COUNT, at most so many bytes. Errors: ProtocolError."""
        return unpacked(self._codec, self._opened, payload, limit)


def pack_alone(kind: int, number: int, time_ns: int, content: bytes) -> bytes:
    """A whole KEY or NOTE, packed by the best codec of this Python."""
    return _block(kind, number, time_ns, compression.BEST.compressor(b"")(content))


def unpack_alone(codec: Codec, payload: bytes, limit: int = MAX_CONTENT) -> bytes:
    """The content of a KEY or NOTE, at most so many bytes. Errors: ProtocolError."""
    return unpacked(codec, codec.decompressor(b""), payload, limit)


def key_dictionary(codec: Codec, payload: bytes) -> bytes:
    """What of a KEY the other blocks of its segment need, and its first messages. Errors: ProtocolError."""
    return b"".join(_pieces(codec, codec.decompressor(b""), payload, DICTIONARY))


def _block(kind: int, number: int, time_ns: int, payload: bytes) -> bytes:
    return BlockHeader(kind, number, time_ns, len(payload), crc32(payload)).pack() + payload


def unpacked(
    codec: Codec, opened: Callable[[bytes], Read], payload: bytes, limit: int, what: str = "recording"
) -> bytes:
    """The content of a payload, at most ``limit`` bytes; ``what`` is the file. It is unpacked piece by piece, so that
    memory is taken for what comes and not for what the payload claims. Errors: ProtocolError."""
    size = content_size(codec, payload, what)
    if size > limit:
        raise ProtocolError(f"A block of the {what} would be too large.")
    content = b"".join(_pieces(codec, opened, payload, size + 1, what))
    if len(content) != size:
        raise ProtocolError(f"A block of the {what} has the wrong length.")
    return content


def _pieces(
    codec: Codec, opened: Callable[[bytes], Read], payload: bytes, most: int, what: str = "recording"
) -> Iterator[bytes]:
    """The first bytes of a block's content, at most so many. Errors: ProtocolError."""
    try:
        read = opened(payload)
        while most and (piece := read(min(most, _PIECE))):
            yield piece
            most -= len(piece)
    except codec.errors as error:
        raise ProtocolError(f"A block of the {what} cannot be decompressed: {error}.") from error


def content_size(codec: Codec, payload: bytes, what: str = "recording") -> int:
    """Bytes of a block's content, as the first :data:`FRAME_BEGIN` of its payload say. Errors: ProtocolError."""
    try:
        size = codec.content_size(payload)
    except codec.errors as error:
        raise ProtocolError(f"A block of the {what} cannot be decompressed: {error}.") from error
    if not 0 <= size <= MAX_CONTENT:
        raise ProtocolError(f"A block of the {what} would be too large.")
    return size


def frames(messages: Sequence[Message]) -> bytes:
    """The content of a block."""
    return b"".join([frame(encode(message)) for message in messages])


def messages(
    content: bytes, kinds: Sequence[type[Message]] = RECORDED, take: Callable[[int], None] | None = None
) -> Iterator[Message]:
    """The messages of a block, of these kinds; of a block's beginning what is whole there. ``take`` is called with the
    length of each frame before it is decoded. Frames are bounded as on the wire; others are not decoded.

    Errors: ProtocolError.
    """
    at = 0
    wanted = {kind.KIND.encode() for kind in kinds}
    while at + HEADER <= len(content):
        length = int.from_bytes(content[at : at + HEADER], "big")
        check_length(length)
        begin, at = at + HEADER, at + HEADER + length
        if at > len(content):
            return
        if not _may_be(content, begin, wanted):
            continue
        if take is not None:
            take(length)
        message = decode(content[begin:at], kinds)
        if message is not None:
            _check(message)
            yield message


def _may_be(content: bytes, begin: int, kinds: Collection[bytes]) -> bool:
    """Whether a frame is of one of these kinds, or does not say its kind in the shortest form, as heaptop does."""
    head = content[begin : begin + 2]
    if len(head) < 2 or head[0] != _PAIR or not _SHORT_TEXT <= head[1] < _SHORT_TEXT + 32:
        return True
    return content[begin + 2 : begin + 2 + head[1] - _SHORT_TEXT] in kinds


def _check(message: Message) -> None:
    """Refuse what fits its fields and cannot be, where no one that takes it does. Errors: ProtocolError."""
    if isinstance(message, RecordingInfo) and not 0 <= message.wall < MOST_WALL:  # not a number is refused, too
        raise ProtocolError(f"The recording has an impossible start time: {message.wall} seconds after 1970.")
    if isinstance(message, Findings):
        if not message.marks:
            raise ProtocolError("A leak hunt without a mark is in the recording.")
        suspects = message.suspects
        figures = [figure for one in suspects for figure in (one.rate, one.byte_rate, one.site_share)]
        if not all(map(isfinite, [*figures, *(each.share for one in suspects for each in one.handlers)])):
            raise ProtocolError("A leak hunt in the recording has a figure that is not a number.")
