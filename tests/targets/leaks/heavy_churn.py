"""Harmless: tens of megabytes are allocated every second, and nothing of them stays."""

from backdrop import load, requests, serve

for number in requests(60):
    rows = load(number)
    sum(row.values["value"] for row in rows)
    serve(number)
