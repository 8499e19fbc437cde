"""An event loop that wakes for a timer, and says EARLY if it came too soon."""

import asyncio
import time

from steady import ready, say


async def main():
    ready()
    while True:
        begin = time.monotonic()
        await asyncio.sleep(0.3)
        slept = time.monotonic() - begin
        # The loop runs timers up to one clock resolution ahead.
        if slept < 0.299:
            say(f"EARLY {slept:.6f}")


asyncio.run(main())
