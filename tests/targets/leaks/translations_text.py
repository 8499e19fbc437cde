"""A cache of texts alone, by texts: no object in it is one that the collector knows."""

from backdrop import requests, serve

TRANSLATIONS = {}


def translate(text):
    found = TRANSLATIONS.get(text)
    if found is None:
        found = TRANSLATIONS[text] = text.upper() + " (translated) " * 40  # the leak: numbers are part of the texts
    return found


for number in requests(100):
    for line in range(4):
        translate(f"request {number}, line {line}")
        translate(f"line {line}")
    serve(number)
