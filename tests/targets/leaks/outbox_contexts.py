"""contextvars: mail to be sent in the context of its request; it is switched off, and the contexts pile up."""

import contextvars

from backdrop import requests, serve

current = contextvars.ContextVar("current")


class Request:
    def __init__(self, number, body):
        self.number = number
        self.body = body


class Outbox:
    enabled = False

    def __init__(self):
        self.waiting = []

    def send(self, text):
        self.waiting.append((contextvars.copy_context(), text))  # the leak
        if self.enabled:
            for context, each in self.waiting:
                context.run(print, each)
            self.waiting.clear()


outbox = Outbox()


def handle(number):
    token = current.set(Request(number, bytearray(2000)))
    outbox.send("thank you")
    serve(current.get().number)
    current.reset(token)


for number in requests(100):
    handle(number)
