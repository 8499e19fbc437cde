"""The outcome of a key, in words, and how they share the lines around a view with the words of the view."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final, NamedTuple

NOTICE_SECONDS: Final = 6.0  # How long a notice stays
FIRST: Final = "this is the first"
LAST: Final = "this is the last"


class StatusTexts(NamedTuple):
    """The words around a view."""

    left: str
    right: str
    filtered: str = ""
    footer: str = ""  # In place of the keys


class StatusLine:
    """The last notice, and until when it stays."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self.text = ""
        self.until = float("-inf")
        self._outcome = ""  # The outcome of the last key that has changed nothing on the screen
        self._notice = ""
        self.notice_until = float("-inf")

    @property
    def notice(self) -> str:
        return self.text if self._clock() < self.until else ""

    def show_notice(self, text: str) -> None:
        """Show it for some seconds, whatever else happens on the screen."""
        if text:
            self.text, self.until = text, self._clock() + NOTICE_SECONDS

    def outcome(self, text: str) -> None:
        """Show a key's outcome, in place of any notice; empty for what can be seen."""
        self.text, self._outcome = "", text
        self.show_notice(text)

    def stuck(self, text: str) -> None:
        """Show why a key moved nothing; any other notice stays for its time."""
        self.forget_outcome()
        self._outcome = text
        self.show_notice(text)

    def forget_outcome(self) -> None:
        """Drop the last key's outcome; any other notice stays for its time."""
        if self.text == self._outcome:
            self.text = ""

    def arrange(
        self,
        left: str,
        right: str,
        filtered: str,
        view_notice: str,
        *,
        width: int,
        hidden: bool,
        typing: bool = False,
        alone: bool = False,
    ) -> StatusTexts:
        """Place the notice, or a new remark of the view, where it has room: among the words, or in the footer.

        Args:
            width: columns of the screen.
            hidden: a panel is in place of the view and its words.
            typing: a text is typed in place of the left words.
            alone: it is no filter, so that the words of the view are not shown beside it.
        """
        said = self.notice
        if said in (FIRST, LAST) and right and has_room(width, left, f"{said} · {right}", filtered):
            said = f"{said} · {right}"
        if not said and not has_room(width, left, right, filtered) and (new := self._new(view_notice)):
            said, right = new, right.removeprefix(new).removeprefix(" · ")
        is_seen = typing or (not hidden and has_room(width, left, said, filtered))
        right = (said if is_seen else "") or right
        if filtered and len(left) + len(right) + len(filtered) > width - 7:
            # what the filter is, and what it hides, matter more than the row of the cursor
            right = " · ".join(part for part in right.split(" · ") if not part.startswith("row "))
        if alone:
            right, filtered = said, ""
        return StatusTexts(left, right, filtered, "" if is_seen else said)

    def _new(self, view_notice: str) -> str:
        """The remark, for some seconds after it changed."""
        if view_notice != self._notice:
            self._notice, self.notice_until = view_notice, self._clock() + NOTICE_SECONDS
        return view_notice if self._clock() < self.notice_until else ""


def has_room(width: int, left: str, right: str, filtered: str) -> bool:
    """Whether one line shows all of it."""
    return len(left) + len(right) + (len(filtered) + 3 if filtered else 0) + 4 <= width
