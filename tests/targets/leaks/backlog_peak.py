"""Harmless: a backlog that grows for eight seconds, while the printer is off, and is worked off in the next ones."""

from collections import deque

from backdrop import requests, serve


class Label:
    def __init__(self, number, image):
        self.number = number
        self.image = image


class Printer:
    def __init__(self):
        self.backlog = deque()

    def order(self, number):
        self.backlog.append(Label(number, bytearray(2000)))

    def print(self, most):
        for _ in range(min(most, len(self.backlog))):
            self.backlog.popleft()


printer = Printer()
for number in requests(120):
    printer.order(number)
    if number > 8 * 120:
        printer.print(3)
    serve(number)
