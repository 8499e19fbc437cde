"""The messages between widgets, in one place.

A message carries what happened, and its handler decides. :class:`Newest` keeps a slow terminal from working through a
backlog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from heaptop.tui.state.snapshot_client import QuerySubject


class Newest(Message):
    """One of which only the newest matters: it replaces one of its class that waits in a queue."""

    def can_replace(self, message: Message) -> bool:
        return type(message) is type(self)


class EventsArrived(Newest):
    """The source has put events into the inbox. Sent from its thread; many arrivals are one message."""


class FilterEdited(Newest):
    """The text of the filter bar changed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class FilterAccepted(Message):
    """Enter in the filter bar: keep what was typed, go back to the table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class FilterDropped(Message):
    """Esc in the filter bar: no filter, back to the table."""


class PromptClosed(Message):
    """A text was accepted or dropped, and its field is closed."""

    def __init__(self, then: Callable[[], object] | None) -> None:
        """``then``: what the text asked for."""
        super().__init__()
        self.then = then


class LettersChanged(Newest):
    """Other bands of a chart are high enough for a letter than before."""


class RowChosen(Message):
    """A row of a table was clicked a second time."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key


class HeadingClicked(Message):
    """A column heading of a table was clicked."""

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column


class ViewChanged(Newest):
    """A view drew itself again for a reason of its own: the words above it may be others now."""


class SubjectChosen(Message):
    """What keeps some objects alive is to be shown, in the view that explores them."""

    def __init__(self, subject: QuerySubject) -> None:
        super().__init__()
        self.subject = subject


class ProcessesListed(Newest):
    """The picker's list of processes is there. Sent from the thread that read it."""


class TabArrived(Newest):
    """The source behind a tab has put events into its inbox. Sent from its thread, also where nothing shows the tab."""

    def __init__(self, pid: int) -> None:
        """``pid``: of the process; 0 for the sum."""
        super().__init__()
        self.pid = pid

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, TabArrived) and message.pid == self.pid


class MomentChosen(Newest):
    """A moment of a recording was clicked, or dragged to."""

    def __init__(self, time_ns: int) -> None:
        super().__init__()
        self.time_ns = time_ns


class TabChosen(Message):
    """A tab was clicked."""

    def __init__(self, number: int) -> None:
        """``number``: from 0, as on the line."""
        super().__init__()
        self.number = number
