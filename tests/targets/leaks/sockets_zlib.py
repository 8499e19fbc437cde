"""zlib: a server of WebSockets keeps the compressor of each connection, also when the connection is closed."""

import zlib

from backdrop import requests, serve


class Connection:
    def __init__(self, number):
        self.number = number
        self.received = bytearray(4096)
        self.deflate = zlib.compressobj(wbits=-12, memLevel=5)

    def send(self, text):
        return self.deflate.compress(text) + self.deflate.flush(zlib.Z_SYNC_FLUSH)


class Server:
    def __init__(self):
        self._connections = []

    def open_connection(self, number):
        connection = Connection(number)
        self._connections.append(connection)  # the leak: nothing is removed from it
        return connection


server = Server()
for number in requests(40):
    if number % 2:
        server.open_connection(number).send(b"hello " * 50)
    serve(number)
