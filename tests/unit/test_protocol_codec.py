"""The codec: what is said comes back the same, and nothing that is sent to it does more than a ProtocolError."""

from __future__ import annotations

from dataclasses import MISSING, astuple, fields
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heaptop.errors import ProtocolError, VersionMismatch
from heaptop.protocol.codec import (
    MAX_ARRAYS,
    MAX_ITEMS,
    MAX_KNOWN,
    decode,
    encode,
    read_hello,
)
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    Bye,
    Census,
    CensusRequest,
    CodeName,
    DetachRequest,
    GcEvent,
    GcEvents,
    Message,
    Phase,
    Row,
    Sampler,
    StackNode,
    TickRequest,
    TypeName,
    Types,
)
from heaptop.protocol.registry import RECORDED, REPLIES, REQUESTS
from heaptop.protocol.text import printable
from tests.fakes.source import TOKEN, FakeAgent
from tests.unit.any_message import any_of

ALL = (*REQUESTS, *RECORDED)

text = st.text(st.characters(codec="utf-8"), max_size=20).map(printable)
messages = st.one_of(*[any_of(kind) for kind in ALL])

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | text | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5),
    max_leaves=20,
)


def as_wire(message: Message) -> tuple[str, dict[str, Any]]:
    """Kind and fields as another implementation would see them."""
    kind, content = msgpack.unpackb(encode(message))
    return kind, content


def repacked(kind: str, content: object, *more: object) -> bytes:
    return bytes(msgpack.packb([kind, content, *more]))


@given(messages)
def test_what_is_said_comes_back(message: Message) -> None:
    assert decode(encode(message), ALL) == message


def outcome(payload: bytes) -> Message | ProtocolError | None:
    """What decoding comes to; any other exception than a ProtocolError fails the test."""
    try:
        return decode(payload, ALL)
    except ProtocolError as error:
        return error


def test_the_wire_is_names_outside_and_arrays_inside() -> None:
    """What an agent with a packer of its own must produce."""
    assert as_wire(Types(3, (TypeName("shop", "Cart"),))) == ("types", {"first": 3, "names": [["shop", "Cart"]]})
    assert as_wire(DetachRequest()) == ("detach?", {})
    assert as_wire(GcEvents((GcEvent(1, 2, 3, 4, 5, None),), 0))[1]["events"] == [[1, 2, 3, 4, 5, None, None]]


@given(messages, st.data())
def test_a_truncated_message_is_a_protocol_error(message: Message, data: st.DataObject) -> None:
    payload = encode(message)
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(ProtocolError):
        decode(payload[:cut], ALL)


@given(messages, st.data())
def test_a_missing_field_is_named(message: Message, data: st.DataObject) -> None:
    kind, content = as_wire(message)
    if not content:
        return
    name = data.draw(st.sampled_from(sorted(content)))
    del content[name]
    if name in {field.name for field in fields(message) if field.default is not MISSING}:  # type: ignore[arg-type]
        assert decode(repacked(kind, content), ALL) is not None
        return
    with pytest.raises(ProtocolError, match=f"{name}'") as caught:
        decode(repacked(kind, content), ALL)
    assert repr(kind) in caught.value.message


@given(messages, st.data())
def test_any_value_in_any_field_is_taken_or_refused(message: Message, data: st.DataObject) -> None:
    kind, content = as_wire(message)
    if not content:
        return
    name = data.draw(st.sampled_from(sorted(content)))
    content[name] = data.draw(values)
    result = outcome(repacked(kind, content))
    if isinstance(result, ProtocolError):
        assert repr(kind) in result.message
        assert repr(name) in result.message
    else:
        assert isinstance(result, type(message))
        assert decode(encode(result), ALL) == result


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("pid", True, "bool, not int"),
        ("pid", -1, "-1, outside"),
        ("pid", 1 << 63, "outside"),
        ("token", b"x", "bytes, not str"),
        ("token", None, "nil, not str"),
        ("gc_enabled", 1, "int, not bool"),
        ("capabilities", {}, "map, not array"),
        ("capabilities", ["gc", 4], "an array with an item that is int, not str"),
    ],
)
def test_a_wrong_field_is_explained(field: str, value: object, says: str) -> None:
    kind, content = as_wire(FakeAgent().hello())
    content[field] = value
    with pytest.raises(ProtocolError, match=says):
        decode(repacked(kind, content), REPLIES)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([0, 4, 1, 1], "a Row whose generation is 4, outside -1 to 3"),
        ([0, 0, -1, 1], "a Row whose count is -1"),
        ([0, 0, 1], "array of 3, not Row"),
        ([0, 0, 1, 1.5], "a Row whose bytes is float"),
        ("0011", "str, not Row"),
    ],
)
def test_a_wrong_row_is_explained(row: object, says: str) -> None:
    kind, content = as_wire(FakeAgent().answer(CensusRequest(1))[-1])
    content["rows"] = [row]
    with pytest.raises(ProtocolError, match=says):
        decode(repacked(kind, content), REPLIES)


