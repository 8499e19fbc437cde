"""A backlog: nearly all that goes through a queue is gone at once, and what waits grows all the same."""

import asyncio

from backdrop import requests, serve


class Frame:
    def __init__(self, number):
        self.number = number
        self.pixels = bytearray(1000)


async def show(frames):
    while True:
        for _ in range(19):
            await frames.get()
        await asyncio.sleep(0)


async def main():
    frames = asyncio.Queue()
    task = asyncio.ensure_future(show(frames))
    for number in requests(100):
        for _ in range(20):
            frames.put_nowait(Frame(number))
        serve(number)
        await asyncio.sleep(0)
    task.cancel()


asyncio.run(main())
