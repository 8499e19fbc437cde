"""The sampler's keys: its rate, and how many frames of a stack it takes."""

from __future__ import annotations

from typing import NamedTuple

from heaptop.choices import ADAPTIVE, NOT_SAMPLED, SamplingRate
from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.state.control.questions import sampling_question, tracer_question
from heaptop.tui.state.sampling_words import DEPTH, DEPTHS, is_traced, next_rate, rate_of, rate_words
from heaptop.tui.state.session import AttachSession


class Change(NamedTuple):
    """What the sampler is asked for."""

    rate: SamplingRate
    frames: int
    words: str


class SamplingControl:
    """Asks the sampler for changes; its answer reports the outcome."""

    def __init__(self, live: LiveState) -> None:
        self._live = live
        self._round: SamplingRate | None = None
        """The rate that key r began its round of rates with; None before it was pressed."""
        self._may_change: AttachSession | None = None
        """The session in which another user's process may be sampled otherwise: the reader has confirmed it."""

    def action_rate(self) -> str | None:
        """To the next rate of sampling, and off behind the last; from off to the one it had."""
        state = self._live.session.sampling.state
        if state is None or not state.on:
            self._round = self._live.session.rate or ADAPTIVE
            return self.action_sample(self._round)
        if is_traced(state):
            return self.action_sample(NOT_SAMPLED)
        self._round = self._round or rate_of(state)
        return self.action_sample(next_rate(rate_of(state), self._round))

    def action_depth(self) -> str | None:
        """To the next depth of stacks."""
        state = self._live.session.sampling.state
        if state is None or not state.on:
            self._live.status.show_notice("no stacks: sampling is off (key r)")
        elif is_traced(state):
            self._live.status.show_notice(f"tracemalloc keeps {state.depth} frames for as long as it is on")
        else:
            depth = next((depth for depth in DEPTHS if depth > state.depth), DEPTHS[0])
            return self.action_sample(rate_of(state), depth)
        return None

    def action_sample(self, rate: SamplingRate, depth: int = 0) -> str | None:
        """At this rate; with so many frames of a stack, 0 for as many as now."""
        live = self._live
        if live.unavailable:
            return live.unavailable
        state = live.session.sampling.state
        frames = depth or (state.depth if state is not None else 0) or DEPTH
        if rate.interval and state is not None and not state.on and state.offer:
            pid = live.session.target.pid
            live.ask(tracer_question(pid, state.text, lambda accept: self._trace(rate.interval, frames, accept)))
            return None
        asked = rate_words(rate) if rate.interval else "no sampling"
        change = Change(rate, frames, f"stacks of {depth} {'frame' if depth == 1 else 'frames'}" if depth else asked)
        if live.session.target.is_others and self._may_change is not live.session:
            live.ask(sampling_question(live.session.target, change.words, lambda accept: self._allow(change, accept)))
            return None
        self._change(change)
        return None

    def _allow(self, change: Change, accept: bool) -> str | None:
        if not accept:
            return "sampling stays as it is"
        self._may_change = self._live.session
        self._change(change)
        return None

    def _change(self, change: Change) -> None:
        self._live.source.sample(change.rate.interval, change.frames, target=change.rate.target)
        self._live.asked_sampler = True
        self._live.status.show_notice(f"requested {change.words}")

    def _trace(self, interval: int, frames: int, accept: bool) -> None:
        if accept:
            self._live.source.sample(interval, frames, tracer=True)
            self._live.asked_sampler = True
            self._live.status.show_notice("requested tracemalloc")
