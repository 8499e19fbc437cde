"""The filter bar of the live screen: the field of whatever prompt is open."""

from __future__ import annotations

from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.state.control.prompts import Prompt
from heaptop.tui.state.messages import FilterAccepted, FilterDropped, FilterEdited, PromptClosed, ViewChanged
from heaptop.tui.widgets.filter_bar import FilterBar


class PromptBar(FilterBar):
    """Passes what is typed on to the open prompt; the screen receives it too, and draws the result."""

    def __init__(self, live: LiveState) -> None:
        super().__init__()
        self._live = live
        live.prompts.opened = self._open

    def _open(self, prompt: Prompt, text: str) -> None:
        self._live.status.forget_outcome()
        self.edit(text, prompt=prompt.LABEL, placeholder=prompt.PLACEHOLDER)
        self.post_message(ViewChanged())

    def on_filter_edited(self, event: FilterEdited) -> None:
        self._live.prompts.edit(event.text)

    def on_filter_accepted(self, event: FilterAccepted) -> None:
        then = self._live.prompts.accept(event.text)
        if self._live.prompts.error is None:
            self.close()
            self.post_message(PromptClosed(then))

    def on_filter_dropped(self, event: FilterDropped) -> None:
        self._live.prompts.drop()
        self.close()
        self.post_message(PromptClosed(None))
