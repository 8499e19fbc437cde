"""Any message, made from the annotations and from what the codec says of packed columns: for tests of the codec."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from struct import Struct
from types import NoneType
from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st

from heaptop.protocol.codec import BOUNDS, MAX_INT, RECORDS
from heaptop.protocol.images import CELL, KINDS
from heaptop.protocol.messages import BIRTH, DEATH, MAX_BLOCK, MAX_CLOCK, TYPED
from heaptop.protocol.recorded import BYTE, INT, LONG, TALLY
from heaptop.protocol.text import printable

PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    str: st.text(st.characters(codec="utf-8"), max_size=20).map(printable),
    bytes: st.binary(max_size=20),
}
byte, word = st.integers(0, 255), st.integers(0, (1 << 32) - 1)
natural, clock = st.integers(0, MAX_INT), st.integers(0, MAX_CLOCK)
kind = st.integers(0, len(KINDS) - 1)
PACKED: dict[Struct, st.SearchStrategy[bytes]] = {
    BIRTH: st.builds(BIRTH.pack, word, word, clock, st.integers(1, MAX_BLOCK), word, byte, byte, byte),
    DEATH: st.builds(DEATH.pack, word, word, clock),
    TYPED: st.builds(TYPED.pack, word, word),
    CELL: st.builds(CELL.pack, word, word, st.integers(0, 1000), byte, kind),
    BYTE: st.builds(BYTE.pack, byte),
    INT: st.builds(INT.pack, st.integers(-(1 << 31), (1 << 31) - 1)),
    LONG: st.builds(LONG.pack, st.integers(0, (1 << 64) - 1)),
    TALLY: st.builds(
        lambda place, rests, sums, moments: TALLY.pack(*place, *rests, *sums, *moments),
        st.tuples(st.integers(-1, 100), st.integers(-1, 100), st.integers(-3, 1026)),
        st.tuples(*[st.integers(0, 65535)] * 2),
        st.tuples(*[natural] * 4),
        st.tuples(*[st.floats(0, 1e300)] * 2),
    ),
}
"""One record of each kind."""


def any_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: value_of(kind, field.name, hints[field.name]) for field in fields(kind)})


def value_of(kind: type[Any], name: str, hint: Any) -> st.SearchStrategy[Any]:
    if (kind.__name__, name) in RECORDS:
        return st.lists(PACKED[RECORDS[kind.__name__, name][0]], max_size=5).map(b"".join)
    if hint is int:
        return st.integers(*BOUNDS.get((kind.__name__, name), (0, MAX_INT)))
    if is_dataclass(hint) and isinstance(hint, type):
        return any_of(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    inner = get_args(hint)
    if inner[-1] is NoneType:
        return st.none() | value_of(kind, name, inner[0])
    if inner[-1] is Ellipsis:
        return st.lists(value_of(kind, name, inner[0]), max_size=2 if is_dataclass(inner[0]) else 4).map(tuple)
    return st.tuples(*[value_of(kind, name, each) for each in inner])
