"""Timers under uvloop: main waits in libuv's epoll."""

import asyncio
import signal
import sys
import time

import uvloop
from steady import EXIT_CODE, ready, say


async def work():
    while True:
        begin = time.monotonic()
        await asyncio.sleep(0.05)
        # libuv rounds to whole milliseconds of a clock it reads once a turn.
        if time.monotonic() - begin < 0.045:
            say("EARLY")


async def main():
    ready()
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    tasks = [asyncio.ensure_future(work()) for _ in range(5)]
    await done.wait()
    for task in tasks:
        task.cancel()


loop = uvloop.new_event_loop()
loop.run_until_complete(main())
sys.exit(EXIT_CODE)
