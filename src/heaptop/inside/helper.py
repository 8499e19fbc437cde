"""The helper process: attaches to its parent by :mod:`heaptop.api`, and answers its ``client``, line by line.

Its standard input is what keeps it: it detaches and exits when that ends, as it does with the parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, BinaryIO, Final

from heaptop import api
from heaptop.errors import HeaptopError
from heaptop.inside.client import Counted, Found, LeftObjects

PAUSE: Final = 10.0
"""Seconds: the parent waits for each answer in any case, so a pause does no harm."""


def main(pid: int) -> None:
    """Serve the process ``pid`` until it closes our standard input."""
    answers = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)  # what a library prints is no answer
    with contextlib.suppress(BrokenPipeError), contextlib.ExitStack() as stack:
        _serve(sys.stdin.buffer, answers, Commands(pid, stack))


def _serve(questions: BinaryIO, answers: Any, commands: Commands) -> None:
    for line in questions:
        try:
            answer: dict[str, Any] = {"found": commands.by_name[line.decode().strip()]()}
        except HeaptopError as error:
            answer = {"error": " ".join(filter(None, (error.message, error.why, error.fix)))}
        except Exception as error:
            answer = {"error": f"heaptop's helper process failed: {type(error).__name__}: {error}."}
        answers.write(json.dumps(answer).encode() + b"\n")


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
        now, before = self._process.census(), self._before
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
        )
        for each in findings.suspects
    )
    return asdict(Found(findings.count, findings.bytes, tuple(places)))
