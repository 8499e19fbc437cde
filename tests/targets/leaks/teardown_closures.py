"""A closure registered for each request: what should run once, when the server stops, keeps every request."""

from backdrop import requests, serve


class Request:
    def __init__(self, number, body):
        self.number = number
        self.body = body


class Server:
    def __init__(self):
        self.at_stop = []

    def on_stop(self, function):
        self.at_stop.append(function)  # the leak


server = Server()


def handle(number):
    request = Request(number, bytearray(2000))

    def log_unfinished():
        print("not finished:", request.number)

    server.on_stop(log_unfinished)
    return serve(request.number)


for number in requests(100):
    handle(number)
