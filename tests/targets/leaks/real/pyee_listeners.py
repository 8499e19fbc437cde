"""pyee: each client that connects listens to prices, and nothing takes its listener away when it goes."""

from busy_backdrop import requests, serve
from pyee.base import EventEmitter

bus = EventEmitter()


class Client:
    def __init__(self, number):
        self.number = number
        self.prices = {}
        self.greeting = f"client {number}, welcome. " * 20


def connect(number):
    client = Client(number)
    bus.on("price", lambda name, price: client.prices.update({name: price}))  # the leak
    return client


for number in requests(40):
    connect(number)
    if number % 40 == 0:
        bus.emit("price", "product", number)
    serve(number)
