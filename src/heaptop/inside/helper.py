"""The helper process: attaches to its parent by :mod:`heaptop.api`, and answers its ``client``, line by line.

It detaches and exits when the parent closes the connection, or has died.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Final

from heaptop import api
from heaptop.analysis.leaks.hunting import AT_LEAST
from heaptop.errors import HeaptopError
from heaptop.inside.client import Counted, Found, LeftObjects

PAUSE: Final = 10.0  # Seconds: the parent waits for each answer in any case, so a pause does no harm
SEND: Final = 20.0  # Seconds for one answer to be taken


def main(pid: int) -> None:
    """Serve the process ``pid`` over the socket that is our standard input, until it closes that, or dies."""
    connection = socket.socket(fileno=os.dup(0))
    connection.settimeout(SEND)
    for number in (0, 1):
        os.dup2(2, number)  # what a library prints is no answer, and no child of ours holds the connection open
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        commands = Commands(pid, stack)
        for question in _questions(connection, pid):
            connection.sendall(_answer(commands, question))


def _questions(connection: socket.socket, parent: int) -> Iterator[str]:
    """Line by line. A process that the parent forked may hold its end of the connection after the parent has died."""
    poll, received = select.poll(), b""
    poll.register(connection, select.POLLIN)
    watched = _watch(parent)
    if watched is not None:
        poll.register(watched, select.POLLIN)
    while True:
        ready = [number for number, _ in poll.poll(None if watched is not None else 1000)]
        if watched in ready or os.getppid() != parent:
            return
        if not ready:
            continue
        part = connection.recv(1 << 16)
        if not part:
            return
        *lines, received = (received + part).split(b"\n")
        yield from (line.decode() for line in lines)


def _watch(pid: int) -> int | None:
    """A descriptor that is readable when the process has died; None where there is no such thing (Linux before 5.3)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _answer(commands: Commands, question: str) -> bytes:
    try:
        answer: dict[str, Any] = {"found": commands.by_name[question]()}
    except HeaptopError as error:
        answer = {"error": " ".join(filter(None, (error.message, error.why, error.fix)))}
    except Exception as error:
        answer = {"error": f"heaptop's helper process failed: {type(error).__name__}: {error}."}
    return json.dumps(answer).encode() + b"\n"


class Commands:
    """What the parent may ask for, one at a time."""

    def __init__(self, pid: int, stack: contextlib.ExitStack) -> None:
        self._pid = pid
        self._attached = stack.enter_context(contextlib.ExitStack())
        self._process: api.Process | None = None
        self._hunt = contextlib.ExitStack()
        self._rounds: api.Rounds | None = None
        self._before: api.CensusTable | None = None
        self.by_name: dict[str, Callable[[], Any]] = {
            "attach": self.attach,
            "begin": self.begin,
            "begin names": lambda: self.begin(names=True),
            "check": self.check,
            "last": self.last,
            "end": self.end,
            "count": self.count,
            "detach": self.detach,
        }

    def attach(self) -> None:
        if self._process is None:
            process = api.attach(self._pid, pause_budget=PAUSE, share=1.0)
            self._process = self._attached.enter_context(process)
            self._attached.push(self._hunt)

    def begin(self, *, names: bool = False) -> None:
        self.end()
        assert self._process is not None
        self._rounds = self._hunt.enter_context(self._process.rounds(names=names))

    def check(self) -> dict[str, Any] | None:
        assert self._rounds is not None
        return _found(self._rounds.check())

    def last(self) -> dict[str, Any] | None:
        assert self._rounds is not None
        found = _found(self._rounds.check(last=True))
        self.end()
        return found

    def end(self) -> None:
        self._rounds = None
        self._hunt.close()

    def count(self) -> dict[str, Any]:
        assert self._process is not None
        now, before = _exact(self._process.census()), self._before
        self._before = now
        then = {row.name: row.bytes for row in before} if before is not None else {}
        risen = {row.name: row.bytes - then.get(row.name, 0) for row in now} if before is not None else {}
        name = max(risen, key=lambda each: risen[each], default="")
        name = name if risen.get(name, 0) > 0 else ""
        count, size = (before.count, before.bytes) if before is not None else (now.count, now.bytes)
        return asdict(Counted(now.count - count, now.bytes - size, name, risen.get(name, 0), now.pause))

    def detach(self) -> None:
        self._process = self._rounds = self._before = None
        self._attached.close()


def _exact(table: api.CensusTable) -> api.CensusTable:
    """Return the census; raise where a difference to another one would be no figure of a test."""
    fix = "Run the tests without --heap-report."
    if table.estimated:
        raise HeaptopError("The census is estimated: the heap changed while it was counted.", fix=fix)
    if not table.complete:
        raise HeaptopError(f"The census is partial: {table.cut}.", fix=fix)
    return table


def _found(findings: api.Findings | None) -> dict[str, Any] | None:
    if findings is None:
        return None
    places = (
        LeftObjects(
            each.verdict,
            each.type,
            each.held,
            each.bytes,
            each.site,
            each.holding,
            each.series,
            "; ".join(each.evidence[:1]),
            each.site_is_own,
        )
        for each in findings.suspects
    )
    notes = tuple(note for note in findings.notes if note != AT_LEAST)  # each figure has its ≥
    return asdict(Found(findings.count, findings.bytes, tuple(places), notes))
