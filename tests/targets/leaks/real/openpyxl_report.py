"""Harmless: a long report collects cells for some seconds, is written, and goes; after a rest comes the next one."""

import io

from busy_backdrop import requests, serve
from openpyxl import Workbook

book = None
for number in requests(40):
    if number % 600 == 100:
        book = Workbook()
    if book is not None:
        book.active.append([f"customer {number}", number, number * 1.5, "paid", f"note {number}"])
    if number % 600 == 500 and book is not None:
        book.save(io.BytesIO())
        book = None
    serve(number)
