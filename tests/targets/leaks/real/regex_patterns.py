"""Harmless: the regex package caches what it has compiled, for ever new patterns, and clears that now and then."""

import regex
from busy_backdrop import requests, serve

for number in requests(60):
    regex.search(rf"customer {number}\b.*", f"customer {number} and others")
    serve(number)
