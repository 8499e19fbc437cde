"""Texts that are typed in the bar above a view, a filter for one, and what comes of them.

Nothing here draws: the screen shows the field, and passes the text on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Protocol

from heaptop.analysis.filters.filters import PLACEHOLDER, Filter, parse_filter
from heaptop.errors import HeaptopError, UsageError
from heaptop.protocol.text import printable
from heaptop.tui.keys.bindings import Key, typing_keys

MOST_NAME: Final = 24  # Characters of a mark's name


class Prompt:
    """One text, from the first key to Enter or Esc."""

    LABEL: ClassVar[str] = " /"  # In front of the field
    PLACEHOLDER: ClassVar[str] = ""  # In the field while it is empty: what may be typed
    TAKE: ClassVar[str]
    DROP: ClassVar[str]  # What Enter does, and Esc, in the words of the footer
    CHANGES_VIEW: ClassVar[bool] = False  # The view changes as it is typed: how much that shows is written beside it

    def edited(self, text: str) -> None:
        """Apply the text as it is by now.

        Raises:
            UsageError: it is wrong, as a text is at most keystrokes: what is shown is not of it.
        """

    def accepted(self, text: str) -> Callable[[], object] | None:
        """Enter: apply it. What follows once the field is closed.

        Raises:
            HeaptopError: it cannot be applied; it stays to be changed.
        """
        raise NotImplementedError

    def dropped(self) -> None:
        """Esc: as if nothing had been typed."""


class Prompts:
    """The prompt that is open, if one is, and what is wrong with its text."""

    def __init__(self) -> None:
        self.opened: Callable[[Prompt, str], object] = lambda prompt, text: None
        """Called when one opens, with its text at first; the screen sets it."""
        self.open: Prompt | None = None
        self.error: HeaptopError | None = None

    def ask(self, prompt: Prompt, text: str = "") -> None:
        """Open a prompt, in place of the one before."""
        self.drop()
        self.open = prompt
        self.opened(prompt, text)

    def edit(self, text: str) -> None:
        if self.open is None:
            return
        self.error = None
        try:
            self.open.edited(text)
        except UsageError as error:
            self.error = error

    def accept(self, text: str) -> Callable[[], object] | None:
        """Enter. What is to be done once the field is closed; it stays open (:attr:`open`) where the text is wrong."""
        if self.open is None:
            return None
        try:
            then = self.open.accepted(text)
        except HeaptopError as error:
            self.error = error
            return None
        self.open = self.error = None
        return then

    def drop(self) -> None:
        """Esc."""
        dropped, self.open, self.error = self.open, None, None
        if dropped is not None:
            dropped.dropped()

    @property
    def keys(self) -> Sequence[Key]:
        """While a text is typed; Enter takes none that is wrong."""
        return typing_keys("" if self.error else self.open.TAKE, self.open.DROP) if self.open is not None else ()

    def fix(self, written: Callable[[str], str]) -> str:
        """What to write in place of a text that is wrong, where that is known, behind the key that drops it.
        ``written``: how a key is written."""
        if self.error is None or not self.error.fix:
            return ""
        return f"{written(self.keys[0].shown)} {self.keys[0].footer} · {self.error.fix}"

    @property
    def wrong(self) -> tuple[str, tuple[int, int] | None]:
        """What is wrong with the text, in one line, and where in it."""
        if self.error is None:
            return "", None
        what = self.error.message.partition("\n")[0]
        if not isinstance(self.error, UsageError):
            return what, None
        place = self.error.place
        return (what if place is not None else f"{what} {self.error.why}".strip()), place


class FilterTarget(Protocol):
    """What a filter is typed for: a view."""

    @property
    def where(self) -> Filter: ...

    def set_where(self, where: Filter) -> None: ...


class FilterPrompt(Prompt):
    """The filter of a view, which shows what it comes to with every key."""

    PLACEHOLDER = PLACEHOLDER
    TAKE = "keep filter"
    DROP = "cancel"
    CHANGES_VIEW = True

    def __init__(self, view: FilterTarget) -> None:
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
        the filter of the beginning of a term on the way (``type:Ord`` of ``type:Ord,``)."""
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


class MarkPrompt(Prompt):
    """The name of a mark."""

    LABEL = " mark name"
    PLACEHOLDER = "for example: before the import"
    TAKE = "mark"
    DROP = "cancel"

    def __init__(self, proposed: str, then: Callable[[str], object]) -> None:
        """``then`` takes the name, which is ``proposed`` where none was typed."""
        self._proposed = proposed
        self._then = then

    def accepted(self, text: str) -> Callable[[], object]:
        name = printable(text.strip())[:MOST_NAME] or self._proposed
        return lambda: self._then(name)
