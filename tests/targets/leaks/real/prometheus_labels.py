"""prometheus_client: a counter with a label for the user, of whom there is no end."""

from busy_backdrop import requests, serve
from prometheus_client import Counter

REQUESTS = Counter("requests", "Requests.", ["path", "user"])


def count_request(number):
    REQUESTS.labels(path="/orders", user=f"user {number}").inc()  # the leak


for number in requests(100):
    count_request(number)
    serve(number)
