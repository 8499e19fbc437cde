"""traitlets: each panel that opens observes the settings, and does not unobserve them when it closes."""

from busy_backdrop import requests, serve
from traitlets import HasTraits, Int


class Settings(HasTraits):
    size = Int()


class Panel:
    def __init__(self, number):
        self.number = number
        self.lines = [f"line {i} of panel {number}" for i in range(10)]

    def resize(self, change):
        self.lines[0] = f"size {change.new}"


def open_panel(number):
    panel = Panel(number)
    settings.observe(panel.resize, "size")  # the leak


settings = Settings()
for number in requests(40):
    open_panel(number)
    serve(number)
