"""Texts that are interned, each another one: on Python 3.12 such texts stay until the end (gh-113993)."""

import sys

from backdrop import requests, serve


def label(number):
    return sys.intern(f"label of request {number}, " + "which is long " * 40)  # the leak


for number in requests(200):
    label(number)
    serve(number)
