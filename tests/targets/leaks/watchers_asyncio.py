"""asyncio tasks that do not end: each connection has one that waits for a shutdown, also when it was closed itself."""

import asyncio

from backdrop import requests, serve


class Connection:
    def __init__(self, number, buffer):
        self.number = number
        self.buffer = buffer
        self.is_open = True

    def close(self):
        self.is_open = False


class Hub:
    def __init__(self):
        self.stopping = asyncio.Event()

    async def watch(self, connection):
        await self.stopping.wait()
        connection.close()

    def connect(self, number):
        connection = Connection(number, bytearray(2500))
        asyncio.ensure_future(self.watch(connection))  # noqa: RUF006  the leak
        return connection


async def main():
    hub = Hub()
    for number in requests(80):
        connection = hub.connect(number)
        await asyncio.sleep(0)
        serve(number)
        connection.close()


asyncio.run(main())
