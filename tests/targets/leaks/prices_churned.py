"""Tuples of plain data that collect in a dict, where thousands of others like them come and go all the time."""

import random

from backdrop import requests, serve

PRICES = {}


def quote(number):
    PRICES[number] = (number, "EUR", number * 1.01)  # the leak


def churn(number):
    """Much that takes and frees the same sizes of block, and lives for some requests."""
    window = []
    for each in range(3000):
        window.append((each, "EUR", each * 0.5))
        if random.random() < 0.3:
            window.pop(random.randrange(len(window)))
    return sum(row[2] for row in window)


recent = []
for number in requests(100):
    for each in range(4):
        quote(4 * number + each)
    recent.append([(number, str(each), each * 0.25) for each in range(400)])
    del recent[: -random.randrange(1, 9)]
    churn(number)
    serve(number)
