"""Whole sessions as bytes, of an agent that is wrong somewhere: they go on, or end with a ProtocolError.

Each is what the fake agent says, with one thing in it changed: a number, a record, a byte, the order.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import Any

import msgpack
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heaptop.errors import ProtocolError
from heaptop.protocol.codec import MAX_INT, decode, encode
from heaptop.protocol.framing import FrameReader, frame
from heaptop.protocol.images import (
    FIRST_ID,
    GROUPS,
    OBJECTS,
    PATHS,
    RETAINERS,
    STACKS,
    AskRequest,
    CloseRequest,
    ImageRequest,
    Question,
)
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    MAX_CLOCK,
    TYPED,
    CensusRequest,
    Message,
    SamplerRequest,
    Samples,
    TickRequest,
)
from heaptop.protocol.registry import REPLIES
from heaptop.protocol.source import Attached, Received
from heaptop.tui.state.session import AttachPhase, AttachSession, Display
from tests.fakes.source import SECOND, FakeAgent, FakeSource

WHAT = {what: Question(what, limit=4) for what in (GROUPS, PATHS, OBJECTS, RETAINERS, STACKS)}


def told() -> list[Message]:
    """A session with everything in it: samples, censuses, off and on again, an open snapshot that is asked."""
    agent = FakeAgent()
    agent.mode = "clone"
    agent.images.progress = 1
    requests = [SamplerRequest(1, 65_536)]
    ticks = [TickRequest(2), CensusRequest(3)]
    said: list[Message] = []
    for request in [*requests, *ticks, *ticks, SamplerRequest(4, 8192), *ticks, SamplerRequest(5, 0), *ticks]:
        agent.advance()
        said += agent.answer(request)
    about = [ImageRequest(FIRST_ID, SECOND), *(AskRequest(FIRST_ID + each, 1, WHAT[each].pack(each)) for each in WHAT)]
    for request in [*about, SamplerRequest(6, 512), TickRequest(7), CloseRequest(FIRST_ID)]:
        said += agent.answer(request)
    return said


TOLD = told()
numbers = st.sampled_from([0, 1, -1, 2**31, 2**32, 2**47, 2**60, MAX_INT, 2**64 - 1]) | st.integers(-(2**63), 2**64 - 1)
RECORDS = {"births": BIRTH, "deaths": DEATH, "typed": TYPED}


def front(payload: bytes) -> tuple[Any, Any]:
    kind, fields = msgpack.unpackb(payload)
    return kind, fields


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the numbers are in what a message holds."""
    if type(value) is int:
        yield way
    elif isinstance(value, (list, dict)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*way, key))


def with_number(payload: bytes, draw: st.DrawFn) -> bytes:
    kind, fields = front(payload)
    ways = list(places(fields))
    if not ways:
        return payload
    way = draw(st.sampled_from(ways[:200]))
    inside = fields
    for key in way[:-1]:
        inside = inside[key]
    inside[way[-1]] = draw(numbers)
    return bytes(msgpack.packb([kind, fields]))


def with_record(payload: bytes, draw: st.DrawFn) -> bytes:
    """One number in one packed record, within its width."""
    kind, fields = front(payload)
    name = draw(st.sampled_from(sorted(RECORDS)))
    if kind != Samples.KIND or not fields[name]:
        return payload
    one, data = RECORDS[name], bytearray(fields[name])
    at = draw(st.integers(0, len(data) // one.size - 1)) * one.size
    record = list(one.unpack_from(data, at))
    place, number = draw(st.integers(0, len(record) - 1)), draw(numbers)
    for width in (64, 32, 16, 8):
        record[place] = number % (1 << width)
        with contextlib.suppress(struct.error):  # it is narrower
            data[at : at + one.size] = one.pack(*record)
            break
    fields[name] = bytes(data)
    return bytes(msgpack.packb([kind, fields]))


def with_byte(payload: bytes, draw: st.DrawFn) -> bytes:
    at = draw(st.integers(0, len(payload) - 1))
    return payload[:at] + bytes([draw(st.integers(0, 255))]) + payload[at + 1 :]


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """The bytes of a session."""
    payloads = [encode(message) for message in TOLD]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(payloads) - 1))
        how = draw(st.sampled_from(["number", "record", "record", "record", "byte", "out", "twice", "cut"]))
        if how == "out":
            payloads[at:] = payloads[at + 1 :] or payloads[at:]
        elif how == "twice":
            payloads.insert(at, payloads[at])
        elif how == "cut":
            payloads[at] = payloads[at][: draw(st.integers(1, len(payloads[at])))]
        else:
            change = {"number": with_number, "record": with_record, "byte": with_byte}[how]
            with contextlib.suppress(ValueError, msgpack.UnpackException):  # a second change of what is not msgpack now
                payloads[at] = change(payloads[at], draw)
    return b"".join(frame(payload) for payload in payloads)


def listen(stream: bytes) -> AttachSession:
    """What the front end knows after it; a ProtocolError of the codec ends it, as it does in a session."""
    source = FakeSource()
    session = AttachSession(source.target)
    session.feed(Attached(source.target, source.agent.hello(), "ptrace", 0))
    try:
        for payload in FrameReader().feed(stream):
            message = decode(payload, REPLIES)
            if message is not None:
                session.feed(Received(message))
    except ProtocolError as error:
        session.end(error)
    return session


def test_the_fake_agents_own_session_is_right() -> None:
    session = listen(b"".join(frame(encode(message)) for message in TOLD))
    assert session.phase is AttachPhase.LIVE
    assert session.sampling.samples.live_block_count


@settings(max_examples=300)
@given(streams())
def test_a_session_that_is_wrong_somewhere_goes_on_or_ends_with_a_protocol_error(stream: bytes) -> None:
    session = listen(stream)
    assert session.phase is AttachPhase.LIVE or isinstance(session.error, ProtocolError)
    assert Display.of(session).freeze().samples is not None
    assert session.notices is not None


@settings(max_examples=50)
@given(st.lists(st.integers(1, 4000), max_size=20))
@example([1, 1, 1])
def test_bytes_may_come_in_any_pieces(sizes: list[int]) -> None:
    stream = b"".join(frame(encode(message)) for message in TOLD)
    reader, heard, at = FrameReader(), [], 0
    for size in [*sizes, len(stream)]:
        heard += [decode(payload, REPLIES) for payload in reader.feed(stream[at : at + size])]
        at += size
    assert heard == TOLD


def test_clocks_that_run_over_are_refused() -> None:
    late = Samples(1, MAX_CLOCK + 1, b"", b"")
    session = listen(b"".join(frame(encode(message)) for message in [*TOLD, late]))
    assert isinstance(session.error, ProtocolError)
