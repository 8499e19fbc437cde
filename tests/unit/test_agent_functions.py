"""The agent's pure parts, in this interpreter: its msgpack, its bitmap, its warnings filter, a collection, the
bootstrap."""

from __future__ import annotations

import _thread
import ast
import atexit
import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.injector import agent
from heaptop.protocol.codec import decode
from heaptop.protocol.messages import Collected
from heaptop.protocol.registry import REPLIES
from tests.support.agents import agent_space

# The agent's names, made as in a target: by exec of its text in a dict of its own.
SPACE = agent_space()

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20),
    max_leaves=30,
)


def packed(value: object) -> bytes:
    out = bytearray()
    SPACE["pack"](value, out)
    return bytes(out)


@given(plain)
def test_what_it_packs_msgpack_reads(value: object) -> None:
    assert msgpack.unpackb(packed(value), strict_map_key=False) == value


@pytest.mark.parametrize("length", [0, 15, 16, 31, 32, 255, 256, 65535, 65536])
def test_every_width_of_length(length: int) -> None:
    for value in ("x" * length, [1] * length, {str(i): i for i in range(length)}):
        assert msgpack.unpackb(packed(value)) == value


def test_a_lone_surrogate_is_written_out() -> None:
    assert msgpack.unpackb(packed("odd \ud800")) == "odd \\ud800"


def depth(value: object) -> int:
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 1 + max(map(depth, value.values()), default=0) if isinstance(value, dict) else 0


@given(plain)
def test_it_reads_what_msgpack_packs(value: object) -> None:
    data = msgpack.packb(value)
    if depth(value) > 8:
        with pytest.raises(ValueError, match="deep"):
            SPACE["unpack"](data)
    else:
        assert SPACE["unpack"](data) == value


@given(st.binary(max_size=200))
def test_noise_is_a_value_error_or_what_msgpack_says(data: bytes) -> None:
    try:
        value = SPACE["unpack"](data)
    except ValueError:
        return
    assert packed_again(value) is not None


def packed_again(value: object) -> bytes:
    return msgpack.packb(value)  # type: ignore[no-any-return]


@given(st.lists(st.integers(0, 40), max_size=60))
def test_the_bitmap_lets_each_object_through_once(picks: list[int]) -> None:
    things = [object() for _ in range(41)]
    chosen = [things[i] for i in picks]
    chunks: dict[int, bytearray] = {}
    new = SPACE["unseen"](chunks, chosen)
    assert [id(o) for o in new] == list(dict.fromkeys(map(id, chosen)))
    assert SPACE["unseen"](chunks, chosen) == []
    for i, thing in enumerate(things):
        assert SPACE["unmark"](chunks, id(thing)) == (i in picks)
        assert not SPACE["unmark"](chunks, id(thing))


@pytest.mark.parametrize("call", ["fork", "forkpty"])
def test_the_filters_match_only_the_warning_that_is_ours(call: str) -> None:
    text = f"This process (pid=4711) is multi-threaded, use of {call}() may lead to deadlocks in the child."
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        warnings.filters[:0] = SPACE["make_filters"](4711)  # type: ignore[index]
        for each in (text, "Another warning", text.replace("4711", "4712"), text + " "):
            warnings.warn(each, DeprecationWarning, stacklevel=1)
        warnings.warn(text, UserWarning, stacklevel=1)
    assert [f"{each.message}" for each in shown] == ["Another warning", text.replace("4711", "4712"), text + " ", text]


def test_a_clock_that_was_replaced_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import time  # noqa: PLC0415

    monkeypatch.setattr(time, "monotonic_ns", lambda: 1)
    first = SPACE["_pick_clock"]("monotonic_ns", 1)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda which: 2)
    second = SPACE["_pick_clock"]("monotonic_ns", 1)
    real = time.clock_gettime(time.CLOCK_MONOTONIC)
    assert first() / 1e9 == pytest.approx(real, abs=5)
    assert second() > 1_000_000


def test_a_pause_is_the_longest_time_between_two_rests() -> None:
    """With a clone in it as the core says that, by the clock; without it for the GIL alone."""
    space = agent_space()
    now = [0]
    space["cpu_clock"] = lambda: now[0]
    s = SimpleNamespace(hold_cpu=0, gil=0, longest=0, stopped=0, start_ns=11, compile_ns=12, core_ns=13, core=None)

    def work(amount: int) -> None:
        now[0] += amount

    work(700)
    space["rest"](s, 0)
    work(300)
    before = now[0]
    work(5_000)  # CPU time of a clone that took longer by the clock
    space["exclude_call"](s, before, 9_000)
    work(200)
    space["rest"](s, 0)
    work(100)
    assert space["pauses"](s, (9_000, 5_000)) == {"pause_ns": 9_500, "pauses": (11, 12, 13, 700, 9_000, 5_000)}
    work(50)
    assert space["pauses"](s, (0, 0)) == {"pause_ns": 50, "pauses": (11, 12, 13, 50, 0, 0)}