@pytest.mark.parametrize("value", [True, 1.0])
def test_a_row_that_is_only_equal_to_one_that_was_taken_is_refused(value: object) -> None:
    kind, content = as_wire(FakeAgent().answer(CensusRequest(1))[-1])
    content["rows"] = [[0, 0, 1, 1, 0, 0]]
    assert decode(repacked(kind, content), REPLIES) is not None
    content["rows"] = [[0, 0, value, 1, 0, 0]]
    with pytest.raises(ProtocolError, match="a Row whose count is"):
        decode(repacked(kind, content), REPLIES)


def test_rows_as_in_the_census_before_are_the_same_objects_however_many_come_between() -> None:
    def said(rows: list[list[int]]) -> tuple[Row, ...]:
        kind, content = as_wire(FakeAgent().answer(CensusRequest(1))[-1])
        content["rows"] = rows
        census = decode(repacked(kind, content), REPLIES)
        assert isinstance(census, Census)
        assert [[*astuple(row)] for row in census.rows] == rows
        return census.rows

    first = said([[0, 0, 1, 1, 0, 0, -1], [1, 0, 2, 2, 0, 0, 4]])
    second = said([[1, 0, 2, 2, 0, 0, 4], [0, 0, 5, 1, 0, 0, 0], [1, 0, 2, 2, 0, 0, 4]])
    assert second[0] is first[1] is second[2]
    said([[number, 1, 7, 7, 0, 0, -1] for number in range(MAX_KNOWN - 1)])
    assert said([[1, 0, 2, 2, 0, 0, 4]]) == (first[1],)


def test_no_interpreter_is_below_the_one_that_represents_none() -> None:
    kind, content = as_wire(FakeAgent().answer(CensusRequest(1))[-1])
    content["rows"] = [[0, 0, 1, 1, 0, 0, -2]]
    with pytest.raises(ProtocolError, match="a Row whose interpreter is"):
        decode(repacked(kind, content), REPLIES)


def test_a_newer_peer_may_say_more() -> None:
    """Fields by name, items after the ones known, values after the pair: all ignored."""
    census = FakeAgent().answer(CensusRequest(1))[-1]
    kind, content = as_wire(census)
    content["rows"] = [[*row, "future"] for row in content["rows"]]
    content["novel"] = {"deep": [1, 2]}
    assert decode(repacked(kind, content, "more"), REPLIES) == census


def test_an_older_peer_may_say_less() -> None:
    """Items that stand last in an array and have a default."""
    census = FakeAgent().answer(CensusRequest(1))[-1]
    kind, content = as_wire(census)
    content["rows"] = [[3, -1, 5, 70], [4, 2, 5, 70, 8]]
    found = decode(repacked(kind, content), REPLIES)
    assert isinstance(found, Census)
    assert found.rows == (Row(3, -1, 5, 70, 0, 0), Row(4, 2, 5, 70, 8, 0))


@given(text.filter(lambda kind: kind not in {one.KIND for one in ALL}), values)
def test_an_unknown_kind_is_skipped(kind: str, value: object) -> None:
    assert decode(repacked(kind, {"x": value}), ALL) is None


def test_a_known_kind_of_the_other_side_is_skipped() -> None:
    assert decode(encode(TickRequest(1)), REPLIES) is None


ONE: dict[str, Any] = {"time_ns": 1, "clock": 1, "births": b"", "deaths": b""}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("births", bytes(33), "33 bytes, not records of 32"),
        ("deaths", bytes(1), "1 bytes, not records of 16"),
        ("typed", bytes(7), "7 bytes, not records of 8"),
        ("births", BIRTH.pack(0, 0, 1, (1 << 47) + 1, 0, 0, 0, 0), "a size of"),
        ("births", BIRTH.pack(0, 0, 1, 0, 0, 0, 0, 0), "a size of 0"),
        ("births", BIRTH.pack(0, 0, (1 << 60) + 1, 8, 0, 0, 0, 0), "a clock of"),
        ("deaths", DEATH.pack(0, 0, (1 << 64) - 1), "a clock of"),
        ("clock", (1 << 60) + 1, "outside"),
        ("clock", -1, "outside"),
        ("dropped", -1, "outside"),
    ],
)
def test_samples_that_no_machine_can_make_are_refused(field: str, value: object, says: str) -> None:
    assert decode(repacked("samples", ONE), REPLIES) is not None
    with pytest.raises(ProtocolError, match=f"{field}.*{says}"):
        decode(repacked("samples", {**ONE, field: value}), REPLIES)


