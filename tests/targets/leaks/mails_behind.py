"""A backlog: a queue without a maxsize, and a worker that sends fewer mails than are written."""

import queue
import threading
import time

from backdrop import requests, serve


class Mail:
    def __init__(self, number):
        self.number = number
        self.text = bytearray(2000)


OUTBOX = queue.Queue()


def send():
    while True:
        OUTBOX.get()
        time.sleep(0.02)


threading.Thread(target=send, daemon=True).start()
for number in requests(100):
    OUTBOX.put(Mail(number))
    serve(number)
