"""Threads that never end, each with a client of its own in a threading.local: nobody tells them that all is done."""

import queue
import threading

from backdrop import requests, serve

threading.stack_size(256 * 1024)
local = threading.local()


class Client:
    def __init__(self, tenant, buffers):
        self.tenant = tenant
        self.buffers = buffers


def work(tenant, inbox):
    local.client = Client(tenant, [bytearray(2000) for _ in range(25)])
    while True:
        inbox.get()


def start(tenant):
    inbox = queue.Queue()
    threading.Thread(target=work, args=(tenant, inbox), daemon=True).start()  # the leak: no end is put into the queue
    inbox.put(f"jobs of {tenant}")


for number in requests(80):
    if number % 20 == 0:
        start(number)
    serve(number)
