"""Harmless: always in the middle of a request, of which nothing stays, so each look finds another part of one."""

import json

from backdrop import requests, serve


class Row:
    def __init__(self, values):
        self.values = values


def load(number):
    text = json.dumps([{"id": i, "name": f"row {number} {i}", "value": i * 1.5} for i in range(300)])
    return [Row(each) for each in json.loads(text)]


for number in requests(0):
    rows = load(number)
    sum(row.values["value"] for row in rows)
    serve(number)
