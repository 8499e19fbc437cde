"""Any message about an open snapshot, and any findings, made from the annotations: for the tests of the codec."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st

from heaptop.protocol.codec import BOUNDS, MAX_INT
from heaptop.protocol.findings import NOTED
from heaptop.protocol.images import CELL, KINDS, REPLIES, REQUESTS
from heaptop.protocol.messages import Message
from heaptop.protocol.text import printable

PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    str: st.text(st.characters(codec="utf-8"), max_size=20).map(printable),
    bytes: st.binary(max_size=20),
}
byte, word = st.integers(0, 255), st.integers(0, (1 << 32) - 1)
kind = st.integers(0, len(KINDS) - 1)
CELLS = st.lists(st.builds(CELL.pack, word, word, st.integers(0, 1000), byte, kind), max_size=5).map(b"".join)


def any_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: value_of(kind, field.name, hints[field.name]) for field in fields(kind)})


def value_of(kind: type[Any], name: str, hint: Any) -> st.SearchStrategy[Any]:
    if (kind.__name__, name) == ("Cells", "cells"):
        return CELLS
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


KINDS_OF_MESSAGES = (*REQUESTS, *REPLIES, *NOTED)
BY_KIND: dict[type[Message], st.SearchStrategy[Message]] = {kind: any_of(kind) for kind in KINDS_OF_MESSAGES}
