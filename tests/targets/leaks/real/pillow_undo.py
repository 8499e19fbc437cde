"""Pillow: an editor keeps each state of the picture to undo to, and nobody clears that."""

from busy_backdrop import requests, serve
from PIL import Image


class Editor:
    def __init__(self):
        self.image = Image.new("RGB", (80, 60))
        self.undo = []

    def edit(self, number):
        self.undo.append(self.image)  # the leak
        self.image = self.image.rotate(number % 4 * 90)


editor = Editor()
for number in requests(40):
    editor.edit(number)
    serve(number)