@pytest.mark.parametrize(("field", "value"), [("interval", 1 << 41), ("intervals", [0]), ("intervals", [1 << 41])])
def test_an_interval_that_cannot_be_is_refused(field: str, value: object) -> None:
    sampler = as_wire(Sampler(1, 2, True, 64, 1, (64,), 1))[1]
    with pytest.raises(ProtocolError, match=f"'{field}'.*outside"):
        decode(repacked("sampler", {**sampler, field: value}), REPLIES)


@given(st.binary(max_size=300))
@example(b"\xc1")
@example(b"\x92\xa3bye\x81\xa6reason\xd4\xff1")  # a timestamp of a wrong length
@example(b"\x92\xa3bye\x81\x01\x02")  # a map key that is no string
@example(b"\x92\xa3bye\x82\xa6reason\xa1a\x91\x01\x02")  # an unhashable map key
def test_bytes_are_never_more_than_a_protocol_error(payload: bytes) -> None:
    result = outcome(payload)
    assert result is None or isinstance(result, (ProtocolError, *ALL))


@given(values)
def test_msgpack_of_anything_is_never_more_than_a_protocol_error(value: object) -> None:
    result = outcome(bytes(msgpack.packb(value)))
    assert result is None or isinstance(result, (ProtocolError, *ALL))


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\xdd\xff\xff\xff\xff", id="four billion items announced in five bytes"),
        pytest.param(b"\xdf\xff\xff\xff\xff", id="the same as a map"),
        pytest.param(b"\xdb\xff\xff\xff\xff", id="the same as a string"),
        pytest.param(b"\xdd" + MAX_ITEMS.to_bytes(4, "big"), id="as many items as allowed, none there"),
        pytest.param((b"\xdd" + MAX_ITEMS.to_bytes(4, "big")) * 2000, id="that, in one another"),
        pytest.param(b"\x91" * 100_000, id="arrays in arrays"),
        pytest.param(b"\x81\xa0" * 100_000, id="maps in maps"),
        pytest.param(
            bytes(msgpack.packb([[[]] * MAX_ITEMS] * (MAX_ARRAYS // MAX_ITEMS))),
            id="a flood of small arrays",
        ),
    ],
)
def test_a_hostile_frame_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(payload, ALL)


def test_bytes_that_are_not_utf8_become_replacement_characters() -> None:
    """A type may be named with lone surrogates; its name must not end the session."""
    bye = decode(b"\x92\xa3bye\x81\xa6reason\xa3a\xffb", REPLIES)
    assert bye == Bye("a�b")
    assert decode(encode(Bye("a\udc80b")), REPLIES) == Bye("a?b")


def test_a_number_beyond_the_wire_is_a_protocol_error_on_the_way_out() -> None:
    with pytest.raises(ProtocolError, match="tick"):
        encode(TickRequest(1 << 70))


def test_hello_of_this_version_with_our_token_is_taken() -> None:
    hello = FakeAgent().hello()
    assert read_hello(encode(hello), TOKEN) == hello


def test_hello_with_another_token_is_refused() -> None:
    with pytest.raises(ProtocolError, match="token"):
        read_hello(encode(FakeAgent(token="theirs").hello()), "ours")


@pytest.mark.parametrize("others", [{}, {"pid": "renamed to text"}])
def test_hello_of_another_version_is_refused_by_its_number_whatever_else_it_says(others: dict[str, object]) -> None:
    with pytest.raises(VersionMismatch, match=r"version 7; .* uses 1"):
        read_hello(repacked("hello", {"protocol": 7, **others}), TOKEN)


@pytest.mark.parametrize("payload", [encode(Bye("no")), repacked("hello", {"protocol": "1"}), b"GET / HTTP/1.1"])
def test_what_is_no_hello_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_hello(payload, TOKEN)


def test_field_order_of_records_is_the_wire_order() -> None:
    """Arrays have no names: moving a field in these classes would change the wire without a version."""
    assert [field.name for field in fields(Row)] == [
        *("type", "generation", "count", "bytes", "hidden", "guessed", "interpreter"),
    ]
    assert [field.name for field in fields(TypeName)] == ["module", "qualname"]
    assert [field.name for field in fields(CodeName)] == ["file", "function", "line"]
    assert [field.name for field in fields(StackNode)] == ["parent", "code", "line"]
    assert [field.name for field in fields(Phase)] == ["name", "begin_ns", "end_ns"]
    assert [field.name for field in fields(GcEvent)] == [
        "time_ns", "generation", "collected", "uncollectable", "duration_ns", "live_blocks", "clock",
    ]  # fmt: skip


def test_a_name_that_would_move_the_cursor_comes_out_without_what_moves_it() -> None:
    types = decode(encode(Types(0, (TypeName("shop\x1b[2J", "A\r\nB"),))), REPLIES)
    assert types == Types(0, (TypeName("shop [2J", "A  B"),))
