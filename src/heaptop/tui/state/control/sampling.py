"""The sampler's keys: its rate, and how many frames of a stack it takes."""

from __future__ import annotations

from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.state.control.questions import tracer_question
from heaptop.tui.state.sampling_words import DEPTH, DEPTHS, RATE, is_traced, next_rate, rate_text


class SamplingControl:
    """Asks the sampler for changes; its answer reports what they came to."""

    def __init__(self, live: LiveState) -> None:
        self._live = live
        self._round = 0
        """The rate that key r began its round of rates with; 0 before it was pressed."""

    def action_rate(self) -> str | None:
        """To the next rate of sampling, and off behind the last; from off to the one it had."""
        state = self._live.session.sampling.state
        if state is None or not state.on:
            self._round = self._live.session.rate or RATE
            return self.action_sample(self._round)
        if is_traced(state):
            return self.action_sample(0)
        self._round = self._round or state.interval
        return self.action_sample(next_rate(state.interval, self._round))

    def action_depth(self) -> str | None:
        """To the next depth of stacks."""
        state = self._live.session.sampling.state
        if state is None or not state.on:
            self._live.status.show_notice("no stacks: sampling is off (key r)")
        elif is_traced(state):
            self._live.status.show_notice(f"tracemalloc keeps {state.depth} frames for as long as it is on")
        else:
            depth = next((depth for depth in DEPTHS if depth > state.depth), DEPTHS[0])
            return self.action_sample(state.interval, depth)
        return None

    def action_sample(self, interval: int, depth: int = 0) -> str | None:
        """At this rate, 0 for off; with so many frames of a stack, 0 for as many as now."""
        live = self._live
        if live.unavailable:
            return live.unavailable
        state = live.session.sampling.state
        frames = depth or (state.depth if state is not None else 0) or DEPTH
        if interval and state is not None and not state.on and state.offer:
            pid = live.session.target.pid
            live.ask(tracer_question(pid, state.text, lambda accept: self._trace(interval, frames, accept)))
            return None
        live.source.sample(interval, frames)
        live.asked_sampler = True
        asked = f"one sample in {rate_text(interval)}" if interval else "sampling to be off"
        live.status.show_notice(f"requested stacks of {depth}" if depth else f"requested {asked}")
        return None

    def _trace(self, interval: int, frames: int, accept: bool) -> None:
        if accept:
            self._live.source.sample(interval, frames, tracer=True)
            self._live.asked_sampler = True
            self._live.status.show_notice("requested tracemalloc")
