"""The protocol between heaptop and its agent: messages, codec, framing, sources.

This package opens no socket of its own and knows nothing of Python's internals. It imports only the standard
library, msgpack and :mod:`heaptop.errors`.

A frame is a 4-byte big-endian length and that many bytes of msgpack: the pair ``[kind, {field: value}]``.
"""
