"""The agent with a native core made of Python: its ``main`` runs in a thread of this process, over a socket.

Nothing here asserts on what the agent does but that it ends: tests do.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

import msgpack
import pytest

from heaptop.analysis.heap.history import History
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.framing import FrameReader, frame
from heaptop.protocol.messages import (
    BIRTH,
    CensusRequest,
    Core,
    CoreRequest,
    Hello,
    Message,
    Sampler,
    SamplerRequest,
    TickRequest,
)
from heaptop.protocol.registry import REPLIES
from tests.support.agents import agent_space

BUILD = "0123456789abcdef"
M = TypeVar("M", bound=Message)
STATS: dict[str, Any] = {"complete": True, "cut": "", "cpu_ns": 7, "child_bytes": 4096}
STATS.update({"sizeof_guessed": 2, "owned": 900, "mapped": 500, "at_least": 1, "typed": b"", "pause_ns": 3_000_000})


class FakeCore:
    """Counts nothing: each census has one type more than the last, and one row for each."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.difference = ""
        self.begin_errors: list[Exception] = []
        self.check_errors: list[Exception] = []
        self.end_errors: list[Exception] = []
        self.stop_errors: list[Exception] = []
        self.own: list[int] = []
        self.child_lasts = False
        self._child = 0
        self._known = 0
        self._kept: list[int] = []

    def as_module(self) -> Any:
        names = ["open", "check", "begin", "end", "abort", "stop", "close", "malloc_stacks", "enter_tracing"]
        names += ["read", "rest", "blocks", "gc_watch", "gc_unwatch", "gc_read", "gc_begun", "heaptop_gc"]
        return SimpleNamespace(**{name: getattr(self, name) for name in names})

    def open(self, version: int) -> None:
        assert version == sys.hexversion
        self.calls.append("open")

    def read(self, fd: int, most: int) -> bytes | None:
        try:
            return os.read(fd, most)
        except BlockingIOError:
            return None

    def rest(self, ns: int) -> None:
        time.sleep(ns / 1e9)

    def enter_tracing(self) -> None: ...

    def malloc_stacks(self) -> bool:
        return False

    def check(self, gc: ModuleType) -> str:
        assert gc.__name__ == "gc"
        if self.check_errors:
            raise self.check_errors.pop(0)
        return self.difference

    def blocks(self, function: Callable[[], int]) -> int | None:
        return function()

    def gc_watch(self, leave: object, blocks: object) -> None:
        """Notes nothing, as the next four."""

    def gc_unwatch(self) -> None: ...

    def gc_read(self) -> tuple[list[Any], int]:
        return [], 0

    def gc_begun(self) -> int:
        return 0

    def heaptop_gc(self, phase: str, info: dict[str, int]) -> None:
        pass

    def begin(self, first: int, options: dict[str, Any]) -> tuple[int, int, int]:
        self.calls.append("begin")
        if self.begin_errors:
            raise self.begin_errors.pop(0)
        self.own, self._first = options["own"], first
        reader, writer = os.pipe()
        # A child that lives for as long as the pipe is open.
        program = "import sys; sys.stdin.buffer.read()"
        self._child = os.posix_spawn(
            sys.executable, [sys.executable, "-ISc", program], {}, file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)]
        )
        os.close(reader)
        if self.child_lasts:
            self._kept.append(writer)
        else:
            os.close(writer)
        return -1, self._child, 5_000_000

    def end(self) -> tuple[bytes, bytes, dict[str, Any]]:
        self.calls.append("end")
        os.waitpid(self._child, 0)
        self._child = 0
        if self.end_errors:
            raise self.end_errors.pop(0)
        return self._answer(self._first)

    def abort(self) -> None:
        self.calls.append("abort")
        if self._child:
            os.kill(self._child, 9)
            os.waitpid(self._child, 0)
            self._child = 0
        while self._kept:
            os.close(self._kept.pop())

    def close(self) -> None:
        self.calls.append("close")

    def stop(self, first: int, options: dict[str, Any]) -> tuple[bytes, bytes, dict[str, Any]]:
        self.calls.append("stop")
        if self.stop_errors:
            raise self.stop_errors.pop(0)
        self.own = options["own"]
        return self._answer(first)

    def _answer(self, first: int) -> tuple[bytes, bytes, dict[str, Any]]:
        self._known += 1
        types = msgpack.packb([["shop", f"T{self._known}"]])
        rows = msgpack.packb([[first, -1, 1 << 33, 5, 6]])
        return types, rows, STATS


