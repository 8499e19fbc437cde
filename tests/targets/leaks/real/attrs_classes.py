"""attrs: a class for each report's columns, which goes with it; the text of its methods stays in linecache."""

import attr
from busy_backdrop import requests, serve


def report(number):
    row = attr.make_class(f"Row{number}", ["name", "price", "count"], frozen=True)  # the leak
    return [row(f"product {number}", number * 1.5, i) for i in range(10)]


for number in requests(20):
    report(number)
    serve(number)
