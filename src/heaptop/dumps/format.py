"""The file of a heap dump: a header, then blocks, each whole or not there. Nothing here opens a file.

::

    header   magic, format version, codec, length, crc32 │ DumpInfo, as a message
    block    magic, kind, length, crc32, crc32 of all that │ payload, compressed by the codec
      STATE    the session's messages: names, a census, memory, samples
      IMAGE    types of the snapshot, and the snapshot
      ANSWER   the snapshot's answers that a dump cannot compute: waste, blocks that no object has
      PIECE    a piece of the heap, as native/dump/piece.h says; each once, in order
      END      it is whole

All but a PIECE hold messages. Blocks are appended and never changed, so whatever ends the writing, all but the last one
are whole.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from heaptop.errors import DumpTooNew, NotADump, ProtocolError
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.dumped import ORIGINS, VALUES, DumpInfo
from heaptop.recordings import compression
from heaptop.recordings.compression import Codec
from heaptop.recordings.format import MOST_WALL, codec_numbered, unpacked

FORMAT: Final = 1  # Raised when an older reader would misunderstand
STATE, IMAGE, ANSWER, PIECE, END = KINDS = (1, 2, 3, 4, 5)

MAGIC: Final = b"hdump\r\n\x1a"
_HEADER: Final = struct.Struct("<8sHBxII")
_BLOCK: Final = b"\xf5dmp"
_HEAD: Final = struct.Struct("<4sBxxxII")
_CRC: Final = struct.Struct("<I")
HEAD_BYTES: Final = _HEAD.size + _CRC.size

MAX_HEADER: Final = 1 << 16
MAX_PAYLOAD: Final = 64 << 20
MAX_CONTENT: Final = 64 << 20  # Bytes of a block, before it was compressed
MAX_PIECE: Final = 2 << 20  # The same of a PIECE


@dataclass(frozen=True, slots=True)
class BlockHead:
    """What is before a block's payload."""

    kind: int
    length: int
    crc: int

    @classmethod
    def unpack(cls, data: bytes) -> BlockHead | None:
        """From :data:`HEAD_BYTES` bytes; None where they are no whole head."""
        if len(data) != HEAD_BYTES or _CRC.unpack_from(data, _HEAD.size)[0] != crc32(data[: _HEAD.size]):
            return None
        magic, kind, length, crc = _HEAD.unpack_from(data)
        if magic != _BLOCK or kind not in KINDS or length > MAX_PAYLOAD:
            return None
        return cls(kind, length, crc)


def is_dump(data: bytes) -> bool:
    """Whether a file that begins so is a heap dump, or was meant to be one."""
    return data.startswith(MAGIC)


def pack_header(info: DumpInfo) -> bytes:
    payload = encode(info)
    return _HEADER.pack(MAGIC, FORMAT, compression.BEST.number, len(payload), crc32(payload)) + payload


def unpack_header(data: bytes, name: str) -> tuple[DumpInfo, Codec, int]:
    """Of whom the dump is, its codec, and how long its header is; ``data`` is the beginning of the file ``name``.

    Raises:
        NotADump: it is something else, or its header is damaged.
        DumpTooNew: a newer heaptop has written it.
        CodecMissing: this Python cannot decompress it.
    """
    if not is_dump(data):
        raise NotADump(f"{name} is not a heap dump.")
    if len(data) < _HEADER.size:
        raise NotADump(f"The heap dump {name} is damaged at its start.")
    _, version, codec, length, crc = _HEADER.unpack_from(data)
    if version > FORMAT:
        raise DumpTooNew(f"The heap dump {name} has format {version}; this heaptop reads up to {FORMAT}.")
    payload = data[_HEADER.size : _HEADER.size + length]
    if len(payload) < length or length > MAX_HEADER or crc32(payload) != crc:
        raise NotADump(f"The heap dump {name} is damaged at its start.")
    try:
        info = decode(payload, (DumpInfo,))
    except ProtocolError as error:
        raise NotADump(f"The header of the heap dump {name} cannot be read: {error.message}") from error
    if not isinstance(info, DumpInfo) or not _is_sane(info):
        raise NotADump(f"The header of the heap dump {name} names no process.")
    return info, codec_numbered(codec, f"heap dump {name}", DumpTooNew), _HEADER.size + length


def _is_sane(info: DumpInfo) -> bool:
    """Whether a header is one that heaptop writes. What is not a number is none."""
    words = info.values in VALUES and info.origin in ORIGINS
    return words and 0 <= info.wall < MOST_WALL and 0 <= info.sampled < MOST_WALL


class BlockPacker:
    """Packs blocks, all with the best codec of this Python."""

    def __init__(self) -> None:
        self._compress = compression.BEST.compressor(b"")

    def pack(self, kind: int, content: bytes) -> bytes:
        """A whole block."""
        payload = self._compress(content)
        head = _HEAD.pack(_BLOCK, kind, len(payload), crc32(payload))
        return head + _CRC.pack(crc32(head)) + payload


class BlockUnpacker:
    """Unpacks payloads that one codec has packed."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._opened = codec.decompressor(b"")

    def unpack(self, head: BlockHead, payload: bytes, limit: int = MAX_CONTENT) -> bytes:
        """A block's content, at most ``limit`` bytes unless it is a PIECE. Memory is taken for what comes.

        Raises:
            ProtocolError: it is damaged, or too large.
        """
        if crc32(payload) != head.crc:
            raise ProtocolError("A block of the heap dump is damaged.")
        most = MAX_PIECE if head.kind == PIECE else min(limit, MAX_CONTENT)
        return unpacked(self._codec, self._opened, payload, most, "heap dump")

