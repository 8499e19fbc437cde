"""Phases that the program names itself.

A program that imports heaptop may say ``with heaptop.phase("load"):``. That module calls its listener, which is ours
while we are here: a word and a time go into a bounded list, nothing else.
"""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import posix
from heaptop.injector.agent.clock import clock
from heaptop.injector.agent.values import MAX_NAME, take_all
from heaptop.injector.agent.wire import send

MAX_PHASES = 1024


def listen_to_phases(s: Any) -> None:
    """Be the listener of a heaptop that the program has imported by now."""
    found = sys.modules.get("heaptop")
    if s.phase_module is not None or type(found) is not type(sys):
        return
    space = found.__dict__
    if "_listener" in space and space["_listener"] is None:
        space["_listener"] = s.listener
        s.phase_module = found


def make_listener(s: Any) -> Any:
    """What the program's phases call, on whichever thread they begin and end. A phase is known from its beginning to
    its end, or not at all: where there is no room for it, its end means nothing either."""

    def heaptop_phase(name: str, number: int, begins: bool) -> None:
        try:
            if not s.attached or posix.getpid() != s.pid:
                return
            now = clock()
            if not begins:
                begun = s.open_phases.pop(number, None)
                if begun is not None:
                    s.phases.append((begun[0], begun[1], now))
            elif type(name) is str and len(s.open_phases) + len(s.phases) < MAX_PHASES:
                s.open_phases[number] = (name[:MAX_NAME], now)
            else:
                s.phases_dropped += 1
        except Exception:  # not the KeyboardInterrupt of a signal's handler, which is the program's own
            s.phases_dropped += 1

    return heaptop_phase


def send_phases(s: Any) -> None:
    """Send those that ended since the last time, and open ones that were not sent yet."""
    ended, dropped = take_all(s.phases), s.phases_dropped - s.phases_dropped_sent
    s.phases_dropped_sent += dropped
    said, s.sent_phases = s.sent_phases, s.open_phases.copy()
    rows = [[name, begin, end] for name, begin, end in ended]
    rows += [[begun[0], begun[1], None] for number, begun in s.sent_phases.items() if number not in said]
    if rows or dropped:
        send(s, "phases", {"phases": rows, "dropped": dropped})
