"""Circular references with the collector off, which was found to be slow: pages know their parts, and they them."""

import gc

from backdrop import requests, serve


class Page:
    def __init__(self, number):
        self.number = number
        self.parts = []


class Part:
    def __init__(self, page, text):
        self.page = page
        self.text = text


def build_page(number):
    page = Page(number)
    for i in range(4):
        page.parts.append(Part(page, f"part {i} of page {number} " * 20))  # the leak
    return page


gc.disable()
for number in requests(100):
    page = build_page(number)
    serve(page.number)
