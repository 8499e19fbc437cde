"""What a view asks of the open snapshot: each question once, when its answer is first looked for.

A view looks for all answers that it draws with, each time it draws; what is missing is asked for, and what nobody looks
for any more is given up.
"""

from __future__ import annotations

from functools import partial

from heaptop.protocol.images import Question
from heaptop.protocol.messages import Failure, Message
from heaptop.tui.state.snapshot_client import SnapshotClient


class SnapshotAnswers:
    """Those of one snapshot: they stay when it is gone, until there is another one."""

    def __init__(self) -> None:
        self._client: SnapshotClient | None = None
        self._known: dict[Question, Message] = {}
        self._asked: dict[Question, int] = {}
        self._wanted: set[Question] = set()
        self._numbering = 0
        self.image = 0
        """Number of the snapshot that is asked; 0 before there is one, and while the next one is being built."""
        self.version = 0  # Counts up with each answer: what was made of those before is old

    def begin(self, client: SnapshotClient) -> bool:
        """A drawing begins. Whether the snapshot is not the one that was asked before."""
        self._wanted.clear()
        image = client.image.image if client.image is not None else 0
        if client is self._client and image == self.image:
            self._forget_numbers(client)
            return False
        self._client, self.image, self._numbering = client, image, client.numbering
        self._known, self._asked = {}, {}  # the snapshot client has failed what was asked before
        self.version += 1
        return True

    def _forget_numbers(self, client: SnapshotClient) -> None:
        """Where numbers of marks seen mean others than before, what was answered about them is void."""
        if client.numbering == self._numbering:
            return
        self._numbering = client.numbering
        self._known = {each: answer for each, answer in self._known.items() if not each.selection.seen}
        for question in [each for each in self._asked if each.selection.seen]:
            client.forget(self._asked.pop(question))
        self.version += 1

    def get(self, question: Question) -> Message | None:
        """The answer, or the Failure in its place; None while there is none. Asks for it where that was not done."""
        self._wanted.add(question)
        answer = self._known.get(question)
        if answer is not None or question in self._asked or self._client is None:
            return answer
        self._asked[question] = 0  # it may fail as it is put
        id = self._client.ask(question, partial(self._take, self.image, question))
        if id:
            self._asked[question] = id
        else:
            self._asked.pop(question, None)
        return self._known.get(question)

    def end(self) -> None:
        """The drawing is done: cancel what it did not look for."""
        for question in [question for question in self._asked if question not in self._wanted]:
            id = self._asked.pop(question)
            if self._client is not None:
                self._client.forget(id)

    @property
    def is_asking(self) -> bool:
        return bool(self._asked)

    def again(self) -> None:
        """What has failed, or is partial, is asked once more when it is looked for next."""
        for question, answer in list(self._known.items()):
            if isinstance(answer, Failure) or not getattr(answer, "complete", True):
                del self._known[question]

    def _take(self, image: int, question: Question, answer: Message) -> None:
        if image == self.image and self._asked.pop(question, None) is not None:
            self._known[question] = answer
            self.version += 1
