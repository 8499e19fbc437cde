"""SimPy: each visitor is a process that waits for the sale, which never comes."""

import simpy
from busy_backdrop import requests, serve

environment = simpy.Environment()
sale = environment.event()


class Visitor:
    def __init__(self, number):
        self.number = number
        self.notes = [f"note {i} of visitor {number}" for i in range(8)]


def visit(visitor):
    yield sale  # the leak
    visitor.notes.clear()


def arrive(number):
    environment.process(visit(Visitor(number)))


for number in requests(40):
    arrive(number)
    environment.run(until=number + 1)
    serve(number)
