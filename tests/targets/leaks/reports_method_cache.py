"""lru_cache on a method: its keys hold every object that the method was ever called of."""

import functools

from backdrop import requests, serve


class Report:
    def __init__(self, number, rows):
        self.number = number
        self.rows = rows

    @functools.lru_cache(maxsize=None)  # noqa: B019, UP033  the leak
    def total(self, currency):
        return sum(self.rows) * len(currency)


def load_report(number):
    rows = [number * 1000.5 + i for i in range(60)]
    return Report(number, rows)


for number in requests(100):
    report = load_report(number)
    report.total("EUR")
    report.total("EUR")
    serve(number)
