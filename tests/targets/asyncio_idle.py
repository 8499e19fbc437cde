"""An event loop with nothing to do: main stays in epoll_wait without a time-out."""

import asyncio

from steady import ready, say


async def main():
    ready()
    await asyncio.Event().wait()
    say("EARLY")


asyncio.run(main())