def test_the_agent_rests_when_it_has_held_the_gil_for_long() -> None:
    space = agent_space()
    now, rests = [0], list[float]()
    space["cpu_clock"] = lambda: now[0]
    space["signals"] = SimpleNamespace(sigtimedwait=lambda mask, seconds: rests.append(seconds))
    s = SimpleNamespace(hold_cpu=0, gil=0, longest=0, stopped=0, core=None)
    for _ in range(10):
        now[0] += space["HOLD"] * 2 // 5
        space["rest_if_due"](s)
    assert rests == [space["REST"]] * 3
    assert s.longest == space["HOLD"] * 6 // 5


@pytest.mark.parametrize("token", ["", "a b", 'a"b', "x" * 65, "é"])
def test_a_bootstrap_takes_only_plain_tokens(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        agent.bootstrap(3, token, 1, 1)


def test_a_bootstrap_is_small_plain_and_of_3_8() -> None:
    text = agent.bootstrap(2**31 - 1, "x" * 64, 2**22, 2**63)
    assert text.isascii()
    assert "\0" not in text
    assert len(text) < agent.MAX_BOOTSTRAP
    ast.parse(text, feature_version=(3, 8))


class Bin:
    """What the program has put in the place of gc.garbage: asking its length would run the program's code."""

    def __len__(self) -> int:
        raise AssertionError("the program's code was run")


def test_what_the_collector_set_aside_is_counted_where_it_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "garbage", [1, 2, 3])
    assert SPACE["garbage"]() == 3
    monkeypatch.setattr(gc, "garbage", Bin())
    assert SPACE["garbage"]() == 0


def test_callbacks_at_exit_are_counted_where_the_program_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before = SPACE["exits"]()
    callback = atexit.register(lambda: None)
    assert SPACE["exits"]() == before + 1
    atexit.unregister(callback)
    monkeypatch.setattr(atexit, "_ncallbacks", lambda: 5)
    assert SPACE["exits"]() is None
    monkeypatch.delitem(sys.modules, "atexit")
    assert SPACE["exits"]() is None
    assert "atexit" not in sys.modules


class Cycle:
    def __init__(self, end: Callable[[], object]) -> None:
        self.itself, self.end = self, end

    def __del__(self) -> None:
        self.end()


@pytest.fixture
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """What the agent sends, while nothing is collected but on its word."""
    sent: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setitem(SPACE, "send", lambda s, kind, fields: sent.append((kind, fields)))
    gc.collect()
    gc.disable()
    yield sent
    gc.enable()


def test_a_collection_tells_what_it_found(collecting: list[tuple[str, dict[str, Any]]]) -> None:
    """As many objects as the collector's own callback is told of."""
    ended: list[None] = []
    told: list[dict[str, int]] = []
    for _ in range(50):
        Cycle(lambda: ended.append(None))
    gc.callbacks.append(lambda phase, info: told.append(dict(info)))
    try:
        SPACE["collect"](SimpleNamespace(hold_cpu=0, stopped=0), 7)
    finally:
        gc.callbacks.pop()
    ((kind, fields),) = collecting
    message = decode(packed([kind, fields]), REPLIES)
    assert isinstance(message, Collected)
    assert (message.id, len(ended)) == (7, 50)
    assert message.collected == told[-1]["collected"] >= 50
    assert message.uncollectable == told[-1]["uncollectable"] == 0


def test_behind_another_threads_collection_one_is_made_all_the_same(
    collecting: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While that one is in a finalizer, gc.collect() returns 0 and has done nothing."""
    inside, leave, ended = threading.Event(), threading.Event(), list[None]()

    def linger() -> None:
        Cycle(lambda: ended.append(None))  # garbage that this collection does not see any more
        inside.set()
        leave.wait(60)

    def rest(numbers: object, seconds: float) -> None:
        assert ended == collecting == []
        leave.set()
        other.join(60)

    Cycle(linger)
    other = threading.Thread(target=gc.collect)
    other.start()
    assert inside.wait(60)
    monkeypatch.setitem(SPACE, "signals", SimpleNamespace(sigtimedwait=rest))
    SPACE["collect"](SimpleNamespace(hold_cpu=0, stopped=0), 7)
    assert len(ended) == 1
    assert [(kind, fields["id"]) for kind, fields in collecting] == [("collected", 7)]


class Threading:
    """What the program has put in the place of threading."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError("the program's code was run")


def test_threading_forgets_the_agents_thread_where_it_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    known, forget = SPACE["known_to_threading"], SPACE["forget_by_threading"]
    found: list[bool] = []

    def ask() -> None:
        found.append(known())
        threading.current_thread()
        found.append(known())
        forget()
        found.append(known())

    done = threading.Event()
    _thread.start_new_thread(lambda: (ask(), done.set()), ())
    assert done.wait(20)
    assert found == [False, True, False]
    assert known(), "the thread that runs the tests is one of threading's"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "threading", Threading())  # type: ignore[arg-type]
        assert not known()


def test_no_collection_where_the_program_has_another_collect(
    collecting: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[None] = []
    monkeypatch.setattr(gc, "collect", lambda: called.append(None))
    with pytest.raises(RuntimeError, match=r"replaced gc\.collect"):
        SPACE["collect"](SimpleNamespace(hold_cpu=0, stopped=0), 7)
    assert called == collecting == []
