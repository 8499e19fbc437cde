"""Harmless: pages are rendered when they are first asked for, and there are as many as there are products."""

import random

from backdrop import requests, serve

PAGES = {}


def render(number):
    if number not in PAGES:
        PAGES[number] = {"number": number, "html": f"<h1>product {number}</h1>" + "<p>" * 700}
    return PAGES[number]


for number in requests(400):
    render(random.randrange(800))
    if number % 4 == 0:
        serve(number)
