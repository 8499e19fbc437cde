"""The native census against a plain count by the target itself, in the same standing process, on every interpreter.

Object for object and byte for byte, by type and generation. What the reference cannot see, or the core does not say as
``sys.getsizeof`` does, is named here, one by one, and has a test of its own.
"""

from __future__ import annotations

from heaptop.protocol.messages import PERMANENT, UNTRACKED
from tests.interpreters import Interpreter
from tests.support.native import Asked, Counted, Figure, Key, counting, different

Rows = dict[Key, Figure]


def both(ask: Asked) -> list[Counted]:
    """A census with the world stopped, and one in a clone."""
    return [ask.count(b"t"), ask.count(b"k")]


def assert_equal(reference: Rows, guessed: int, found: Counted) -> None:
    assert different(reference, found.rows) == {}
    assert (found.stats["complete"], found.stats["cut"]) == (True, "")
    assert found.stats["objects"] == sum(count for count, _ in reference.values())
    assert found.stats["sizeof_guessed"] == guessed


def frozen(reference: Rows) -> Rows:
    """What a reference becomes when all that is tracked is frozen."""
    rows: Rows = {}
    for (module, qualname, generation), (count, size) in reference.items():
        key = (module, qualname, UNTRACKED if generation == UNTRACKED else PERMANENT)
        before = rows.get(key, (0, 0))
        rows[key] = (before[0] + count, before[1] + size)
    return rows


def test_agrees_with_a_plain_count(interpreter: Interpreter) -> None:
    with counting(interpreter, "heap_native.py", "zoo", "mixed", "aged") as ask:
        for letter in (b"r", b"t", b"k"):  # what a first time leaves behind is there before it matters
            ask(letter)

        settled = ask(b"r")
        for found in both(ask):
            assert_equal(settled["rows"], settled["guessed"], found)

        ask(b"y")
        young = ask(b"r")
        assert different(settled["rows"], young["rows"])[("builtins", "list", 0)][0] == 200
        for found in both(ask):
            assert_equal(young["rows"], young["guessed"], found)

        # gc.get_objects() does not tell of the frozen ones on every version: the reference is that of just before
        assert ask(b"f") > 10_000
        for found in both(ask):
            assert_equal(frozen(young["rows"]), young["guessed"], found)
        ask(b"u")

        ask(b"c")
        collected = ask(b"r")
        for found in both(ask):
            assert_equal(collected["rows"], collected["guessed"], found)
        assert ask(b"n") == [], "no code of the target's own ran"
