"""Harmless: always in the middle of a request, of which nothing stays, so each look finds another part of one."""

from backdrop import load, requests, serve

for number in requests(0):
    rows = load(number)
    sum(row.values["value"] for row in rows)
    serve(number)
