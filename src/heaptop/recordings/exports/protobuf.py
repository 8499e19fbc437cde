"""As much of Protocol Buffers' encoding as a profile needs (protobuf.dev/programming-guides/encoding).

A field's number and kind are the caller's. Numbers are 64 bits, below 0 in two's complement.
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _LENGTH = 0, 2  # Wire types


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit is set where more follow."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field of a number; nothing where it is 0, which is what a reader takes an absent one for."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def block(field: int, content: bytes) -> bytes:
    """A field of bytes, of a text, or of another message."""
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated field of numbers, zeros among them."""
    return block(field, b"".join(map(varint, values)))
