"""A screen whose keys act on its parts: the view that it shows, and controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from heaptop.tui.screens.table_screen import NO_ROWS, TableScreen
from heaptop.tui.state.control.status_line import StatusLine


class ActingScreen(TableScreen):
    """A key of :attr:`KEYS` that the screen has no ``action_…`` method for acts on the first part that has one."""

    LACKS: ClassVar[Mapping[str, str]] = {}
    """Actions that this screen lacks although their keys exist, and the message that is shown instead."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in {*(key.name for key in cls.KEYS), *cls.LACKS}:
            if not hasattr(cls, f"action_{name}"):
                setattr(cls, f"action_{name}", _acting(name))  # as methods: Textual finds actions by their names

    @property
    def parts(self) -> Sequence[object]:
        """The view that is shown, then controllers."""
        raise NotImplementedError

    @property
    def status(self) -> StatusLine:
        raise NotImplementedError

    def _draw(self) -> None:
        """Draw all that is known now."""
        raise NotImplementedError

    def act(self, name: str, *arguments: object) -> None:
        """Do what a key is for. Words that the part returns, or why nothing happened, are shown until the next key; a
        part that returns None reports by itself."""
        if name in self.LACKS:
            self.outcome(self.LACKS[name])
            return
        parts = self.parts
        part = next((part for part in parts if hasattr(part, f"action_{name}")), None)
        came_to: str | bool | None = getattr(part, f"action_{name}")(*arguments) if part is not None else False
        if came_to is False:
            otherwise = next((key.otherwise for key in self.KEYS if key.name == name), "")
            came_to = NO_ROWS if name == "drill" and not self.table.row_count else otherwise
        if came_to is not None:
            self.status.outcome(came_to if isinstance(came_to, str) else "")
        if part is parts[0]:  # a view draws itself
            self._draw_words()
        else:
            self._draw()

    def outcome(self, text: str) -> None:
        """Show a key's outcome, until the next one has one."""
        self.status.outcome(text)
        self._draw_words()

    def stuck(self, why: str) -> None:
        self.status.stuck(why)
        self._draw_words()

    def show_notice(self, text: str) -> None:
        self.status.show_notice(text)
        self._draw_words()


def _acting(name: str) -> Callable[..., None]:
    def action(screen: ActingScreen, *arguments: object) -> None:
        screen.act(name, *arguments)

    return action
