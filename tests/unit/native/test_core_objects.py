"""Sizes, referents and packing of the native core, on objects that hypothesis makes up."""

from __future__ import annotations

import ctypes
import gc
import importlib.machinery
import importlib.util
import sys
from functools import cache
from types import ModuleType
from typing import Any

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import core_builds, native
from tests.support.core_builds import packer_library

no_deadline = settings(deadline=None)
"""Nothing here is about time; the first call of a library may build it."""


@cache
def core() -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader("_core", str(native.core()))
    spec = importlib.util.spec_from_loader("_core", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    module.open(sys.hexversion)
    return module


class Slotted:
    __slots__ = ("one", "two")
    one: list[int]


class Spoken:
    def __sizeof__(self) -> int:
        raise AssertionError("code of the heap's own was run")


atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.integers().map(lambda i: i**20)
)
names = st.text("abcdefgh", min_size=1, max_size=3)
trees = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.lists(inner, max_size=20).map(tuple)
        | st.dictionaries(names, inner, max_size=20)
        | st.dictionaries(st.integers(), inner, max_size=20)
        | st.sets(st.integers(), max_size=40)
        | st.frozensets(st.text(max_size=3), max_size=20)
    ),
    max_leaves=40,
)


def everything_in(o: object) -> list[object]:
    found, todo = {id(o): o}, [o]
    while todo:
        for referent in core().edges_of(todo.pop()):
            if id(referent) not in found and not isinstance(referent, type):
                found[id(referent)] = referent
                todo.append(referent)
    return list(found.values())


@no_deadline
@given(trees)
def test_sizes_are_those_of_getsizeof(tree: object) -> None:
    for o in everything_in(tree):
        assert core().size_of(o)[0] == sys.getsizeof(o)


@no_deadline
@given(trees)
def test_referents_are_those_of_the_collector_and_the_keys(tree: object) -> None:
    for o in everything_in(tree):
        wanted = [*gc.get_referents(o), *(o if isinstance(o, dict) else ())]
        assert {id(each) for each in core().edges_of(o)} == {id(each) for each in wanted}


MOST_VALUES = 30
"""Attributes for which an instance has places outside a dict (pycore_dict.h, SHARED_KEYS_MAX_SIZE)."""


def fill(o: object, attributes: dict[str, Any], removed: int) -> set[int]:
    """Give an instance attributes, and take the first ones away again; the addresses of the values that stay."""
    for name, value in attributes.items():
        setattr(o, name, value)
    for name in list(attributes)[:removed]:
        delattr(o, name)
    return {id(value) for value in list(attributes.values())[removed:]}


@no_deadline
@given(st.dictionaries(names, atoms, max_size=20), st.integers(0, 10))
def test_values_of_an_instance_are_found_and_sized(attributes: dict[str, Any], removed: int) -> None:
    """From 3.11 on the values stand in a hidden array, and are found in it; before, in a dict that is no secret."""
    record = type("Record", (), {})()  # a class of its own: what its other instances have, decides on the array
    values = fill(record, attributes, removed)
    found = core().edges_of(record)
    size, hidden, guessed = core().size_of(record)
    assert (size, guessed) == (sys.getsizeof(record), 0)
    if sys.version_info >= (3, 11):
        assert 8 * max(1, len(attributes)) < hidden <= 8 * MOST_VALUES + 2 + MOST_VALUES + 7
        assert dict not in map(type, gc.get_referents(record))
        assert values <= {id(each) for each in found}
    else:
        assert hidden == 0
        assert values <= {id(each) for o in found if o is vars(record) for each in core().edges_of(o)}


@no_deadline
@given(st.dictionaries(names, atoms, min_size=MOST_VALUES + 1, max_size=40), st.integers(0, 10))
def test_instances_with_more_attributes_than_places(attributes: dict[str, Any], removed: int) -> None:
    """A dict of their own has them, and sys.getsizeof tells of it; 3.13 and later have left a hidden place behind."""
    record = type("Record", (), {})()
    values = fill(record, attributes, removed)
    found = {id(each) for each in core().edges_of(record)}
    assert id(vars(record)) in found
    assert values <= {id(each) for each in core().edges_of(vars(record))}
    assert (core().size_of(record)[1] > 0) is (sys.version_info >= (3, 13))


