"""A heap dump as a source: commands and the screen ask it as they ask a process.

It has one census, which is that of the snapshot, and one snapshot, which is open from the beginning. What only a
process could do fails with a sentence.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from heaptop.dumps.reader import HeapDump
from heaptop.errors import DumpDamaged, HeaptopError, UsageError, fault
from heaptop.protocol.dumped import COPY
from heaptop.protocol.images import (
    FIRST_ID,
    UNREACHED,
    WASTE,
    Blocks,
    ImageGone,
    ImageTypes,
    Question,
    Selection,
    Waste,
)
from heaptop.protocol.messages import Census, Failure, Memory, Message, Row, Sampler, Tick, TypeName, Types
from heaptop.protocol.source import (
    DUMP,
    Attached,
    Behind,
    Deliver,
    Ended,
    Event,
    HeapFile,
    Received,
    Source,
    TargetInfo,
    Waiting,
    never_behind,
)

NO_PROCESS: Final = "this is a heap dump: there is no process to query"
NO_SITES: Final = "the file has no allocation sites"  # Continues *Allocations are not sampled*
TYPES_AT_ONCE: Final = 2000
KEEP_NS: Final = 1 << 62  # The snapshot stays open
SNAPSHOT: Final = 1  # Number of the only snapshot: what the file says would be that of another session
STORED: Final = {WASTE: Waste, UNREACHED: Blocks}  # What the file holds the answer to, of all of the heap

Work = Callable[[], None]


def sampled_seconds(source: Source) -> float | None:
    """For how long the samples of a heap dump were taken; None of another source. Raises UsageError without samples."""
    if not isinstance(source, DumpSource):
        return None
    if not source.dump.info.sampled > 0:
        raise UsageError(
            f"The heap dump {source.dump.path} has no allocation sites.",
            why="Allocations were not sampled before it was written.",
            fix="Write one that has them: `heaptop dump PID --for 30`.",
        )
    return source.dump.info.sampled


class DumpSource:
    """A :class:`~heaptop.protocol.source.Source` of one heap dump, which it closes at its end."""

    def __init__(self, dump: HeapDump) -> None:
        """``dump`` is not loaded yet."""
        self.dump = dump
        self._ids = itertools.count(FIRST_ID)
        self._deliver: Deliver = lambda event: None
        self._thread: threading.Thread | None = None
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._numbers: list[int] = []  # By type of the snapshot, its number in the session

    @property
    def target(self) -> TargetInfo:
        info = self.dump.info
        kind = info.origin if info.origin != COPY or not self.dump.path else ""
        file = HeapFile(kind or "heap dump", info.values, info.redacted, self.dump.image.opaque)
        note = f"{file.what} {self.dump.path}".rstrip()
        return TargetInfo(info.pid, info.command, info.python, info.user, note, file=file)

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver = deliver
        self._thread = threading.Thread(target=self._run, name="heaptop-dump-source", daemon=True)
        self._thread.start()

    def image(self, keep: float, memory: int = 0) -> int:
        return self._answer(self._open_snapshot)

    def ask(self, image: int, question: Question) -> int:
        question.pack(0)  # a query that is too long is refused here
        return self._answer(lambda id: [self._asked(id, question)])

    def give_up(self, id: int) -> None:
        self.dump.cancel()

    def memory_now(self) -> None:
        self._work.put(lambda: self._send(self._memory()))

    def census_now(self) -> None:
        """The one that there is, once more."""
        self._work.put(lambda: self._send([self._census()]))

    def sample(self, interval: int, depth: int, tracer: bool = False, target: int = 0) -> None:
        """No effect: nothing is allocated."""

    def decide(self, accept: bool, stop: bool = False) -> None:
        """No effect: nothing is asked."""

    def close_snapshot(self) -> None:
        self._work.put(lambda: self._send([ImageGone(SNAPSHOT, "it was closed")]))

    def request(self, make: Callable[[int], Message]) -> int:
        return self._answer(lambda id: [Failure(id, NO_PROCESS)])

    def cancel(self) -> None:
        self.dump.cancel()

    def close(self, timeout: float = 5.0) -> None:
        self.dump.cancel()
        self._work.put(None)
        if self._thread is not None:
            self._thread.join(timeout)
        else:
            self.dump.close()

    # -- its thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        error: HeaptopError | None = None
        try:
            self._begin()
            while (work := self._work.get()) is not None:
                work()
        except HeaptopError as failed:
            error = failed
        except Exception as caught:  # a file may say what nobody thought of
            error = fault(caught, DumpDamaged)
        self.dump.close()
        self._deliver(Ended(error))

    def _begin(self) -> None:
        dump = self.dump
        begin = time.monotonic()

        def show(done: int, total: int) -> None:
            share = f", {done / total:.0%}" if total else ""
            self._deliver(Waiting(f"reading the {dump.info.origin or 'heap dump'}{share}", time.monotonic() - begin))

        dump.load(show)
        self._deliver(Attached(self.target, dump.hello, DUMP, 0))
        self._send(self._session_messages())

    def _session_messages(self) -> Iterator[Message]:
        """Messages of the session, with the snapshot's own census in place of the one before it."""
        names: list[TypeName] = []
        for message in self.dump.state:
            if isinstance(message, Types):
                names[message.first :] = message.names
            if not isinstance(message, (Census, Tick)):
                yield message
        if not any(isinstance(message, Sampler) and message.on for message in self.dump.state):
            yield Sampler(0, self.dump.image.time_ns, False, 0, 0, (), 0, NO_SITES)
        known = {name: number for number, name in enumerate(names)}
        new = [name for name in dict.fromkeys(self.dump.types) if name not in known]
        known |= {name: len(names) + place for place, name in enumerate(new)}
        for first in range(0, len(new), TYPES_AT_ONCE):
            yield Types(len(names) + first, tuple(new[first : first + TYPES_AT_ONCE]))
        self._numbers = [known[name] for name in self.dump.types]
        yield self._census()
        yield from (each for each in self.dump.state if isinstance(each, Tick))

    def _census(self) -> Census:
        image = self.dump.image
        before = next((each for each in self.dump.state if isinstance(each, Census)), None)
        guessed = {row.type for row in before.rows if row.guessed} if before is not None else set()
        guessed |= {self._numbers[type] for type in image.guessed if type < len(self._numbers)}
        rows = []
        for each in self.dump.counts():
            number = self._numbers[each.type]
            rows.append(Row(number, each.generation, each.count, each.bytes, 0, each.count if number in guessed else 0))
        cut = self.dump.info.lacking
        if not self.dump.whole:
            cut = f"the file is cut, and {image.objects:,} objects were written"
        mode, reason = "clone", ""
        if self.dump.info.origin == COPY:
            mode, reason = "stop", "; ".join(("no code ran in the process (--no-inject)", *image.gaps))
        census = Census(
            0, image.time_ns, mode, not cut, cut, tuple(rows), image.build_ns, image.pause_ns, 0, 0, 0
        )
        census = replace(census, mode_reason=reason, sizeof_guessed=sum(row.guessed for row in rows))
        if before is None:
            return census
        return replace(
            census,
            owned=before.owned,
            mapped=before.mapped,
            at_least=before.at_least,
        )

    def _memory(self) -> list[Message]:
        found = [each for each in self.dump.state if isinstance(each, Memory)]
        return [found[-1]] if found else [Failure(0, "the heap dump does not say what memory was used for")]

    def _open_snapshot(self, id: int) -> list[Message]:
        if not self.dump.whole:
            return [Failure(id, "the heap dump is cut: it has no references")]
        types = self.dump.types
        named: list[Message] = [
            ImageTypes(id, first, tuple(types[first : first + TYPES_AT_ONCE]))
            for first in range(0, len(types), TYPES_AT_ONCE)
        ]
        return [*named, replace(self.dump.image, id=id, image=SNAPSHOT, keep_ns=KEEP_NS)]

    def _asked(self, id: int, question: Question) -> Message:
        if question.what in STORED:
            return self._stored(id, question)
        try:
            answer = self.dump.ask(question, id)
        except DumpDamaged as error:
            return Failure(id, error.message)
        return Failure(id, "this heaptop does not know the answer") if answer is None else answer

    def _stored(self, id: int, question: Question) -> Message:
        for answer in self.dump.answers:
            is_wanted = isinstance(answer, STORED[question.what]) and question.selection == Selection()
            if is_wanted and isinstance(answer, (Waste, Blocks)):
                return replace(answer, id=id)
        return Failure(id, "a heap dump has this answer for the whole heap only")

    # -- both ------------------------------------------------------------------------------------------------

    def _answer(self, make: Callable[[int], list[Message]]) -> int:
        """Have the source's thread make messages of a request's id, and deliver them."""
        id = next(self._ids)
        self._work.put(lambda: self._send(make(id)))
        return id

    def _send(self, messages: Iterator[Message] | list[Message]) -> None:
        for message in messages:
            event: Event = Received(message)
            self._deliver(event)
