"""pluggy: each request registers a plugin for its hooks, and does not unregister it."""

import pluggy
from busy_backdrop import requests, serve

specification = pluggy.HookspecMarker("shop")
implementation = pluggy.HookimplMarker("shop")


class Hooks:
    @specification
    def sold(self, product):
        """A product was sold."""


class RequestPlugin:
    def __init__(self, number):
        self.number = number
        self.sold_here = [f"nothing of {number}"] * 10

    @implementation
    def sold(self, product):
        return self.number


plugins = pluggy.PluginManager("shop")
plugins.add_hookspecs(Hooks)


def handle(number):
    plugins.register(RequestPlugin(number))  # the leak


for number in requests(30):
    handle(number)
    serve(number)
