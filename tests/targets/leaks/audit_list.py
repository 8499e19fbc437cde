"""A growing list: an audit log in memory, whose entries are dicts, that nobody ever writes out."""

import time

from backdrop import requests, serve

ENTRIES = []


def record(user, number):
    entry = {"user": user, "time": time.time(), "action": "view", "details": f"request {number} " + "d" * 900}
    ENTRIES.append(entry)  # the leak
    return entry


for number in requests(150):
    record(f"user {number % 50}", number)
    serve(number)
