"""Harmless: jobs wait in a queue for the night, when they are done."""

import queue

from backdrop import requests, serve


class Job:
    def __init__(self, number):
        self.number = number
        self.data = bytearray(500)


JOBS = queue.Queue(maxsize=100_000)

for number in requests(100):
    JOBS.put(Job(number))
    serve(number)
