"""asgiref 3.2.7: a Local keeps a weak reference to each thread that it was ever used in (pull request 158).

Fixed in 3.2.10, if not before.
"""

import threading

from asgiref.local import Local
from busy_backdrop import requests, serve

current = Local(thread_critical=True)


def work(number):
    current.user = f"user {number}"  # the leak


for number in requests(100):
    thread = threading.Thread(target=work, args=(number,))
    thread.start()
    thread.join()
    if number % 2:
        serve(number)
