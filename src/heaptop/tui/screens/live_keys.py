"""Which keys of the live screen mean something at a moment, and its help page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heaptop.analysis.filters.filters import FILTER_HELP
from heaptop.tui.keys.bindings import QUESTION, Key, offered
from heaptop.tui.keys.explaining import ABOVE
from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.views import LIVE
from heaptop.tui.views.base import View
from heaptop.tui.widgets.help_screen import HelpPage

PANEL_KEYS: Final = tuple(key for key in LIVE if key.group == "heaptop")
"""What the footer offers while there is nothing to look at."""


def footer_keys(live: LiveState, view: View) -> Sequence[Key]:
    return PANEL_KEYS if live.paneled else offered(LIVE, view.offers)


def keys_now(live: LiveState, view: View, keys: Sequence[Key]) -> Sequence[Key]:
    """Of all keys those that mean something: what is asked or typed comes first, and a key that only some views know is
    none on the others."""
    if live.paneled:
        return footer_keys(live, view)
    here = {action.partition("=")[0] for action in view.offers}
    known = (key for key in keys if key.group != QUESTION and (key.action in here or not key.otherwise))
    return live.prompts.keys or [*known]


def help_page(view: View, keys: Sequence[Key], notices: Sequence[str] = ()) -> HelpPage:
    """Of a view; ``notices``: what must be known of it now."""
    return HelpPage(
        title=f"{view.NUMBER} {view.TITLE}: what it shows",
        keys=keys,
        first="\n\n".join(text for text in notices if text),
        shows=view.SHOWS,
        explains=view.EXPLAINS,
        words=f"{view.HELP}\n\n{FILTER_HELP}",
        here=view.offers,
        means=view.MEANS,
        above=ABOVE,
    )
