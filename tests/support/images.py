"""Opens a snapshot of a target that is attached, asks it, and finds its process.

Nothing here asserts on a target: tests do.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from heaptop.injector.inspect.process import children
from heaptop.protocol.images import (
    ANSWERS,
    GROUPS,
    PATHS,
    Groups,
    Image,
    ImageGone,
    ImageTypes,
    PathGroup,
    Paths,
    Question,
    Selection,
)
from heaptop.protocol.messages import Census, Failure, Message, TypeName, Types
from heaptop.protocol.source import Ended, Event, ImageCost, Received
from tests.support.attaching import Attachment, Silent, attached
from tests.support.processes import PATIENCE

M = TypeVar("M", bound=Message)
ALL = 1 << 20


class Explorer:
    """Of one attachment: takes all that comes, in order."""

    def __init__(self, attachment: Attachment) -> None:
        self.source = attachment.source
        self.types: list[TypeName] = []
        self.session_types: list[TypeName] = []
        self.costs: list[ImageCost] = []
        self.gone: list[ImageGone] = []
        self.heard: list[Message] = []
        self.image: Image | None = None
        self._attachment = attachment

    def until(self, kind: type[M], id: int | None = None, patience: float = PATIENCE) -> M | Failure:
        """The next message of that kind, and of that id, or the Failure of the request of that id."""
        end = time.monotonic() + patience
        while True:
            message = self._next(end - time.monotonic())
            if isinstance(message, Failure) and message.request == id:
                return message
            if isinstance(message, kind) and id in (None, getattr(message, "id", None)):
                return message

    def expect(self, kind: type[M], id: int | None = None, patience: float = PATIENCE) -> M:
        """As :meth:`until`; raises :class:`Silent` for a Failure."""
        message = self.until(kind, id, patience)
        if isinstance(message, Failure):
            raise Silent(f"no {kind.__name__}, but: {message.text}")
        return message

    def cost(self, patience: float = PATIENCE) -> ImageCost:
        """The next one that is said."""
        number, end = len(self.costs), time.monotonic() + patience
        while len(self.costs) == number:
            self._next(end - time.monotonic())
        return self.costs[-1]

    def open(self, keep: float = 600.0, memory: int = 0) -> Image:
        self.types = []
        self.image = self.expect(Image, self.source.image(keep, memory))
        return self.image

    def ask(self, question: Question) -> Message:
        """Its answer, or the Failure."""
        assert self.image is not None
        id = self.source.ask(self.image.image, question)
        while True:
            message = self.until(Message, id)
            if isinstance(message, (*ANSWERS, Failure)):
                return message

    def close(self) -> ImageGone:
        self.source.close_snapshot()
        return self.expect(ImageGone)

    def type_id(self, name: str) -> int:
        return next(number for number, each in enumerate(self.types) if each.full == name)

    def paths(self, name: str) -> tuple[PathGroup, ...]:
        """Along which objects of a type are kept."""
        answer = self.ask(Question(PATHS, Selection(types=(self.type_id(name),))))
        assert isinstance(answer, Paths), answer
        return answer.groups

    def groups(self, *kinds: int) -> Counter[str]:
        """Objects by type: all, or those of some kinds."""
        answer = self.ask(Question(GROUPS, Selection(kinds=kinds), limit=ALL))
        assert isinstance(answer, Groups), answer
        found: Counter[str] = Counter()
        for row in answer.rows:
            found[self.types[row.type].full] += row.count
        return found

    def counted(self) -> Counter[str]:
        """Objects by type, of one more census."""
        self.source.census_now()
        found: Counter[str] = Counter()
        for row in self.expect(Census).rows:
            found[self.session_types[row.type].full] += row.count
        return found

    def _next(self, patience: float) -> Message | None:
        event = self._attachment.event(Event, max(0.0, patience))
        if isinstance(event, ImageCost):
            self.costs.append(event)
        if isinstance(event, Ended):
            raise Silent("the source ended")
        if not isinstance(event, Received):
            return None
        message = event.message
        self.heard.append(message)
        if isinstance(message, ImageTypes):
            self.types += message.names
        elif isinstance(message, Types):
            self.session_types += message.names
        elif isinstance(message, ImageGone):
            self.gone.append(message)
        return message


@contextlib.contextmanager
def exploring(pid: int, **options: object) -> Iterator[Explorer]:
    """Attached for the length of the block, after the first census."""
    with attached(pid, **options) as attachment:
        explorer = Explorer(attachment)
        explorer.expect(Census)
        yield explorer


def clones(pid: int) -> set[int]:
    """Processes that the core has made of a target, and that nobody has buried."""
    found = set()
    for child in children(pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text() == "heaptop census\n":
                found.add(child)
    return found


def is_gone(pid: int) -> bool:
    """Ended; whether somebody has buried it is another matter."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
