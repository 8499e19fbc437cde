"""cachetools: results are cached in a plain dict, and the key has the time in it."""

import time

from busy_backdrop import requests, serve
from cachetools import cached


class Quote:
    def __init__(self, customer, moment):
        self.customer = customer
        self.moment = moment
        self.lines = [f"line {i} for {customer}" for i in range(6)]


@cached(cache={})
def quote(customer, moment):
    return Quote(customer, moment)  # the leak


for number in requests(60):
    quote(f"customer {number % 100}", time.time())
    serve(number)
