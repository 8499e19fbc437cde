"""zope.interface: each order registers an adapter under a name of its own, and nothing unregisters it."""

from busy_backdrop import requests, serve
from zope.interface import Interface
from zope.interface.registry import Components


class IOrder(Interface):
    pass


class IPrinter(Interface):
    pass


class Printer:
    def __init__(self, number):
        self.number = number
        self.lines = [f"line {i} of {number}" for i in range(8)]

    def __call__(self, order):
        return self


components = Components("shop")


def add_printer(number):
    components.registerAdapter(Printer(number), (IOrder,), IPrinter, name=f"printer {number}")  # the leak


for number in requests(30):
    add_printer(number)
    serve(number)
