"""Callbacks that C holds: a function for each price rule is registered with SQLite, under a name of its own."""

import sqlite3

from backdrop import requests, serve

database = sqlite3.connect(":memory:")


class PriceRule:
    def __init__(self, number, factors):
        self.number = number
        self.factors = factors

    def __call__(self, price):
        return price + self.factors[0]


def price(number):
    rule = PriceRule(number, [number * 1000.5 + i for i in range(60)])
    database.create_function(f"rule_{number}", 1, rule)  # the leak
    return database.execute(f"select rule_{number}(100)").fetchone()[0]


for number in requests(100):
    price(number)
    serve(number)
