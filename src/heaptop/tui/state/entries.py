"""What the bar above a view is open for: one text that is typed, and what comes of it.

This module never draws: the screen shows the field, says what is wrong with the text, and gives it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, Protocol

from heaptop.analysis.filters.filters import Filter, parse_filter
from heaptop.errors import UsageError
from heaptop.protocol.text import printable

MOST_NAME: Final = 24
"""Characters of a mark's name."""


class Entry:
    """A text that is typed, from the first key to Enter or Esc."""

    PROMPT: ClassVar[str] = " /"
    """Stands in front of the field."""
    TAKE: ClassVar[str]
    DROP: ClassVar[str]
    """What Enter does, and Esc, in the words of the footer."""
    CHANGES_VIEW: ClassVar[bool] = False
    """The view changes as it is typed: how much that shows is told beside it."""

    def edited(self, text: str) -> None:
        """Take it as it is by now.

        Raises:
            UsageError: it is wrong, as a text is at most keystrokes: what is shown is not of it.
        """

    def accepted(self, text: str) -> Callable[[], object] | None:
        """Enter: take it. What follows once the field is closed.

        Raises:
            HeaptopError: it cannot be taken; it stays to be changed.
        """
        raise NotImplementedError

    def dropped(self) -> None:
        """Esc: as if nothing had been typed."""


class Filtered(Protocol):
    """What a filter is typed for: a view."""

    @property
    def where(self) -> Filter: ...

    def set_where(self, where: Filter) -> None: ...


class FilterEntry(Entry):
    """The filter of a view, which shows what it comes to with every key."""

    TAKE = "keep filter"
    DROP = "as before"
    CHANGES_VIEW = True

    def __init__(self, view: Filtered) -> None:
        self._view = view
        self._before: Filter = view.where

    def edited(self, text: str) -> None:
        try:
            self._view.set_where(parse_filter(text))
        except UsageError:
            self._keep_terms_of(text)
            raise

    def _keep_terms_of(self, text: str) -> None:
        """Of a text that is wrong, or not yet whole, the first terms that are a filter; else the one before holds. Not
        what the beginning of a term came to on the way (``type:Ord`` of ``type:Ord,``)."""
        while text := text.rpartition(" ")[0]:
            try:
                self._view.set_where(parse_filter(text))
            except UsageError:
                continue
            return
        self.dropped()

    def accepted(self, text: str) -> None:
        self.edited(text)

    def dropped(self) -> None:
        self._view.set_where(self._before)


class MarkEntry(Entry):
    """The name of a mark."""

    PROMPT = " mark as"
    TAKE = "mark"
    DROP = "no mark"

    def __init__(self, proposed: str, then: Callable[[str], object]) -> None:
        """``then`` takes the name, which is ``proposed`` where none was typed."""
        self._proposed = proposed
        self._then = then

    def accepted(self, text: str) -> Callable[[], object]:
        name = printable(text.strip())[:MOST_NAME] or self._proposed
        return lambda: self._then(name)
