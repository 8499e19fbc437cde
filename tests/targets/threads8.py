"""Eight threads that allocate and fight for the GIL, main being one of them."""

import threading

from steady import ready


def work():
    kept = {}
    while True:
        for i in range(1000):
            kept[i % 17] = [i] * (i % 50)


for _ in range(7):
    threading.Thread(target=work, daemon=True).start()
ready()
work()