class SamplingCore(FakeCore):
    """Samples: each of its reads has one code, one stack and one birth; as many in a row as it is told to have."""

    def __init__(self, waiting: int = 0) -> None:
        super().__init__()
        self.waiting = waiting
        self.reads = 0
        self.codes_per_read = 1
        self.limits: list[int] = []
        self.stays = ""
        """What cannot be taken out."""
        self.options: dict[str, Any] = {}
        self.epoch = 0
        """Raised where all samples have become void."""
        self.reborn_refusal = ""
        """Why blocks that free lists hand on cannot be followed."""
        self._on = False
        self._intervals: list[int] = []
        self.bytes_per_read = 64
        """Allocated between two reads, by the clock."""
        self.set_errors: list[Exception] = []

    def as_module(self) -> Any:
        module = super().as_module()
        for name in ("start", "set", "stop", "leave", "read", "stats", "clock"):
            setattr(module, f"sample_{name}", getattr(self, f"sample_{name}"))
        return module

    def sample_start(self, options: dict[str, Any]) -> None:
        self.options, self._on = options, True
        self._intervals = [options["interval"]]

    def sample_set(self, interval: int, depth: int, quota: int = 0) -> None:
        if self.set_errors:
            raise self.set_errors.pop(0)
        self.options.update(interval=interval, depth=depth, quota=quota)
        if interval not in self._intervals:
            self._intervals.append(interval)

    def sample_stop(self) -> str:
        self._on = False
        return self.stays

    def sample_leave(self) -> None:
        self._on = False

    def sample_clock(self) -> int:
        return self.reads

    def sample_stats(self) -> dict[str, Any]:
        interval, depth = self.options.get("interval", 0), self.options.get("depth", 0)
        return {
            "more": self.waiting > 0,
            "clock": self.bytes_per_read * self.reads,
            "dropped": 0,
            "epoch": self.epoch,
            "on": self._on,
            "interval": interval,
            "depth": depth,
            "live": self.reads,
            "intervals": [*self._intervals],
            "note": "",
            "arrays": False,
            "reborn": bool(self.options.get("reborn") and not self.reborn_refusal),
            "reborn_refusal": self.reborn_refusal if self.options.get("reborn") else "",
        }

    def sample_read(self, limit: int) -> tuple[bytes, int, bytes, int, bytes, bytes, dict[str, Any]]:
        self.limits.append(limit)
        number = self.reads
        self.reads += 1
        self.waiting = max(0, self.waiting - 1)
        birth = BIRTH.pack(number, number + 1, 64 * number, 64, 0, 1, 0, 0)
        first = number * self.codes_per_read
        codes = msgpack.packb([["shop.py", f"f{number}.{place}", 1] for place in range(self.codes_per_read)])
        stacks = msgpack.packb([[0, first, 2]])
        return codes, first, stacks, number + 1, birth, b"", self.sample_stats()


class Talk:
    """heaptop's end, and everything that was heard fed to a History and a Sampling, which check the numbers of all."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.history = History()
        self.sampling = Sampling()
        self._reader = FrameReader()
        self._payloads: list[bytes] = []
        self._number = 0

    def send(self, message: Message) -> None:
        self.link.sendall(frame(encode(message)))

    def next(self) -> Message | None:
        while not self._payloads:
            data = self.link.recv(1 << 16)
            if not data:
                return None
            self._payloads += self._reader.feed(data)
        message = decode(self._payloads.pop(0), REPLIES)
        if message is not None:
            self.history.feed(message)
            self.sampling.feed(message)
        return message

    def expect(self, kind: type[M]) -> M:
        while True:
            message = self.next()
            assert message is not None, f"the session ended before a {kind.KIND}"
            if isinstance(message, kind):
                return message

    def give_core(self) -> Core:
        library = bytes(range(256)) * 500
        for at in range(0, len(library), 50_000):
            self.send(CoreRequest(7, BUILD, len(library), at, library[at : at + 50_000]))
        return self.expect(Core)

    def sample(self, interval: int = 64, **fields: Any) -> Sampler:
        self.send(SamplerRequest(5, interval, **fields))
        return self.expect(Sampler)

    def tick(self, kind: type[M]) -> M:
        self.send(TickRequest(6))
        return self.expect(kind)

    def census(self, kind: type[M], **fields: Any) -> M:
        self._number += 1
        self.send(CensusRequest(self._number, slice_ns=1_000_000_000, **fields))
        return self.expect(kind)


def idle_session(space: dict[str, Any]) -> Any:
    """The state of a session that nobody talks to; ``space`` is the agent's."""
    made: list[Any] = []

    def install(s: Any) -> None:
        made.append(s)
        raise EOFError

    space["install"] = install
    space["converse"](0, "token")
    (s,) = made
    s.attached = True
    return s


@contextlib.contextmanager
def _few_objects() -> Iterator[None]:
    """The collector names some objects of each generation, and none that are frozen, for which a census looks through
    all modules: these tests are about when Python mode counts, and the whole of a test run's heap takes it seconds."""
    some = [gc.get_objects(generation)[:1000] for generation in range(3)]  # the same in each census
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gc, "get_objects", lambda generation: [*some[generation]])
        patched.setattr(gc, "get_freeze_count", lambda: 0)
        yield


@contextlib.contextmanager
def talking(core: FakeCore | Callable[[], Any], **replaced: Any) -> Iterator[Talk]:
    """A session with an agent whose loading of a library gives ``core``; ``replaced`` stands for functions of its own,
    each made from the one that it replaces."""
    space = agent_space()
    space.update({name: make(space[name]) for name, make in replaced.items()})
    given: list[tuple[str, bytes]] = []

    def import_core(build: str, library: list[bytes]) -> tuple[Any, bool]:
        given.append((build, b"".join(library)))
        return (core.as_module() if isinstance(core, FakeCore) else core()), False

    space["import_core"] = import_core
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    thread = threading.Thread(target=space["converse"], args=(theirs.fileno(), "token"), daemon=True)
    with ours, theirs, _few_objects():
        thread.start()
        talk = Talk(ours)
        assert "core" in talk.expect(Hello).capabilities
        yield talk
        ours.shutdown(socket.SHUT_RDWR)
        thread.join(60)
        assert not thread.is_alive()
        assert all(library == bytes(range(256)) * 500 for _, library in given)
    space.clear()
