"""The socket: msgpack, as much as the messages need, and frames of it."""

from __future__ import annotations

from typing import Any

from heaptop.injector.agent.base import posix, signals
from heaptop.injector.agent.clock import rest
from heaptop.injector.agent.loader import check_socket

WORK: dict[str, Any] = {}
"""What answers a request, by its KIND, when its turn comes: a function of the session and of the request's id. Each
module adds its own."""


def pack(value: Any, out: bytearray) -> None:
    """Append ``value`` (None, bool, int, str, list, tuple, dict, bytearray) to ``out`` as msgpack; bytes are
    msgpack already."""
    kind = type(value)
    if kind is int:
        _pack_int(value, out)
    elif kind is str:
        data = value.encode("utf-8", "backslashreplace")
        _pack_head(len(data), out, 0xA0, 32, 0xD9)
        out += data
    elif kind is list or kind is tuple:
        _pack_head(len(value), out, 0x90, 16, 0xDB)
        for item in value:
            pack(item, out)
    elif kind is dict:
        _pack_head(len(value), out, 0x80, 16, 0xDD)
        for key, item in value.items():
            pack(key, out)
            pack(item, out)
    elif value is None:
        out.append(0xC0)
    elif kind is bool:
        out.append(0xC3 if value else 0xC2)
    elif kind is bytes:
        out += value
    elif kind is bytearray:
        out.append(0xC6)
        out += len(value).to_bytes(4, "big")
        out += value
    else:
        raise ValueError("cannot pack " + kind.__name__)


def _pack_head(size: int, out: bytearray, fix: int, fixed: int, first: int) -> None:
    """The head of a str (``first`` is its 8-bit form), an array or a map (``first`` + 1 is the 16-bit form)."""
    if size < fixed:
        out.append(fix | size)
    elif first == 0xD9 and size < 1 << 8:
        out.append(first)
        out.append(size)
    elif size < 1 << 16:
        out.append(first + 1)
        out += size.to_bytes(2, "big")
    else:
        out.append(first + 2)
        out += size.to_bytes(4, "big")


def _pack_int(value: int, out: bytearray) -> None:
    if 0 <= value < 128:
        out.append(value)
    elif -32 <= value < 0:
        out.append(value & 0xFF)
    elif value >= 0:
        step = 0 if value < 1 << 8 else 1 if value < 1 << 16 else 2 if value < 1 << 32 else 3
        out.append(0xCC + step)
        out += min(value, (1 << 64) - 1).to_bytes(1 << step, "big")
    else:
        step = 0 if value >= -(1 << 7) else 1 if value >= -(1 << 15) else 2 if value >= -(1 << 31) else 3
        out.append(0xD0 + step)
        out += (max(value, -(1 << 63)) + (1 << (8 << step))).to_bytes(1 << step, "big")


_SIZES = {  # head: (what, bytes of the number or length that follows)
    0xC4: ("bin", 1), 0xC5: ("bin", 2), 0xC6: ("bin", 4),
    0xCA: ("float", 4), 0xCB: ("float", 8),
    0xCC: ("uint", 1), 0xCD: ("uint", 2), 0xCE: ("uint", 4), 0xCF: ("uint", 8),
    0xD0: ("int", 1), 0xD1: ("int", 2), 0xD2: ("int", 4), 0xD3: ("int", 8),
    0xD9: ("str", 1), 0xDA: ("str", 2), 0xDB: ("str", 4),
    0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip


def unpack(data: bytes) -> Any:
    """The one value in ``data``. A float comes back as None: no request has one. ValueError when malformed."""
    value, end = _unpack_at(data, 0, 0)
    if end != len(data):
        raise ValueError("bytes after the value")
    return value


def _unpack_at(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if at >= len(data) or depth > 8:
        raise ValueError("truncated" if depth <= 8 else "nested too deep")
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head >= 0xE0:
        return head - 256, at
    if head in (0xC0, 0xC2, 0xC3):
        return (None, False, True)[max(0, head - 0xC1)], at
    if head < 0xC0:
        what = "map" if head < 0x90 else "array" if head < 0xA0 else "str"
        size = head & (0x1F if what == "str" else 0x0F)
    else:
        what, width = _SIZES.get(head, ("", 0))
        if not what or at + width > len(data):
            raise ValueError("truncated or unknown")
        size = int.from_bytes(data[at : at + width], "big")
        if what == "int" and data[at] & 0x80:
            size -= 1 << 8 * width
        at += width
    if what in ("uint", "int"):
        return size, at
    if what == "float":
        return None, at
    if what in ("str", "bin"):
        if at + size > len(data):
            raise ValueError("truncated")
        body = data[at : at + size]
        return (body.decode("utf-8") if what == "str" else body), at + size
    if size > len(data) - at:  # every item takes a byte: no claim makes us allocate more than was sent
        raise ValueError("truncated")
    if what == "array":
        items = []
        for _ in range(size):
            item, at = _unpack_at(data, at, depth + 1)
            items.append(item)
        return items, at
    table = {}
    for _ in range(size):
        key, at = _unpack_at(data, at, depth + 1)
        if type(key) is not str:
            raise ValueError("a key that is not a string")
        table[key], at = _unpack_at(data, at, depth + 1)
    return table, at


def array_size(packed: bytes) -> int:
    """The number of items in the header of a packed array."""
    head = packed[0]
    return head & 15 if head < 0xA0 else int.from_bytes(packed[1 : 3 if head == 0xDC else 5], "big")


def send(s: Any, kind: str, fields: dict[str, Any]) -> None:
    """One frame: length (4 bytes, big-endian), then msgpack [kind, fields]. OSError when the peer is gone."""
    out = bytearray(4)
    pack([kind, fields], out)
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    write(s, out)


def write(s: Any, out: Any) -> None:
    """Whole frames. OSError when the peer is gone."""
    at = 0
    view = memoryview(out)
    try:
        while at < len(out):
            check_socket(s)
            try:
                at += posix.write(s.fd, view[at : at + (1 << 18)])
            except BlockingIOError:
                rest(s, 0.002)
    except MemoryError:
        raise EOFError("cut") from None  # nobody knows how much of the frame is out
    except BrokenPipeError:
        # the signal that came with it is blocked here and pending on this thread alone: take it away
        signals.sigtimedwait((13,), 0)
        raise
    finally:
        view.release()


def receive(s: Any) -> bool:
    """Read what there is into the buffer; False when there is nothing now. EOFError when the peer has closed."""
    check_socket(s)
    try:
        most = 1 << 18 if s.buffer else 1 << 16  # the rest of a long request in few turns of the GIL
        data = posix.read(s.fd, most) if s.core is None else s.core.read(s.fd, most)
    except BlockingIOError:
        return False
    if data is None:
        return False
    if not data:
        raise EOFError("closed")
    s.buffer += data
    return True
