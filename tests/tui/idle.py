"""When an app under test has nothing to do any more: seen by its event loop, and not by a clock.

Textual's pilot waits after each key until the process has used little CPU time for 20 ms, twice. On a loaded machine
that takes ten times as long as what the key does.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

SOON: Final = 0.025
"""Seconds: a timer that is due by then is waited for. Textual's refresh and the steps of costly figures are."""


async def idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until nothing is ready to run and no timer is due soon; for timers ``max_sleep`` seconds at most, as one may
    come again and again. What is ready is waited for however long it takes. In place of
    ``textual._wait.wait_for_idle``.

    Raises:
        AttributeError: the event loop is not asyncio's own.
    """
    loop: Any = asyncio.get_running_loop()
    slept = 0.0
    while True:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        soon = loop.time() + SOON
        due = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=soon)
        if due >= soon or slept >= max_sleep:
            return
        wait = max(due - loop.time(), 0.001)
        slept += wait
        await asyncio.sleep(wait)
