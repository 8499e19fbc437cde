"""Harmless: events are collected, and sent away every three seconds."""

import time

from backdrop import requests, serve


class Event:
    def __init__(self, number, data):
        self.number = number
        self.data = data


class Sender:
    def __init__(self):
        self.events = []
        self.sent = time.monotonic()

    def add(self, number):
        self.events.append(Event(number, bytearray(2000)))
        if time.monotonic() - self.sent > 3:
            self.events.clear()
            self.sent = time.monotonic()


sender = Sender()
for number in requests(150):
    sender.add(number)
    serve(number)
