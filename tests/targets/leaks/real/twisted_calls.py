"""Twisted: calls wait in a table for their answers, and those that no answer comes to wait there for good."""

from busy_backdrop import requests, serve
from twisted.internet.defer import Deferred


class Caller:
    def __init__(self):
        self.pending = {}

    def call(self, number):
        answered = Deferred()
        answered.addCallback(lambda answer: (number, answer, f"answer of {number} " * 10))
        answered.addErrback(lambda failure: None)
        self.pending[number] = answered  # the leak
        return answered

    def answer(self, number):
        self.pending.pop(number).callback("yes")


caller = Caller()
for number in requests(80):
    caller.call(number)
    if number % 2:
        caller.answer(number)
    serve(number)
