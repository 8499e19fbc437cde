"""Hears a real session for tests/tui/test_real_session.py: ``python -m tests.support.real_session`` does it all anew.

A small shop is attached to through a real door, and the test's own walk through all views is gone on it, in each size
and look. What was said is kept in ``tests/tui/real_session.heard``, with no place and no name of this machine in it;
goldens and pictures are written, and the test is run once more, on what is kept. Takes three minutes.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import heaptop.demo
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.protocol.images import Image, ImageGone, ImageTypes, Progress, Question
from heaptop.protocol.messages import Census, Failure, Memory, Message
from heaptop.protocol.source import Event, Received, Source, TargetInfo
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE
from tests.support.transcript import Transcript, TranscriptSource, is_answer, texts

HEARD: Final = Path(__file__).parents[1] / "tui" / "real_session.heard"
MAKE_VARIABLE: Final = "HEAPTOP_HEAR_SESSION"
TEST: Final = "tests/tui/test_real_session.py"
PYTHON: Final = "/usr/bin/python3.11"
"""The distribution's: its places are the same on every machine. Else ours, whose places are replaced."""
PID, COMMAND, USER = 4711, "python3 shop.py", "shop"
KEEP: Final = 900.0
"""Seconds that the last snapshot may be asked for."""

T = TypeVar("T")


class LiveSession:
    """A session, whose events are kept until they are asked for."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._change = threading.Condition()
        self._timeline: list[Event] = []
        self._answers: list[Message] = []
        source.open(self._take)

    def _take(self, event: Event) -> None:
        with self._change:
            if isinstance(event, Received) and is_answer(event):
                self._answers.append(event.message)
            elif not (isinstance(event, Received) and isinstance(event.message, Progress)):
                self._timeline.append(event)
            self._change.notify_all()

    def _wait(self, look: Callable[[], T | None]) -> T:
        found: list[T] = []

        def is_there() -> bool:
            result = look()
            if result is not None:
                found.append(result)
            return result is not None

        with self._change:
            if not self._change.wait_for(is_there, PATIENCE):
                raise TimeoutError(f"nothing of that kind came; the last was {self._timeline[-1:]}")
        return found[0]

    def take(self, censuses: int) -> list[Event]:
        def look() -> list[Event] | None:
            counted = [isinstance(event, Received) and isinstance(event.message, Census) for event in self._timeline]
            if sum(counted) < censuses:
                return None
            taken, self._timeline = self._timeline, []
            return [event for event in taken if type(event).__name__ != "Waiting"]

        return self._wait(look)

    def _answer(self, wanted: Callable[[Message], bool]) -> Message:
        def look() -> Message | None:
            found = next((each for each in self._answers if wanted(each)), None)
            if found is not None:
                self._answers.remove(found)
            return found

        return self._wait(look)

    def image(self, keep: float) -> list[Event]:
        id = self._source.image(KEEP)
        image = self._answer(lambda each: isinstance(each, Image) and each.id == id)
        types = [each for each in self._answers if isinstance(each, ImageTypes) and each.id == id]
        until_then = self.take(1)  # stacks that it speaks of are told by a tick
        assert isinstance(image, Image)
        return [*until_then, *map(Received, types), Received(replace(image, keep_ns=int(keep * 1e9)))]

    def ask(self, image: int, question: Question) -> Message:
        id = self._source.ask(image, question)
        return self._answer(
            lambda each: each.request == id if isinstance(each, Failure) else getattr(each, "id", None) == id
        )

    def memory(self) -> Message:
        self._source.memory_now()
        return self._answer(lambda each: isinstance(each, Memory))

    def close_snapshot(self) -> None:
        self._source.close_snapshot()
        self._answer(lambda each: isinstance(each, ImageGone))


@contextmanager
def heard_live() -> Iterator[tuple[Transcript, Callable[[], TranscriptSource]]]:
    """An empty transcript, and sources that fill it from a shop that runs as long as the block."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(Path(heaptop.demo.__path__[0]) / "shop", Path(folder) / "shop")
        python = PYTHON if os.access(PYTHON, os.X_OK) else sys.executable
        with subprocess.Popen(
            [python, "-s", str(TARGETS / "small_shop.py"), folder], cwd=folder, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            source = attach_source(process.pid, AttachOptions(sample_interval=64 << 10))
            try:
                live = LiveSession(source)
                version = source.target.python
                transcript = Transcript(TargetInfo(PID, COMMAND, version, USER))
                words = _neutral(folder)
                yield transcript, lambda: TranscriptSource(transcript, live, words)
            finally:
                source.close()
                process.kill()


def _neutral(folder: str) -> Callable[[str], str]:
    """Replaces places of this machine by such as every machine has."""
    places = {
        folder: "/srv",
        str(TARGETS / "small_shop.py"): "/srv/shop.py",
        str(TARGETS): "/srv",
        sys.base_prefix: "/usr",
        sys.prefix: "/usr",
        str(Path.home()): "/home/shop",
    }
    pattern = re.compile("|".join(re.escape(place) for place in sorted(places, key=len, reverse=True)))
    return lambda text: pattern.sub(lambda match: places[match[0]], text)


def check_neutral(transcript: Transcript) -> None:
    """Raise where a text of it names this machine, or its user."""
    names = {socket.gethostname(), str(Path.home()), str(TARGETS.parents[1]), tempfile.gettempdir()}
    if getpass.getuser() != "root":
        names.add(getpass.getuser())
    heard: list[object] = [each for step in transcript.steps for each in step]
    heard += [each for image in transcript.images for each in (*image.events, *image.answers.values())]
    heard += transcript.memory.values()
    found = {text for each in heard for text in texts(each)}
    told = [text for text in found if any(name in text for name in names)]
    if told:
        raise AssertionError(f"these name this machine: {told}")


def main() -> int:
    """The transcript, goldens and pictures, and then the test."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--timeout", "900", TEST]
    made = subprocess.run(
        command, env={**os.environ, MAKE_VARIABLE: "1", "HEAPTOP_UPDATE_GOLDENS": "1"}, check=False
    ).returncode
    kept = {name: value for name, value in os.environ.items() if name != "HEAPTOP_UPDATE_GOLDENS"}
    return made or subprocess.run(command, env=kept, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
