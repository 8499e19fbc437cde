"""Harmless: a program imports modules of Twisted and NetworkX when it first needs them, one after another."""

import importlib

from busy_backdrop import requests, serve

NEEDED = [
    "twisted.internet.defer",
    "twisted.python.usage",
    "twisted.internet.task",
    "networkx",
    "twisted.protocols.basic",
    "twisted.internet.address",
    "networkx.algorithms.flow",
    "twisted.internet.base",
    "twisted.logger",
    "networkx.generators",
    "twisted.cred.portal",
    "networkx.readwrite",
    "twisted.web.http_headers",
    "twisted.web.template",
    "networkx.drawing",
    "twisted.names.dns",
    "twisted.words.xish.domish",
    "twisted.python.log",
    "twisted.mail.smtp",
    "twisted.conch.insults.insults",
]

for number in requests(40):
    if number % 20 == 0 and NEEDED:
        importlib.import_module(NEEDED.pop(0))
    serve(number)