@no_deadline
@given(st.lists(st.integers(0, 200), max_size=120), st.lists(st.integers(0, 200), max_size=120))
def test_a_set_with_discarded_members(added: list[int], discarded: list[int]) -> None:
    members = {str(each) for each in added}
    for each in discarded:
        members.discard(str(each))
    assert {id(each) for each in core().edges_of(members)} == {id(each) for each in members}
    assert core().size_of(members)[0] == sys.getsizeof(members)


def test_no_python_code_is_asked_for_a_size() -> None:
    size, _, guessed = core().size_of(Spoken())
    assert guessed == 1
    assert size >= Spoken.__basicsize__


def test_an_instance_has_its_class() -> None:
    """Also one that the collector does not look at, whose class it may be that nothing else holds."""
    for slots in ((), ("__dict__",), ("one",)):
        made = type("Made", (), {"__slots__": slots})()
        assert [each for each in core().edges_of(made) if isinstance(each, type)] == [type(made)]


def test_objects_in_slots_and_of_each_generation_are_found() -> None:
    slotted = Slotted()
    slotted.one = [1]
    assert id(slotted.one) in {id(each) for each in core().edges_of(slotted)}
    fresh: list[object] = []
    gc.disable()
    try:
        fresh = [fresh]
        assert core().generation_of(fresh) == 0
        gc.collect(0)
        assert core().generation_of(fresh) == 1
        gc.collect()
        assert core().generation_of(fresh) == 2
        gc.freeze()
        assert core().generation_of(fresh) == 3
        gc.unfreeze()
    finally:
        gc.enable()
    assert core().generation_of("text") == -1


# -- msgpack ------------------------------------------------------------------------------------------------

ROOM = 4096


class Pack(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("base", "at", "end")] + [("full", ctypes.c_bool)]


@cache
def packer() -> ctypes.CDLL:
    return ctypes.CDLL(str(packer_library(sanitized=core_builds.sanitized_throughout())))


def packed(values: list[int | str], room: int) -> tuple[bytes, bool, bytes]:
    """What was written, whether it did not fit, and what stands behind the room."""
    memory = ctypes.create_string_buffer(b"\xee" * (room + 64), room + 64)
    pack = Pack()
    packer().pack_open(ctypes.byref(pack), memory, ctypes.c_size_t(room))
    packer().pack_array(ctypes.byref(pack), len(values))
    for value in values:
        if isinstance(value, str):
            text = value.encode()
            packer().pack_str(ctypes.byref(pack), text, len(text))
        elif value < 0:
            packer().pack_int(ctypes.byref(pack), ctypes.c_int64(value))
        else:
            packer().pack_uint(ctypes.byref(pack), ctypes.c_uint64(value))
    size = (pack.at or 0) - (pack.base or 0)
    return memory.raw[:size], pack.full, memory.raw[room:]


numbers = st.integers(-(1 << 63), (1 << 64) - 1) | st.sampled_from(
    [sign * (1 << bits) + step for bits in (5, 7, 8, 15, 16, 31, 32) for sign in (1, -1) for step in (-1, 0, 1)]
)


@no_deadline
@given(st.lists(numbers | st.text(), max_size=40))
def test_packs_what_msgpack_unpacks(values: list[int | str]) -> None:
    data, full, _ = packed(values, 1 << 16)
    assert not full
    assert msgpack.unpackb(data) == values
    assert data == msgpack.packb(values)


@no_deadline
@given(st.lists(numbers | st.text(), max_size=40), st.integers(0, 200))
def test_never_writes_past_the_room(values: list[int | str], room: int) -> None:
    data, full, behind = packed(values, room)
    assert full == (len(msgpack.packb(values)) > room)
    assert len(data) <= room
    assert behind == b"\xee" * 64
