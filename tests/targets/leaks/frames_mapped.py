"""mmap: frames of a camera are mapped memory, and each that was shown stays in a list."""

import mmap

from backdrop import requests, serve


class Screen:
    def __init__(self):
        self.shown = []

    def show(self, frame):
        self.shown.append(frame)  # the leak: nobody closes it


class Frame:
    def __init__(self, number):
        self.pixels = mmap.mmap(-1, 32_768)
        self.pixels[:8] = number.to_bytes(8, "little")
        self.histogram = [number % 97 * each for each in range(300)]


def read_frame(number):
    return Frame(number)


screen = Screen()
for number in requests(40):
    frame = read_frame(number)
    if number % 2:
        screen.show(frame)
    else:
        frame.pixels.close()
    serve(number)
