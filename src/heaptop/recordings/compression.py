"""Compresses and decompresses the blocks of a recording: zstd where this Python has it, else zlib.

zstd comes with the package zstandard, or with Python 3.14; zlib comes with every Python. A recording has one codec,
which its header names by number. This module imports nothing of heaptop, and its errors are those of the libraries.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

LEVEL: Final = 3  # Of zstd
_MAX_WINDOW: Final = 27  # Binary logarithm of the bytes that zstd may look back; more than LEVEL asks for
_LEAST_DICTIONARY: Final = 8  # zstd ignores shorter ones, and Python 3.14 refuses them
_INPUT: Final = 1 << 16
_SIZE: Final = 8  # Bytes before a zlib stream that are the length of its content

Read: TypeAlias = Callable[[int], bytes]
"""Reads at most so many bytes of the content, which is at least one byte except at its end."""


class Codec(Protocol):
    """A way to compress. A dictionary is the beginning of what the content resembles; it may be empty."""

    number: int
    name: str
    errors: tuple[type[Exception], ...]

    def compressor(self, dictionary: bytes) -> Callable[[bytes], bytes]:
        """What compresses contents one by one; each payload begins with the length of its content."""

    def decompressor(self, dictionary: bytes) -> Callable[[bytes], Read]:
        """What opens payloads, each to be decompressed piece by piece."""

    def content_size(self, payload: bytes) -> int:
        """Bytes of the content, as the first 18 of the payload say; negative if they do not."""


class PackagedZstd:
    """By the package zstandard."""

    number, name = 0, "zstd"

    def __init__(self) -> None:
        self._zstd: Any = importlib.import_module("zstandard")
        self.errors: tuple[type[Exception], ...] = (self._zstd.ZstdError, MemoryError)

    def compressor(self, dictionary: bytes) -> Callable[[bytes], bytes]:
        known = self._dictionary(dictionary)
        if known is not None:
            known.precompute_compress(level=LEVEL)
        compress: Callable[[bytes], bytes] = self._zstd.ZstdCompressor(level=LEVEL, dict_data=known).compress
        return compress

    def decompressor(self, dictionary: bytes) -> Callable[[bytes], Read]:
        known = self._dictionary(dictionary)
        decompressor = self._zstd.ZstdDecompressor(dict_data=known, max_window_size=1 << _MAX_WINDOW)

        def opened(payload: bytes) -> Read:
            read: Read = decompressor.stream_reader(payload).read
            return read

        return opened

    def content_size(self, payload: bytes) -> int:
        return int(self._zstd.frame_content_size(payload))

    def _dictionary(self, content: bytes) -> Any:
        return self._zstd.ZstdCompressionDict(content, dict_type=self._zstd.DICT_TYPE_RAWCONTENT) if content else None


class BuiltinZstd:
    """By the standard library, from Python 3.14 on."""

    number, name = 0, "zstd"

    def __init__(self) -> None:
        self._zstd: Any = importlib.import_module("compression.zstd")
        self.errors: tuple[type[Exception], ...] = (self._zstd.ZstdError, MemoryError)

    def compressor(self, dictionary: bytes) -> Callable[[bytes], bytes]:
        known = self._dictionary(dictionary)
        digested = known and known.as_digested_dict
        return lambda content: bytes(self._zstd.compress(content, LEVEL, zstd_dict=digested))

    def decompressor(self, dictionary: bytes) -> Callable[[bytes], Read]:
        options = {self._zstd.DecompressionParameter.window_log_max: _MAX_WINDOW}
        known = self._dictionary(dictionary)

        def opened(payload: bytes) -> Read:
            stream = self._zstd.ZstdDecompressor(zstd_dict=known, options=options)
            left = _Input(payload)

            def read(most: int) -> bytes:
                while not stream.eof:
                    data = left.take() if stream.needs_input else b""
                    if piece := stream.decompress(data, most):
                        return bytes(piece)
                    if stream.needs_input and not left:
                        break
                return b""

            return read

        return opened

    def content_size(self, payload: bytes) -> int:
        size = self._zstd.get_frame_info(payload).decompressed_size
        return -1 if size is None else int(size)

    def _dictionary(self, content: bytes) -> Any:
        return self._zstd.ZstdDict(content, is_raw=True) if len(content) >= _LEAST_DICTIONARY else None


class Zlib:
    """By zlib, whose dictionary has 32 KiB: files are larger."""

    number, name = 1, "zlib"
    errors: tuple[type[Exception], ...] = (zlib.error, MemoryError)

    def compressor(self, dictionary: bytes) -> Callable[[bytes], bytes]:
        known = self._dictionary(dictionary)

        def compress(content: bytes) -> bytes:
            stream = zlib.compressobj(zdict=known)
            return len(content).to_bytes(_SIZE, "little") + stream.compress(content) + stream.flush()

        return compress

    def decompressor(self, dictionary: bytes) -> Callable[[bytes], Read]:
        known = self._dictionary(dictionary)

        def opened(payload: bytes) -> Read:
            stream = zlib.decompressobj(zdict=known)
            left = _Input(payload[_SIZE:])

            def read(most: int) -> bytes:
                while not stream.eof:
                    data = stream.unconsumed_tail or left.take()
                    if piece := stream.decompress(data, most):
                        return piece
                    if not data:
                        break
                return b""

            return read

        return opened

    def content_size(self, payload: bytes) -> int:
        return int.from_bytes(payload[:_SIZE], "little") if len(payload) >= _SIZE else -1

    def _dictionary(self, content: bytes) -> bytes:
        return content[: 1 << zlib.MAX_WBITS]


class _Input:
    """What is left of a payload, in pieces small enough that a decompressor copies little of them."""

    def __init__(self, payload: bytes) -> None:
        self._payload = memoryview(payload)

    def __bool__(self) -> bool:
        return bool(self._payload)

    def take(self) -> bytes:
        piece, self._payload = self._payload[:_INPUT], self._payload[_INPUT:]
        return bytes(piece)


def _find_zstd() -> Codec | None:
    for kind in (PackagedZstd, BuiltinZstd):
        try:
            return kind()
        except ImportError:
            continue
    return None


ZSTD: Codec | None = _find_zstd()  # None where this Python has no zstd
ZLIB: Final = Zlib()
BEST: Codec = ZSTD or ZLIB  # What recordings are written with
