"""sortedcontainers: a book of orders by price, from which orders are not taken when they are filled."""

from busy_backdrop import requests, serve
from sortedcontainers import SortedDict


class Order:
    def __init__(self, number):
        self.number = number
        self.parts = [f"part {i} of order {number}" for i in range(5)]
        self.filled = False


class Exchange:
    def __init__(self):
        self.book = SortedDict()

    def place(self, number):
        order = Order(number)
        self.book[number * 7919 % 10007, number] = order  # the leak
        order.filled = True


exchange = Exchange()
for number in requests(60):
    exchange.place(number)
    serve(number)
