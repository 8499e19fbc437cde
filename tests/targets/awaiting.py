"""Awaits futures, thousands at a time, whose iterators asyncio keeps for the next: says LOST for another's result."""

import asyncio
import signal

from steady import EXIT_CODE, ready, say


async def wait(future, number):
    if await future != number:
        say(f"LOST {number}")


async def main():
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    while not end.is_set():
        futures = [loop.create_future() for _ in range(1000)]
        tasks = [loop.create_task(wait(future, number)) for number, future in enumerate(futures)]
        await asyncio.sleep(0)
        for number, future in enumerate(futures):
            future.set_result(number)
        await asyncio.gather(*tasks)
        await asyncio.sleep(0.02)


ready()
asyncio.run(main())
raise SystemExit(EXIT_CODE)
