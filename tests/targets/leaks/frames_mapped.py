"""mmap: frames of a camera are mapped memory, and each that was shown stays in a list."""

import mmap

from backdrop import requests, serve


class Screen:
    def __init__(self):
        self.shown = []

    def show(self, frame):
        self.shown.append(frame)  # the leak: nobody closes it


def read_frame(number):
    frame = mmap.mmap(-1, 32_768)
    frame[:8] = number.to_bytes(8, "little")
    return frame


screen = Screen()
for number in requests(40):
    frame = read_frame(number)
    if number % 2:
        screen.show(frame)
    else:
        frame.close()
    serve(number)
