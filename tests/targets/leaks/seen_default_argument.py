"""A mutable default argument: the list of what a visitor has seen is the same one for all visitors."""

from backdrop import requests, serve


class Visit:
    __slots__ = ("number", "trail")

    def __init__(self, number, trail):
        self.number = number
        self.trail = trail


def remember(number, seen=[]):  # noqa: B006  the leak
    visit = Visit(number, [f"/products/{number}/{i}" + "?" * 30 for i in range(20)])
    seen.append(visit)
    return seen[-5:]


for number in requests(100):
    remember(number)
    serve(number)
