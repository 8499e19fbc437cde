"""Beautiful Soup: the title of each page is kept, as a string that knows the tree that it is from."""

from bs4 import BeautifulSoup
from busy_backdrop import requests, serve

TITLES = {}


def read_page(number):
    rows = "".join(f"<li class='row'>row {i}</li>" for i in range(15))
    soup = BeautifulSoup(f"<html><title>page {number}</title><ul>{rows}</ul></html>", "html.parser")
    TITLES[number] = soup.title.string  # the leak


for number in requests(20):
    read_page(number)
    serve(number)
