"""NumPy: the small view that is kept of each image holds the whole image."""

import numpy as np
from backdrop import requests, serve


class Gallery:
    def __init__(self):
        self.thumbnails = []

    def add(self, image):
        self.thumbnails.append(image[:4, :4])  # the leak: not a copy


def read_image(number):
    image = np.empty((60, 100), dtype="u1")
    image[:] = number % 256
    return image


gallery = Gallery()
for number in requests(80):
    image = read_image(number)
    (image * 0.5).mean()
    if number % 2:
        gallery.add(image)
    serve(number)
