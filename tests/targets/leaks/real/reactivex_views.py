"""ReactiveX: each view that opens subscribes to the stream of prices, and does not dispose of that when it closes."""

from busy_backdrop import requests, serve
from reactivex import operators
from reactivex.subject import Subject

prices = Subject()


class View:
    def __init__(self, number):
        self.number = number
        self.rows = [f"row {i} of view {number}" for i in range(10)]

    def show(self, price):
        self.rows[0] = f"price {price}"


def open_view(number):
    view = View(number)
    prices.pipe(operators.filter(lambda price: price > number)).subscribe(view.show)  # the leak
    return view


for number in requests(30):
    open_view(number)
    if number % 60 == 0:
        prices.on_next(number)
    serve(number)
