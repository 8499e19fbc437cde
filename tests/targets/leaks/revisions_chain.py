"""A linked list: each revision of a document knows the one before, so the first is never let go."""

from backdrop import requests, serve


class Revision:
    def __init__(self, previous, text):
        self.previous = previous
        self.text = text


class Document:
    def __init__(self):
        self.latest = None

    def edit(self, number):
        self.latest = Revision(self.latest, f"text {number} " * 200)  # the leak


document = Document()
for number in requests(100):
    document.edit(number)
    serve(number)
