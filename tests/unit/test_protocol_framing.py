"""Framing: any chunking gives the same payloads, and a bad header is refused where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.errors import FrameTooLarge, ProtocolError
from heaptop.protocol.framing import HEADER, MAX_FRAME, FrameReader, frame

payloads = st.lists(st.binary(min_size=1, max_size=50), max_size=10)


@given(payloads, st.data())
def test_any_chunking_gives_the_payloads_back(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    reader = FrameReader()
    got: list[bytes] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += reader.feed(stream[begin:end])
    assert got == sent
    assert reader.pending == 0
    reader.end()


@given(st.binary(min_size=1, max_size=50), st.data())
def test_an_end_inside_a_frame_is_an_error(payload: bytes, data: st.DataObject) -> None:
    whole = frame(payload)
    cut = data.draw(st.integers(1, len(whole) - 1))
    reader = FrameReader()
    assert list(reader.feed(whole[:cut])) == []
    assert reader.pending == cut
    with pytest.raises(ProtocolError, match=f"{cut} bytes into"):
        reader.end()


@given(payloads, st.integers(MAX_FRAME + 1, (1 << 32) - 1))
def test_a_frame_too_large_is_refused_at_its_header_after_those_before_it(sent: list[bytes], length: int) -> None:
    reader = FrameReader()
    frames = reader.feed(b"".join(map(frame, sent)) + length.to_bytes(HEADER, "big"))
    for payload in sent:
        assert next(frames) == payload
    with pytest.raises(FrameTooLarge):
        next(frames)
    with pytest.raises(FrameTooLarge):
        list(reader.feed(b"more"))


def test_a_frame_of_no_bytes_is_refused() -> None:
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(bytes(HEADER)))
    with pytest.raises(ProtocolError):
        frame(b"")


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    largest = bytes(MAX_FRAME)
    assert list(FrameReader().feed(frame(largest))) == [largest]
    with pytest.raises(FrameTooLarge):
        frame(largest + b"x")


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_random_bytes_give_frames_or_protocol_errors(chunks: list[bytes]) -> None:
    reader = FrameReader()
    total = 0
    try:
        for chunk in chunks:
            total += len(chunk)
            for payload in reader.feed(chunk):
                total -= HEADER + len(payload)
    except ProtocolError:
        return
    assert reader.pending == total
