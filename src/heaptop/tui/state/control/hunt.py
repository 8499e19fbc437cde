"""The leak hunt's keys: set a mark, and compare with one."""

from __future__ import annotations

from heaptop.choices import ADAPTIVE, HUNTING
from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.state.control.prompts import MarkPrompt
from heaptop.tui.state.control.questions import collect_question
from heaptop.tui.state.hunting_words import BEGUN
from heaptop.tui.state.sampling_words import rate_of


class HuntControl:
    """Begins checks; what they find the view of leaks shows."""

    def __init__(self, live: LiveState) -> None:
        self._live = live

    def action_mark(self, name: str = "", collect: bool = False) -> str | None:
        live = self._live
        if live.unavailable:
            return live.unavailable
        live.hunting.mark(name, keep=live.view().FROZEN, collect=collect)
        self._sample_more()
        self._report()
        return None

    def action_mark_named(self) -> str | None:
        """Ask for a name first, and then whether garbage may be collected."""
        live = self._live
        if live.paneled or live.unavailable:
            return live.unavailable
        live.prompts.ask(MarkPrompt(live.hunting.next_name, self._ask_collect))
        return None

    def _ask_collect(self, name: str) -> None:
        live = self._live
        question = collect_question(
            live.session.target.pid,
            name,
            lambda collect: self.action_mark(name, collect),
            lambda: "no mark was set",
        )
        live.ask(question)

    def action_look(self) -> str | None:
        if self._live.unavailable:
            return self._live.unavailable
        self._live.hunting.check()
        self._report()
        return None

    def _sample_more(self) -> None:
        """For a hunt, where the rate is the default: sites of what is new are sampled too."""
        live = self._live
        state = live.session.sampling.state
        if rate_of(state) == ADAPTIVE and state is not None and not live.session.target.is_others:
            live.source.sample(HUNTING.interval, state.depth, target=HUNTING.target)

    def _report(self) -> None:
        """What has begun; the view of leaks shows how far it is."""
        live = self._live
        live.status.show_notice(BEGUN if live.hunting.is_busy and not live.view().SHOWS_HUNT else "")
