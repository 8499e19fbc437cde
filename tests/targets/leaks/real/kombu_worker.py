"""Harmless: messages wait in a queue for a worker, who takes all of them every few seconds."""

import queue

from busy_backdrop import requests, serve
from kombu import Connection

connection = Connection("memory://")
outbox = connection.SimpleQueue("orders")

for number in requests(50):
    outbox.put({"number": number, "lines": [f"line {i}" for i in range(5)]})
    if number % 200 == 199:
        while True:
            try:
                outbox.get(block=False).ack()
            except queue.Empty:
                break
    serve(number)
