"""Tornado: each connection starts a periodic ping, and closing it does not stop that."""

import asyncio
import threading

from busy_backdrop import requests, serve
from tornado.ioloop import IOLoop, PeriodicCallback


class Connection:
    def __init__(self, number):
        self.number = number
        self.buffer = [f"hello {number} {i} " * 5 for i in range(10)]

    def ping(self):
        self.buffer.append("ping")


def open_connection(number):
    connection = Connection(number)
    PeriodicCallback(connection.ping, 120_000).start()  # the leak


def run():
    asyncio.set_event_loop(asyncio.new_event_loop())
    loop.append(IOLoop.current())
    started.set()
    loop[0].start()


loop, started = [], threading.Event()
threading.Thread(target=run, daemon=True).start()
started.wait()
for number in requests(40):
    loop[0].add_callback(open_connection, number)
    serve(number)
