"""Four threads that decompress: lzma allocates its tables, and frees them, without the GIL."""

import lzma
import threading

from steady import ready

DATA = lzma.compress(bytes(range(250)) * 400)


def work():
    while True:
        lzma.decompress(DATA)


for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
ready()
work()
