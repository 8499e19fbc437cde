"""A weakref callback that holds what it watches: weakref.finalize is given a bound method of the object itself."""

import weakref

from backdrop import requests, serve


class Download:
    def __init__(self, number, buffer):
        self.number = number
        self.buffer = buffer

    def close(self):
        self.buffer = b""


def open_download(number):
    download = Download(number, bytearray(2000))
    weakref.finalize(download, download.close)  # the leak
    return download


for number in requests(100):
    download = open_download(number)
    serve(download.number)
