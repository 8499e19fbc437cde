"""Frames on a byte stream: a 4-byte big-endian length, then that many bytes.

Bytes go in as they come, in whatever pieces, and whole payloads come out. It never keeps more than one frame and the
piece that was fed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heaptop.errors import FrameTooLarge, ProtocolError

MAX_FRAME: Final = 32 << 20  # Bytes of the largest payload

HEADER: Final = 4


def frame(payload: bytes) -> bytes:
    """The payload with its length in front.

    Raises:
        FrameTooLarge: longer than :data:`MAX_FRAME`.
        ProtocolError: empty; there is no message of no bytes.
    """
    check_length(len(payload))
    return len(payload).to_bytes(HEADER, "big") + payload


def check_length(length: int) -> None:
    """Raise as :func:`frame` does where no payload may be so long."""
    if length > MAX_FRAME:
        raise FrameTooLarge(f"A frame of {length:,} bytes is larger than the limit of {MAX_FRAME:,}.")
    if length == 0:
        raise ProtocolError("An empty frame was announced.")


class FrameReader:
    """Cuts a stream into payloads. After an error the stream has lost its place: close it."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take a piece of the stream; iterate over the payloads that are whole now.

        The piece is taken at the call, the frames are cut as they are asked for.

        Raises:
            FrameTooLarge: while iterating, after the frames that came before it; at its header, not its end.
            ProtocolError: likewise, for a frame of no bytes.
        """
        self._buffer += data
        return self._cut()

    def _cut(self) -> Iterator[bytes]:
        while len(self._buffer) >= HEADER:
            length = int.from_bytes(self._buffer[:HEADER], "big")
            check_length(length)
            if len(self._buffer) < HEADER + length:
                return
            payload = bytes(self._buffer[HEADER : HEADER + length])
            del self._buffer[: HEADER + length]
            yield payload

    def end(self) -> None:
        """Say that the stream ended.

        Raises:
            ProtocolError: in the middle of a frame.
        """
        if self._buffer:
            raise ProtocolError(f"The stream ended {len(self._buffer)} bytes into a frame.")
