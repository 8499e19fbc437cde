"""lxml: the first headline of each feed is kept as an element, and with it the whole document, outside of Python."""

from busy_backdrop import requests, serve
from lxml import etree

HEADLINES = []


def read_feed(number):
    items = "".join(f"<item><title>title {number} {i}</title><text>{'x' * 80}</text></item>" for i in range(40))
    feed = etree.fromstring(f"<feed>{items}</feed>")
    HEADLINES.append(feed.find("item/title"))  # the leak


for number in requests(40):
    read_feed(number)
    serve(number)
