"""A question over the live screen, which continues beneath it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen

from heaptop.tui.keys.bindings import QUESTION, SEVERAL, Key, bindings
from heaptop.tui.screens.host import Host
from heaptop.tui.state.control.questions import Confirmation
from heaptop.tui.views import LIVE
from heaptop.tui.widgets.footer import Footer
from heaptop.tui.widgets.help_screen import HelpPage, HelpScreen
from heaptop.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from heaptop.tui.screens.live import LiveScreen

ALLOWED: Final = ("back", "help", "leave", "suspend", "redraw")  # Actions that keys have beside the answers


STOP: Final = Key("s", "s", "stop", "the pause of mode stop", QUESTION, "stop")  # An answer to some questions


class QuestionScreen(ModalScreen[None]):
    """y and n answer, and s and Esc where they are answers; nothing else reaches the screen beneath."""

    KEYS: ClassVar[Sequence[Key]] = tuple(key for key in LIVE if key.group == QUESTION or key.name in ALLOWED)
    BINDINGS: ClassVar[list[BindingType]] = bindings((*SEVERAL, STOP, *KEYS))
    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    QuestionScreen { align: center middle; background: $background 60%; }
    QuestionScreen:ansi { background: ansi_default; }
    QuestionScreen Panel { width: 76; max-width: 100%; height: auto; max-height: 100%; }
    QuestionScreen Panel VerticalScroll { background: $surface; }
    """

    def __init__(self, question: Confirmation, control: QuestionControl) -> None:
        super().__init__()
        self.question = question
        self._control = control

    @property
    def _host(self) -> Host:
        return cast("Host", self.app)

    def compose(self) -> ComposeResult:
        yield Panel()
        yield Footer((), self._host.look)

    def on_mount(self) -> None:
        self.query_one(Panel).show(self.question.title, self.question.text, self._host.look)
        self._show_keys()

    def _show_keys(self, said: str = "") -> None:
        stop = (STOP,) if self.question.stop is not None else ()
        keys = (*self.KEYS[:2], *stop, *(SEVERAL if self._control.switch else ()), *self.KEYS[2:])
        self.query_one(Footer).show(keys, self._host.look, said)

    def on_screen_resume(self) -> None:
        self._control.show()

    def action_answer(self, accept: bool) -> None:
        self._control.answer(accept)

    def action_stop(self) -> None:
        if self.question.stop is not None:
            self._control.answer(True, stop=True)

    def action_back(self) -> None:
        if self.question.drop is None:
            self._show_keys("answer with y or n" if self.question.stop is None else "answer with y, s or n")
        else:
            self._control.answer(None)

    def action_tab(self, step: int) -> None:
        if self._control.switch is not None:
            self._control.close()
            self._control.switch(step)

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self._control.help_page, self._host.look))

    def action_leave(self) -> None:
        self._host.action_leave()

    def action_suspend(self) -> None:
        self._host.action_suspend()

    def action_redraw(self) -> None:
        self._host.action_redraw()


class QuestionControl:
    """Puts what is asked over one live screen, and takes away what is asked no longer."""

    def __init__(self, screen: LiveScreen, switch: Callable[[int], object] | None = None) -> None:
        """``switch`` goes so many processes on, where there are several: what is asked waits until one is back."""
        self._screen, self.switch = screen, switch
        self._shown: QuestionScreen | None = None

    @property
    def help_page(self) -> HelpPage:
        return self._screen.help_page

    def show(self) -> None:
        """While a text is typed, or another page is open, it waits: none of their keys may answer it."""
        screen, shown = self._screen, self._shown
        asked = screen.state.questions
        if shown is not None and shown.question not in asked:
            if screen.app.screen is shown:
                self.close()
        elif shown is None and asked and screen.app.screen is screen and screen.state.prompts.open is None:
            screen.state.status.forget_outcome()
            self._shown = QuestionScreen(asked[0], self)
            screen.app.push_screen(self._shown)
            screen.redraw_words()

    def close(self) -> None:
        self._shown = None
        self._screen.app.pop_screen()

    def answer(self, accept: bool | None, stop: bool = False) -> None:
        """Close it and do what the answer means; None is Esc, with ``stop`` it is the other pause."""
        assert self._shown is not None
        question = self._shown.question
        self.close()
        came_to = self._screen.state.answer(question, accept, stop)
        if came_to is not None:
            self._screen.state.status.outcome(came_to)
        self._screen.redraw()
