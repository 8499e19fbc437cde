"""The native census against a plain count by the target itself, in the same standing process, on every interpreter.

Object for object and byte for byte, by type and generation. Bytes may differ only where the core says that it guessed,
and then they are those of bare instances; whose sizes it guesses is named here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypedDict, TypeVar

import pytest

from heaptop.protocol.messages import PERMANENT, UNTRACKED
from tests.interpreters import NEWEST, OLDEST, SAMPLE, SUPPORTED, Interpreter
from tests.support.native import Asked, Counted, Figure, Key, counting, different

T = TypeVar("T")
Rows = dict[Key, Figure]

TRIES: Final = 5

CTYPES_METATYPES = {
    *(("_ctypes", name) for name in ("PyCArrayType", "PyCFuncPtrType", "PyCPointerType", "PyCSimpleType")),
    *(("_ctypes", name) for name in ("PyCStructType", "UnionType", "CType_Type")),
    *(("ctypes._endian", name) for name in ("_swapped_struct_meta", "_swapped_union_meta")),
}
"""From 3.13 on their ``__sizeof__`` in C wants to know the class it was found on, which is no plain call."""

LIBRARIES = ("numpy", "greenlet", "gevent")
"""C code that is not CPython's own is called in a clone only: in the process itself it might do anything."""


OWNERS: Final = {
    *(("ctypes", "c_char_Array_500"), ("heap_zoo", "Record"), ("mmap", "mmap"), ("zlib", "Compress")),
    *(("zlib", "Decompress"), ("zlib", "_ZlibDecompressor"), ("_io", "StringIO")),
}
"""Types of the zoo that own memory natively; how much, test_core_owners compares with what was asked for."""


class Reference(TypedDict):
    """What heap_reference.count says."""

    rows: Rows
    guessed: dict[Key, int]
    basic: dict[Key, int]


def assert_equal(reference: Reference, found: Counted, guessed: set[Key]) -> None:
    """But for the types in ``guessed``, of which the sizes may be those of bare instances."""
    expected = dict(reference["rows"])
    for key in guessed & expected.keys():
        if found.guessed[key] == expected[key][0]:
            expected[key] = (expected[key][0], reference["basic"][key])
    owned = {key: more for key, more in different(expected, found.rows).items() if key[:2] in OWNERS}
    assert {key for key, (count, more) in owned.items() if count or more <= 0} == set()
    assert sum(more for _, more in owned.values()) == found.stats["owned"], "what sys.getsizeof leaves out"
    expected |= {key: (count, size + owned[key][1]) for key, (count, size) in expected.items() if key in owned}
    assert different(expected, found.rows) == {}
    assert (found.stats["complete"], found.stats["cut"]) == (True, "")
    assert found.stats["objects"] == sum(count for count, _ in expected.values())
    assert found.stats["sizeof_guessed"] + found.stats["at_least"] == sum(found.guessed.values())
    more = {key for key, number in found.guessed.items() if number != reference["guessed"][key]}
    assert more <= guessed, "sizes that the reference knows"


def sampling_status(ask: Asked, work: Callable[[], T]) -> tuple[Reference, T]:
    """What ``work`` finds while the reference is the same before and after it. From 3.14 on a string may live in the
    table of method lookups alone (its place there depends on addresses) until another lookup takes its place."""
    for _ in range(TRIES):
        reference: Reference = ask(b"r")
        found = work()
        if ask(b"r") == reference:
            return reference, found
    pytest.fail(f"the heap never stood still in {TRIES} tries")


def assert_both_equal(interpreter: Interpreter, reference: Reference, stopped: Counted, cloned: Counted) -> None:
    """With the world stopped, and in a clone."""
    metatypes = {key for key in reference["rows"] if key[:2] in CTYPES_METATYPES and interpreter.version >= (3, 13)}
    others = {key for key in reference["rows"] if key[0].startswith(LIBRARIES)}
    assert_equal(reference, stopped, metatypes | others)
    assert_equal(reference, cloned, metatypes)


def frozen(reference: Reference) -> Reference:
    """What a reference becomes when all that is tracked is frozen."""
    moved: Reference = {"rows": {}, "guessed": {}, "basic": {}}
    for (module, qualname, generation), (count, size) in reference["rows"].items():
        old = (module, qualname, generation)
        key = (module, qualname, UNTRACKED if generation == UNTRACKED else PERMANENT)
        before = moved["rows"].get(key, (0, 0))
        moved["rows"][key] = (before[0] + count, before[1] + size)
        moved["guessed"][key] = moved["guessed"].get(key, 0) + reference["guessed"][old]
        moved["basic"][key] = moved["basic"].get(key, 0) + reference["basic"][old]
    return moved


def permanent(found: Counted) -> int:
    return sum(count for (_, _, generation), (count, _) in found.rows.items() if generation == PERMANENT)


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_agrees_with_a_plain_count(interpreter: Interpreter) -> None:
    with counting(interpreter, "heap_native.py", "zoo", "mixed", "aged") as ask:
        # 3.12 is born with frozen objects, which gc.get_objects() does not tell of there
        assert permanent(ask.count(b"t")) == ask(b"p")
        ask(b"u")
        for letter in (b"r", b"t", b"k"):  # what a first time leaves behind is there before it matters
            ask(letter)

        def both() -> tuple[Counted, Counted]:
            return ask.count(b"t"), ask.count(b"k")

        settled, found = sampling_status(ask, both)
        assert_both_equal(interpreter, settled, *found)

        ask(b"y")
        young, found = sampling_status(ask, both)
        assert different(settled["rows"], young["rows"])[("builtins", "list", 0)][0] == 200
        assert_both_equal(interpreter, young, *found)

        def while_frozen() -> tuple[int, Counted, Counted]:
            number = ask(b"f")
            found = both()
            ask(b"u")  # which makes all of them old: a second try finds them so before and after
            return number, *found

        old, (number, stopped, cloned) = sampling_status(ask, while_frozen)
        assert number > 10_000
        assert_both_equal(interpreter, frozen(old), stopped, cloned)
        assert permanent(cloned) == number

        ask(b"c")
        ask(b"u")  # 3.12 moves what is immortal to the frozen ones at each collection
        collected, found = sampling_status(ask, both)
        assert_both_equal(interpreter, collected, *found)
        assert ask(b"n") == [], "no code of the target's own ran"


@pytest.mark.sample(2)
@pytest.mark.pythons(OLDEST, "3.11", "3.12", "3.13", NEWEST, stress=SUPPORTED)
def test_every_sort_of_hidden_edge_is_followed(interpreter: Interpreter) -> None:
    """Without any one of them the plain count finds less than the census, where there are such. That the census follows
    them is shown above, on every version; this shows that each is there to be followed: once for each set of sorts."""
    unknown = {"variables of code", "kept by code"} if interpreter.version < (3, 11) else set()
    unknown |= {"inline dicts"} if interpreter.version < (3, 13) else set()
    if interpreter.version >= (3, 14):
        # Every dict is in a list of the collector's, and so is the table of interned strings, with all attribute names.
        unknown |= {"inline dicts", "shared names"}
    unknown |= {"arrays"} if not interpreter.has("numpy") else set()
    with counting(interpreter, "heap_native.py", "zoo") as ask:
        sorts = ask(b"h")
        for letter in (b"r", b"k"):
            ask(letter)
        counted = ask.count(b"k").stats["objects"]
        for i, what in enumerate(sorts):
            if what not in unknown:
                lacking: Reference = ask(bytes([ord("A") + i]))
                assert sum(count for count, _ in lacking["rows"].values()) < counted, what
