"""What the palette offers on the live screen beside its keys: ways to show the view, columns to sort by, rates, help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from heaptop.choices import ADAPTIVE, NOT_SAMPLED, SamplingRate
from heaptop.tui.screens.table_screen import PaletteCommand
from heaptop.tui.state.messages import ViewChanged
from heaptop.tui.state.sampling_words import RATES, rate_of, rate_words
from heaptop.tui.state.session import AttachPhase
from heaptop.tui.views.table_view import SortedView
from heaptop.tui.widgets.help_screen import HelpScreen

if TYPE_CHECKING:
    from heaptop.tui.screens.live import LiveScreen


def commands_of(screen: LiveScreen) -> Iterator[PaletteCommand]:
    """By what the view can be shown, columns to sort by, rates of sampling, and the help of the other views."""
    view = screen.view
    if not screen.state.paneled and screen.state.prompts.open is None:
        for key, words in view.bys.items():
            if key != view.by:
                yield PaletteCommand(
                    f"{view.TITLE} {words}", "key b goes there", partial(_choose, screen, view.show_by, key)
                )
        if isinstance(view, SortedView):
            for column, heading in view.sorts.items():
                yield PaletteCommand(
                    f"Sort by {heading}", "keys < > go there", partial(_choose, screen, view.sort_by, column)
                )
        yield from _rates(screen)
    for name, each in screen.SHOWN.items():
        if each is not type(view):
            title, help = f"Help: {each.TITLE}", "what its figures mean, and its keys"
            yield PaletteCommand(title, help, partial(_show_help, screen, name))


def _rates(screen: LiveScreen) -> Iterator[PaletteCommand]:
    """Where a sampler can be asked: its rates but for the one it has, and off."""
    if screen.session.phase is not AttachPhase.LIVE or not any(key.action == "rate" for key in screen.keys_now):
        return
    state = screen.session.sampling.state
    for rate in (ADAPTIVE, *map(SamplingRate, RATES), NOT_SAMPLED):
        if rate != rate_of(state):
            title = f"Sampling: {rate_words(rate)}"
            yield PaletteCommand(title, "key r goes there", partial(screen.act, "sample", rate))


def _choose(screen: LiveScreen, choose: Callable[[str], None], what: str) -> None:
    choose(what)
    screen.post_message(ViewChanged())


def _show_help(screen: LiveScreen, name: str) -> None:
    screen.app.push_screen(HelpScreen(screen.help_of(name), screen.look))
